//! Short paths: a request that is exactly one tool call runs on this host, without a sandbox. The call passes the same
//! steps, with the same events, limits and outcome.
//!
//! The syntax tree of the code decides. In doubt, the code runs in the sandbox.

mod deep;
mod written;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use relay_proto::code::warning;
use relay_proto::spelling::sanitize;
use relay_proto::wire::{self, Usage};
use relay_proto::{Binding, Code, ErrorCode, INTROSPECTION_SERVER, LOCAL_SERVER, LimitName, ToolName, ToolPatterns};
use relay_script::{Callee, Shortcut, integers, json, shortcut};

use super::request::{ExecuteRequest, LargeIntegers};
use crate::call::dispatch::{self, Caller};
use crate::call::{CallPermit, ExecutionContext};
use crate::error::ExecutionError;
use crate::introspect;
use crate::session::Session;
use crate::tools::Tools;
use written::Written;

/// The short path of a request, chosen without a sandbox.
pub(crate) enum Plan {
    /// One call, which is made on this host.
    Call(OwnCall),
    /// A call as JSON that has to be made in the sandbox: this code makes it there.
    Code(String),
    /// A request that cannot run; it ends with this error.
    Refused(Box<ExecutionError>),
}

/// One call that this host makes, with the limits of its execution.
pub(crate) struct OwnCall {
    /// The tool's full name.
    tool: String,
    arguments: Bytes,
    /// Line and column of the call in the code; `None`: it has none there, as `__interfaces` has not.
    place: Option<(u32, u32)>,
    /// `true`: integers of the result that no number holds are texts.
    has_large_texts: bool,
    limits: OwnLimits,
}

/// The effective limits of the call and its execution.
#[derive(Clone, Copy)]
struct OwnLimits {
    call_ms: u64,
    wall_ms: u64,
    cpu_ms: u64,
    tool_calls: u64,
    output_bytes: u64,
    tool_result_bytes: u64,
    result_bytes: u64,
}

impl OwnLimits {
    fn new(limit: impl Fn(LimitName) -> u64) -> Self {
        Self {
            call_ms: limit(LimitName::ToolCallMs),
            wall_ms: limit(LimitName::WallMs),
            cpu_ms: limit(LimitName::CpuMs),
            tool_calls: limit(LimitName::ToolCalls),
            output_bytes: limit(LimitName::OutputBytes),
            tool_result_bytes: limit(LimitName::ToolResultBytes),
            result_bytes: limit(LimitName::ResultBytes),
        }
    }

    /// Says how much of each limit is used, in the relay's words.
    fn standing(&self, usage: &Usage) -> String {
        let used = [
            (LimitName::WallMs, usage.wall_us / 1_000, self.wall_ms),
            (LimitName::CpuMs, 0, self.cpu_ms),
            (LimitName::ToolCalls, usage.tool_calls, self.tool_calls),
            (LimitName::OutputBytes, 0, self.output_bytes),
        ];
        let parts = used.map(|(name, used, most)| format!("{name} {used} of {most}"));
        format!("used: {}", parts.join(", "))
    }
}

/// The parts of the session and the host on which a short path depends.
pub(crate) struct Surroundings<'a> {
    pub(crate) tools: &'a Tools,
    pub(crate) patterns: &'a ToolPatterns,
    /// `true`: the relay says which tools the token allows. With `false`, only the relay knows, and there are no short
    /// paths.
    pub(crate) knows_patterns: bool,
    pub(crate) offered: &'a [String],
    pub(crate) limit: &'a dyn Fn(LimitName) -> u64,
}

/// Chooses the short path of a request; `None`: it runs unchanged on the relay.
pub(crate) fn find(request: &ExecuteRequest, around: &Surroundings<'_>) -> Option<Plan> {
    let limits = OwnLimits::new(around.limit);
    let fits = request.code.len() as u64 <= (around.limit)(LimitName::SourceBytes);
    let offered = request.bindings.iter().all(|name| around.offered.contains(name));
    let may_run_here = fits
        && offered
        && around.knows_patterns
        && request.short_paths
        && request.local_tools.is_empty()
        // Only JavaScript has them.
        && request.large_integers != LargeIntegers::BigInt
        && limits.tool_calls > 0;
    let has_large_texts = request.large_integers == LargeIntegers::Text;
    let call = |tool, arguments: Vec<u8>, place| {
        Plan::Call(OwnCall { tool, arguments: arguments.into(), place, has_large_texts, limits })
    };
    match written::read(&request.code) {
        Written::No => {}
        Written::Unfit(reason) => {
            return Some(Plan::Refused(Box::new(ExecutionError::new(ErrorCode::InvalidInput, reason))));
        }
        Written::Call { tool, arguments } => {
            let is_question = introspect::is_question(&tool) && !has(request, Binding::Introspection);
            return Some(if may_run_here && !is_question {
                call(tool, arguments, Some(written::PLACE))
            } else {
                Plan::Code(written::as_code(&tool, &arguments))
            });
        }
    }
    if !may_run_here {
        return None;
    }
    let (tool, arguments, place) = literal(request, around)?;
    (arguments.len() as u64 <= (around.limit)(LimitName::ArgumentsBytes)).then(|| call(tool, arguments, place))
}

/// Tells whether a request asks for a binding.
fn has(request: &ExecuteRequest, binding: Binding) -> bool {
    request.bindings.iter().any(|name| name == binding.as_str())
}

/// A tool's name, the arguments of a call as JSON, and its place in the code.
type Literal = (String, Vec<u8>, Option<(u32, u32)>);

/// Reads code whose syntax tree is one call with literal arguments. Returns the tool's name, the arguments as
/// JSON and the place of the call; `None`: it is not such code, or the tool is not known.
fn literal(request: &ExecuteRequest, around: &Surroundings<'_>) -> Option<Literal> {
    let has = |binding| has(request, binding);
    let call = match shortcut(&request.code)? {
        Shortcut::Interfaces if has(Binding::Introspection) => {
            return Some(("mcp.interfaces".into(), b"{}".into(), None));
        }
        Shortcut::ToolInterface(name) if has(Binding::Introspection) => {
            let name = serde_json::json!({ "name": name });
            return Some(("mcp.interface".into(), name.to_string().into(), None));
        }
        Shortcut::Interfaces | Shortcut::ToolInterface(_) => return None,
        Shortcut::Call(call) => call,
    };
    let name = match call.callee {
        Callee::Named(name) => ToolName::try_from(name).ok()?,
        Callee::Member { server, tool } if has(Binding::Servers) => meant(around, &server, &tool)?,
        Callee::Member { .. } => return None,
    };
    // For a tool that is not known, the sandbox makes the error and its hint.
    let is_known = around.patterns.allow(&name) && around.tools.get(name.as_str()).is_some();
    let is_tool = name.server() != INTROSPECTION_SERVER && name.server() != LOCAL_SERVER;
    (is_known && is_tool).then(|| (name.as_str().to_owned(), call.arguments.to_json(), Some(call.place)))
}

/// Tells whether code that has server objects has a global of its own under this name: a server of this name is found under
/// `servers` alone.
fn is_bound(name: &str) -> bool {
    ["globalThis", "mcp", "undefined"].contains(&name)
        || Binding::ALL.iter().any(|binding| binding.globals().contains(&name))
}

/// Finds the tool that `server.tool(…)` means in the sandbox; `None`: it means none, or several, which the sandbox
/// refuses.
fn meant(around: &Surroundings<'_>, server: &str, tool: &str) -> Option<ToolName> {
    if sanitize(server) != server || sanitize(tool) != tool || is_bound(server) {
        return None;
    }
    let tools = around.tools.callable();
    let allowed = || tools.iter().map(|tool| &tool.name).filter(|name| around.patterns.allow(name));
    let mut servers: Vec<_> = allowed().map(ToolName::server).filter(|name| sanitize(name) == server).collect();
    servers.dedup();
    let [server] = *servers else { return None };
    let mut meant = allowed().filter(|name| name.server() == server && sanitize(name.tool()) == tool);
    match (meant.next(), meant.next()) {
        (Some(name), None) => Some(name.clone()),
        _ => None,
    }
}

/// Starts the call in a task of its own; its outcome ends the execution.
pub(crate) fn start(session: &Arc<Session>, context: &Arc<ExecutionContext>, call: OwnCall) {
    let message = wire::ToolCall {
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
        remaining_ms: call.limits.call_ms.min(call.limits.wall_ms),
        execution_id: context.id.as_str().to_owned(),
        ..wire::ToolCall::default()
    };
    match session.ledger.enter_own(&context.id, &message) {
        Ok(permit) => {
            let id = permit.call.id;
            let running = tokio::spawn(run(Arc::clone(session), call, permit, message));
            session.ledger.set_abort(id, &context.id, running.abort_handle());
        }
        Err((code, error)) => {
            let error = thrown(&call, code.into(), &error, &Usage::default());
            session.ledger.end(&context.id, Err(error));
        }
    }
}

async fn run(session: Arc<Session>, call: OwnCall, permit: CallPermit, message: wire::ToolCall) {
    let began = Instant::now();
    let context = Arc::clone(&permit.call.context);
    let answer = dispatch::dispatch(&session.host, &permit, message, Caller::Host).await;
    // Nobody waits any more: the execution has ended already.
    if !session.ledger.answer(&permit, &answer) {
        return;
    }
    let (approval, _) = context.approvals.clock.waited();
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let usage = Usage {
        wall_us: micros(began.elapsed().saturating_sub(approval)),
        approval_us: micros(approval),
        tool_calls: 1,
        ..Usage::default()
    };
    let is_number = answer.success && !call.has_large_texts;
    let changed = if is_number { integers::warnings(&call.tool, &answer.result) } else { Vec::new() };
    let warned = |message| wire::Warning { code: warning::VALUE_CHANGED.into(), message };
    let warnings = changed.into_iter().map(warned).collect();
    let ended = match outcome(&call, answer, &usage) {
        Ok(data) => Ok(wire::Result { data: data.into(), usage: Some(usage), warnings, ..wire::Result::default() }),
        Err(error) => Err(ExecutionError { usage: usage.into(), ..error }),
    };
    session.ledger.end(&context.id, ended);
}

/// Makes the error of an execution whose code does not catch the error of a call.
fn thrown(call: &OwnCall, code: Code, message: &str, usage: &Usage) -> ExecutionError {
    let mut error = ExecutionError::new(ErrorCode::EvalError, format!("Error: {message}"));
    if let Code::Known(known) = &code
        && let Some((limit, hint)) = known.limit()
    {
        error.message = format!("{} ({})", error.message, call.limits.standing(usage));
        (error.limit, error.hint) = (Some(limit.as_str().to_owned()), Some(hint.into()));
    }
    let (line, column) = call.place.unzip();
    ExecutionError { tool: Some((call.tool.clone(), code)), line, column, ..error }
}

/// Makes the error of an execution that hit a limit of its own.
fn limit_hit(code: ErrorCode, limit: LimitName, text: &str, hint: &str, standing: &str) -> ExecutionError {
    ExecutionError {
        limit: Some(limit.as_str().to_owned()),
        hint: Some(hint.to_owned()),
        ..ExecutionError::new(code, format!("{text} ({standing})"))
    }
}

/// Turns the answer into the outcome that the sandbox would give: the value as JSON, or an error.
fn outcome(call: &OwnCall, answer: wire::ToolResult, usage: &Usage) -> Result<Vec<u8>, ExecutionError> {
    let OwnCall { tool, limits, .. } = call;
    if !answer.success {
        let code = Code::from(answer.code);
        if limits.wall_ms <= limits.call_ms && code == ErrorCode::ToolTimeout {
            let text = format!("the limit wall_ms of {} is used up", limits.wall_ms);
            let hint = "await independent calls together with Promise.all, or ask for a higher limit";
            return Err(limit_hit(ErrorCode::Timeout, LimitName::WallMs, &text, hint, &limits.standing(usage)));
        }
        return Err(thrown(call, code, &answer.error, usage));
    }
    let (bytes, most) = (answer.result.len(), limits.tool_result_bytes);
    if bytes as u64 > most {
        let text = format!("the result of {tool} has {bytes} bytes; the limit tool_result_bytes is {most}");
        return Err(thrown(call, ErrorCode::ToolResultLimit.into(), &text, usage));
    }
    let result = if answer.result.is_empty() { b"null" } else { &answer.result[..] };
    let too_large = |json: &[u8]| {
        let (bytes, most) = (at_least(json, limits.result_bytes), limits.result_bytes);
        let text = format!("the result has {bytes} bytes or more; the limit result_bytes is {most}");
        let hint = "return only what is needed: filter, count or summarize in the code";
        limit_hit(ErrorCode::ResultLimit, LimitName::ResultBytes, &text, hint, &limits.standing(usage))
    };
    let texts;
    let result = if call.has_large_texts && json::normalize(result).is_some() {
        texts = integers::as_texts(result);
        &*texts
    } else {
        result
    };
    match json::normalize(result) {
        Some(data) if data.len() as u64 > limits.result_bytes => Err(too_large(&data)),
        Some(data) => Ok(data),
        None => Err(match deep::too_deep(result) {
            Some(_) if result.len() as u64 > limits.result_bytes => too_large(result),
            Some(path) => {
                let most = json::MAX_DEPTH;
                let text =
                    format!("the result cannot be returned as JSON: at {path}, it nests more than {most} levels");
                ExecutionError::new(ErrorCode::NotSerializable, text)
            }
            None => {
                let text = format!("the result of {tool} is not JSON");
                thrown(call, ErrorCode::InvalidResult.into(), &text, usage)
            }
        }),
    }
}

/// Returns the length that the sandbox would state for a result that is too long: it tries the cheapest measure first.
fn at_least(json: &[u8], limit: u64) -> usize {
    let text = String::from_utf8_lossy(json);
    let units = |text: &str| text.encode_utf16().count();
    let of_string = serde_json::from_str::<String>(&text).map_or(0, |string| units(&string));
    [of_string, units(&text)].into_iter().find(|length| *length as u64 > limit).unwrap_or(json.len())
}
