//! `eval`: runs one script from standard input in a worker of its own, without network, tools or key.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use relay_proto::{Binding, ErrorCode, LimitName, LimitOverrides, Limits, ToolName};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::config::{Given, WorkerSettings};
use crate::execution::{
    self, Bindings, CallFailure, Control, Event, EventSink, ExecutionError, ExecutionRequest, Needs,
};
use crate::sandbox::pool::{Pool, PoolConfig};

/// Maximum length of standard input in bytes.
const MAX_INPUT_BYTES: u64 = 16 << 20;
/// Default of `limits.wall_ms`.
const DEFAULT_WALL_MS: u64 = 1_000;
/// Default of `limits.output_kb`, in KiB.
const DEFAULT_OUTPUT_KB: u64 = 64;

/// The flags of `eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    #[command(flatten)]
    workers: Given<WorkerSettings>,
    /// Let V8 compile to machine code, as a relay does for tokens that allow it
    #[arg(long)]
    jit: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvalRequest {
    source: String,
    #[serde(default)]
    input: String,
    #[serde(default)]
    limits: EvalLimits,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EvalLimits {
    wall_ms: u64,
    output_kb: u64,
}

impl Default for EvalLimits {
    fn default() -> Self {
        Self { wall_ms: DEFAULT_WALL_MS, output_kb: DEFAULT_OUTPUT_KB }
    }
}

#[derive(Debug, Serialize)]
struct EvalOutput<'a> {
    output: &'a str,
}

#[derive(Debug, Serialize)]
struct EvalError<'a> {
    code: &'a str,
    message: &'a str,
}

/// Runs the script on standard input and prints its output, or its error. Returns whether it succeeded.
///
/// # Errors
/// [`std::io::Error`]: standard input or output fails.
pub async fn eval(args: EvalArgs) -> std::io::Result<bool> {
    let mut input = Vec::new();
    std::io::stdin().take(MAX_INPUT_BYTES + 1).read_to_end(&mut input)?;
    let mut sink = Output { text: String::new() };
    let result = run(args, &input, &mut sink).await;
    let ended_at_limit = matches!(&result, Err(error) if error.code == ErrorCode::OutputLimit);
    if result.is_ok() || ended_at_limit {
        print_json(&mut std::io::stdout(), &EvalOutput { output: &sink.text })?;
    }
    if let Err(error) = &result {
        print_json(&mut std::io::stderr(), &EvalError { code: error.code.as_str(), message: &error.message })?;
    }
    Ok(result.is_ok())
}

fn print_json(to: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

async fn run(args: EvalArgs, input: &[u8], sink: &mut Output) -> Result<(), ExecutionError> {
    let invalid = |message: String| ExecutionError::new(ErrorCode::InvalidInput, message);
    if input.len() as u64 > MAX_INPUT_BYTES {
        return Err(invalid(format!("standard input has more than {MAX_INPUT_BYTES} bytes")));
    }
    let request: EvalRequest = serde_json::from_slice(input).map_err(|error| {
        invalid(format!("standard input has to be JSON like {{\"source\":\"emit('hi')\",\"input\":\"\"}}: {error}"))
    })?;
    let mut asked = LimitOverrides::default();
    asked.set(LimitName::WallMs, request.limits.wall_ms);
    asked.set(LimitName::OutputBytes, request.limits.output_kb.saturating_mul(1024));
    let (limits, _) = Limits::defaults().replaced(&asked, &Limits::maxima());
    let most = limits.size(LimitName::SourceBytes);
    if request.source.len() > most {
        return Err(invalid(format!(
            "the source has {} bytes; the limit source_bytes is {most}",
            request.source.len()
        )));
    }
    let internal = |error: String| ExecutionError::new(ErrorCode::Internal, error);
    let config = args.workers.values().pool(Limits::maxima());
    let pool =
        Pool::start(PoolConfig { stock: 1, jit: args.jit, ..config }).map_err(|error| internal(error.to_string()))?;
    let mut worker = pool.take().await.map_err(|error| internal(error.to_string()))?;
    let bindings = Bindings::from(Binding::Io);
    let EvalRequest { source, input, .. } = request;
    let request = ExecutionRequest { input, bindings, ..ExecutionRequest::new(source, limits) };
    // Without a sender the execution would count as cancelled.
    let (_sender, commands) = mpsc::channel(1);
    let control = Control { commands, states: Arc::default(), place: None, stopped_for: Duration::ZERO };
    execution::run(&mut worker, request, control, sink).await.result.map(drop)
}

/// Collects what the script emits. It offers no tool and no store.
struct Output {
    text: String,
}

impl EventSink for Output {
    type Permit = ();

    fn check_tool(&self, tool: &ToolName, _is_recorded: bool) -> Result<(), CallFailure> {
        let message = format!("there is no server {:?}; eval has no tools", tool.server());
        Err(CallFailure { code: ErrorCode::UnknownServer.into(), message })
    }

    fn store(&self, _key: String, _json: Option<Bytes>) -> bool {
        false
    }

    async fn reserve(&self, _: Needs) -> Option<()> {
        Some(())
    }

    fn send(&mut self, (): (), event: Event) {
        match event {
            Event::Output(items, _) => self.text.extend(items.into_iter().map(|item| item.text)),
            // `check_tool` refuses every call, and `eval` is not durable.
            Event::Call { .. } | Event::CallGivenUp { .. } | Event::Begun(_) | Event::Waiting { .. } => {}
        }
    }
}
