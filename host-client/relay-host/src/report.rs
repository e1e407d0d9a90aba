//! Prints the outcome of an execution, for a person or as JSON.

use bytes::Bytes;
use host_client::{Error, ExecutionError, Outcome, OutputConfig, OutputItem, OutputKind};
use host_client::{Usage, Warning};
use relay_proto::time::millis;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output::{inline, note, print_json, print_value};
use crate::progress::{Progress, output};

/// Execution that has ended, and the number of items of its output that were already printed.
pub(crate) struct Ended {
    pub(crate) outcome: Result<Outcome, Error>,
    pub(crate) printed: usize,
}

impl Ended {
    /// Prints the value to standard output, and everything else to standard error. `intent`: prints the value as a
    /// model would get it.
    pub(crate) fn show_as(self, intent: Option<&str>, progress: &Progress) -> Result<(), Failure> {
        let json = self.value(progress)?;
        match intent {
            Some(intent) => print_value(&OutputConfig::default().show(&json, Some(intent), None).text),
            None => print_json(&String::from_utf8_lossy(&json)),
        }
    }

    /// Prints output and warnings, and returns the value as JSON.
    fn value(self, progress: &Progress) -> Result<Bytes, Failure> {
        let (items, warnings) = match &self.outcome {
            Ok(outcome) => (&outcome.output[..], &outcome.warnings[..]),
            Err(Error::Execution(error)) => (&error.output[..], &error.warnings[..]),
            Err(_) => (&[][..], &[][..]),
        };
        for item in items.iter().skip(self.printed) {
            progress.print(output(item).as_bytes());
        }
        for warning in warnings {
            note(&format!("warning: {}", inline(&warning.message)));
        }
        Ok(self.outcome?.json)
    }

    /// Prints one JSON object to standard output, for success and failure.
    pub(crate) fn show_json(self) -> Result<(), Failure> {
        match self.outcome {
            Ok(outcome) => print_value(&success(&outcome)?),
            Err(Error::Execution(error)) => {
                let object = failure(&error);
                print_failure(&object, Failure::from(Error::Execution(error)))
            }
            Err(error) => print_unstarted(error.into()),
        }
    }
}

/// Prints the JSON object of a failure before the execution began.
pub(crate) fn print_unstarted(failure: Failure) -> Result<(), Failure> {
    print_failure(&json!({"error": {"code": null, "message": failure.text}}), failure)
}

fn print_failure(object: &Value, failure: Failure) -> Result<(), Failure> {
    print_value(&object.to_string())?;
    Err(Failure::printed(failure.status))
}

/// Makes the JSON object of a success. The value stands in it as it came, with the order of its keys and all digits of
/// its numbers.
fn success(outcome: &Outcome) -> Result<String, Failure> {
    // A value that is no JSON would break the object.
    outcome.value()?;
    let rest = json!({
        "output": items(&outcome.output),
        "warnings": warnings(&outcome.warnings),
        "usage": usage(&outcome.usage),
    });
    Ok(format!("{{\"result\":{},{}", String::from_utf8_lossy(&outcome.json), &rest.to_string()[1..]))
}

fn failure(error: &ExecutionError) -> Value {
    json!({
        "error": {
            "code": error.code.as_str(),
            "message": error.message,
            "limit": error.limit,
            "line": error.line,
            "column": error.column,
            "hint": error.hint,
            "tool": error.tool.as_ref().map(|(tool, code)| json!({"name": tool, "code": code.as_str()})),
        },
        "output": items(&error.output),
        "warnings": warnings(&error.warnings),
        "usage": usage(&error.usage),
    })
}

fn items(items: &[OutputItem]) -> Vec<Value> {
    items.iter().map(|item| json!({"kind": kind(item.kind), "text": item.text})).collect()
}

fn kind(kind: OutputKind) -> &'static str {
    match kind {
        OutputKind::Debug => "debug",
        OutputKind::Info => "info",
        OutputKind::Warn => "warn",
        OutputKind::Error => "error",
        OutputKind::Emit => "emit",
        OutputKind::Log | OutputKind::Unspecified => "log",
    }
}

fn warnings(warnings: &[Warning]) -> Vec<Value> {
    warnings.iter().map(|it| json!({"code": it.code, "message": it.message})).collect()
}

fn usage(usage: &Usage) -> Value {
    json!({
        "queue_ms": millis(usage.queue),
        "wall_ms": millis(usage.wall),
        "approval_ms": millis(usage.approval),
        "cpu_ms": millis(usage.cpu),
        "tool_calls": usage.tool_calls,
        "output_bytes": usage.output_bytes,
        "memory_bytes": usage.memory_bytes,
    })
}
