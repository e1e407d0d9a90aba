//! Finding tools among many: a search, a description by name, and an overview that fits. Whoever asks, code or model or
//! person, gets the same answer.

mod overview;
mod tokens;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bm25::{Document, Language, SearchEngine, SearchEngineBuilder};
use relay_proto::{ErrorCode, ToolName, ToolPatterns, sanitize};

use crate::dispatch::short;
use crate::registry::{Registered, Tools};
use crate::tools::ToolSpec;
use relay_proto::spelling::nearest;

pub use tokens::estimate_tokens;

/// The most bytes and words of a query that are looked at.
const MAX_QUERY_BYTES: usize = 1_000;
const MAX_QUERY_WORDS: usize = 16;
/// How much of a tool's description is searched, in bytes, and how many of its fields.
const MAX_DESCRIPTION_BYTES: usize = 4_000;
const MAX_FIELDS: usize = 200;
/// The most bytes of a description in one line.
const MAX_LINE_BYTES: usize = 120;
/// What a word of the query counts that is a word of a tool's name, that begins one, and that is one but for a slip.
const SAME: f32 = 1.5;
const BEGINS: f32 = 1.0;
const SLIP: f32 = 0.8;
/// The shortest word that is looked for as the beginning of one, or with a slip in it, in characters; the longest with slips.
const MIN_BEGINNING: usize = 4;
const MAX_SLIPPED: usize = 32;
/// How many words of names are compared with one that is in none.
const MAX_COMPARED: usize = 5_000;
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
    engine: SearchEngine<usize>,
    /// The words of each tool's name.
    names: Vec<BTreeSet<String>>,
    vocabulary: BTreeSet<String>,
}

/// The last catalogue, and of which of the tools' changes it is.
pub(crate) type Latest = Mutex<Option<(u64, Arc<Catalogue>)>>;

impl Tools {
    /// The tools that code may call and that fit a query in words best, the best first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<ToolSpec> {
        let found = self.catalogue().search(query, &ToolPatterns::default(), limit);
        found.into_iter().map(|tool| tool.spec.clone()).collect()
    }

    /// The tool that code may call and that has this name: the full one, as it is registered or as JavaScript spells it, or
    /// the tool's own, where only one server has it.
    ///
    /// # Errors
    /// There is none, or several: the error names those that may have been meant.
    pub fn describe(&self, name: &str) -> Result<ToolSpec, UnknownTool> {
        self.catalogue().describe(name, &ToolPatterns::default()).map(|tool| tool.spec.clone())
    }

    /// The tools that code may call, in at most so many tokens, about: as many as fit with their types, and of the others
    /// the names. Each server has its share. The first line says how many of how many are shown.
    pub fn overview(&self, most_tokens: usize) -> String {
        overview::of(self, &self.catalogue().tools, most_tokens)
    }

    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        let now = self.version();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, catalogue)) = &*latest
            && *of == now
        {
            return Arc::clone(catalogue);
        }
        let catalogue = Arc::new(Catalogue::new(self.callable()));
        *latest = Some((now, Arc::clone(&catalogue)));
        catalogue
    }
}

impl Catalogue {
    fn new(tools: Vec<Arc<Registered>>) -> Self {
        let documents = tools.iter().enumerate().map(|(index, tool)| Document::new(index, text(&tool.spec)));
        let engine = SearchEngineBuilder::with_documents(Language::English, documents).build();
        let names: Vec<BTreeSet<_>> = tools.iter().map(|tool| words(tool.name.as_str()).collect()).collect();
        let vocabulary = names.iter().flatten().cloned().collect();
        Self { tools, engine, names, vocabulary }
    }

    /// The tools that some patterns allow.
    pub(crate) fn allowed(&self, patterns: &ToolPatterns) -> impl Iterator<Item = &Arc<Registered>> {
        self.tools.iter().filter(|tool| patterns.allow(&tool.name))
    }

    /// The allowed tools that fit a query, the best first: those that have it as their name, then by their words.
    pub(crate) fn search(&self, query: &str, patterns: &ToolPatterns, limit: usize) -> Vec<Arc<Registered>> {
        let query = query[..query.floor_char_boundary(MAX_QUERY_BYTES)].trim();
        let mut scores: HashMap<usize, f32> = HashMap::new();
        for found in self.engine.search(&split(query), None) {
            *scores.entry(found.document.id).or_default() += found.score;
        }
        let asked: BTreeSet<String> = words(query).take(MAX_QUERY_WORDS).collect();
        for word in &asked {
            self.score(word, &mut scores);
        }
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

    /// Counts a word of a query for the tools whose names have it, or one that begins with it, or that is meant.
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
    format!("{:?}", short(name))
}

fn listed(names: &[String]) -> String {
    let some: Vec<_> = names.iter().take(MAX_CANDIDATES).map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(MAX_CANDIDATES);
    if more > 0 { format!("{} or {more} others", some.join(", ")) } else { some.join(" or ") }
}

/// The start of a description, in one line.
pub fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let short = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
    if short.len() < line.len() { format!("{short}…") } else { short.to_owned() }
}

/// What a tool is found by, in a bounded length. Its name counts twice.
fn text(spec: &ToolSpec) -> String {
    let name = split(&spec.name);
    let fields = spec.input_schema.get("properties").and_then(|fields| fields.as_object());
    let fields: Vec<_> = fields.into_iter().flatten().take(MAX_FIELDS).map(|(field, _)| split(short(field))).collect();
    let description = &spec.description[..spec.description.floor_char_boundary(MAX_DESCRIPTION_BYTES)];
    format!("{name} {name} {description} {}", fields.join(" "))
}

/// The words of a text in small letters, each that says something.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<_> = split(text).split_whitespace().map(str::to_lowercase).collect();
    words.into_iter().filter(|word| word.len() > 1)
}

/// The words of an identifier: `listOpen_issues` is three.
fn split(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 8);
    let mut was_lower = false;
    for character in text.chars() {
        let is_word = character.is_alphanumeric();
        if !is_word || (was_lower && character.is_uppercase()) {
            words.push(' ');
        }
        if is_word {
            words.push(character);
        }
        was_lower = character.is_lowercase();
    }
    words
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::ManifestChange;

    fn tools() -> Tools {
        let tools = Tools::new();
        for (name, description) in [
            ("github.list_issues", "Lists the open issues of a repository"),
            ("github.createPullRequest", "Opens a pull request\nin a repository"),
            ("my-fs.read_file", "Reads a text file"),
            ("my-fs.secret", "Reads what code may not"),
            ("web.read_page", "Reads a page of the web, and says which issues it has"),
            ("web.search", "Searches"),
            ("other.search", "Searches elsewhere"),
        ] {
            let spec = ToolSpec::new(name, description, json!({"properties": {"maxCount": {}}}));
            tools.add_with(spec, |_, _| std::future::pending()).unwrap();
        }
        tools.amend(["my-fs.secret"], ManifestChange { callable_from_code: Some(false), ..ManifestChange::default() });
        tools
    }

    #[test]
    fn words_of_names_descriptions_and_fields_are_found() {
        let tools = tools();
        let first = |query: &str| tools.search(query, 10).first().map(|spec| spec.name.clone());
        for (query, found) in [
            ("issues of a repository", Some("github.list_issues")),
            ("pull request", Some("github.createPullRequest")),
            ("read files", Some("my-fs.read_file")),
            // A name as it stands, in other letters, as JavaScript spells it, and without its server.
            ("web.search", Some("web.search")),
            ("GITHUB.CREATEPULLREQUEST", Some("github.createPullRequest")),
            ("my_fs.read_file", Some("my-fs.read_file")),
            ("read_page", Some("web.read_page")),
            // The beginning of a word, and slips.
            ("repo", None),
            ("crea", Some("github.createPullRequest")),
            ("isuses", Some("github.list_issues")),
            ("requets", Some("github.createPullRequest")),
            ("secret", None),
            ("zeppelin", None),
            ("", None),
            ("é", None),
        ] {
            assert_eq!(first(query).as_deref(), found, "{query:?}");
        }
        assert_eq!(first(&"é".repeat(10_000)), None);
        assert_eq!(tools.search("max count", 2).len(), 2);
        let same: Vec<_> = (0..20).map(|_| tools.search("search", 10)).collect();
        assert!(same.windows(2).all(|pair| pair[0] == pair[1]), "the order is always the same");
        assert_eq!(same[0][0].name, "other.search", "among equals by name");
    }

    #[test]
    fn only_what_patterns_allow_is_found_and_named() {
        let (tools, patterns) = (tools(), ToolPatterns::new(Some(vec!["github.*".into()])));
        let catalogue = tools.catalogue();
        assert_eq!(catalogue.search("read search issues", &patterns, 10).len(), 1);
        let error = catalogue.describe("search", &patterns).err().unwrap();
        assert!(!error.to_string().contains("web") && error.candidates.is_empty(), "{error}");
    }

    #[test]
    fn a_name_is_described_or_the_nearest_is_named() {
        let tools = tools();
        for (name, full) in [
            ("github.list_issues", "github.list_issues"),
            ("my_fs.read_file", "my-fs.read_file"),
            ("list_issues", "github.list_issues"),
            (" read_page ", "web.read_page"),
        ] {
            assert_eq!(tools.describe(name).unwrap().name, full);
        }
        for (name, message) in [
            ("search", r#"several tools have the name "search"; use the full one: "other.search" or "web.search""#),
            (
                "github.list_isues",
                r#"the server "github" has no tool "list_isues"; did you mean "github.list_issues"?"#,
            ),
            ("githib.list_issues", r#"there is no server "githib"; did you mean "github.list_issues"?"#),
            ("list_isues", r#"there is no tool "list_isues"; did you mean "github.list_issues"?"#),
            ("pull request", r#"there is no tool "pull request"; did you mean "github.createPullRequest"?"#),
            ("my-fs.secret", r#"the server "my-fs" has no tool "secret"; search for one by words"#),
            ("zeppelin", r#"there is no tool "zeppelin"; search for one by words"#),
        ] {
            assert_eq!(tools.describe(name).unwrap_err().to_string(), message);
        }
        assert!(tools.describe(&"x".repeat(100_000)).unwrap_err().to_string().len() < 400);
    }

    #[test]
    fn a_catalogue_is_made_again_only_for_other_tools() {
        let tools = tools();
        let first = tools.catalogue();
        assert!(Arc::ptr_eq(&first, &tools.clone().catalogue()));
        let added = tools.add_with(ToolSpec::new("late.zeppelin", "", json!({})), |_, _| std::future::pending());
        assert!(added.is_ok());
        assert_eq!(tools.search("zeppelin", 1)[0].name, "late.zeppelin");
    }
}
