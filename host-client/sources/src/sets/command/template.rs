//! Templates that make the arguments of a program from checked arguments of a tool.

use serde_json::Value;

/// Maximum number of arguments of a program.
const MAX_ITEMS: usize = 1000;
/// Maximum size of all arguments of a program, in bytes.
const MAX_BYTES: usize = 128 << 10;

/// Parsed template: the items of a command line, with places for values.
#[derive(Debug)]
pub(super) struct Template {
    items: Vec<Vec<Piece>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value { name: String, may_be_option: bool },
}

/// Error of a template.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("the template's item {item:?} has a brace that stands alone; write {{{{ or }}}} for a brace itself")]
    Brace { item: String },
    #[error("the template names {name:?}, which is no property of the schema")]
    Unknown { name: String },
    #[error("the property {name:?} of the schema is not in the template; it would have no effect")]
    Unused { name: String },
    #[error("the template has a zero byte")]
    Nul,
}

/// Error of arguments that do not fit the template.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error(
        "the argument {name:?} begins with `-`, and would be an option of the program; options cannot be given here"
    )]
    Option { name: String },
    #[error("the argument {name:?} has a zero byte, which no program can be given")]
    Nul { name: String },
    #[error("the argument {name:?} has to be a string, number or boolean, or, in an item of its own, an array of them")]
    Shape { name: String },
    #[error("the arguments come to more than {MAX_ITEMS} items or {MAX_BYTES} bytes; give fewer")]
    TooMany,
}

impl Template {
    /// Parses a template. Each property must be used in it or be `stdin`, and each placeholder must be a property.
    pub(super) fn parse(items: &[String], properties: &[&str], stdin: Option<&str>) -> Result<Self, TemplateError> {
        let items = items.iter().map(|item| parse_item(item)).collect::<Result<Vec<_>, _>>()?;
        let named = items.iter().flatten().filter_map(|piece| match piece {
            Piece::Value { name, .. } => Some(name.as_str()),
            Piece::Text(_) => None,
        });
        let named: Vec<&str> = named.chain(stdin).collect();
        if let Some(name) = named.iter().find(|name| !properties.contains(name)) {
            return Err(TemplateError::Unknown { name: (*name).to_owned() });
        }
        if let Some(name) = properties.iter().find(|name| !named.contains(name)) {
            return Err(TemplateError::Unused { name: (*name).to_owned() });
        }
        Ok(Self { items })
    }

    /// Replaces the placeholders by arguments.
    pub(super) fn expand(&self, arguments: &Value) -> Result<Vec<String>, ArgumentError> {
        let mut argv = Vec::new();
        let mut bytes = 0_usize;
        for item in &self.items {
            let expanded = match item.as_slice() {
                [Piece::Value { name, may_be_option }] => whole(name, *may_be_option, arguments)?,
                pieces => joined(pieces, arguments)?.into_iter().collect(),
            };
            bytes = expanded.iter().map(|item| item.len() + 1).fold(bytes, usize::saturating_add);
            argv.extend(expanded);
            if argv.len() > MAX_ITEMS || bytes > MAX_BYTES {
                return Err(ArgumentError::TooMany);
            }
        }
        Ok(argv)
    }
}

/// Splits an item into texts and placeholders.
fn parse_item(item: &str) -> Result<Vec<Piece>, TemplateError> {
    if item.contains('\0') {
        return Err(TemplateError::Nul);
    }
    let alone = || TemplateError::Brace { item: item.to_owned() };
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = item;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
            text.push_str(&rest[..1]);
            rest = after;
            continue;
        }
        let (name, after) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).ok_or_else(alone)?;
        let (name, may_be_option) = name.strip_prefix('-').map_or((name, false), |name| (name, true));
        if name.is_empty() || name.contains('{') {
            return Err(alone());
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(Piece::Value { name: name.to_owned(), may_be_option });
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// Expands an item that is one placeholder: an array becomes as many items.
fn whole(name: &str, may_be_option: bool, arguments: &Value) -> Result<Vec<String>, ArgumentError> {
    let texts: Vec<String> = match arguments.get(name) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) if values.len() > MAX_ITEMS => return Err(ArgumentError::TooMany),
        Some(Value::Array(values)) => values.iter().map(|value| scalar(name, value)).collect::<Result<_, _>>()?,
        Some(value) => vec![scalar(name, value)?],
    };
    if !may_be_option && texts.iter().any(|text| text.starts_with('-')) {
        return Err(ArgumentError::Option { name: name.to_owned() });
    }
    Ok(texts)
}

/// Expands an item of several pieces. Returns `None` if one of its values is absent or `null`.
fn joined(pieces: &[Piece], arguments: &Value) -> Result<Option<String>, ArgumentError> {
    let mut text = String::new();
    // Name of the value at the beginning of the item, if it may not become an option.
    let mut guarded = None;
    for piece in pieces {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::Value { name, may_be_option } => {
                let value = match arguments.get(name) {
                    None | Some(Value::Null) => return Ok(None),
                    Some(value) => scalar(name, value)?,
                };
                if text.is_empty() && !may_be_option {
                    guarded = Some(name);
                }
                text.push_str(&value);
            }
        }
    }
    match guarded {
        Some(name) if text.starts_with('-') => Err(ArgumentError::Option { name: name.clone() }),
        _ => Ok(Some(text)),
    }
}

/// Returns the text of a string, a number or a boolean.
fn scalar(name: &str, value: &Value) -> Result<String, ArgumentError> {
    match value {
        Value::String(text) if text.contains('\0') => Err(ArgumentError::Nul { name: name.to_owned() }),
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(ArgumentError::Shape { name: name.to_owned() }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(items: &[&str]) -> Template {
        let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
        let names = ["a", "b", "c"].into_iter().filter(|name| {
            items.iter().any(|item| item.contains(&format!("{{{name}}}")) || item.contains(&format!("{{-{name}}}")))
        });
        Template::parse(&items, &names.collect::<Vec<_>>(), None).unwrap()
    }

    #[test]
    fn values_take_their_places() {
        let log = template(&["log", "--max={a}", "--", "{b}", "x{{y}}", "", "{c}:{c}"]);
        let argv = log.expand(&json!({"a": 5, "b": ["x", "y z"], "c": true})).unwrap();
        assert_eq!(argv, ["log", "--max=5", "--", "x", "y z", "x{y}", "", "true:true"]);
        let argv = log.expand(&json!({"a": null})).unwrap();
        assert_eq!(argv, ["log", "--", "x{y}", ""]);
        assert_eq!(template(&["{b}"]).expand(&json!({"b": "$(x); `y` *"})).unwrap(), ["$(x); `y` *"]);
    }

    #[test]
    fn no_value_becomes_an_option_unless_it_may() {
        let option = |name: &str| Err(ArgumentError::Option { name: name.to_owned() });
        assert_eq!(template(&["{a}"]).expand(&json!({"a": "--output=/etc/x"})), option("a"));
        assert_eq!(template(&["{a}"]).expand(&json!({"a": ["x", "-y"]})), option("a"));
        assert_eq!(template(&["{a}"]).expand(&json!({"a": -1})), option("a"));
        assert_eq!(template(&["{a}{b}"]).expand(&json!({"a": "", "b": "-x"})), option("b"));
        assert_eq!(template(&["{a}{b}"]).expand(&json!({"a": "-", "b": "x"})), option("a"));
        assert_eq!(template(&["{-a}"]).expand(&json!({"a": ["-x"]})).unwrap(), ["-x"]);
        assert_eq!(template(&["-n{a}"]).expand(&json!({"a": "-1"})).unwrap(), ["-n-1"]);
    }

    #[test]
    fn what_no_program_can_be_given_is_refused() {
        let a = template(&["{a}"]);
        assert_eq!(a.expand(&json!({"a": "x\0y"})), Err(ArgumentError::Nul { name: "a".into() }));
        for shape in [json!({}), json!([[1]]), json!([null])] {
            assert_eq!(a.expand(&json!({"a": shape})), Err(ArgumentError::Shape { name: "a".into() }));
        }
        assert_eq!(template(&["x{a}"]).expand(&json!({"a": [1]})), Err(ArgumentError::Shape { name: "a".into() }));
        assert_eq!(a.expand(&json!({"a": vec!["x"; 1001]})), Err(ArgumentError::TooMany));
        assert_eq!(a.expand(&json!({"a": "x".repeat(MAX_BYTES)})), Err(ArgumentError::TooMany));
    }

    #[test]
    fn templates_and_schemas_have_to_agree() {
        let parse =
            |item: &str, properties: &[&str], stdin| Template::parse(&[item.to_owned()], properties, stdin).map(drop);
        assert_eq!(parse("{a}", &[], None), Err(TemplateError::Unknown { name: "a".into() }));
        assert_eq!(parse("x", &["a"], None), Err(TemplateError::Unused { name: "a".into() }));
        assert_eq!(parse("x", &["a"], Some("a")), Ok(()));
        assert_eq!(parse("x", &[], Some("a")), Err(TemplateError::Unknown { name: "a".into() }));
        assert_eq!(parse("x\0", &[], None), Err(TemplateError::Nul));
        for item in ["{", "}", "a{b", "{}", "{-}", "{a{b}}"] {
            assert_eq!(parse(item, &["a", "b"], None), Err(TemplateError::Brace { item: item.into() }), "{item}");
        }
    }
}
