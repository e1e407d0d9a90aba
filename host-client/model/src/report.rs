//! What came of an execution, as the model reads it: as text, and as structured content of one shape.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::output::{Attachment, OutputConfig, OutputStore, Shown};
use host_client_core::error::{Error, ExecutionError};
use host_client_core::event::{OutputItem, OutputKind};
use host_client_core::{Outcome, Usage, Warning};

/// The most bytes of output that are shown.
const MAX_OUTPUT_BYTES: usize = 20_000;

/// What a model reads of one call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The value, as itself where it is a text and as JSON otherwise, or what is shown of it; or what went wrong and what to
    /// do about it.
    pub text: String,
    /// What was printed and noticed beside it, if anything.
    pub notes: Option<String>,
    /// Images and other binary data of the value, which the text names in this order.
    pub attachments: Vec<Attachment>,
    /// Where the text is not all of the value: what `read_output` gives the rest for.
    pub handle: Option<String>,
    /// The same as JSON: `result` (or `shown` and `handle`) or `error`, `output`, `warnings`, `usage`. Nothing where nothing
    /// was run.
    pub structured: Option<Value>,
    /// Whether it did not come to its end.
    pub is_error: bool,
}

/// The shape of the structured content, whether the code came to its end or not.
#[cfg(feature = "serve-mcp")]
pub(crate) fn schema() -> Value {
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

/// What came of an execution. `intent` says what it was for, and what is not shown as a whole is kept in the store.
pub(crate) async fn report(
    outcome: Result<Outcome, Error>,
    intent: Option<String>,
    output: OutputConfig,
    store: &OutputStore,
) -> Report {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(Error::Execution(error)) => return failed(&error),
        Err(error) => return refused(format!("the code was not run: {error}")),
    };
    let (json, store) = (outcome.json.clone(), store.clone());
    // A large value takes its time, in which other calls have to go on.
    let shown = tokio::task::spawn_blocking(move || output.show(&json, intent.as_deref(), Some(&store)));
    match shown.await {
        Ok(shown) => succeeded(&outcome, shown),
        Err(_) => refused("INTERNAL: the code ran, and its result could not be shown"),
    }
}

/// What is not shown as a whole is not in the structured content either.
fn succeeded(outcome: &Outcome, shown: Shown) -> Report {
    let Shown { text, attachments, is_whole, handle } = shown;
    let mut structured = Map::new();
    if is_whole && attachments.is_empty() {
        match outcome.value() {
            Ok(value) => structured.insert("result".into(), value),
            Err(error) => return failed(&ExecutionError { usage: outcome.usage, ..garbled(&error) }),
        };
    } else {
        structured.insert("shown".into(), text.clone().into());
        structured.extend(handle.clone().map(|handle| ("handle".into(), handle.into())));
    }
    let notes = notes(&outcome.output, &outcome.warnings);
    let structured = with_notes(structured, &outcome.output, &outcome.warnings, &outcome.usage);
    Report { text, notes, attachments, handle, structured: Some(structured), is_error: false }
}

/// Whether it is an image of a kind that models take.
#[cfg(any(feature = "serve-mcp", feature = "rig"))]
pub(crate) fn is_image(attachment: &Attachment) -> bool {
    matches!(&*attachment.mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// What was asked for cannot be done; nothing was run.
pub(crate) fn refused(text: impl Into<String>) -> Report {
    Report { is_error: true, ..said(text) }
}

/// What is a text and no more.
pub(crate) fn said(text: impl Into<String>) -> Report {
    Report { text: text.into(), notes: None, attachments: Vec::new(), handle: None, structured: None, is_error: false }
}

/// What is JSON and no more.
pub(crate) fn listed(value: Value) -> Report {
    Report { structured: Some(value.clone()), ..said(value.to_string()) }
}

fn garbled(error: &Error) -> ExecutionError {
    ExecutionError::new(relay_proto::ErrorCode::Internal, format!("the relay sent no JSON as the result: {error}"))
}

/// How an execution failed.
fn failed(error: &ExecutionError) -> Report {
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
    let structured = with_notes(structured, &error.output, &error.warnings, &error.usage);
    let notes = notes(&error.output, &error.warnings);
    Report { notes, structured: Some(structured), ..refused(error.to_string()) }
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

/// What was printed and noticed.
fn notes(output: &[OutputItem], warnings: &[Warning]) -> Option<String> {
    let mut notes = Vec::new();
    if !output.is_empty() {
        notes.push(format!("Output:\n{}", printed(output).trim_end_matches('\n')));
    }
    notes.extend(warnings.iter().map(|warning| format!("Warning: {}", warning.message)));
    (!notes.is_empty()).then(|| notes.join("\n"))
}

pub(crate) fn printed(output: &[OutputItem]) -> String {
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
