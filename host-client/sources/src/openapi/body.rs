//! Reads the body of an operation: its media type, and the schema of the argument that holds it.

use std::collections::BTreeMap;

use http::header::HeaderValue;
use serde_json::{Map, Value, json};

use super::error::Flaw;
use super::schema::Translator;
use super::style::{Style, query_style};
use super::text::shortened;

/// Maximum number of properties of a form whose encoding is read.
const MAX_ENCODINGS: usize = 200;
/// Media type of a form.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";
/// Media type of a form with files.
const MULTIPART: &str = "multipart/form-data";

/// Serialization of a body.
#[derive(Debug)]
pub(super) enum Body {
    Json(HeaderValue),
    /// A form, with the properties that have a style of their own.
    Form(BTreeMap<String, Style>),
    /// A form with files, with the media types of the parts that have one.
    Multipart(BTreeMap<String, HeaderValue>),
    /// A text or bytes of this media type.
    Raw(HeaderValue),
}

/// Reads a body: JSON if the operation takes it, else a form, else a form with files, else the first media type.
/// Returns it with the schema of its argument; `None` if it has no content.
///
/// # Errors
/// [`Flaw::Body`] if no media type can be sent, or the flaw of its schema.
pub(super) fn read<'a>(translator: &mut Translator<'a>, written: &'a Value) -> Result<Option<(Body, Value)>, Flaw> {
    let Some(content) = written.get("content").and_then(Value::as_object) else { return Ok(None) };
    let find = |is: &dyn Fn(&str) -> bool| content.iter().find(|(media_type, _)| is(media_type));
    let header = |media_type: &str| HeaderValue::from_str(&essence(media_type)).map_err(|_| Flaw::Shape);
    if let Some((media_type, content)) = find(&is_json) {
        return Ok(Some((Body::Json(header(media_type)?), schema(translator, content)?)));
    }
    if let Some((_, content)) = find(&|media_type| essence(media_type) == FORM) {
        return Ok(Some((Body::Form(styles(content)), schema(translator, content)?)));
    }
    if let Some((_, content)) = find(&|media_type| essence(media_type) == MULTIPART) {
        return Ok(Some((Body::Multipart(types(content)), parts(translator, content)?)));
    }
    let is_single = |media_type: &str| !media_type.contains('*') && !essence(media_type).starts_with("multipart/");
    if let Some((media_type, _)) = find(&is_single) {
        let schema = if is_text(media_type) { json!({"type": "string"}) } else { file() };
        return Ok(Some((Body::Raw(header(media_type)?), schema)));
    }
    if content.is_empty() {
        return Ok(None);
    }
    if content.keys().any(|media_type| essence(media_type) == "*/*") {
        let any = HeaderValue::from_static("application/octet-stream");
        return Ok(Some((Body::Raw(any), file())));
    }
    let named: Vec<&str> = content.keys().take(5).map(String::as_str).collect();
    Err(Flaw::Body(shortened(&named.join(", "), 200)))
}

fn schema<'a>(translator: &mut Translator<'a>, content: &'a Value) -> Result<Value, Flaw> {
    content.get("schema").map_or(Ok(json!({})), |schema| translator.schema(schema))
}

/// Returns the schema of a form with files: that of the document, with files in the place of its binary texts.
fn parts<'a>(translator: &mut Translator<'a>, content: &'a Value) -> Result<Value, Flaw> {
    let document = translator.document();
    let written = content.get("schema").map(|schema| document.resolve(schema)).transpose()?;
    let Some(properties) = written.and_then(|schema| schema.get("properties")?.as_object()) else {
        return Ok(json!({"type": "object"}));
    };
    let mut translated = Map::new();
    for (name, property) in properties {
        let resolved = document.resolve(property)?;
        let items = resolved.get("items").map(|items| document.resolve(items)).transpose()?;
        let schema = match items {
            _ if is_file(resolved) => file(),
            Some(items) if is_file(items) => json!({"type": "array", "items": file()}),
            _ => translator.schema(property)?,
        };
        translated.insert(name.clone(), schema);
    }
    let required = written.and_then(|schema| schema.get("required")).filter(|required| required.is_array());
    let required = required.cloned().unwrap_or_else(|| json!([]));
    Ok(json!({"type": "object", "properties": translated, "required": required}))
}

/// Returns `true` if a schema describes bytes.
fn is_file(schema: &Value) -> bool {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    text("format") == Some("binary")
        || (text("contentMediaType").is_some_and(|media_type| !is_json(media_type))
            && text("contentEncoding").is_none())
}

/// Returns the schema of an argument that is a file: a text, or bytes as base64.
fn file() -> Value {
    json!({"anyOf": [
        {"type": "string", "description": "The content, if it is a text"},
        {"type": "object", "required": ["data"], "properties": {
            "data": {"type": "string", "description": "The content as base64"},
            "mimeType": {"type": "string"},
            "filename": {"type": "string"},
        }},
    ]})
}

/// Returns the media types of the parts of a form that have one.
fn types(content: &Value) -> BTreeMap<String, HeaderValue> {
    let encodings = content.get("encoding").and_then(Value::as_object).into_iter().flatten().take(MAX_ENCODINGS);
    let typed = encodings.filter_map(|(name, encoding)| {
        // Of several, which are separated by commas, the first is taken.
        let media_type = encoding.get("contentType").and_then(Value::as_str)?.split(',').next()?.trim();
        let is_one = !media_type.is_empty() && !media_type.contains('*');
        Some((name.clone(), is_one.then(|| HeaderValue::from_str(media_type).ok()).flatten()?))
    });
    typed.collect()
}

/// Returns the styles of a form's properties that have one.
fn styles(content: &Value) -> BTreeMap<String, Style> {
    let encodings = content.get("encoding").and_then(Value::as_object).into_iter().flatten().take(MAX_ENCODINGS);
    let styled = encodings.filter_map(|(name, encoding)| {
        let style = encoding.get("style").and_then(Value::as_str)?;
        Some((name.clone(), query_style(encoding, Some(style)).ok()?))
    });
    styled.collect()
}

/// Returns `true` for media types whose content is text.
pub(super) fn is_text(media_type: &str) -> bool {
    let essence = essence(media_type);
    let (kind, name) = essence.split_once('/').unwrap_or((&essence, ""));
    const NAMES: [&str; 11] = [
        "json",
        "xml",
        "javascript",
        "ecmascript",
        "yaml",
        "x-yaml",
        "graphql",
        "jwt",
        "x-ndjson",
        "x-www-form-urlencoded",
        "sql",
    ];
    kind == "text" || NAMES.contains(&name) || ["+json", "+xml", "+yaml"].iter().any(|end| name.ends_with(end))
}

/// Returns `true` for `application/json` and media types that end in `+json`.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Returns a media type without its parameters, in lower case.
pub(super) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
