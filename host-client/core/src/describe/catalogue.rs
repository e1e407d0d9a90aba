//! Finding tools among many: a search, a description by name, and an overview that fits. Code, models and people get the same
//! answers.

mod overview;
#[cfg_attr(not(feature = "search"), path = "catalogue/plain_ranker.rs")]
mod ranker;
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

/// The most bytes of a query that are looked at.
const MAX_QUERY_BYTES: usize = 1_000;
/// How many tools an answer names that may have been meant.
const MAX_CANDIDATES: usize = 10;

/// There is no tool of this name, or there are several.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnknownTool {
    pub(crate) code: ErrorCode,
    message: String,
    /// The full names that may have been meant, the likeliest first.
    pub candidates: Vec<String>,
}

/// The tools that code may call, made ready for searching. It holds for as long as the tools do not change.
pub(crate) struct Catalogue {
    tools: Vec<Arc<Registered>>,
    ranker: Ranker,
}

impl Catalogue {
    /// Makes tools, which come in the order of their names, ready for searching.
    pub(crate) fn new(tools: Vec<Arc<Registered>>) -> Self {
        let ranker = Ranker::new(&tools);
        Self { tools, ranker }
    }

    /// Lists the tools in about `most_tokens` tokens.
    pub(crate) fn overview(&self, declarations: &Declarations, most_tokens: usize) -> String {
        overview::of(declarations, &self.tools, most_tokens)
    }

    /// The tools that some patterns allow.
    pub(crate) fn allowed(&self, patterns: &ToolPatterns) -> impl Iterator<Item = &Arc<Registered>> {
        self.tools.iter().filter(|tool| patterns.allow(&tool.name))
    }

    /// The allowed tools that fit a query, the best first: those that have it as their name, then by their words.
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
        // They stand in the order of their names, and the sort keeps that among equals.
        found.sort_by(|one, other| other.0.cmp(&one.0).then(other.1.total_cmp(&one.1)));
        found.into_iter().take(limit).map(|(_, _, tool)| Arc::clone(tool)).collect()
    }

    /// The allowed tool of a name.
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

    /// Which tool may have been meant by a name that none has.
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
        let own = name.split_once('.').map_or(name, |(_, tool)| tool);
        let names: Vec<_> = among.iter().map(|tool| tool.tool()).collect();
        let meant = nearest(own, names.iter().copied());
        let near = among.iter().filter(|tool| Some(tool.tool()) == meant);
        let mut candidates: Vec<String> = near.map(|tool| tool.as_str().to_owned()).take(MAX_CANDIDATES).collect();
        // Of what has no server's name at all nobody knows what is meant.
        if candidates.is_empty() && !name.starts_with('.') {
            let found = self.search(own, patterns, 3);
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

/// How well a query is a tool's name: as a whole 3, in another spelling 2, without its server 1.
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

/// A tool's name as JavaScript spells it.
fn spelled(tool: &ToolName) -> String {
    format!("{}.{}", sanitize(tool.server()), sanitize(tool.tool()))
}

/// What somebody typed, in quotes and not longer than a name.
fn shown(name: &str) -> String {
    format!("{:?}", short_name(name))
}

fn listed(names: &[String]) -> String {
    let some: Vec<_> = names.iter().take(MAX_CANDIDATES).map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(MAX_CANDIDATES);
    if more > 0 { format!("{} or {more} others", some.join(", ")) } else { some.join(" or ") }
}
