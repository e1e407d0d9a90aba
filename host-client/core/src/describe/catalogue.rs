//! The catalogue, which finds tools among many: by a search, by name, or in an overview. Code, models and people get
//! the same results.

mod overview;
#[cfg_attr(not(feature = "search"), path = "catalogue/plain_ranker.rs")]
mod ranker;
#[cfg(feature = "search")]
mod synonyms;
#[cfg(all(test, feature = "search"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod tokens;
mod words;

use std::collections::BTreeSet;
use std::sync::Arc;

use relay_proto::spelling::nearest;
use relay_proto::{ErrorCode, ToolName, ToolPatterns, sanitize};

use super::declare::Declarations;
use crate::text::short_name;
use crate::tool::Registered;
use ranker::Ranker;

pub use tokens::estimate_tokens;
pub use words::first_line;

/// The most bytes of a query that are used; the rest is ignored.
const MAX_QUERY_BYTES: usize = 1_000;
/// The most similar tools that an error names.
const MAX_CANDIDATES: usize = 10;

/// The error of describing a tool by a name that no tool has, or that several have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnknownTool {
    pub(crate) code: ErrorCode,
    message: String,
    /// The full names of the tools that may have been meant, the most similar first.
    pub candidates: Vec<String>,
}

/// An index of the tools that code may call, for searching. A new one is made when the tools change.
pub(crate) struct Catalogue {
    /// The tools in the order of their names.
    tools: Vec<Arc<Registered>>,
    ranker: Ranker,
}

impl Catalogue {
    /// Indexes tools, which must be in the order of their names.
    pub(crate) fn new(tools: Vec<Arc<Registered>>) -> Self {
        let ranker = Ranker::new(&tools);
        Self { tools, ranker }
    }

    /// Returns a list of the tools of at most about `most_tokens` tokens: as many as fit with their types, others by
    /// name.
    pub(crate) fn overview(&self, declarations: &Declarations, most_tokens: usize) -> String {
        overview::write_overview(declarations, &self.tools, most_tokens)
    }

    /// Returns the tools that the patterns allow.
    pub(crate) fn allowed(&self, patterns: &ToolPatterns) -> impl Iterator<Item = &Arc<Registered>> {
        self.tools.iter().filter(|tool| patterns.allow(&tool.name))
    }

    /// Returns the allowed tools that match a query, the best first: those that have it as their name, then those that
    /// share words with it, by score.
    pub(crate) fn search(&self, query: &str, patterns: &ToolPatterns, limit: usize) -> Vec<Arc<Registered>> {
        let query = query[..query.floor_char_boundary(MAX_QUERY_BYTES)].trim();
        let scores = self.ranker.scores(query);
        let mut found: Vec<_> = self
            .tools
            .iter()
            .enumerate()
            .filter_map(|(index, tool)| {
                let rank = rank(&tool.name, query);
                let score = scores.get(&index).copied();
                (rank > 0 || score.is_some()).then(|| (rank, score.unwrap_or_default(), tool))
            })
            .filter(|(_, _, tool)| patterns.allow(&tool.name))
            .collect();
        // The sort is stable: equal ones stay in the order of their names.
        found.sort_by(|one, other| other.0.cmp(&one.0).then(other.1.total_cmp(&one.1)));
        found.into_iter().take(limit).map(|(_, _, tool)| Arc::clone(tool)).collect()
    }

    /// Returns the allowed tool that a name denotes. The name may be, in the order in which they are tried: the full name,
    /// the full name as JavaScript spells it, the name without its server, and that as JavaScript spells it.
    ///
    /// # Errors
    /// [`UnknownTool`]: no allowed tool has this name, or several have it.
    pub(crate) fn describe(&self, name: &str, patterns: &ToolPatterns) -> Result<Arc<Registered>, UnknownTool> {
        let name = name.trim();
        let fits: [fn(&ToolName, &str) -> bool; 4] = [
            |tool, name| tool.as_str() == name,
            |tool, name| spelled(tool) == name,
            |tool, name| tool.tool() == name,
            |tool, name| sanitize(tool.tool()) == name,
        ];
        for fits in fits {
            let mut fitting = self.allowed(patterns).filter(|tool| fits(&tool.name, name));
            let Some(first) = fitting.next() else { continue };
            let mut names: Vec<_> = fitting.map(|tool| tool.name.as_str().to_owned()).collect();
            if names.is_empty() {
                return Ok(Arc::clone(first));
            }
            names.insert(0, first.name.as_str().to_owned());
            let message = format!("several tools have the name {}; use the full one: {}", shown(name), listed(&names));
            return Err(UnknownTool { code: ErrorCode::UnknownTool, message, candidates: names });
        }
        Err(self.unknown(name, patterns))
    }

    /// Returns the error for a name that no allowed tool has, with similar tools: by spelling, else by a search.
    fn unknown(&self, name: &str, patterns: &ToolPatterns) -> UnknownTool {
        let tools: Vec<_> = self.allowed(patterns).map(|tool| &tool.name).collect();
        let servers: BTreeSet<&str> = tools.iter().map(|tool| tool.server()).collect();
        let of_server = |server: &str| tools.iter().filter(|tool| tool.server() == server).copied().collect::<Vec<_>>();
        let (code, message, among) = match name.split_once('.') {
            Some((server, tool)) if servers.contains(server) => {
                let message = format!("the server {server:?} has no tool {}", shown(tool));
                (ErrorCode::UnknownTool, message, of_server(server))
            }
            Some((server, _)) => {
                let servers: Vec<_> = servers.into_iter().collect();
                let near = nearest(server, servers.iter().copied()).map(of_server).unwrap_or_default();
                (ErrorCode::UnknownServer, format!("there is no server {}", shown(server)), near)
            }
            None => (ErrorCode::UnknownTool, format!("there is no tool {}", shown(name)), tools),
        };
        let bare_name = name.split_once('.').map_or(name, |(_, tool)| tool);
        let names: Vec<_> = among.iter().map(|tool| tool.tool()).collect();
        let meant = nearest(bare_name, names.iter().copied());
        let near = among.iter().filter(|tool| Some(tool.tool()) == meant);
        let mut candidates: Vec<String> = near.map(|tool| tool.as_str().to_owned()).take(MAX_CANDIDATES).collect();
        // A name such as `.read` has an empty server: a search for its rest would suggest tools at random.
        if candidates.is_empty() && !name.starts_with('.') {
            let found = self.search(bare_name, patterns, 3);
            candidates = found.into_iter().map(|tool| tool.name.as_str().to_owned()).collect();
        }
        let hint = if candidates.is_empty() {
            "; search for one by words".to_owned()
        } else {
            format!("; did you mean {}?", listed(&candidates))
        };
        UnknownTool { code, message: message + &hint, candidates }
    }
}

/// Returns how exactly a query is a tool's name, ignoring case: 3 for the full name, 2 for its spelling in JavaScript,
/// 1 for the name without its server, 0 if it is not the name.
fn rank(tool: &ToolName, query: &str) -> u8 {
    let is = |name: &str| name.eq_ignore_ascii_case(query);
    if is(tool.as_str()) {
        3
    } else if is(&spelled(tool)) {
        2
    } else {
        (is(tool.tool()) || is(&sanitize(tool.tool()))).into()
    }
}

/// Returns a tool's full name as JavaScript spells it, such as `my_fs.read_file` for `my-fs.read_file`.
fn spelled(tool: &ToolName) -> String {
    format!("{}.{}", sanitize(tool.server()), sanitize(tool.tool()))
}

/// Returns a name in quotes, cut to the length of the longest valid name.
fn shown(name: &str) -> String {
    format!("{:?}", short_name(name))
}

/// Returns names in quotes, at most [`MAX_CANDIDATES`], joined with `or`.
fn listed(names: &[String]) -> String {
    let some: Vec<_> = names.iter().take(MAX_CANDIDATES).map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(MAX_CANDIDATES);
    if more > 0 { format!("{} or {more} others", some.join(", ")) } else { some.join(" or ") }
}
