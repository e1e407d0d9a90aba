//! The short paths: what is one tool call and no more needs no sandbox. It passes the same pipeline here, with the same events,
//! limits and outcome.
//!
//! Whether code is one is decided by its syntax tree. What cannot be told for certain runs in the sandbox.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use relay_proto::spelling::sanitize;
use relay_proto::wire::{self, Usage};
use relay_proto::{Code, ErrorCode, INTROSPECTION_SERVER, LOCAL_SERVER, LimitName, ToolName, ToolPatterns};
use relay_script::{Callee, Shortcut, json, shortcut};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::ExecuteRequest;
use crate::connection::Shared;
use crate::dispatch::{self, Caller};
use crate::error::ExecutionError;
use crate::host::ExecutionContext;
use crate::ledger::{LedgerPermit, OWN_CALL};
use crate::registry::Tools;

/// Names of globals that code has when it has server objects; a server with such a name is found under `servers` alone.
const BOUND: [&str; 14] = [
    "__getToolInterface",
    "__interfaces",
    "clearInterval",
    "clearTimeout",
    "console",
    "emit",
    "globalThis",
    "mcp",
    "read_input",
    "servers",
    "setInterval",
    "setTimeout",
    "store",
    "undefined",
];

/// One call, as it is known before anything is asked of anybody.
pub(crate) struct OwnCall {
    /// The full name.
    tool: String,
    arguments: Bytes,
    /// What the call, and the execution with it, may take.
    within: Duration,
    /// Whether that is because the execution may take no longer.
    by_wall: bool,
    result_bytes: u64,
}

/// What an execution may use and see, as far as a short path depends on it.
pub(crate) struct Granted<'a> {
    pub(crate) tools: &'a Tools,
    pub(crate) patterns: &'a ToolPatterns,
    pub(crate) offered: &'a [String],
    pub(crate) limit: &'a dyn Fn(LimitName) -> u64,
}

/// A tool call as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    tool: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// The call that a request is, if it is one that can be made here.
pub(crate) fn find(request: &ExecuteRequest, granted: &Granted<'_>) -> Option<OwnCall> {
    let code = request.code.as_str();
    let fits = code.len() as u64 <= (granted.limit)(LimitName::SourceBytes);
    if !fits || !request.bindings.iter().all(|name| granted.offered.contains(name)) || !request.local_tools.is_empty() {
        return None;
    }
    let (tool, arguments) = written(code).or_else(|| literal(request, granted))?;
    let arguments_fit = arguments.len() as u64 <= (granted.limit)(LimitName::ArgumentsBytes);
    let may_call = (granted.limit)(LimitName::ToolCalls) > 0;
    let (call_ms, wall_ms) = ((granted.limit)(LimitName::ToolCallMs), (granted.limit)(LimitName::WallMs));
    (arguments_fit && may_call).then(|| OwnCall {
        tool,
        arguments: arguments.into(),
        within: Duration::from_millis(call_ms.min(wall_ms)),
        by_wall: wall_ms <= call_ms,
        result_bytes: (granted.limit)(LimitName::ResultBytes),
    })
}

/// `{"tool": "server.tool", "arguments": {…}}`.
fn written(code: &str) -> Option<(String, Vec<u8>)> {
    let code = code.trim();
    if !code.starts_with('{') || !code.ends_with('}') {
        return None;
    }
    let Written { tool, arguments } = serde_json::from_str(code).ok()?;
    let arguments = arguments.map_or("{}", RawValue::get);
    // What is no object at its start is no call.
    arguments
        .starts_with('{')
        .then(|| json::normalize(arguments.as_bytes()))
        .flatten()
        .map(|arguments| (tool, arguments))
}

/// Code whose syntax tree is one call with literal arguments, of a tool that there is.
fn literal(request: &ExecuteRequest, granted: &Granted<'_>) -> Option<(String, Vec<u8>)> {
    let has = |binding: &str| request.bindings.iter().any(|name| name == binding);
    let call = match shortcut(&request.code)? {
        Shortcut::Interfaces if has("introspection") => return Some(("mcp.interfaces".into(), b"{}".into())),
        Shortcut::ToolInterface(name) if has("introspection") => {
            let name = serde_json::json!({ "name": name });
            return Some(("mcp.interface".into(), name.to_string().into()));
        }
        Shortcut::Interfaces | Shortcut::ToolInterface(_) => return None,
        Shortcut::Call(call) => call,
    };
    let name = match call.callee {
        Callee::Named(name) => ToolName::try_from(name).ok()?,
        Callee::Member { server, tool } if has("servers") => meant(granted, &server, &tool)?,
        Callee::Member { .. } => return None,
    };
    // What is not there gets its error, with a hint, where the code would run.
    let is_known = granted.patterns.allow(&name) && granted.tools.get(name.as_str()).is_some();
    let is_tool = name.server() != INTROSPECTION_SERVER && name.server() != LOCAL_SERVER;
    (is_known && is_tool).then(|| (name.as_str().to_owned(), call.arguments.to_json()))
}

/// The tool that `server.tool(…)` means where the code runs: what can be meant by two names is refused there.
fn meant(granted: &Granted<'_>, server: &str, tool: &str) -> Option<ToolName> {
    if sanitize(server) != server || sanitize(tool) != tool || BOUND.contains(&server) {
        return None;
    }
    let tools = granted.tools.callable();
    let allowed = || tools.iter().map(|tool| &tool.name).filter(|name| granted.patterns.allow(name));
    let mut servers: Vec<_> = allowed().map(ToolName::server).filter(|name| sanitize(name) == server).collect();
    servers.dedup();
    let [server] = *servers else { return None };
    let mut meant = allowed().filter(|name| name.server() == server && sanitize(name.tool()) == tool);
    match (meant.next(), meant.next()) {
        (Some(name), None) => Some(name.clone()),
        _ => None,
    }
}

/// Begins the call. Its execution ends with what comes of it.
pub(crate) fn start(shared: &Arc<Shared>, context: &Arc<ExecutionContext>, call: OwnCall) {
    let message = wire::ToolCall {
        id: OWN_CALL.to_string(),
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
        remaining_ms: u64::try_from(call.within.as_millis()).unwrap_or(u64::MAX),
        execution_id: context.id.as_str().to_owned(),
        ..wire::ToolCall::default()
    };
    match shared.ledger.enter_own(&context.id, &message) {
        Ok(permit) => {
            let running = tokio::spawn(run(Arc::clone(shared), Arc::clone(context), call, permit, message));
            shared.ledger.set_abort(OWN_CALL, &context.id, running.abort_handle());
        }
        Err((code, error)) => shared.ledger.end(&context.id, Err(thrown(&call.tool, code.into(), &error))),
    }
}

async fn run(
    shared: Arc<Shared>,
    context: Arc<ExecutionContext>,
    call: OwnCall,
    permit: LedgerPermit,
    message: wire::ToolCall,
) {
    let began = Instant::now();
    let (host, grants) = (&shared.host, &shared.grants);
    let answer = dispatch::dispatch(host, grants, &shared.ledger, permit, message, Caller::Host).await;
    // Where nobody waits any more, the execution has ended already.
    let Some(answer) = answer else { return };
    let (approval, _) = context.asked.clock.waited();
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let usage = Usage {
        wall_us: micros(began.elapsed().saturating_sub(approval)),
        approval_us: micros(approval),
        tool_calls: 1,
        ..Usage::default()
    };
    let ended = match outcome(&call, answer) {
        Ok(data) => Ok(wire::Result { data: data.into(), usage: Some(usage), ..wire::Result::default() }),
        Err(error) => Err(ExecutionError { usage: usage.into(), ..error }),
    };
    shared.ledger.end(&context.id, ended);
}

/// The error that code ends with where it does not catch that of a call.
fn thrown(tool: &str, code: Code, message: &str) -> ExecutionError {
    ExecutionError {
        tool: Some((tool.to_owned(), code)),
        ..ExecutionError::new(ErrorCode::EvalError, format!("Error: {message}"))
    }
}

/// What the sandbox would have made of the answer.
fn outcome(call: &OwnCall, answer: wire::ToolResult) -> Result<Vec<u8>, ExecutionError> {
    let tool = &call.tool;
    if !answer.success {
        let code = Code::from(answer.code);
        if call.by_wall && code == ErrorCode::ToolTimeout {
            let text = format!("the limit wall_ms of {} is used up", call.within.as_millis());
            let limit = Some(LimitName::WallMs.as_str().to_owned());
            return Err(ExecutionError { limit, ..ExecutionError::new(ErrorCode::Timeout, text) });
        }
        return Err(thrown(tool, code, &answer.error));
    }
    let result = if answer.result.is_empty() { b"null" } else { &answer.result[..] };
    let data = match json::normalize(result) {
        Some(data) => data,
        None if serde_json::from_slice::<serde::de::IgnoredAny>(result).is_ok() => {
            let text = "the result cannot be returned as JSON: it nests more than 100 levels";
            return Err(ExecutionError::new(ErrorCode::NotSerializable, text));
        }
        None => {
            let text = format!("the result of {tool} is not JSON");
            return Err(thrown(tool, ErrorCode::InvalidResult.into(), &text));
        }
    };
    if data.len() as u64 > call.result_bytes {
        let (bytes, most) = (data.len(), call.result_bytes);
        let text = format!("the result has {bytes} bytes; the limit result_bytes is {most}");
        let hint = "return only what is needed: filter, count or summarize in code";
        return Err(ExecutionError {
            limit: Some(LimitName::ResultBytes.as_str().to_owned()),
            hint: Some(hint.into()),
            ..ExecutionError::new(ErrorCode::ResultLimit, text)
        });
    }
    Ok(data)
}
