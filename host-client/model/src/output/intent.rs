//! Of a long result, the sections that have to do with what it is wanted for.

use std::collections::HashSet;

use super::chunk::{Sizes, chunks};
use super::json::unquoted;

/// How large the pieces of JSON are that count as sections.
const SECTIONS_OF_JSON: Sizes = Sizes { group: 500, whole: 2_000 };
/// The most bytes of an intent that are looked at, and the most terms in them.
const MAX_INTENT_BYTES: usize = 1_000;
const MAX_TERMS: usize = 64;
/// A shorter term has to be a whole word, but for the ending of a plural; a longer one may be the start of a word.
const MIN_START: usize = 4;
/// What stands before each section that stays.
const BETWEEN: &str = "\n\n";
/// The most bytes of the header.
const HEADER_BYTES: usize = 120;

/// When a result is filtered, and what stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntentConfig {
    /// Results of at most so many bytes stay as they are: 5,000.
    pub over_bytes: usize,
    /// A section stays where at least so many percent of the intent's terms occur in it: 30.
    pub percent: usize,
    /// A paragraph of more bytes is divided into groups of lines: 4,000.
    pub paragraph_bytes: usize,
    /// How many lines a group has: 10.
    pub group_lines: usize,
}

impl Default for IntentConfig {
    fn default() -> Self {
        Self { over_bytes: 5_000, percent: 30, paragraph_bytes: 4_000, group_lines: 10 }
    }
}

/// What an intent leaves of a text, under a header that says so; nothing where it leaves all of it or none.
///
/// Sections are paragraphs, groups of lines where these are long, and pieces of some hundred bytes where the text is JSON;
/// a long string in it has sections like a text.
/// Those for which there is no room in `most_bytes` are left out, and the header says how many: what stays is not cut again.
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
    let terms = Terms::of(intent, config.percent)?;
    let mut kept = Kept { room: most_bytes.saturating_sub(HEADER_BYTES), ..Kept::default() };
    if is_json {
        for chunk in chunks(text, SECTIONS_OF_JSON) {
            if chunk.body.len() > SECTIONS_OF_JSON.whole && chunk.body.starts_with('"') {
                // Its title would fit all of them or none.
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

/// The sections that stay.
#[derive(Default)]
struct Kept {
    body: String,
    /// The most bytes of the body.
    room: usize,
    shown: usize,
    fitting: usize,
    all: usize,
}

impl Kept {
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

/// Gives each paragraph, without the blank lines around it.
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

/// Gives each group of lines.
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

fn trimmed(section: &str) -> &str {
    section.trim_end_matches(['\n', '\r'])
}

/// The words of an intent, without stop words.
struct Terms {
    terms: Vec<Term>,
    /// How many of them make a section stay.
    needed: u32,
}

/// A word in the forms in which it may occur: as it is, without its ending, and with the `y` that the English stemmer writes
/// as an `i`.
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
    /// Nothing where an intent consists of stop words.
    fn of(intent: &str, percent: usize) -> Option<Self> {
        let intent = &intent[..intent.floor_char_boundary(MAX_INTENT_BYTES)];
        let stems_of = stemmer();
        let (mut stems, mut terms) = (HashSet::new(), Vec::new());
        each_word(intent, false, |word| {
            let tokens = stems_of(word);
            let is_one = tokens.len() == 1;
            for stem in tokens {
                if stems.insert(stem.clone()) {
                    // What is several words, in a script without spaces, has its parts as forms.
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

    /// Whether enough of them occur in a section.
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

/// Returns what gives a word's stems: one for most words, none for stop words.
#[cfg(feature = "search")]
fn stemmer() -> impl Fn(&str) -> Vec<String> {
    use bm25::{DefaultTokenizer, Tokenizer as _};

    let tokenizer = DefaultTokenizer::builder().normalization(false).build();
    move |word| tokenizer.tokenize(word)
}

/// Without the feature `search`, every word is its own stem.
#[cfg(not(feature = "search"))]
fn stemmer() -> impl Fn(&str) -> Vec<String> {
    |word| vec![word.to_owned()]
}

/// Whether a word is one of a form of a term.
fn fits(term: &str, word: &str) -> bool {
    match word.strip_prefix(term) {
        Some(rest) if term.len() < MIN_START => matches!(rest, "" | "s" | "es"),
        Some(_) => true,
        // Where a script has no capitals, it may have no spaces either.
        None => !term.is_ascii() && term.chars().all(|it| !it.is_lowercase()) && word.contains(term),
    }
}

/// Gives each word in small letters, for as long as more are wanted. `userName` and `user_name` are two words.
fn each_word(text: &str, is_json: bool, mut take: impl FnMut(&str) -> bool) {
    let mut word = String::new();
    let (mut was_lower, mut is_escaped) = (false, false);
    for character in text.chars() {
        // What follows a backslash in JSON is no letter.
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
