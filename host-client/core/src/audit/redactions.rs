//! Redaction by JSONPath, with the feature `redact`.

use std::borrow::Cow;

use relay_proto::{ToolName, ToolPatterns};
use serde_json::Value;
use serde_json_path::{JsonPath, NormalizedPath};

use super::AuditError;
use super::redact::{REDACTED, Redaction};

/// The parsed redactions of a log: patterns of tools, and what is redacted in their arguments.
pub(super) struct Redactions(Vec<(ToolPatterns, JsonPath)>);

impl Redactions {
    /// Parses the redactions of a configuration.
    ///
    /// # Errors
    /// [`AuditError::Redaction`]: a redaction names no tools, or its JSONPath is invalid.
    pub(super) fn parse(redactions: &[Redaction]) -> Result<Self, AuditError> {
        let parse = |redaction: &Redaction| {
            let refuse = |reason: String| AuditError::Redaction { path: redaction.path.clone(), reason };
            if redaction.tools.is_empty() {
                return Err(refuse("it names no tools; * is all of them".into()));
            }
            let path = JsonPath::parse(&redaction.path).map_err(|error| refuse(error.to_string()))?;
            let tools = ToolPatterns::checked(&redaction.tools).map_err(|error| refuse(error.to_string()))?;
            Ok((tools, path))
        };
        redactions.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Returns `true` if there are no redactions.
    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if a redaction applies to calls of `tool`. All redactions apply to an invalid name, for it may be
    /// a misspelt one of any tool.
    pub(super) fn apply_to(&self, tool: &str) -> bool {
        !self.paths_for(tool).is_empty()
    }

    /// Returns the arguments of a call of `tool` with the redacted parts replaced by [`REDACTED`].
    pub(super) fn redact<'a>(&self, tool: &str, arguments: &'a Value) -> Cow<'a, Value> {
        redact(arguments, &self.paths_for(tool))
    }

    /// Returns the JSONPaths of the redactions that apply to `tool`.
    fn paths_for(&self, tool: &str) -> Vec<&JsonPath> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let name = ToolName::try_from(tool.to_owned()).ok();
        let applies = |patterns: &ToolPatterns| name.as_ref().is_none_or(|name| patterns.allow(name));
        self.0.iter().filter(|(patterns, _)| applies(patterns)).map(|(_, path)| path).collect()
    }
}

/// Returns the value with everything that a path selects replaced by [`REDACTED`]. Each path is evaluated on the
/// unchanged value.
fn redact<'a>(value: &'a Value, paths: &[&JsonPath]) -> Cow<'a, Value> {
    let found: Vec<NormalizedPath<'a>> =
        paths.iter().flat_map(|path| path.query_located(value).all()).map(|node| node.to_location()).collect();
    if found.is_empty() {
        return Cow::Borrowed(value);
    }
    let mut redacted = value.clone();
    for location in &found {
        // `None`: another path redacted a value that contained this one.
        if let Some(selected) = value_at(&mut redacted, location) {
            *selected = REDACTED.into();
        }
    }
    Cow::Owned(redacted)
}

/// Returns the part of a value at `location`; `None`: there is no such part.
fn value_at<'a>(value: &'a mut Value, location: &NormalizedPath<'_>) -> Option<&'a mut Value> {
    location.iter().try_fold(value, |value, element| match (element.as_name(), element.as_index()) {
        (Some(name), _) => value.get_mut(name),
        (_, Some(index)) => value.get_mut(index),
        (None, None) => None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(path: &str, value: &Value) -> Value {
        redact(value, &[&JsonPath::parse(path).unwrap()]).into_owned()
    }

    #[test]
    fn all_that_a_path_selects_is_replaced_and_nothing_else() {
        let value = json!({"password": "p", "list": [{"token": 1}, {"token": {"a": 2}}], "a/b~c": {"": "x"}});
        for (path, expected) in [
            ("$.password", json!({"password": "[redacted]", "list": value["list"], "a/b~c": {"": "x"}})),
            ("$.list", json!({"password": "p", "list": "[redacted]", "a/b~c": {"": "x"}})),
            (
                "$..token",
                json!({"password": "p", "list": [{"token": REDACTED}, {"token": REDACTED}], "a/b~c": {"": "x"}}),
            ),
            ("$['a/b~c']['']", json!({"password": "p", "list": value["list"], "a/b~c": {"": "[redacted]"}})),
            (
                "$.list[?@.token == 1]",
                json!({"password": "p", "list": ["[redacted]", {"token": {"a": 2}}], "a/b~c": {"": "x"}}),
            ),
            ("$", json!("[redacted]")),
            ("$.none", value.clone()),
        ] {
            assert_eq!(redacted(path, &value), expected, "{path}");
        }
        let paths = [JsonPath::parse("$.list").unwrap(), JsonPath::parse("$.list[0].token").unwrap()];
        let both = redact(&value, &[&paths[0], &paths[1]]);
        assert_eq!(both["list"], "[redacted]", "one match may lie in another");
    }

    #[test]
    fn nothing_is_copied_where_nothing_is_selected() {
        let value = json!({"a": 1});
        assert!(matches!(redact(&value, &[&JsonPath::parse("$.b").unwrap()]), Cow::Borrowed(_)));
    }

    #[test]
    fn a_redaction_fits_the_tools_that_it_names_and_names_that_are_none() {
        let redaction = |tools: &[&str], path: &str| Redaction {
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            path: path.into(),
        };
        let redactions = Redactions::parse(&[redaction(&["bank.*", "mail.send"], "$.x")]).unwrap();
        for (tool, fits) in
            [("bank.pay", true), ("mail.send", true), ("mail.read", false), ("bankpay", true), ("", true)]
        {
            assert_eq!(redactions.apply_to(tool), fits, "{tool:?}");
        }
        for wrong in [redaction(&[], "$.x"), redaction(&["*"], "x"), redaction(&["*"], "$["), redaction(&["*"], "")] {
            let error = Redactions::parse(std::slice::from_ref(&wrong)).err().unwrap().to_string();
            assert!(error.contains(&format!("{:?}", wrong.path)), "{error}");
        }
    }
}
