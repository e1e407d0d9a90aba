//! The choice of the operations that become tools.

use serde_json::Value;

/// Tags and patterns of operations. An operation that fits one of them is chosen; without any, all are.
#[derive(Debug, Clone, Default)]
pub(super) struct Choice {
    pub(super) tags: Vec<String>,
    pub(super) patterns: Vec<String>,
}

impl Choice {
    /// Returns the tags and patterns that fit an operation; `None` if the operation is chosen because there are none.
    /// `name`: the name of its tool; `label`: its method and path.
    pub(super) fn fitting(&self, name: &str, label: &str, operation: &Value) -> Option<Vec<&String>> {
        if self.tags.is_empty() && self.patterns.is_empty() {
            return None;
        }
        let tags = operation.get("tags").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let by_tag = self.tags.iter().filter(|tag| tags.iter().any(|its| its == tag.as_str()));
        let by_name = self.patterns.iter().filter(|pattern| fits(pattern, name) || fits(pattern, label));
        Some(by_tag.chain(by_name).collect())
    }

    /// Returns all tags and patterns.
    pub(super) fn all(&self) -> impl Iterator<Item = &String> {
        self.tags.iter().chain(&self.patterns)
    }
}

/// Returns `true` if a text fits a pattern, in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in [
            ("get", "get"),
            ("get*", "getOrder"),
            ("*", ""),
            ("GET /a/*", "GET /a/b/c"),
            ("*a*b*", "xaxbx"),
            ("a*a", "aa"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("get", "getOrder"), ("get*", "get".trim_end_matches('t')), ("a*a", "a"), ("", "x")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
