//! Patterns of tool names, as tokens and executions carry them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::id::{MAX_TOOL_NAME_BYTES, ToolName};

/// Set of tools, given by lists of patterns: a tool is in the set if every list has a pattern that fits its full name.
/// Without a list, every tool is. `*` stands for any characters, also none.
///
/// ```
/// use relay_proto::{ToolName, ToolPatterns};
///
/// let patterns = ToolPatterns::new(Some(vec!["github.*".into()]));
/// assert!(patterns.allow(&ToolName::new("github", "issues.list")?));
/// assert!(!patterns.allow(&ToolName::new("shell", "run")?));
/// # Ok::<_, relay_proto::id::InvalidToolName>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ToolPatterns(Vec<Arc<[String]>>);

impl ToolPatterns {
    /// Makes the set of one list; `None`: every tool, an empty list: no tool.
    pub fn new(patterns: Option<Vec<String>>) -> Self {
        Self(patterns.map(Into::into).into_iter().collect())
    }

    /// Makes the set of one list of patterns as people write them.
    ///
    /// # Errors
    /// [`InvalidToolPattern`]: one of them can fit no tool.
    pub fn checked<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self, InvalidToolPattern> {
        let check = |pattern: S| pattern.as_ref().parse().map(|ToolPattern(text)| text);
        Ok(Self::new(Some(patterns.into_iter().map(check).collect::<Result<_, _>>()?)))
    }

    /// Returns the intersection.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().cloned());
        self
    }

    /// Returns the first list for the wire. No pattern stands for every tool, one empty pattern for no tool.
    pub fn to_wire(&self) -> Vec<String> {
        match self.0.first() {
            // No tool at all is not the same as no patterns: the empty pattern fits no name.
            Some(none) if none.is_empty() => vec![String::new()],
            Some(patterns) => patterns.to_vec(),
            None => Vec::new(),
        }
    }

    /// Returns the patterns of all lists.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|list| list.iter()).map(String::as_str)
    }

    /// Returns whether every list has the pattern `*`, so that the set holds every tool.
    pub fn are_all(&self) -> bool {
        self.0.iter().all(|patterns| patterns.iter().any(|pattern| pattern == "*"))
    }

    /// Returns whether the set holds a tool.
    pub fn allow(&self, tool: &ToolName) -> bool {
        self.0.iter().all(|patterns| patterns.iter().any(|pattern| fits(pattern, tool.as_str())))
    }
}

/// Pattern of full tool names that can fit one, such as `github.*`, `*.read_*` or `*`.
///
/// ```
/// use relay_proto::{ToolName, ToolPattern};
///
/// let pattern: ToolPattern = "github.*".parse()?;
/// assert!(pattern.fits(&ToolName::new("github", "issues.list")?));
/// let error = "github_list".parse::<ToolPattern>().unwrap_err();
/// assert!(error.to_string().contains("server.tool"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolPattern(String);

/// Tells why a text is no pattern of tool names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern {pattern:?} can fit no tool: {reason}")]
pub struct InvalidToolPattern {
    /// The text, cut to the length of a tool's name.
    pub pattern: String,
    /// The reason why it can fit no tool, for people.
    pub reason: &'static str,
}

impl ToolPattern {
    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the pattern fits the full name of a tool.
    pub fn fits(&self, tool: &ToolName) -> bool {
        fits(&self.0, tool.as_str())
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ToolPattern {
    type Err = InvalidToolPattern;

    fn from_str(text: &str) -> Result<Self, InvalidToolPattern> {
        let reason = if text.is_empty() {
            "it is empty; * fits every tool"
        } else if text.len() > MAX_TOOL_NAME_BYTES {
            "it is longer than any tool's name"
        } else if text.contains(['?', '[', ']', '{', '}']) {
            "only * is special in a pattern; write a pattern for each name"
        } else if text.contains(char::is_whitespace) || text.contains(char::is_control) {
            "it holds a space or a control character; write each pattern by itself"
        } else if !text.contains(['.', '*']) {
            "a tool is called server.tool; all tools of a server are server.*"
        } else if text.starts_with('.') || (text.ends_with('.') && !text.contains('*')) {
            "a tool is called server.tool, and neither part is empty"
        } else {
            return Ok(Self(text.to_owned()));
        };
        let pattern = text[..text.floor_char_boundary(MAX_TOOL_NAME_BYTES)].to_owned();
        Err(InvalidToolPattern { pattern, reason })
    }
}

/// Returns whether `pattern` fits all of `text`.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::{ToolPattern, fits};

    #[test]
    fn a_pattern_that_can_fit_no_tool_is_refused() {
        for pattern in ["*", "a.*", "a.b", "*.read_*", "a*", "my-fs.read.all", "größe.*"] {
            assert!(pattern.parse::<ToolPattern>().is_ok(), "{pattern}");
        }
        for (pattern, word) in [
            ("", "empty"),
            ("ops", "server.*"),
            ("ops_deploy", "server.*"),
            (".deploy", "neither part"),
            ("ops.", "neither part"),
            ("ops.?", "only *"),
            ("{a,b}.*", "only *"),
            ("[ab].*", "only *"),
            ("a.b c.d", "space"),
            ("a.b\n", "space"),
        ] {
            let error = pattern.parse::<ToolPattern>().unwrap_err().to_string();
            assert!(error.contains(word) && error.contains(&format!("{pattern:?}")), "{error}");
        }
        assert!("x".repeat(10_000).parse::<ToolPattern>().unwrap_err().to_string().len() < 600);
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, expected) in [
            ("github.*", "github.list", true),
            ("github.*", "gitlab.list", false),
            ("*", "a.b", true),
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("*.read_*", "files.read_all", true),
            ("*.read_*", "files.write", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
