//! Reads an OpenAPI document: JSON or YAML, its version, its servers and its references.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::Url;

use super::error::{Flaw, Unusable};

/// Maximum number of references that are followed in a row.
const MAX_HOPS: usize = 16;
/// Maximum number of servers that are read of one list, and of variables and values of one server.
const MAX_SERVERS: usize = 50;
/// Maximum number of URLs that the variables of one server make.
const MAX_ADDRESSES: usize = 100;

/// Parsed document of a supported version.
pub(super) struct Document {
    root: Value,
    /// `true`: its schemas are written in the dialect of OpenAPI 3.0, not in JSON Schema.
    pub(super) is_3_0: bool,
    /// Values for the variables of servers, by name.
    variables: BTreeMap<String, String>,
}

impl Document {
    /// Parses JSON if the text begins with `{`, else YAML.
    ///
    /// # Errors
    /// [`Unusable::Syntax`] or [`Unusable::Version`].
    pub(super) fn parse(text: &str) -> Result<Self, Unusable> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let root: Value = if text.starts_with('{') {
            serde_json::from_str(text).map_err(|error| Unusable::Syntax(error.to_string()))?
        } else {
            // The parser bounds the depth and the expansion of aliases.
            serde_saphyr::from_str(text).map_err(|error| Unusable::Syntax(one_line(&error.to_string())))?
        };
        let version = root.get("openapi").and_then(Value::as_str).unwrap_or_default();
        let is_3_0 = match version.split('.').take(2).collect::<Vec<_>>()[..] {
            ["3", "0"] => true,
            ["3", "1"] => false,
            _ => return Err(Unusable::Version(version.chars().take(20).collect())),
        };
        Ok(Self { root, is_3_0, variables: BTreeMap::new() })
    }

    /// Sets the values of variables of servers.
    ///
    /// # Errors
    /// [`Unusable::Variable`] if no server of the document, of a path or of an operation takes one of them.
    pub(super) fn set_variables(&mut self, variables: &BTreeMap<String, String>) -> Result<(), Unusable> {
        fn members(value: &Value) -> Option<Vec<&Value>> {
            value.as_object().map(|members| members.values().collect())
        }
        let items = self.root.get("paths").and_then(members).unwrap_or_default();
        let operations = items.iter().filter_map(|item| members(item)).flatten();
        let holders = std::iter::once(&self.root).chain(items.iter().copied()).chain(operations);
        let servers: Vec<&Value> =
            holders.filter_map(|holder| holder.get("servers").and_then(Value::as_array)).flatten().collect();
        let is_taken = |name: &str, value: &str| servers.iter().any(|server| takes_variable(server, name, value));
        match variables.iter().find(|(name, value)| !is_taken(name, value)) {
            Some((name, value)) => Err(Unusable::Variable { name: name.clone(), value: value.clone() }),
            None => {
                self.variables.clone_from(variables);
                Ok(())
            }
        }
    }

    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// Follows the references of a value.
    ///
    /// # Errors
    /// [`Flaw::Reference`] if a target is missing, or after 16 references in a row.
    pub(super) fn resolve<'a>(&'a self, mut value: &'a Value) -> Result<&'a Value, Flaw> {
        for _ in 0..MAX_HOPS {
            match value.get("$ref").and_then(Value::as_str) {
                Some(reference) => value = self.target(reference)?,
                None => return Ok(value),
            }
        }
        Err(Flaw::Reference("more references in a row than are followed".into()))
    }

    /// Returns the target of a reference within this document. Other documents are never fetched.
    ///
    /// # Errors
    /// [`Flaw::Reference`] if there is no such target.
    pub(super) fn target(&self, reference: &str) -> Result<&Value, Flaw> {
        let unknown = || Flaw::Reference(reference.chars().take(200).collect());
        let fragment = reference.strip_prefix('#').ok_or_else(unknown)?;
        let pointer = percent_decode_str(fragment).decode_utf8().map_err(|_| unknown())?;
        self.root.pointer(&pointer).ok_or_else(unknown)
    }

    /// Returns the URLs that the `servers` of the document, a path or an operation allow, the default one first.
    /// `base`: the URL of the document, to which relative ones refer.
    pub(super) fn servers(&self, holder: &Value, base: Option<&Url>) -> Vec<Url> {
        let servers = holder.get("servers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let spellings = servers.iter().take(MAX_SERVERS).flat_map(|server| spellings(server, &self.variables));
        let mut urls: Vec<Url> = spellings.filter_map(|text| server_url(&text, base)).collect();
        if servers.is_empty() {
            urls.extend(server_url("/", base));
        }
        urls
    }
}

/// Reads the URL of a server, and removes the slash at its end. Returns `None` if it is malformed, is not http or
/// https, or has a user, a query or a fragment.
pub(super) fn server_url(text: &str, base: Option<&Url>) -> Option<Url> {
    let mut url = match base {
        Some(base) => base.join(text).ok()?,
        None => Url::parse(text).ok()?,
    };
    let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if !is_plain || url.fragment().is_some() || !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Some(url)
}

/// Returns `true` if a server has a variable of this name that takes this value.
fn takes_variable(server: &Value, name: &str, value: &str) -> bool {
    let variable = server.get("variables").and_then(|variables| variables.get(name));
    variable.is_some_and(|variable| match variable.get("enum").and_then(Value::as_array) {
        Some(values) => values.iter().any(|listed| listed == value),
        None => true,
    })
}

/// Returns the URLs of a server with all values of its variables, those with the default values first. A variable with a
/// value in `given` has that value alone.
fn spellings(server: &Value, given: &BTreeMap<String, String>) -> Vec<String> {
    let template = server.get("url").and_then(Value::as_str).unwrap_or_default();
    let mut spellings = vec![template.to_owned()];
    let variables = server.get("variables").and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten().take(MAX_SERVERS) {
        let place = format!("{{{name}}}");
        let others = variable.get("enum").and_then(Value::as_array).into_iter().flatten();
        let values: Vec<&str> = match given.get(name) {
            Some(value) if takes_variable(server, name, value) => vec![value],
            _ => {
                variable.get("default").into_iter().chain(others).filter_map(Value::as_str).take(MAX_SERVERS).collect()
            }
        };
        let with = |value: &&str| spellings.iter().map(|text| text.replace(&place, value)).collect::<Vec<_>>();
        // Long values are skipped: up to 100 copies of them are made.
        spellings = values.iter().filter(|value| value.len() < 256).flat_map(with).take(MAX_ADDRESSES).collect();
    }
    spellings
}

/// Returns the first line of a text, at most 300 characters.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(300).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_and_yaml_of_the_versions_that_are_known_are_read() {
        assert!(Document::parse(r#"{"openapi": "3.0.3"}"#).unwrap().is_3_0);
        assert!(!Document::parse("openapi: 3.1.0\npaths: {}\n").unwrap().is_3_0);
        let numbers = Document::parse("openapi: 3.0.0\nresponses:\n  200: {description: ok}\n").unwrap();
        assert_eq!(numbers.root().pointer("/responses/200/description"), Some(&json!("ok")));
        for other in ["swagger: '2.0'", "openapi: 4.0.0", "{}", "[]", "openapi: 3", "hello"] {
            assert!(matches!(Document::parse(other), Err(Unusable::Version(_))), "{other}");
        }
        for broken in ["{\"openapi\": ", "a: [", "\u{0}"] {
            assert!(matches!(Document::parse(broken), Err(Unusable::Syntax(_))), "{broken}");
        }
    }

    #[test]
    fn what_multiplies_or_nests_is_refused() {
        let mut bomb = String::from("openapi: 3.0.0\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..10 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(matches!(Document::parse(&bomb), Err(Unusable::Syntax(_))));
        // So many anchors that so many aliases are nothing unusual.
        let anchors: Vec<String> = (0..1_000).map(|number| format!("&b{number} x")).collect();
        let (anchors, repeated) = (anchors.join(", "), vec!["*a"; 5_000].join(", "));
        let text = "x".repeat(1 << 20);
        let copies = format!("openapi: 3.0.0\na: &a {text}\nb: [{anchors}]\nc: [{repeated}]\n");
        assert!(matches!(Document::parse(&copies), Err(Unusable::Syntax(_))));
        for deep in [format!("{{\"openapi\": {}", "[".repeat(100_000)), format!("a: {}", "[".repeat(100_000))] {
            assert!(matches!(Document::parse(&deep), Err(Unusable::Syntax(_))));
        }
    }

    #[test]
    fn references_lead_into_the_document_and_nowhere_else() {
        let root = json!({"openapi": "3.1.0", "a/b": {"$ref": "#/c%20d"}, "c d": 7, "x": {"$ref": "#/x"}});
        let document = Document::parse(&root.to_string()).unwrap();
        assert_eq!(document.resolve(&json!({"$ref": "#/a~1b"})).unwrap(), 7);
        for wrong in ["#/nowhere", "other.yaml#/a", "https://example.com/", "file:///etc/passwd", "", "#/x"] {
            assert!(matches!(document.resolve(&json!({"$ref": wrong})), Err(Flaw::Reference(_))), "{wrong}");
        }
    }

    #[test]
    fn servers_are_spelled_out() {
        let document = Document::parse(r#"{"openapi": "3.1.0"}"#).unwrap();
        let servers = |servers: Value, base: Option<&str>| -> Vec<String> {
            let base = base.map(|base| Url::parse(base).unwrap());
            let holder = json!({"servers": servers});
            document.servers(&holder, base.as_ref()).iter().map(Url::to_string).collect()
        };
        let variables = json!({"region": {"default": "eu", "enum": ["us", "eu"]}});
        let found = servers(json!([{"url": "https://{region}.example.com/v1/", "variables": variables}]), None);
        assert_eq!(found[..2], ["https://eu.example.com/v1", "https://us.example.com/v1"]);
        assert_eq!(servers(json!([{"url": "/v2"}]), Some("http://a.example/docs/x.json")), ["http://a.example/v2"]);
        assert_eq!(servers(json!([]), Some("http://a.example/docs/x.json")), ["http://a.example/"]);
        for none in ["/v2", "ftp://a.example", "https://user:x@a.example", "https://a.example/?q", "javascript:x"] {
            assert!(servers(json!([{"url": none}]), None).is_empty(), "{none}");
        }
    }
}
