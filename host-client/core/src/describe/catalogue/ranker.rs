//! The ranking of tools for a query, with the feature `search`: BM25 over names, which count twice, descriptions and
//! fields, for the words of the query and their synonyms. A word that no tool has stands for those that begin with it,
//! or for the most similar one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bm25::{DefaultTokenizer, Document, Language, SearchEngine, SearchEngineBuilder, Tokenizer as _};

use super::synonyms::{SHORT_FORMS, SYNONYMS};
use super::words::{text, words};
use crate::tool::Registered;

/// The most words of a query that are used; the rest is ignored.
const MAX_QUERY_WORDS: usize = 16;
/// The weight of a word that is only a synonym of one in the query.
const SYNONYM_WEIGHT: f32 = 0.5;
/// The fewest characters of a word that is compared as a beginning or a misspelling.
const MIN_INEXACT_CHARS: usize = 3;
/// The most characters of a word that is compared as a misspelling.
const MAX_MISSPELT_CHARS: usize = 32;
/// The fewest characters of a word that may have two slips; a shorter one may have one.
const TWO_SLIPS_CHARS: usize = 7;
/// The most words that a word is compared with as a misspelling.
const MAX_COMPARED_WORDS: usize = 5_000;

/// An index of the tools for ranking.
pub(super) struct Ranker {
    engine: SearchEngine<usize>,
    /// Finds the stems of words, and drops words such as `the`.
    tokenizer: DefaultTokenizer,
    /// The words that tools may have in the place of another, by the stem of that.
    synonyms: ByStem,
    /// The words that short forms stand for, by the stem of the short form.
    long_forms: ByStem,
    /// The words of all names.
    vocabulary: BTreeSet<String>,
}

/// Words by the stem of another.
type ByStem = HashMap<String, &'static [&'static str]>;

impl Ranker {
    /// Indexes tools.
    pub(super) fn new(tools: &[Arc<Registered>]) -> Self {
        let documents = tools.iter().enumerate().map(|(index, tool)| Document::new(index, text(&tool.spec)));
        let tokenizer = DefaultTokenizer::new(Language::English);
        let engine = SearchEngineBuilder::with_documents(Language::English, documents).build();
        let by_stem = |table: &'static [(&str, &'static [&str])]| -> ByStem {
            table.iter().flat_map(|(word, others)| Some((tokenizer.tokenize(word).pop()?, *others))).collect()
        };
        let (synonyms, long_forms) = (by_stem(&SYNONYMS), by_stem(&SHORT_FORMS));
        let vocabulary = tools.iter().flat_map(|tool| words(tool.name.as_str())).collect();
        Self { engine, tokenizer, synonyms, long_forms, vocabulary }
    }

    /// Returns the score of each tool that shares a word with the query, by the tool's index.
    pub(super) fn scores(&self, query: &str) -> HashMap<usize, f32> {
        let (mut asked, mut related) = (BTreeSet::new(), BTreeSet::new());
        for word in words(query).take(MAX_QUERY_WORDS) {
            let Some(stem) = self.tokenizer.tokenize(&word).pop() else { continue };
            let of = |table: &ByStem| table.get(&stem).copied().unwrap_or_default();
            let (others, long_form) = (of(&self.synonyms), of(&self.long_forms));
            related.extend(others.iter().map(|word| (*word).to_owned()));
            asked.extend(long_form.iter().map(|word| (*word).to_owned()));
            if others.is_empty() && long_form.is_empty() && !self.is_known(&word) {
                asked.extend(self.meant(&word).into_iter().map(str::to_owned));
            } else {
                asked.insert(word);
            }
        }
        let mut scores: HashMap<usize, f32> = HashMap::new();
        for (words, weight) in [(asked, 1.0), (related, SYNONYM_WEIGHT)] {
            let words: Vec<_> = words.into_iter().collect();
            for found in self.engine.search(&words.join(" "), None) {
                *scores.entry(found.document.id).or_default() += weight * found.score;
            }
        }
        scores
    }

    /// Returns `true` if the text of a tool has this word, in any of its forms.
    fn is_known(&self, word: &str) -> bool {
        !self.engine.search(word, 1).is_empty()
    }

    /// Returns the words of names that begin with a word that no tool has, or else the most similar one, if any is
    /// similar.
    fn meant(&self, word: &str) -> Vec<&str> {
        let length = word.chars().count();
        if !(MIN_INEXACT_CHARS..=MAX_MISSPELT_CHARS).contains(&length) {
            return Vec::new();
        }
        let compared = || self.vocabulary.iter().map(String::as_str).take(MAX_COMPARED_WORDS);
        let longer: Vec<_> = compared().filter(|known| known.starts_with(word)).collect();
        if !longer.is_empty() {
            return longer;
        }
        let slips = if length >= TWO_SLIPS_CHARS { 2 } else { 1 };
        let similar = compared()
            .filter(|known| known.chars().next() == word.chars().next())
            .filter(|known| known.chars().count().abs_diff(length) <= slips)
            .map(|known| (strsim::osa_distance(word, known), known))
            .filter(|(distance, _)| *distance <= slips);
        similar.min().map(|(_, known)| known).into_iter().collect()
    }
}
