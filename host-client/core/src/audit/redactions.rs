//! Redactions by JSONPath.

use std::borrow::Cow;

use relay_proto::{ToolName, ToolPatterns};
use serde_json::Value;
use serde_json_path::{JsonPath, NormalizedPath};

use super::AuditError;
use super::redact::{REDACTED, Redaction};

/// The redactions of a log, parsed.
pub(super) struct Redactions(Vec<(ToolPatterns, JsonPath)>);

impl Redactions {
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

    /// Tells whether something is redacted in the arguments of a tool. A name that is no tool's may be any tool's: then
    /// everything is.
    pub(super) fn apply_to(&self, tool: &str) -> bool {
        !self.of(tool).is_empty()
    }

    /// Returns the arguments of a tool without what is redacted in them.
    pub(super) fn redact<'a>(&self, tool: &str, arguments: &'a Value) -> Cow<'a, Value> {
        redact(arguments, &self.of(tool))
    }

    /// Returns the paths that hold for a tool.
    fn of(&self, tool: &str) -> Vec<&JsonPath> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let name = ToolName::try_from(tool.to_owned()).ok();
        let fits = |patterns: &ToolPatterns| name.as_ref().is_none_or(|name| patterns.allow(name));
        self.0.iter().filter(|(patterns, _)| fits(patterns)).map(|(_, path)| path).collect()
    }
}

/// Returns the value without what the paths select in it. All of them look at the value as it came.
fn redact<'a>(value: &'a Value, paths: &[&JsonPath]) -> Cow<'a, Value> {
    let found: Vec<NormalizedPath<'a>> =
        paths.iter().flat_map(|path| path.query_located(value).all()).map(|node| node.to_location()).collect();
    if found.is_empty() {
        return Cow::Borrowed(value);
    }
    let mut redacted = value.clone();
    for location in &found {
        // Nothing is there any more where something around it was redacted before.
        if let Some(place) = at(&mut redacted, location) {
            *place = REDACTED.into();
        }
    }
    Cow::Owned(redacted)
}

fn at<'a>(value: &'a mut Value, location: &NormalizedPath<'_>) -> Option<&'a mut Value> {
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
            assert_eq!(!redactions.of(tool).is_empty(), fits, "{tool:?}");
        }
        for wrong in [redaction(&[], "$.x"), redaction(&["*"], "x"), redaction(&["*"], "$["), redaction(&["*"], "")] {
            let error = Redactions::parse(std::slice::from_ref(&wrong)).err().unwrap().to_string();
            assert!(error.contains(&format!("{:?}", wrong.path)), "{error}");
        }
    }
}
