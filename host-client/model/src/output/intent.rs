//! Filters a long result by an intent: keeps the sections that contain its words.

use std::collections::HashSet;

use super::chunk::{Sizes, chunks};
use super::json::unquoted;

/// Sizes of the pieces of JSON that count as sections.
const JSON_SECTION_SIZES: Sizes = Sizes { group: 500, whole: 2_000 };
/// Maximum length of an intent that is read, in bytes.
const MAX_INTENT_BYTES: usize = 1_000;
/// Maximum number of terms of an intent.
const MAX_TERMS: usize = 64;
/// Minimum length of a term that matches the beginning of a word, in bytes. Shorter terms match whole words and their
/// plurals.
const MIN_PREFIX_BYTES: usize = 4;
/// Separator before each section.
const BETWEEN: &str = "\n\n";
/// Maximum length of the header, in bytes.
const MAX_HEADER_BYTES: usize = 120;

/// Condition and measures of the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntentConfig {
    /// Results of at most this number of bytes are not filtered. Default: 5,000.
    pub over_bytes: usize,
    /// Minimum share of the intent's terms that a section must contain, in percent. Default: 30.
    pub percent: usize,
    /// Paragraphs of more bytes are split into groups of lines. Default: 4,000.
    pub paragraph_bytes: usize,
    /// Number of lines in a group. Default: 10.
    pub group_lines: usize,
}

impl Default for IntentConfig {
    fn default() -> Self {
        Self { over_bytes: 5_000, percent: 30, paragraph_bytes: 4_000, group_lines: 10 }
    }
}

/// Keeps the sections of a text that match an intent, under a header. Returns `None` if all of them or none match, or
/// the text is short.
///
/// Sections are paragraphs, groups of lines in long paragraphs, and pieces of some hundred bytes in JSON; a long string
/// in JSON has sections like a text. Matching sections beyond `most_bytes` are left out, and the header says how many.
pub(super) fn filtered(
    text: &str,
    is_json: bool,
    intent: &str,
    most_bytes: usize,
    config: IntentConfig,
) -> Option<String> {
    if text.len() <= config.over_bytes {
        return None;
    }
    let terms = Terms::parse(intent, config.percent)?;
    let mut kept = Kept { room: most_bytes.saturating_sub(MAX_HEADER_BYTES), ..Kept::default() };
    if is_json {
        for chunk in chunks(text, JSON_SECTION_SIZES) {
            if chunk.body.len() > JSON_SECTION_SIZES.whole && chunk.body.starts_with('"') {
                // The title is not searched: it is the same for all sections of the string.
                each_section(&unquoted(chunk.body), config, |section| {
                    kept.offer(terms.occur_in(&[section], false), &[&chunk.title, ":\n", section]);
                });
                continue;
            }
            kept.offer(terms.occur_in(&[&chunk.title, chunk.body], true), &[&chunk.title, ":\n", chunk.body]);
        }
    } else {
        each_section(text, config, |section| kept.offer(terms.occur_in(&[section], false), &[section]));
    }
    kept.text().filter(|filtered| filtered.len() < text.len())
}

/// Sections that are kept.
#[derive(Default)]
struct Kept {
    body: String,
    /// Maximum size of the body, in bytes.
    room: usize,
    shown: usize,
    fitting: usize,
    all: usize,
}

impl Kept {
    /// Adds a section if it matches and there is room.
    fn offer(&mut self, fits: bool, section: &[&str]) {
        self.all += 1;
        if !fits {
            return;
        }
        self.fitting += 1;
        let bytes: usize = section.iter().map(|part| part.len()).sum();
        if self.body.len() + BETWEEN.len() + bytes <= self.room {
            self.shown += 1;
            self.body.push_str(BETWEEN);
            self.body.extend(section.iter().copied());
        }
    }

    /// Returns the header and the sections; `None` if all of them or none matched.
    fn text(self) -> Option<String> {
        let Self { body, shown, fitting, all, .. } = self;
        let is_some = shown > 0 && fitting < all;
        let more = match fitting - shown {
            0 => String::new(),
            more => format!("; {more} more fit, for which there is no room"),
        };
        is_some.then(|| format!("[Filtered by intent: {shown} of {all} sections are shown{more}]{body}"))
    }
}

/// Calls `take` with each paragraph, without the blank lines around it, or with its groups of lines.
fn each_section(text: &str, config: IntentConfig, mut take: impl FnMut(&str)) {
    let (mut start, mut at) = (0, 0);
    let mut paragraph = |paragraph: &str| {
        if paragraph.len() > config.paragraph_bytes {
            each_group(paragraph, config.group_lines.max(1), &mut take);
        } else if !paragraph.is_empty() {
            take(trimmed(paragraph));
        }
    };
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if line.trim().is_empty() {
            paragraph(&text[start..at]);
            start = end;
        }
        at = end;
    }
    paragraph(&text[start..]);
}

/// Calls `take` with each group of lines.
fn each_group(text: &str, lines: usize, take: &mut impl FnMut(&str)) {
    let (mut start, mut at) = (0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number % lines == 0 && number > 0 {
            take(trimmed(&text[start..at]));
            start = at;
        }
        at += line.len();
    }
    take(trimmed(&text[start..]));
}

/// Removes the line ending of a section.
fn trimmed(section: &str) -> &str {
    section.trim_end_matches(['\n', '\r'])
}

/// Words of an intent, without stop words.
struct Terms {
    terms: Vec<Term>,
    /// Number of terms that a section must contain.
    needed: u32,
}

/// Word in the forms that match: as it is, its stem, and the stem with the `y` that the English stemmer writes as `i`.
struct Term {
    forms: Vec<String>,
}

impl Term {
    fn new(word: &str, stem: String) -> Self {
        let with_y = stem.strip_suffix('i').map(|start| format!("{start}y"));
        let mut forms = vec![word.to_owned(), stem];
        forms.extend(with_y);
        forms.dedup();
        Self { forms }
    }

    fn fits(&self, word: &str) -> bool {
        self.forms.iter().any(|form| fits(form, word))
    }
}

impl Terms {
    /// Reads the terms of an intent; `None` if it has only stop words.
    fn parse(intent: &str, percent: usize) -> Option<Self> {
        let intent = &intent[..intent.floor_char_boundary(MAX_INTENT_BYTES)];
        let stems_of = stemmer();
        let (mut stems, mut terms) = (HashSet::new(), Vec::new());
        each_word(intent, false, |word| {
            let tokens = stems_of(word);
            let is_one = tokens.len() == 1;
            for stem in tokens {
                if stems.insert(stem.clone()) {
                    // A text without spaces, in some scripts, is several words: each is a term.
                    terms.push(if is_one { Term::new(word, stem) } else { Term { forms: vec![stem] } });
                }
            }
            terms.len() < MAX_TERMS
        });
        terms.truncate(MAX_TERMS);
        let needed = terms.len().saturating_mul(percent).div_ceil(100).max(1);
        let needed = u32::try_from(needed).ok()?;
        (!terms.is_empty()).then_some(Self { terms, needed })
    }

    /// Returns `true` if the section contains enough of the terms.
    fn occur_in(&self, section: &[&str], is_json: bool) -> bool {
        let mut seen = 0_u64;
        for part in section {
            each_word(part, is_json, |word| {
                for (index, term) in self.terms.iter().enumerate() {
                    if term.fits(word) {
                        seen |= 1 << index;
                    }
                }
                seen.count_ones() < self.needed
            });
        }
        seen.count_ones() >= self.needed
    }
}

/// Returns a function that stems a word: one stem for most words, none for stop words.
#[cfg(feature = "search")]
fn stemmer() -> impl Fn(&str) -> Vec<String> {
    use bm25::{DefaultTokenizer, Tokenizer as _};

    let tokenizer = DefaultTokenizer::builder().normalization(false).build();
    move |word| tokenizer.tokenize(word)
}

/// Returns a function that returns each word unchanged, because the feature `search` is off.
#[cfg(not(feature = "search"))]
fn stemmer() -> impl Fn(&str) -> Vec<String> {
    |word| vec![word.to_owned()]
}

/// Returns `true` if a word matches a form of a term.
fn fits(term: &str, word: &str) -> bool {
    match word.strip_prefix(term) {
        Some(rest) if term.len() < MIN_PREFIX_BYTES => matches!(rest, "" | "s" | "es"),
        Some(_) => true,
        // A script without capitals may have no spaces either, so that a term can be anywhere in a word.
        None => !term.is_ascii() && term.chars().all(|it| !it.is_lowercase()) && word.contains(term),
    }
}

/// Calls `take` with each word in lower case, until it returns `false`. `userName` and `user_name` are two words.
fn each_word(text: &str, is_json: bool, mut take: impl FnMut(&str) -> bool) {
    let mut word = String::new();
    let (mut was_lower, mut is_escaped) = (false, false);
    for character in text.chars() {
        // The character after a backslash in JSON is not a letter.
        let is_letter = !is_escaped && character.is_alphanumeric();
        is_escaped = is_json && !is_escaped && character == '\\';
        let starts = was_lower && character.is_uppercase();
        if !word.is_empty() && (!is_letter || starts) {
            if !take(&word) {
                return;
            }
            word.clear();
        }
        if is_letter {
            if character.is_ascii() {
                word.push(character.to_ascii_lowercase());
            } else {
                word.extend(character.to_lowercase());
            }
        }
        was_lower = is_letter && character.is_lowercase();
    }
    if !word.is_empty() {
        take(&word);
    }
}
