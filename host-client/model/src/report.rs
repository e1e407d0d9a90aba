//! Reports of calls for models: as text, and as structured content.

use relay_proto::time::millis;
use serde_json::{Map, Value, json};

use crate::output::{Attachment, CutConfig, OutputConfig, OutputStore, READ_TOOL, Shown, cut};
use host_client_core::error::{Error, ExecutionError};
use host_client_core::event::{OutputItem, OutputKind};
use host_client_core::{Outcome, Usage, Warning};

/// Part of the output that a report has: the beginning and the end of a long one.
const OUTPUT_CUT: CutConfig = CutConfig { characters: 20_000, head_percent: 60 };

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
            "output": text("The output that the code printed: of a long one, its beginning and its end"),
            "output_handle": text("The handle for read_output, which returns the whole output, if it is a long one"),
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
        Err(Error::Execution(error)) => return failed(&error, store),
        Err(error) => return refused(format!("the code was not run: {error}")),
    };
    let (json, of_value) = (outcome.json.clone(), store.clone());
    // A large value takes long, and must not block other calls of this thread.
    let shown = tokio::task::spawn_blocking(move || output.show(&json, intent.as_deref(), Some(&of_value)));
    match shown.await {
        Ok(shown) => succeeded(&outcome, shown, store),
        Err(_) => refused("INTERNAL: the code ran, and its result could not be shown"),
    }
}

/// Makes the report of a success. A value that is not shown as a whole is not in the structured content either.
fn succeeded(outcome: &Outcome, shown: Shown, store: &OutputStore) -> Report {
    let Shown { text, attachments, is_whole, handle } = shown;
    let mut structured = Map::new();
    if is_whole && attachments.is_empty() {
        match outcome.value() {
            Ok(value) => structured.insert("result".into(), value),
            Err(error) => return failed(&ExecutionError { usage: outcome.usage, ..garbled(&error) }, store),
        };
    } else {
        structured.insert("shown".into(), text.clone().into());
        structured.extend(handle.clone().map(|handle| ("handle".into(), handle.into())));
    }
    let printed = Printed::new(&outcome.output, Some(store));
    let notes = notes(&printed, &outcome.warnings);
    let structured = with_notes(structured, printed, &outcome.warnings, &outcome.usage);
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
fn failed(error: &ExecutionError, store: &OutputStore) -> Report {
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
    let printed = Printed::new(&error.output, Some(store));
    let notes = notes(&printed, &error.warnings);
    let structured = with_notes(structured, printed, &error.warnings, &error.usage);
    Report { notes, structured: Some(structured), ..refused(error.to_string()) }
}

/// Adds output, warnings and usage to the structured content.
fn with_notes(mut structured: Map<String, Value>, printed: Printed, warnings: &[Warning], usage: &Usage) -> Value {
    if !printed.text.is_empty() {
        structured.insert("output".into(), printed.text.into());
    }
    structured.extend(printed.handle.map(|handle| ("output_handle".into(), handle.into())));
    if !warnings.is_empty() {
        let warnings: Vec<_> = warnings.iter().map(|warning| &*warning.message).collect();
        structured.insert("warnings".into(), json!(warnings));
    }
    let usage = json!({
        "tool_calls": usage.tool_calls,
        "wall_ms": millis(usage.wall),
        "approval_ms": millis(usage.approval),
        "cpu_ms": millis(usage.cpu),
    });
    structured.insert("usage".into(), usage);
    Value::Object(structured)
}

/// Formats output and warnings; `None` if there are none.
fn notes(printed: &Printed, warnings: &[Warning]) -> Option<String> {
    let mut notes = Vec::new();
    if !printed.text.is_empty() {
        notes.push(format!("Output:\n{}", printed.text.trim_end_matches('\n')));
    }
    notes.extend(warnings.iter().map(|warning| format!("Warning: {}", warning.message)));
    (!notes.is_empty()).then(|| notes.join("\n"))
}

/// Output of an execution as a model reads it.
pub(crate) struct Printed {
    /// The output; of a long one, its beginning and its end.
    pub(crate) text: String,
    /// Handle by which the whole output can be read; `None`: the text is the whole, or it was not kept.
    handle: Option<String>,
}

impl Printed {
    /// Joins the items of output. The store keeps one that is too long to be shown as a whole.
    pub(crate) fn new(output: &[OutputItem], store: Option<&OutputStore>) -> Self {
        let mut whole = String::new();
        for item in output {
            whole.push_str(&item.text);
            if item.kind != OutputKind::Emit {
                whole.push('\n');
            }
        }
        let Some(mut text) = cut(&whole, OUTPUT_CUT) else { return Self { text: whole, handle: None } };
        let handle = store.and_then(|store| store.keep(&whole, false));
        let line = if text.ends_with('\n') { "" } else { "\n" };
        let rest = handle.as_ref().map(|handle| format!("; {READ_TOOL} with the handle {handle} gives the whole"));
        text.push_str(&format!("{line}… ({} bytes were printed{})", whole.len(), rest.unwrap_or_default()));
        Self { text, handle }
    }
}
