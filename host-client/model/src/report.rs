//! Reports of calls for models: as text, and as structured content.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::output::{Attachment, OutputConfig, OutputStore, Shown};
use host_client_core::error::{Error, ExecutionError};
use host_client_core::event::{OutputItem, OutputKind};
use host_client_core::{Outcome, Usage, Warning};

/// Maximum length of the output in a report, in bytes.
const MAX_OUTPUT_BYTES: usize = 20_000;

/// Report of one tool call for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Value of the code: a string as itself, other values as JSON, shortened if long; or the error, with advice.
    pub text: String,
    /// Output and warnings; `None` if there are none.
    pub notes: Option<String>,
    /// Images and other binary data of the value, in the order in which the text names them.
    pub attachments: Vec<Attachment>,
    /// Handle for `read_output`; `None` if the text is the whole value.
    pub handle: Option<String>,
    /// The report as JSON: `result` (or `shown` and `handle`) or `error`, `output`, `warnings`, `usage`. `None` if no
    /// code was run.
    pub structured: Option<Value>,
    /// `true`: the call failed.
    pub is_error: bool,
}

/// Returns the JSON Schema of the structured content, for success and failure.
#[cfg(feature = "serve-mcp")]
pub(crate) fn schema() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let count = |description: &str| json!({"type": "integer", "description": description});
    json!({
        "type": "object",
        "properties": {
            "result": {"description": "The value that the code returned, if it is shown as a whole"},
            "shown": text("The part of the value that is shown, if it is not shown as a whole"),
            "handle": text("The handle for read_output, which returns the rest of the value"),
            "error": {
                "type": "object",
                "description": "The error, if the code failed",
                "properties": {
                    "code": text("The kind of error, such as SYNTAX_ERROR, EVAL_ERROR or TIMEOUT"),
                    "message": text("The description of the error"),
                    "line": count("The line of the code, from 1"),
                    "column": count("The column in the line, from 1"),
                    "hint": text("Advice on how to avoid the error"),
                    "limit": text("The limit that was hit"),
                    "tool": text("The tool whose failure the code did not catch"),
                    "tool_code": text("The code of that failure"),
                },
                "required": ["code", "message"],
            },
            "output": text("The output that the code printed"),
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

/// Makes the report of an execution. `intent`: words that say what the code is for; `store`: keeps a result that is not
/// shown as a whole.
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
    // A large value takes long, and must not block other calls of this thread.
    let shown = tokio::task::spawn_blocking(move || output.show(&json, intent.as_deref(), Some(&store)));
    match shown.await {
        Ok(shown) => succeeded(&outcome, shown),
        Err(_) => refused("INTERNAL: the code ran, and its result could not be shown"),
    }
}

/// Makes the report of a success. A value that is not shown as a whole is not in the structured content either.
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

/// Returns `true` for images of a type that models accept.
#[cfg(any(feature = "serve-mcp", feature = "rig"))]
pub(crate) fn is_image(attachment: &Attachment) -> bool {
    matches!(&*attachment.mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Makes the report of a call that was refused, before any code was run.
pub(crate) fn refused(text: impl Into<String>) -> Report {
    Report { is_error: true, ..text_report(text) }
}

/// Makes a report of a text.
pub(crate) fn text_report(text: impl Into<String>) -> Report {
    Report { text: text.into(), notes: None, attachments: Vec::new(), handle: None, structured: None, is_error: false }
}

/// Makes a report of JSON.
pub(crate) fn listed(value: Value) -> Report {
    Report { structured: Some(value.clone()), ..text_report(value.to_string()) }
}

/// Makes the error of a result that is not JSON.
fn garbled(error: &Error) -> ExecutionError {
    ExecutionError::new(relay_proto::ErrorCode::Internal, format!("the relay sent no JSON as the result: {error}"))
}

/// Makes the report of a failure.
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

/// Adds output, warnings and usage to the structured content.
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

/// Formats output and warnings; `None` if there are none.
fn notes(output: &[OutputItem], warnings: &[Warning]) -> Option<String> {
    let mut notes = Vec::new();
    if !output.is_empty() {
        notes.push(format!("Output:\n{}", printed(output).trim_end_matches('\n')));
    }
    notes.extend(warnings.iter().map(|warning| format!("Warning: {}", warning.message)));
    (!notes.is_empty()).then(|| notes.join("\n"))
}

/// Joins the items of output, up to a maximum.
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
