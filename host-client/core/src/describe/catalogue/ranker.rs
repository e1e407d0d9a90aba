//! The ranking of tools for a query, with the feature `search`: BM25 over names, descriptions and fields, and
//! additional scores for words of names, their beginnings, and misspelt ones.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bm25::{Document, Language, SearchEngine, SearchEngineBuilder};

use super::words::{split, text, words};
use crate::tool::Registered;

/// The most words of a query that get additional scores.
const MAX_QUERY_WORDS: usize = 16;
/// The score of a query's word that is a word of a tool's name.
const EXACT_SCORE: f32 = 1.5;
/// The score of a query's word that is the beginning of a word of a tool's name.
const PREFIX_SCORE: f32 = 1.0;
/// The score of a query's word that is a misspelt word of a tool's name.
const MISSPELT_SCORE: f32 = 0.8;
/// The fewest characters of a word that is compared as a beginning or a misspelling.
const MIN_INEXACT_CHARS: usize = 4;
/// The most characters of a word that is compared as a misspelling.
const MAX_MISSPELT_CHARS: usize = 32;
/// The most words of names that a word is compared with as a misspelling.
const MAX_COMPARED_WORDS: usize = 5_000;

/// An index of the tools for ranking.
pub(super) struct Ranker {
    engine: SearchEngine<usize>,
    /// The words of each tool's name, in the order of the tools.
    names: Vec<BTreeSet<String>>,
    /// The words of all names.
    vocabulary: BTreeSet<String>,
}

impl Ranker {
    /// Indexes tools.
    pub(super) fn new(tools: &[Arc<Registered>]) -> Self {
        let documents = tools.iter().enumerate().map(|(index, tool)| Document::new(index, text(&tool.spec)));
        let engine = SearchEngineBuilder::with_documents(Language::English, documents).build();
        let names: Vec<BTreeSet<_>> = tools.iter().map(|tool| words(tool.name.as_str()).collect()).collect();
        let vocabulary = names.iter().flatten().cloned().collect();
        Self { engine, names, vocabulary }
    }

    /// Returns the score of each tool that shares a word with the query, by the tool's index.
    pub(super) fn scores(&self, query: &str) -> HashMap<usize, f32> {
        let mut scores: HashMap<usize, f32> = HashMap::new();
        for found in self.engine.search(&split(query), None) {
            *scores.entry(found.document.id).or_default() += found.score;
        }
        let query_words: BTreeSet<String> = words(query).take(MAX_QUERY_WORDS).collect();
        for word in &query_words {
            self.add_score(word, &mut scores);
        }
        scores
    }

    /// Adds the score of a query's word to each tool whose name contains it or a word that begins with it. If no tool's
    /// text has the word, adds the score of a misspelling to the tools whose names contain the most similar word.
    fn add_score(&self, word: &str, scores: &mut HashMap<usize, f32>) {
        let length = word.chars().count();
        let is_prefix = |known: &String| length >= MIN_INEXACT_CHARS && known.starts_with(word);
        let mut is_known = false;
        for (index, name) in self.names.iter().enumerate() {
            let score = if name.contains(word) {
                EXACT_SCORE
            } else if name.iter().any(is_prefix) {
                PREFIX_SCORE
            } else {
                continue;
            };
            is_known = true;
            *scores.entry(index).or_default() += score;
        }
        let may_be_misspelt = (MIN_INEXACT_CHARS..=MAX_MISSPELT_CHARS).contains(&length);
        if is_known || !may_be_misspelt || !self.engine.search(word, 1).is_empty() {
            return;
        }
        let edits = if length > 6 { 2 } else { 1 };
        let compared = self.vocabulary.iter().take(MAX_COMPARED_WORDS);
        let similar = compared
            .filter(|known| known.chars().count().abs_diff(length) <= edits)
            .map(|known| (strsim::osa_distance(word, known), known))
            .filter(|(distance, _)| *distance <= edits);
        let Some((_, meant)) = similar.min() else { return };
        for (index, name) in self.names.iter().enumerate() {
            if name.contains(meant) {
                *scores.entry(index).or_default() += MISSPELT_SCORE;
            }
        }
    }
}
