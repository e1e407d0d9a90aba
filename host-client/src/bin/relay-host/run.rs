//! `run`: one script from a file.

use std::io::Read as _;
use std::path::Path;

use host_client::{Client, Error, ExecuteRequest, Outcome, OutputItem, OutputKind};
use serde_json::{Value, json};

use crate::args::{ExecutionArgs, RunArgs};
use crate::exit::{FAILED, Failure};
use crate::progress::Progress;
use crate::setup::Setup;

pub(crate) async fn run(args: RunArgs) -> Result<(), Failure> {
    let code = read(&args.file)?;
    let progress = Progress::new(!args.json);
    let setup = Setup::new(&args.host, Some(&progress)).await?;
    let (client, relay) = setup.connect(&args.relay).await?;
    let outcome = execute(&client, request(code, &args.execution), &progress).await;
    let shown = show(outcome, args.json);
    drop((client, relay));
    setup.close().await;
    shown
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut code = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut code).map(drop)
    } else {
        std::fs::read_to_string(file).map(|text| code = text)
    };
    read.map_err(|error| Failure::usage(format!("{} cannot be read: {error}", file.display())))?;
    Ok(code)
}

pub(crate) fn request(code: String, args: &ExecutionArgs) -> ExecuteRequest {
    let mut request = ExecuteRequest::new(code);
    for (name, value) in &args.limit {
        request = request.limit(*name, *value);
    }
    if !args.tool.is_empty() {
        request = request.tools(args.tool.iter().cloned());
    }
    match args.phase {
        Some(phase) => request.phase(phase.into()),
        None => request,
    }
}

/// Runs it, shows how it goes, and cancels it on Ctrl-C.
pub(crate) async fn execute(client: &Client, request: ExecuteRequest, progress: &Progress) -> Result<Outcome, Error> {
    let mut execution = client.execute(request).await?;
    let watching = execution.events().map(|events| progress.watch(events));
    let outcome = tokio::select! {
        outcome = &mut execution => Some(outcome),
        _ = tokio::signal::ctrl_c() => None,
    };
    let outcome = match outcome {
        Some(outcome) => outcome,
        None => {
            // Dropped without an end, it is cancelled.
            drop(execution);
            Err(Error::Refused("interrupted".into()))
        }
    };
    if let Some(watching) = watching {
        // It ends with the last event.
        let _ = watching.await;
    }
    outcome
}

#[expect(clippy::print_stdout, reason = "the value that was asked for")]
pub(crate) fn show(outcome: Result<Outcome, Error>, as_json: bool) -> Result<(), Failure> {
    let (output, warnings) = match &outcome {
        Ok(outcome) => (&outcome.output[..], &outcome.warnings[..]),
        Err(Error::Execution(error)) => (&error.output[..], &error.warnings[..]),
        Err(_) => (&[][..], &[][..]),
    };
    if as_json {
        println!("{}", object(&outcome, output));
        return match outcome {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure { text: String::new(), ..Failure::from(error) }),
        };
    }
    for item in output {
        match item.kind {
            OutputKind::Emit => eprint!("{}", item.text),
            _ => eprintln!("{}", item.text),
        }
    }
    for warning in warnings {
        eprintln!("warning: {}", warning.message);
    }
    let outcome = match outcome {
        Err(Error::Refused(reason)) if reason == "interrupted" => {
            return Err(Failure { status: FAILED, text: "interrupted; the execution was cancelled".into() });
        }
        outcome => outcome?,
    };
    println!("{}", String::from_utf8_lossy(&outcome.json));
    Ok(())
}

/// All there is to know of an outcome.
fn object(outcome: &Result<Outcome, Error>, output: &[OutputItem]) -> Value {
    let output: Vec<_> = output.iter().map(|item| json!({"kind": kind(item.kind), "text": item.text})).collect();
    match outcome {
        Ok(outcome) => json!({
            "result": outcome.value().unwrap_or_default(),
            "output": output,
            "warnings": outcome.warnings.iter().map(|it| json!({"code": it.code, "message": it.message})).collect::<Vec<_>>(),
            "usage": usage(&outcome.usage),
        }),
        Err(Error::Execution(error)) => json!({
            "error": {
                "code": error.code.as_str(),
                "message": error.message,
                "limit": error.limit,
                "line": error.line,
                "column": error.column,
                "hint": error.hint,
                "tool": error.tool.as_ref().map(|(tool, code)| json!({"name": tool, "code": code.as_str()})),
            },
            "output": output,
            "warnings": error.warnings.iter().map(|it| json!({"code": it.code, "message": it.message})).collect::<Vec<_>>(),
            "usage": usage(&error.usage),
        }),
        Err(error) => json!({"error": {"code": error.code().map(ToString::to_string), "message": error.to_string()}}),
    }
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

fn usage(usage: &host_client::client::Usage) -> Value {
    let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "queue_ms": milliseconds(usage.queue),
        "wall_ms": milliseconds(usage.wall),
        "approval_ms": milliseconds(usage.approval),
        "cpu_ms": milliseconds(usage.cpu),
        "tool_calls": usage.tool_calls,
        "output_bytes": usage.output_bytes,
        "memory_bytes": usage.memory_bytes,
    })
}
