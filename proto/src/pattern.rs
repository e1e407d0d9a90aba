//! Patterns of tool names, as tokens and executions carry them.

use std::sync::Arc;

use crate::id::ToolName;

/// Which tools there are: all, or those whose full name a pattern of each list fits. `*` stands for any characters.
#[derive(Debug, Clone, Default)]
pub struct ToolPatterns(Vec<Arc<[String]>>);

impl ToolPatterns {
    /// Patterns; nothing is all tools.
    pub fn new(patterns: Option<Vec<String>>) -> Self {
        Self(patterns.map(Into::into).into_iter().collect())
    }

    /// Those that both allow.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().cloned());
        self
    }

    /// The patterns, as a peer is told those of a token; nothing where they fit every tool. Of several lists the first.
    pub fn to_wire(&self) -> Vec<String> {
        match self.0.first() {
            // No tool at all is not the same as no patterns: the empty pattern fits no name.
            Some(none) if none.is_empty() => vec![String::new()],
            Some(patterns) => patterns.to_vec(),
            None => Vec::new(),
        }
    }

    /// Whether they fit every tool, whatever its name.
    pub fn are_all(&self) -> bool {
        self.0.iter().all(|patterns| patterns.iter().any(|pattern| pattern == "*"))
    }

    /// Whether a tool is one of them.
    pub fn allow(&self, tool: &ToolName) -> bool {
        self.0.iter().all(|patterns| patterns.iter().any(|pattern| fits(pattern, tool.as_str())))
    }
}

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
