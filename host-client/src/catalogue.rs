//! Finding tools among many: a search, and an overview that fits.

use std::fmt::Write as _;

use bm25::{Document, Language, SearchEngine, SearchEngineBuilder};

use crate::registry::Tools;
use crate::tools::ToolSpec;

/// The most bytes of a query that are looked at.
const MAX_QUERY_BYTES: usize = 1_000;
/// The most bytes of a description in an overview.
const MAX_LINE_BYTES: usize = 120;

impl Tools {
    /// The tools that code may call and that fit a query in words best, the best first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<ToolSpec> {
        let tools = self.callable();
        let documents = tools.iter().enumerate().map(|(index, tool)| Document::new(index, words(&tool.spec)));
        let engine: SearchEngine<usize> = SearchEngineBuilder::with_documents(Language::English, documents).build();
        let query = &query[..query.floor_char_boundary(MAX_QUERY_BYTES)];
        let found = engine.search(&split(query), limit);
        found.into_iter().filter_map(|found| tools.get(found.document.id)).map(|tool| tool.spec.clone()).collect()
    }

    /// The tools that code may call, one line each, in at most so many bytes. Its last line says how many are not shown.
    pub fn overview(&self, most_bytes: usize) -> String {
        let tools = self.callable();
        let (mut text, mut shown) = (String::new(), 0);
        for tool in &tools {
            let description = first_line(&tool.spec.description);
            let line = format!("{}: {description}\n", tool.spec.name);
            if text.len() + line.len() > most_bytes {
                break;
            }
            text.push_str(&line);
            shown += 1;
        }
        if shown < tools.len() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "({shown} of {} tools are shown)", tools.len());
        }
        text
    }
}

/// The start of a description, in one line.
pub fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let short = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
    if short.len() < line.len() { format!("{short}…") } else { short.to_owned() }
}

/// What a tool is found by. Its name counts twice.
fn words(spec: &ToolSpec) -> String {
    let name = split(&spec.name);
    let fields = spec.input_schema.get("properties").and_then(|fields| fields.as_object());
    let fields: Vec<_> = fields.into_iter().flatten().map(|(field, _)| split(field)).collect();
    format!("{name} {name} {} {}", spec.description, fields.join(" "))
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
            ("fs.read_file", "Reads a text file"),
            ("fs.secret", "Reads what code may not"),
        ] {
            let spec = ToolSpec::new(name, description, json!({"properties": {"maxCount": {}}}));
            tools.add_with(spec, |_, _| std::future::pending()).unwrap();
        }
        tools.amend(["fs.secret"], ManifestChange { callable_from_code: Some(false), ..ManifestChange::default() });
        tools
    }

    #[test]
    fn words_of_names_descriptions_and_fields_are_found() {
        let tools = tools();
        let first = |query: &str| tools.search(query, 10).first().map(|spec| spec.name.clone());
        assert_eq!(first("issues of a repository").as_deref(), Some("github.list_issues"));
        assert_eq!(first("pull request").as_deref(), Some("github.createPullRequest"));
        assert_eq!(first("read files").as_deref(), Some("fs.read_file"));
        assert_eq!(tools.search("max count", 2).len(), 2);
        assert_eq!(first("secret"), None, "what code may not call is not shown to it");
        assert_eq!(first(""), None);
        assert_eq!(first(&"é".repeat(10_000)), None);
    }

    #[test]
    fn an_overview_says_what_it_leaves_out() {
        let tools = tools();
        assert_eq!(tools.overview(10_000).lines().count(), 3);
        assert!(tools.overview(10_000).contains("github.createPullRequest: Opens a pull request\n"));
        assert_eq!(tools.overview(50), "fs.read_file: Reads a text file\n(1 of 3 tools are shown)\n");
    }
}
