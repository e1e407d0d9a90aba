//! The ranking of tools for a query without the feature `search`: by the words that tool and query share.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::words::{text, words};
use crate::tool::Registered;

/// The most words of a query that are used; the rest is ignored.
const MAX_QUERY_WORDS: usize = 16;
/// The weight of a query's word that is in a tool's name.
const NAME_WEIGHT: f32 = 2.0;
/// The weight of a query's word that is only in a tool's description or fields.
const TEXT_WEIGHT: f32 = 1.0;

/// The words of the tools, in the order of the tools.
pub(super) struct Ranker(Vec<Words>);

/// The words of one tool.
struct Words {
    name: BTreeSet<String>,
    /// The words of name, description and fields.
    text: BTreeSet<String>,
}

impl Ranker {
    /// Indexes tools.
    pub(super) fn new(tools: &[Arc<Registered>]) -> Self {
        let words_of = |tool: &Arc<Registered>| Words {
            name: words(tool.name.as_str()).collect(),
            text: words(&text(&tool.spec)).collect(),
        };
        Self(tools.iter().map(words_of).collect())
    }

    /// Returns the score of each tool that shares a word with the query, by the tool's index.
    pub(super) fn scores(&self, query: &str) -> HashMap<usize, f32> {
        let query: BTreeSet<String> = words(query).take(MAX_QUERY_WORDS).collect();
        let weight = |tool: &Words, word: &String| match (tool.name.contains(word), tool.text.contains(word)) {
            (true, _) => NAME_WEIGHT,
            (false, true) => TEXT_WEIGHT,
            (false, false) => 0.0,
        };
        let score = |tool: &Words| query.iter().map(|word| weight(tool, word)).sum::<f32>();
        self.0.iter().map(score).enumerate().filter(|(_, score)| *score > 0.0).collect()
    }
}
