//! Converts the result of an MCP tool to JSON for the code that called it.
//!
//! The first rule that fits decides, so that the same tool gives the same shape every time:
//! - `structuredContent` is present: that value. Items other than texts, such as an image, are not lost: an object gets
//!   them as its member `content`; any other value, or an object that has this member, is the first item of an array.
//! - No content: `null`.
//! - One text: if all of it is a JSON object or array, that JSON as it came, byte for byte; else the text as a string.
//! - One other item: that item. Several items: an array of them, in which each text is a string, never parsed.
//!
//! An item has the shape of MCP, with its `type`: `{"type": "image", "data": …, "mimeType": …}` and the same for
//! `audio`, data in base64; `resource_link` and unknown kinds as they came; an embedded resource without the extra
//! level: `{"type": "resource", "uri": …, "mimeType": …, "text" or "blob": …}`. Only the `annotations` and `_meta` of a
//! text are left out, which are hints for user interfaces.

use bytes::Bytes;
use rmcp::model::{CallToolResult, ContentBlock, CustomResult, ErrorData, ServerResult};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::text::clip;
use host_client_core::tool::ToolError;

/// Maximum length of the base64 of one image, sound or blob, in bytes.
const MAX_BINARY_BYTES: usize = 4 << 20;
/// Maximum size of one result as JSON, in bytes: the most that any relay accepts.
const MAX_RESULT_BYTES: usize = 12 << 20;
/// Maximum length of a failure's text, in bytes.
const MAX_FAILURE_BYTES: usize = 4 << 10;

/// Member of a structured result that holds the items beside it.
const BESIDE: &str = "content";

/// Result of a call as the server sent it.
#[derive(Default)]
struct Answer {
    items: Vec<Item>,
    structured: Option<Value>,
    is_error: bool,
}

/// One item of a result's content.
enum Item {
    Text(String),
    Other(Value),
}

/// Converts the server's answer to the result of a call of `tool`.
///
/// # Errors
/// `TOOL_FAILED` if the tool reports an error or the answer is not a tool result; `TOOL_RESULT_LIMIT` if it is too
/// large.
pub(super) fn result(tool: &str, answer: ServerResult) -> Result<Bytes, ToolError> {
    let answer = Answer::read(answer)
        .ok_or_else(|| ToolError::new(format!("{tool} answered with what is no result of an MCP tool")))?;
    if answer.is_error {
        return Err(ToolError::new(answer.failure(tool)));
    }
    let json = answer.json(tool)?;
    if json.len() > MAX_RESULT_BYTES {
        return Err(too_large(tool, "its result", json.len(), MAX_RESULT_BYTES));
    }
    Ok(json)
}

fn too_large(tool: &str, what: &str, bytes: usize, most: usize) -> ToolError {
    ToolError::too_large(format!("{tool}: {what} has {bytes} bytes; at most {most} are taken: ask for less at a time"))
}

impl Answer {
    /// Reads the answer. Returns `None` if it is not the result of a tool.
    fn read(answer: ServerResult) -> Option<Self> {
        match answer {
            ServerResult::CallToolResult(CallToolResult { content, structured_content, is_error, .. }) => Some(Self {
                items: content.into_iter().map(Item::from).collect(),
                structured: structured_content,
                is_error: is_error == Some(true),
            }),
            ServerResult::EmptyResult(_) => Some(Self::default()),
            // The library hands over the whole answer as custom if it does not know the kind of one item.
            ServerResult::CustomResult(CustomResult(Value::Object(mut members))) => {
                let Some(Value::Array(items)) = members.remove("content") else { return None };
                Some(Self {
                    items: items.into_iter().map(Item::from).collect(),
                    structured: members.remove("structuredContent"),
                    is_error: members.get("isError") == Some(&Value::Bool(true)),
                })
            }
            _ => None,
        }
    }

    /// Returns the failure's text: the texts of the content, and the structured content as JSON.
    fn failure(self, tool: &str) -> String {
        let texts: Vec<String> = self.items.into_iter().filter_map(Item::into_text).collect();
        match (texts.join("\n").trim(), self.structured.filter(|structured| !structured.is_null())) {
            ("", None) => format!("{tool} failed and does not say why"),
            ("", Some(structured)) => clip(&structured.to_string(), MAX_FAILURE_BYTES),
            (text, structured) => with_details(text, structured),
        }
    }

    fn json(mut self, tool: &str) -> Result<Bytes, ToolError> {
        for item in &self.items {
            item.check_binary(tool)?;
        }
        if let Some(structured) = self.structured {
            return Ok(serde_json::to_vec(&beside(structured, self.items))?.into());
        }
        let value = match (self.items.pop(), self.items.is_empty()) {
            (None, _) => Value::Null,
            (Some(Item::Text(text)), true) if is_json_container(&text) => return Ok(text.into()),
            (Some(only), true) => only.into(),
            (Some(last), false) => self.items.into_iter().chain([last]).map(Value::from).collect(),
        };
        Ok(serde_json::to_vec(&value)?.into())
    }
}

/// Returns the text of an error that the server answered with: its message, and its data as JSON.
pub(super) fn error(error: &ErrorData) -> String {
    with_details(&error.message, error.data.clone().filter(|data| !data.is_null()))
}

/// Adds details to the text of a failure, unless the text is the same JSON.
fn with_details(text: &str, details: Option<Value>) -> String {
    match details {
        Some(details) if serde_json::from_str::<Value>(text).ok().as_ref() != Some(&details) => {
            // Both have their share of the room.
            let text = clip(text, MAX_FAILURE_BYTES / 2);
            format!("{text}\n{}", clip(&details.to_string(), MAX_FAILURE_BYTES / 2))
        }
        _ => clip(text, MAX_FAILURE_BYTES),
    }
}

/// Joins structured content with the items beside it that are no texts: texts repeat the structured content for clients
/// that do not know it.
fn beside(structured: Value, items: Vec<Item>) -> Value {
    let others: Vec<Value> = items.into_iter().filter(|item| matches!(item, Item::Other(_))).map(Value::from).collect();
    match structured {
        structured if others.is_empty() => structured,
        Value::Object(mut members) if !members.contains_key(BESIDE) => {
            members.insert(BESIDE.to_owned(), others.into());
            Value::Object(members)
        }
        structured => std::iter::once(structured).chain(others).collect(),
    }
}

/// Returns the part of a result that is structured content: a result without what [`beside`] adds.
pub(super) fn structured(result: &Value) -> Option<Value> {
    match result {
        Value::Object(members) if members.get(BESIDE).is_some_and(Value::is_array) => {
            let mut members = members.clone();
            members.remove(BESIDE);
            Some(Value::Object(members))
        }
        Value::Array(items) if items.len() > 1 => items.first().cloned(),
        _ => None,
    }
}

/// Returns `true` if the whole text is a JSON object or array. Callers pass the text on unchanged, so that numbers and
/// the order of keys stay.
fn is_json_container(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

impl Item {
    fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }

    /// Checks that base64 in the item is at most 4 MiB long.
    fn check_binary(&self, tool: &str) -> Result<(), ToolError> {
        let Self::Other(item) = self else { return Ok(()) };
        let bytes = ["data", "blob"].iter().filter_map(|key| item.get(key)?.as_str()).map(str::len).max();
        match bytes {
            Some(bytes) if bytes > MAX_BINARY_BYTES => {
                let media_type = item.get("mimeType").and_then(Value::as_str).unwrap_or("binary data");
                Err(too_large(tool, &format!("the base64 of {}", clip(media_type, 100)), bytes, MAX_BINARY_BYTES))
            }
            _ => Ok(()),
        }
    }
}

impl From<ContentBlock> for Item {
    fn from(block: ContentBlock) -> Self {
        match block {
            ContentBlock::Text(text) => Self::Text(text.text),
            // Blocks consist of texts and JSON, so that serialization cannot fail.
            other => serde_json::to_value(other).map_or(Self::Other(Value::Null), Self::from),
        }
    }
}

impl From<Value> for Item {
    fn from(item: Value) -> Self {
        let Value::Object(mut members) = item else { return Self::Other(item) };
        match members.get("type").and_then(Value::as_str) {
            Some("text") => match members.remove("text") {
                Some(Value::String(text)) => Self::Text(text),
                _ => Self::Other(Value::Object(members)),
            },
            Some("resource") => Self::Other(Value::Object(without_level(members))),
            _ => Self::Other(Value::Object(members)),
        }
    }
}

impl From<Item> for Value {
    fn from(item: Item) -> Self {
        match item {
            Item::Text(text) => Self::String(text),
            Item::Other(value) => value,
        }
    }
}

/// Moves the members of an embedded resource up, beside its type. Members of the outer level are not overwritten.
fn without_level(mut members: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(resource)) = members.remove("resource") {
        for (key, value) in resource {
            members.entry(key).or_insert(value);
        }
    }
    members
}
