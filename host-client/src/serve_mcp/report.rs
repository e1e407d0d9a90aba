//! What came of an execution, as the model reads it: as text, and as structured content of one shape.

use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Map, Value, json};

use crate::client::{Outcome, Usage, Warning};
use crate::error::{Error, ExecutionError};
use crate::event::{OutputItem, OutputKind};
use crate::output::{Attachment, Shown};

/// The most bytes of output that are shown.
const MAX_OUTPUT_BYTES: usize = 20_000;

/// The shape of the structured content, whether the code came to its end or not.
pub(super) fn schema() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let count = |description: &str| json!({"type": "integer", "description": description});
    json!({
        "type": "object",
        "properties": {
            "result": {"description": "What the code returned, if it came to its end and all of that is shown"},
            "shown": text("What is shown of the value, where that is not all of it"),
            "handle": text("What read_output gives the rest for"),
            "error": {
                "type": "object",
                "description": "Why it did not",
                "properties": {
                    "code": text("The kind of error, such as SYNTAX_ERROR, EVAL_ERROR or TIMEOUT"),
                    "message": text("What happened"),
                    "line": count("The line of the code, from 1"),
                    "column": count("The column in the line, from 1"),
                    "hint": text("What to do about it"),
                    "limit": text("The limit that was hit"),
                    "tool": text("The tool whose failure the code did not catch"),
                    "tool_code": text("The code of that failure"),
                },
                "required": ["code", "message"],
            },
            "output": text("What the code printed"),
            "warnings": {"type": "array", "items": {"type": "string"}},
            "usage": {
                "type": "object",
                "properties": {
                    "tool_calls": count("Calls that were made"),
                    "wall_ms": count("Running time, waiting for approvals not counted"),
                    "approval_ms": count("Time spent waiting for approvals"),
                    "cpu_ms": count("CPU time"),
                },
            },
        },
    })
}

/// Structured content, and the text and the attachments beside it. What is not shown as a whole is in neither.
pub(super) fn succeeded(outcome: &Outcome, shown: Shown) -> CallToolResult {
    let mut structured = Map::new();
    if shown.is_whole && shown.attachments.is_empty() {
        match outcome.value() {
            Ok(value) => structured.insert("result".into(), value),
            Err(error) => return executed(&ExecutionError { usage: outcome.usage, ..garbled(&error) }),
        };
    } else {
        structured.insert("shown".into(), shown.text.clone().into());
        structured.extend(shown.handle.map(|handle| ("handle".into(), handle.into())));
    }
    let mut content = content(shown.text, &outcome.output, &outcome.warnings);
    content.extend((1..).zip(shown.attachments).map(|(number, attachment)| block(number, attachment)));
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(with_notes(structured, &outcome.output, &outcome.warnings, &outcome.usage));
    result
}

/// Why there is no value.
pub(super) fn failed(error: &Error) -> CallToolResult {
    match error {
        Error::Execution(error) => executed(error),
        error => refused(format!("the code was not run: {error}")),
    }
}

/// Binary data in the kind of block that clients take it in. Models take few kinds of images.
fn block(number: usize, attachment: Attachment) -> ContentBlock {
    let Attachment { mime, base64, .. } = attachment;
    match &*mime {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => ContentBlock::image(base64, mime),
        sound if sound.starts_with("audio/") => ContentBlock::audio(base64, mime),
        _ => {
            let contents = ResourceContents::blob(base64, format!("attachment:{number}"));
            ContentBlock::resource(contents.with_mime_type(mime))
        }
    }
}

/// What was asked for cannot be done; nothing was run.
pub(super) fn refused(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn garbled(error: &Error) -> ExecutionError {
    ExecutionError::new(relay_proto::ErrorCode::Internal, format!("the relay sent no JSON as the result: {error}"))
}

/// How an execution failed.
fn executed(error: &ExecutionError) -> CallToolResult {
    let fault = json!({
        "code": error.code.as_str(),
        "message": error.message,
        "line": error.line,
        "column": error.column,
        "hint": error.hint,
        "limit": error.limit,
        "tool": error.tool.as_ref().map(|(tool, _)| tool),
        "tool_code": error.tool.as_ref().map(|(_, code)| code.as_str()),
    });
    let mut structured = Map::new();
    if let Value::Object(mut fault) = fault {
        fault.retain(|_, value| !value.is_null());
        structured.insert("error".into(), Value::Object(fault));
    }
    let mut result = CallToolResult::error(content(error.to_string(), &error.output, &error.warnings));
    result.structured_content = Some(with_notes(structured, &error.output, &error.warnings, &error.usage));
    result
}

fn with_notes(mut structured: Map<String, Value>, output: &[OutputItem], warnings: &[Warning], usage: &Usage) -> Value {
    if !output.is_empty() {
        structured.insert("output".into(), printed(output).into());
    }
    if !warnings.is_empty() {
        let warnings: Vec<_> = warnings.iter().map(|warning| &*warning.message).collect();
        structured.insert("warnings".into(), json!(warnings));
    }
    let usage = json!({
        "tool_calls": usage.tool_calls,
        "wall_ms": milliseconds(usage.wall),
        "approval_ms": milliseconds(usage.approval),
        "cpu_ms": milliseconds(usage.cpu),
    });
    structured.insert("usage".into(), usage);
    Value::Object(structured)
}

/// The value or the error; what was printed and noticed comes in a block of its own.
fn content(text: String, output: &[OutputItem], warnings: &[Warning]) -> Vec<ContentBlock> {
    let mut content = vec![ContentBlock::text(text)];
    let mut notes = Vec::new();
    if !output.is_empty() {
        notes.push(format!("Output:\n{}", printed(output).trim_end_matches('\n')));
    }
    notes.extend(warnings.iter().map(|warning| format!("Warning: {}", warning.message)));
    if !notes.is_empty() {
        content.push(ContentBlock::text(notes.join("\n")));
    }
    content
}

fn printed(output: &[OutputItem]) -> String {
    let mut text = String::new();
    for item in output {
        text.push_str(&item.text);
        if item.kind != OutputKind::Emit {
            text.push('\n');
        }
        if text.len() > MAX_OUTPUT_BYTES {
            let all: usize = output.iter().map(|item| item.text.len()).sum();
            text.truncate(text.floor_char_boundary(MAX_OUTPUT_BYTES));
            text.push_str(&format!("\n… (cut; {all} bytes were printed)"));
            break;
        }
    }
    text
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
