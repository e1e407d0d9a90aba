//! Builds the request of a call. Every argument is encoded, so that it can only be a value.

use std::collections::BTreeMap;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Map, Value};
use url::Url;

use super::body::{Body, FORM};
use super::credential::Credentials;
use super::error::Unfit;
use super::multipart;
use super::operation::{Operation, Piece, join};
use super::parameters::{BODY, Parameter};
use super::place::Place;
use super::style::Style;
use super::text::percent_encoded;
use crate::net::Request;
use host_client_core::tool::ToolError;

/// Maximum nesting of an object in a query or a form.
const MAX_DEPTH: usize = 8;
/// Value of the header `accept`.
const ACCEPTED: &str = "application/json, */*;q=0.5";

/// Builds the request of a call from its arguments.
///
/// # Errors
/// `TOOL_FAILED` with an [`Unfit`].
pub(super) fn build(
    operation: &Operation,
    server: &Url,
    credentials: &Credentials,
    mut arguments: Value,
) -> Result<Request, ToolError> {
    let path = path(operation, &arguments)?;
    let mut url = join(server, &path).ok_or_else(|| Unfit::Path(operation.template.clone()))?;
    let mut query = String::new();
    let mut cookies = Vec::new();
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
    for parameter in &operation.parameters {
        let value = match arguments.get(&parameter.argument) {
            None | Some(Value::Null) => continue,
            Some(value) => value,
        };
        match &parameter.place {
            Place::Path => {}
            Place::Query => {
                let before = query.len();
                write(&mut query, parameter, value)?;
                if credentials.are_named_in(&query[before..]) {
                    return Err(Unfit::Credential(parameter.argument.clone()).into());
                }
            }
            Place::Header(name) => {
                let text = simple(parameter, value, str::to_owned)?;
                let value = HeaderValue::try_from(text).map_err(|_| Unfit::Header(parameter.argument.clone()))?;
                headers.insert(name, value);
            }
            Place::Cookie => {
                cookies.push(format!("{}={}", parameter.name, simple(parameter, value, percent_encoded)?));
            }
        }
    }
    credentials.apply(&operation.schemes, &mut headers, &mut query, &cookies);
    if !query.is_empty() {
        url.set_query(Some(&query));
    }
    let body = match (&operation.body, arguments.get_mut(BODY).map(Value::take)) {
        (Some(Body::Json(media_type)), Some(body)) => {
            headers.insert(CONTENT_TYPE, media_type.clone());
            Some(serde_json::to_vec(&body)?.into())
        }
        (Some(Body::Form(styles)), Some(Value::Object(fields))) => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(FORM));
            Some(form(fields, styles)?.into())
        }
        (Some(Body::Multipart(types)), Some(Value::Object(fields))) => {
            let (media_type, bytes) = multipart::form(fields, types)?;
            headers.insert(CONTENT_TYPE, media_type);
            Some(bytes.into())
        }
        (Some(Body::Form(_) | Body::Multipart(_)), Some(_)) => return Err(Unfit::Form.into()),
        (Some(Body::Raw(media_type)), Some(body)) => {
            headers.insert(CONTENT_TYPE, media_type.clone());
            Some(multipart::raw(body)?.into())
        }
        (_, None) | (None, _) => None,
    };
    Ok(Request { method: operation.method.clone(), url, headers, body })
}

/// Fills the path template with arguments.
fn path(operation: &Operation, arguments: &Value) -> Result<String, Unfit> {
    let mut path = String::new();
    for piece in &operation.path {
        match piece {
            Piece::Literal(text) => path.push_str(text),
            Piece::Parameter(index) => {
                let parameter = &operation.parameters[*index];
                let argument = || parameter.argument.clone();
                let value = arguments.get(&parameter.argument).ok_or_else(|| Unfit::Missing(argument()))?;
                // A slash is sent encoded. Some servers and proxies treat it as a slash: no part is a dot segment.
                let is_whole = |text: &str| {
                    text.split('/').all(|part| !matches!(part, "" | "." | ".."))
                        && !text.contains(|character: char| character == '\\' || character.is_control())
                };
                let mut fits = true;
                let text = segment(parameter, value, |text| {
                    fits &= is_whole(text);
                    percent_encoded(text)
                })?;
                if !fits || text.is_empty() {
                    return Err(Unfit::Path(argument()));
                }
                path.push_str(&text);
            }
        }
    }
    Ok(path)
}

/// Serializes a value for a path.
fn segment(parameter: &Parameter, value: &Value, mut encode: impl FnMut(&str) -> String) -> Result<String, Unfit> {
    let (explode, mark) = match parameter.style {
        Style::Label { explode } => (explode, "."),
        Style::Matrix { explode } => (explode, ";"),
        _ => return simple(parameter, value, encode),
    };
    let nested = || Unfit::Nested(parameter.argument.clone());
    let mut scalar = |value: &Value| scalar(value).map(|text| encode(&text)).ok_or_else(nested);
    let parts: Vec<String> = match value {
        Value::Array(items) => items.iter().map(&mut scalar).collect::<Result<_, _>>()?,
        Value::Object(members) => {
            let mut parts = Vec::new();
            for (name, value) in members {
                let (name, value) = (scalar(&Value::String(name.clone()))?, scalar(value)?);
                if explode { parts.push(format!("{name}={value}")) } else { parts.extend([name, value]) }
            }
            parts
        }
        value => vec![scalar(value)?],
    };
    if parts.is_empty() {
        return Err(Unfit::Path(parameter.argument.clone()));
    }
    let name = match parameter.style {
        // The members of an object have names of their own.
        Style::Matrix { .. } if !(explode && value.is_object()) => format!("{}=", percent_encoded(&parameter.name)),
        _ => String::new(),
    };
    let separator = if explode { format!("{mark}{name}") } else { ",".to_owned() };
    Ok(format!("{mark}{name}{}", parts.join(&separator)))
}

/// Serializes a value for a path, a header or a cookie, with commas between its parts.
fn simple(parameter: &Parameter, value: &Value, mut encode: impl FnMut(&str) -> String) -> Result<String, Unfit> {
    let mut scalar = |value: &Value| scalar(value).map(|text| encode(&text)).ok_or(());
    let written = match (parameter.style, value) {
        (Style::Json, value) => Ok(encode(&value.to_string())),
        (_, Value::Array(items)) => {
            items.iter().map(scalar).collect::<Result<Vec<_>, _>>().map(|parts| parts.join(","))
        }
        (style, Value::Object(members)) => {
            let between = if style == (Style::Simple { explode: true }) { "=" } else { "," };
            let part = |(name, value): (&String, &Value)| {
                let name = scalar(&Value::String(name.clone()))?;
                Ok(format!("{name}{between}{}", scalar(value)?))
            };
            members.iter().map(part).collect::<Result<Vec<_>, ()>>().map(|parts| parts.join(","))
        }
        (_, value) => scalar(value),
    };
    written.map_err(|()| Unfit::Nested(parameter.argument.clone()))
}

/// Appends a parameter to a query.
fn write(query: &mut String, parameter: &Parameter, value: &Value) -> Result<(), Unfit> {
    pairs(query, &parameter.name, value, parameter.style).map_err(|()| Unfit::Nested(parameter.argument.clone()))
}

/// Serializes an object as a form. Properties without a style of their own are written as JSON unless they are scalars
/// or arrays of scalars.
fn form(fields: Map<String, Value>, styles: &BTreeMap<String, Style>) -> Result<String, Unfit> {
    let mut text = String::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let is_plain = match value {
            Value::Array(items) => items.iter().all(|item| scalar(item).is_some()),
            value => scalar(value).is_some(),
        };
        let otherwise = if is_plain { Style::Form { explode: true } } else { Style::Json };
        let style = styles.get(name).copied().unwrap_or(otherwise);
        pairs(&mut text, name, value, style).map_err(|()| Unfit::Nested(name.clone()))?;
    }
    Ok(text)
}

/// Appends `name=value` in this style to a query or a form. Fails on a value that nests too deeply for the style.
fn pairs(out: &mut String, name: &str, value: &Value, style: Style) -> Result<(), ()> {
    match (style, value) {
        (Style::Json, value) => pair(out, &percent_encoded(name), &percent_encoded(&value.to_string())),
        (Style::DeepObject, value) => deep(out, &percent_encoded(name), value, 0)?,
        (Style::Form { explode: true }, Value::Array(items)) => {
            for item in items {
                pair(out, &percent_encoded(name), &percent_encoded(&scalar(item).ok_or(())?));
            }
        }
        (Style::Form { explode: true }, Value::Object(members)) => {
            for (name, member) in members {
                pair(out, &percent_encoded(name), &percent_encoded(&scalar(member).ok_or(())?));
            }
        }
        (style, Value::Array(items)) => {
            let parts: Option<Vec<_>> =
                items.iter().map(|item| scalar(item).map(|text| percent_encoded(&text))).collect();
            pair(out, &percent_encoded(name), &parts.ok_or(())?.join(delimiter(style)));
        }
        (style, Value::Object(members)) => {
            let part =
                |(name, member): (&String, &Value)| Some([percent_encoded(name), percent_encoded(&scalar(member)?)]);
            let parts: Option<Vec<_>> = members.iter().map(part).collect();
            pair(out, &percent_encoded(name), &parts.ok_or(())?.concat().join(delimiter(style)));
        }
        (_, value) => pair(out, &percent_encoded(name), &percent_encoded(&scalar(value).ok_or(())?)),
    }
    Ok(())
}

/// Appends `name[key]=value` for every scalar in a value. Fails on a value that nests too deeply.
fn deep(out: &mut String, name: &str, value: &Value, depth: usize) -> Result<(), ()> {
    match value {
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => Err(()),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| deep(out, &format!("{name}[{index}]"), item, depth + 1)),
        Value::Object(members) => members
            .iter()
            .try_for_each(|(key, member)| deep(out, &format!("{name}[{}]", percent_encoded(key)), member, depth + 1)),
        value => {
            pair(out, name, &percent_encoded(&scalar(value).ok_or(())?));
            Ok(())
        }
    }
}

/// Returns the separator of a style, percent-encoded.
fn delimiter(style: Style) -> &'static str {
    match style {
        Style::SpaceDelimited => "%20",
        Style::PipeDelimited => "%7C",
        Style::Simple { .. }
        | Style::Label { .. }
        | Style::Matrix { .. }
        | Style::Form { .. }
        | Style::DeepObject
        | Style::Json => ",",
    }
}

/// Appends `name=value`, both already encoded.
fn pair(out: &mut String, name: &str, value: &str) {
    if !out.is_empty() {
        out.push('&');
    }
    out.extend([name, "=", value]);
}

/// Returns the text of a scalar; `None` for an array or an object.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        Value::String(value) => Some(value.clone()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_style_of_a_query() {
        let (list, object) = (json!(["a b", 2, true]), json!({"x": "1&y=2", "z": null}));
        for (style, value, expected) in [
            (Style::Form { explode: true }, json!("ä/?#&=+%"), "n=%C3%A4%2F%3F%23%26%3D%2B%25"),
            (Style::Form { explode: true }, list.clone(), "n=a%20b&n=2&n=true"),
            (Style::Form { explode: false }, list.clone(), "n=a%20b,2,true"),
            (Style::Form { explode: true }, object.clone(), "x=1%26y%3D2&z="),
            (Style::Form { explode: false }, object.clone(), "n=x,1%26y%3D2,z,"),
            (Style::SpaceDelimited, list.clone(), "n=a%20b%202%20true"),
            (Style::PipeDelimited, list.clone(), "n=a%20b%7C2%7Ctrue"),
            (Style::DeepObject, object, "n[x]=1%26y%3D2&n[z]="),
            (Style::DeepObject, json!({"a": {"b": [1]}}), "n[a][b][0]=1"),
            (Style::Json, json!({"a": [1]}), "n=%7B%22a%22%3A%5B1%5D%7D"),
        ] {
            let mut out = String::new();
            assert_eq!(pairs(&mut out, "n", &value, style), Ok(()), "{style:?} {value}");
            assert_eq!(out, expected, "{style:?} {value}");
        }
        for style in [Style::Form { explode: true }, Style::Form { explode: false }, Style::PipeDelimited] {
            assert_eq!(pairs(&mut String::new(), "n", &json!([[1]]), style), Err(()));
        }
        let mut nested = json!(1);
        for _ in 0..=MAX_DEPTH {
            nested = json!({"a": nested});
        }
        assert_eq!(pairs(&mut String::new(), "n", &nested, Style::DeepObject), Err(()));
    }

    #[test]
    fn every_style_of_a_path() {
        let (list, object) = (json!(["a b", 2]), json!({"x": 1, "y": "/"}));
        for (style, value, expected) in [
            (Style::Label { explode: false }, json!("a/b"), ".a%2Fb"),
            (Style::Label { explode: false }, list.clone(), ".a%20b,2"),
            (Style::Label { explode: true }, list.clone(), ".a%20b.2"),
            (Style::Label { explode: true }, object.clone(), ".x=1.y=%2F"),
            (Style::Matrix { explode: false }, json!(7), ";n=7"),
            (Style::Matrix { explode: false }, list.clone(), ";n=a%20b,2"),
            (Style::Matrix { explode: true }, list.clone(), ";n=a%20b;n=2"),
            (Style::Matrix { explode: false }, object.clone(), ";n=x,1,y,%2F"),
            (Style::Matrix { explode: true }, object, ";x=1;y=%2F"),
            (Style::Simple { explode: false }, list, "a%20b,2"),
        ] {
            let parameter = Parameter { argument: "n".into(), name: "n".into(), place: Place::Path, style };
            assert_eq!(segment(&parameter, &value, percent_encoded).as_deref(), Ok(expected), "{style:?} {value}");
            assert!(segment(&parameter, &json!([[1]]), percent_encoded).is_err());
        }
    }

    #[test]
    fn a_form_holds_json_where_nothing_else_is_said() {
        let fields = json!({"a": 1, "b": ["x", "y"], "c": {"d": 1}, "e": null, "f": {"g": 2}});
        let styles = [("f".to_owned(), Style::DeepObject)].into();
        let Value::Object(fields) = fields else { unreachable!() };
        assert_eq!(form(fields, &styles).unwrap(), "a=1&b=x&b=y&c=%7B%22d%22%3A1%7D&f[g]=2");
    }
}
