//! Serializes bodies that may hold bytes: forms with files, and texts or files as they are.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderValue;
use serde_json::{Map, Value};

use super::error::Unfit;

/// Media type of a file that has none.
const BYTES: &str = "application/octet-stream";

/// Part of a form.
struct Part {
    name: String,
    filename: Option<String>,
    media_type: Option<HeaderValue>,
    content: Vec<u8>,
}

/// Serializes an object as a form with files. Returns its media type and its bytes. `types`: media types of parts.
///
/// # Errors
/// [`Unfit::File`] for an object that looks like a file and is none.
pub(super) fn form(
    fields: Map<String, Value>,
    types: &BTreeMap<String, HeaderValue>,
) -> Result<(HeaderValue, Vec<u8>), Unfit> {
    let mut parts = Vec::new();
    for (name, value) in fields {
        let media_type = types.get(&name);
        match value {
            Value::Null => {}
            // Several files or values of one name.
            Value::Array(items) if media_type.is_none() => {
                for item in items {
                    parts.push(part(&name, item, media_type)?);
                }
            }
            value => parts.push(part(&name, value, media_type)?),
        }
    }
    let boundary = boundary();
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        bytes.extend_from_slice(format!("Content-Disposition: form-data; name=\"{}\"", quoted(&part.name)).as_bytes());
        if let Some(filename) = &part.filename {
            bytes.extend_from_slice(format!("; filename=\"{}\"", quoted(filename)).as_bytes());
        }
        if let Some(media_type) = &part.media_type {
            bytes.extend_from_slice(b"\r\nContent-Type: ");
            bytes.extend_from_slice(media_type.as_bytes());
        }
        bytes.extend_from_slice(b"\r\n\r\n");
        bytes.extend_from_slice(&part.content);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let media_type = HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}"));
    // A boundary consists of letters and digits.
    Ok((media_type.map_err(|_| Unfit::Form)?, bytes))
}

/// Serializes a body that is one text or one file.
///
/// # Errors
/// [`Unfit::File`] if it is neither.
pub(super) fn raw(value: Value) -> Result<Vec<u8>, Unfit> {
    match file("body", &value) {
        Some(part) => part.map(|part| part.content),
        None => match value {
            Value::String(text) => Ok(text.into_bytes()),
            _ => Err(Unfit::File("body".into())),
        },
    }
}

fn part(name: &str, value: Value, media_type: Option<&HeaderValue>) -> Result<Part, Unfit> {
    if let Some(part) = file(name, &value) {
        return part;
    }
    let json = HeaderValue::from_static("application/json");
    let (content, own) = match value {
        Value::String(text) => (text, None),
        value @ (Value::Object(_) | Value::Array(_)) => (value.to_string(), Some(json)),
        value => (value.to_string(), None),
    };
    let media_type = media_type.cloned().or(own);
    Ok(Part { name: name.to_owned(), filename: None, media_type, content: content.into_bytes() })
}

/// Reads an object with bytes as base64; `None`: it is another value.
fn file(name: &str, value: &Value) -> Option<Result<Part, Unfit>> {
    let members = value.as_object().filter(|members| members.contains_key("data"))?;
    let text = |key: &str| members.get(key).and_then(Value::as_str);
    let is_file = members.keys().all(|key| ["data", "mimeType", "filename", "type"].contains(&key.as_str()));
    let content = text("data").and_then(|data| STANDARD.decode(data).ok());
    let media_type = text("mimeType").unwrap_or(BYTES);
    let media_type = HeaderValue::from_str(media_type).ok().filter(|media_type| !media_type.is_empty());
    match (is_file, content, media_type) {
        (false, ..) => None,
        (true, Some(content), Some(media_type)) => Some(Ok(Part {
            name: name.to_owned(),
            filename: Some(text("filename").unwrap_or(name).to_owned()),
            media_type: Some(media_type),
            content,
        })),
        (true, ..) => Some(Err(Unfit::File(name.to_owned()))),
    }
}

/// Returns a boundary that nobody can guess, so that no part contains it.
fn boundary() -> String {
    // Each has random keys of its own.
    let random = || RandomState::new().build_hasher().finish();
    format!("relay{:016x}{:016x}", random(), random())
}

/// Escapes a name in a header of a part, as browsers do.
fn quoted(name: &str) -> String {
    name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_cannot_end_a_header() {
        let Value::Object(fields) = json!({"a\"\r\nX: y": "--relay", "n": 7, "list": [1, "x"]}) else { unreachable!() };
        let (media_type, bytes) = form(fields, &BTreeMap::new()).unwrap();
        let boundary = media_type.to_str().unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
        assert_ne!(boundary, super::boundary(), "each form has its own");
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches(&format!("--{boundary}\r\n")).count(), 4, "{text}");
        assert!(text.contains("name=\"a%22%0D%0AX: y\"\r\n\r\n--relay\r\n"), "{text}");
    }

    #[test]
    fn a_file_is_a_text_or_base64() {
        assert_eq!(raw(json!("hi")).unwrap(), b"hi");
        assert_eq!(raw(json!({"type": "image", "data": "aGk=", "mimeType": "image/png"})).unwrap(), b"hi");
        for wrong in [json!({"data": "?"}), json!({"data": 7}), json!({"data": "", "mimeType": "a\nb"}), json!(7)] {
            assert!(matches!(raw(wrong), Err(Unfit::File(_))));
        }
    }
}
