//! Patterns of tool names, as tokens and executions carry them.

use std::sync::Arc;

use crate::id::ToolName;

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

    /// Returns whether every list has the pattern `*`, so that the set holds every tool.
    pub fn are_all(&self) -> bool {
        self.0.iter().all(|patterns| patterns.iter().any(|pattern| pattern == "*"))
    }

    /// Returns whether the set holds a tool.
    pub fn allow(&self, tool: &ToolName) -> bool {
        self.0.iter().all(|patterns| patterns.iter().any(|pattern| fits(pattern, tool.as_str())))
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
mod tests {
    use super::fits;

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
