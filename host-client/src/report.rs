//! What came of an execution, as the model reads it: as text, and as structured content of one shape.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::client::{Outcome, Usage, Warning};
use crate::error::{Error, ExecutionError};
use crate::event::{OutputItem, OutputKind};

/// The most bytes of output that are shown.
const MAX_OUTPUT_BYTES: usize = 20_000;

/// What a model reads of one call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The value, as itself where it is a text and as JSON otherwise; or what went wrong and what to do about it.
    pub text: String,
    /// What was printed and noticed beside it, if anything.
    pub notes: Option<String>,
    /// The same as JSON: `result` or `error`, `output`, `warnings`, `usage`. Nothing where nothing was run.
    pub structured: Option<Value>,
    /// Whether it did not come to its end.
    pub is_error: bool,
}

/// The shape of the structured content, whether the code came to its end or not.
#[cfg(feature = "mcp")]
pub(crate) fn schema() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let count = |description: &str| json!({"type": "integer", "description": description});
    json!({
        "type": "object",
        "properties": {
            "result": {"description": "What the code returned, if it came to its end"},
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

/// Structured content, and the text beside it.
pub(crate) fn report(outcome: Result<Outcome, Error>) -> Report {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(Error::Execution(error)) => return failed(&error),
        Err(error) => return refused(format!("the code was not run: {error}")),
    };
    let value = match outcome.value() {
        Ok(value) => value,
        Err(error) => return failed(&ExecutionError { usage: outcome.usage, ..garbled(&error) }),
    };
    let text = match &value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let mut structured = Map::new();
    structured.insert("result".into(), value);
    let notes = notes(&outcome.output, &outcome.warnings);
    let structured = with_notes(structured, &outcome.output, &outcome.warnings, &outcome.usage);
    Report { text, notes, structured: Some(structured), is_error: false }
}

/// What was asked for cannot be done; nothing was run.
pub(crate) fn refused(text: impl Into<String>) -> Report {
    Report { text: text.into(), notes: None, structured: None, is_error: true }
}

fn garbled(error: &Error) -> ExecutionError {
    ExecutionError::new(relay_proto::ErrorCode::Internal, format!("the relay sent no JSON as the result: {error}"))
}

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
    Report { text: error.to_string(), notes, structured: Some(structured), is_error: true }
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
