//! Ranks tools for a query by the words that they share with it: what there is without the feature `search`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::words::{text, words};
use crate::tool::Registered;

/// The most words of a query that are looked at.
const MAX_QUERY_WORDS: usize = 16;
/// Weights of a query's word that is in a tool's name, and of one that is elsewhere in its text.
const IN_NAME: f32 = 2.0;
const IN_TEXT: f32 = 1.0;

/// Tools made ready for ranking, by their index.
pub(super) struct Ranker(Vec<Words>);

struct Words {
    name: BTreeSet<String>,
    text: BTreeSet<String>,
}

impl Ranker {
    pub(super) fn new(tools: &[Arc<Registered>]) -> Self {
        let of = |tool: &Arc<Registered>| Words {
            name: words(tool.name.as_str()).collect(),
            text: words(&text(&tool.spec)).collect(),
        };
        Self(tools.iter().map(of).collect())
    }

    /// Returns the score of each tool that shares a word with the query, by the tool's index.
    pub(super) fn scores(&self, query: &str) -> HashMap<usize, f32> {
        let asked: BTreeSet<String> = words(query).take(MAX_QUERY_WORDS).collect();
        let worth = |tool: &Words, word: &String| match (tool.name.contains(word), tool.text.contains(word)) {
            (true, _) => IN_NAME,
            (false, true) => IN_TEXT,
            (false, false) => 0.0,
        };
        let of = |tool: &Words| asked.iter().map(|word| worth(tool, word)).sum::<f32>();
        self.0.iter().map(of).enumerate().filter(|(_, score)| *score > 0.0).collect()
    }
}
