//! Ranks tools for a query: BM25 over names, descriptions and fields, with words of names counted again, and slips of the pen.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bm25::{Document, Language, SearchEngine, SearchEngineBuilder};

use super::words::{split, text, words};
use crate::tool::Registered;

/// The most words of a query that are looked at.
const MAX_QUERY_WORDS: usize = 16;
/// Weights of a query's word that is a word of a tool's name, that begins one, and that is one but for a slip.
const SAME: f32 = 1.5;
const BEGINS: f32 = 1.0;
const SLIP: f32 = 0.8;
/// The shortest word that is looked for as the beginning of one, or with a slip in it, in characters; the longest with slips.
const MIN_BEGINNING: usize = 4;
const MAX_SLIPPED: usize = 32;
/// How many words of names are compared with one that is in none.
const MAX_COMPARED: usize = 5_000;

/// Tools made ready for ranking, by their index.
pub(super) struct Ranker {
    engine: SearchEngine<usize>,
    /// The words of each tool's name.
    names: Vec<BTreeSet<String>>,
    vocabulary: BTreeSet<String>,
}

impl Ranker {
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
        let asked: BTreeSet<String> = words(query).take(MAX_QUERY_WORDS).collect();
        for word in &asked {
            self.score(word, &mut scores);
        }
        scores
    }

    /// Adds what one word of a query is worth for each tool whose name has it, has a word that begins with it, or has the
    /// word that was meant.
    fn score(&self, word: &str, scores: &mut HashMap<usize, f32>) {
        let length = word.chars().count();
        let begins = |of: &String| length >= MIN_BEGINNING && of.starts_with(word);
        let mut is_known = false;
        for (index, name) in self.names.iter().enumerate() {
            let worth = if name.contains(word) {
                SAME
            } else if name.iter().any(begins) {
                BEGINS
            } else {
                continue;
            };
            is_known = true;
            *scores.entry(index).or_default() += worth;
        }
        if is_known || !(MIN_BEGINNING..=MAX_SLIPPED).contains(&length) || !self.engine.search(word, 1).is_empty() {
            return;
        }
        let slips = if length > 6 { 2 } else { 1 };
        let near = self.vocabulary.iter().take(MAX_COMPARED).filter(|of| of.chars().count().abs_diff(length) <= slips);
        let near = near.map(|of| (strsim::osa_distance(word, of), of)).filter(|(distance, _)| *distance <= slips);
        let Some((_, meant)) = near.min() else { return };
        for (index, name) in self.names.iter().enumerate() {
            if name.contains(meant) {
                *scores.entry(index).or_default() += SLIP;
            }
        }
    }
}
