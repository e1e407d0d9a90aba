//! Responses: the schema of an operation's results, and the conversion of a response to JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::body::{essence, is_json, is_text};
use super::credential::Credentials;
use super::document::Document;
use super::schema::Translator;
use crate::net::Answer;
use host_client_core::tool::ToolError;

/// Maximum number of characters of a response that an error quotes.
const QUOTED_CHARS: usize = 500;
/// Keys of the responses that may be the successful one, the most usual first.
const SUCCESSES: [&str; 7] = ["200", "201", "202", "203", "2XX", "206", "default"];

/// Returns the schema of an operation's results, and its size in bytes; `None` if the document does not say, or if the
/// schema has more than `room` bytes.
pub(super) fn schema(document: &Document, operation: &Value, room: usize) -> Option<(Value, usize)> {
    let responses = operation.get("responses")?.as_object()?;
    let response = SUCCESSES.iter().find_map(|status| responses.get(*status));
    let Some(response) = response else {
        return responses.contains_key("204").then(|| (json!({"type": "null"}), 0));
    };
    let response = document.resolve(response).ok()?;
    let content = response.get("content").and_then(Value::as_object).filter(|content| !content.is_empty());
    let Some(content) = content else { return Some((json!({"type": "null"}), 0)) };
    let mut translator = Translator::for_results(document, room);
    let json = content.iter().find(|(media_type, _)| is_json(media_type));
    let mut schema = match json {
        Some((_, content)) => translator.schema(content.get("schema")?).ok()?,
        None if content.keys().all(|media_type| is_text(media_type)) => json!({"type": "string"}),
        None if content.keys().all(|media_type| !is_text(media_type) && !media_type.contains('*')) => binary(),
        None => return None,
    };
    let definitions = translator.definitions().ok()?;
    match &mut schema {
        Value::Object(members) if !definitions.is_empty() => {
            members.insert("$defs".into(), definitions.into());
        }
        _ => {}
    }
    Some((schema, room - translator.left()))
}

/// Returns the schema of a binary result.
fn binary() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "required": ["type", "data", "mimeType"], "properties": {
        "type": {"enum": ["image", "audio", "binary"]},
        "data": {"type": "string", "description": "The content as base64"},
        "mimeType": text,
    }})
}

/// Converts a response to the result for code: its JSON as it came, else the text as a string, else its bytes as base64
/// with their media type, or `null` without a body.
///
/// # Errors
/// `TOOL_FAILED` with the beginning of the body if the status is not a success.
pub(super) fn result(answer: Answer, credentials: &Credentials, label: &str) -> Result<Bytes, ToolError> {
    let Answer { status, headers, body, .. } = answer;
    if !status.is_success() {
        let text = credentials.redact(String::from_utf8_lossy(&body).into_owned());
        let quoted: String = text.chars().take(QUOTED_CHARS).collect();
        return Err(ToolError::new(format!("{label} was answered with {status}: {}", quoted.trim())));
    }
    if body.is_empty() || matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) {
        return Ok(Bytes::from_static(b"null"));
    }
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = match String::from_utf8(body) {
        Ok(text) if is_text(media_type) || media_type.is_empty() => credentials.redact(text),
        other => {
            let bytes = other.map_or_else(std::string::FromUtf8Error::into_bytes, String::into_bytes);
            let media_type = essence(media_type);
            let is_kind = |kind: &&str| media_type.split('/').next() == Some(*kind);
            let kind = ["image", "audio"].into_iter().find(is_kind).unwrap_or("binary");
            let data = STANDARD.encode(credentials.redact_bytes(bytes));
            let media_type = if media_type.is_empty() { "application/octet-stream" } else { &media_type };
            return Ok(serde_json::to_vec(&json!({"type": kind, "data": data, "mimeType": media_type}))?.into());
        }
    };
    if is_json(media_type) && serde_json::from_str::<IgnoredAny>(&text).is_ok() {
        return Ok(text.into());
    }
    Ok(serde_json::to_vec(&text)?.into())
}
