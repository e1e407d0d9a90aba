//! What a tool call passes, from the relay's frame to the answer. Each step takes the proof of the one before.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use relay_proto::id::MAX_TOOL_NAME_BYTES;
use relay_proto::{CallId, Code, ErrorCode, LimitName, ToolName, wire};

use crate::event::Event;
use crate::ledger::{Ledger, LedgerPermit, Refused};
use crate::registry::{Registered, Tools};
use crate::tools::CallContext;
use crate::trace::TraceContext;
use crate::validate::ValidArguments;

/// The longest text of a failure that is sent, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// A failure, as the code reads it.
struct Failure(ErrorCode, String);

/// A tool's result that fits.
struct FittingResult(Bytes);

/// Takes a call through all its steps. Gives the answer, unless nobody waits for it any more.
pub(crate) async fn dispatch(
    tools: &Tools,
    ledger: &Ledger,
    permit: LedgerPermit,
    call: wire::ToolCall,
) -> Option<wire::ToolResult> {
    let started = Instant::now();
    let outcome = run(tools, &permit, &call).await;
    let id = permit.id.0;
    let (answer, event) = match outcome {
        Ok((tool, FittingResult(result))) => {
            let event = Event::ToolCallFinished { id, tool, elapsed: started.elapsed(), result_bytes: result.len() };
            (success(call.id, result), event)
        }
        Err(Failure(code, message)) => {
            let answer = failure(call.id, code, message);
            let mut tool = call.tool;
            tool.truncate(tool.floor_char_boundary(MAX_TOOL_NAME_BYTES));
            (answer.clone(), Event::ToolCallFailed { id, tool, code: code.into(), message: answer.error })
        }
    };
    // Nobody has to watch.
    let _ = permit.events.send(event);
    ledger.answer(&permit, &answer).then_some(answer)
}

/// The steps between the ledger and the reply.
async fn run(
    tools: &Tools,
    permit: &LedgerPermit,
    call: &wire::ToolCall,
) -> Result<(ToolName, FittingResult), Failure> {
    let registered = &*find(tools, &call.tool)?;
    let arguments = check_arguments(registered, &call.arguments)?;
    let _ = permit.events.send(Event::ToolCallStarted { id: permit.id.0, tool: registered.name.clone() });
    let remaining = Duration::from_millis(call.remaining_ms.max(1));
    let context = CallContext {
        execution: permit.execution.clone(),
        call: permit.id.0,
        tool: registered.name.clone(),
        deadline: tokio::time::Instant::now() + remaining,
        trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            .parse::<TraceContext>()
            .map_err(|_| Failure(ErrorCode::Internal, String::new()))?,
    };
    let result = execute(registered, arguments, context, remaining).await?;
    let result = check_size(registered, result)?;
    Ok((registered.name.clone(), result))
}

fn find(tools: &Tools, name: &str) -> Result<Arc<Registered>, Failure> {
    let known = tools.get(name);
    known.ok_or_else(|| match ToolName::try_from(name.to_owned()) {
        Err(error) => Failure(ErrorCode::InvalidToolName, error.to_string()),
        Ok(name) if tools.has_server(name.server()) => {
            Failure(ErrorCode::UnknownTool, format!("the server {:?} has no tool {:?}", name.server(), name.tool()))
        }
        Ok(name) => Failure(ErrorCode::UnknownServer, format!("there is no server {:?}", name.server())),
    })
}

fn check_arguments(registered: &Registered, json: &[u8]) -> Result<ValidArguments, Failure> {
    let invalid = |reason: String| {
        Failure(
            ErrorCode::InvalidArguments,
            format!("{} was called with arguments that do not fit: {reason}", registered.name),
        )
    };
    let most = LimitName::ArgumentsBytes.maximum();
    if json.len() as u64 > most {
        let message =
            format!("the arguments of {} have {} bytes; at most {most} are taken", registered.name, json.len());
        return Err(Failure(ErrorCode::ArgumentsLimit, message));
    }
    let json = if json.is_empty() { b"null" } else { json };
    let arguments = serde_json::from_slice(json).map_err(|error| invalid(error.to_string()))?;
    registered.arguments.check(arguments).map_err(invalid)
}

async fn execute(
    registered: &Registered,
    arguments: ValidArguments,
    context: CallContext,
    remaining: Duration,
) -> Result<Bytes, Failure> {
    let name = &registered.name;
    // The tool's own code may panic before its future exists, too.
    let running =
        AssertUnwindSafe(async { registered.tool.call(arguments.into_inner(), context).await }).catch_unwind();
    let most = registered.spec.manifest.timeout.min(remaining);
    match tokio::time::timeout(most, running).await {
        Ok(Ok(Ok(result))) => Ok(result),
        Ok(Ok(Err(error))) => {
            let (code, message) = error.into_parts();
            Err(Failure(code, message))
        }
        Ok(Err(_panic)) => Err(Failure(ErrorCode::ToolFailed, format!("{name} failed inside (it panicked)"))),
        Err(_elapsed) => {
            Err(Failure(ErrorCode::ToolTimeout, format!("{name} did not answer within {} ms", most.as_millis())))
        }
    }
}

fn check_size(registered: &Registered, result: Bytes) -> Result<FittingResult, Failure> {
    // What is larger could not be sent at all.
    let sendable = usize::try_from(LimitName::ToolResultBytes.maximum()).unwrap_or(usize::MAX);
    let most = registered.spec.manifest.result_bytes.min(sendable);
    if result.len() > most {
        let message =
            format!("the result of {} has {} bytes; at most {most} are allowed", registered.name, result.len());
        return Err(Failure(ErrorCode::ToolResultLimit, message));
    }
    Ok(FittingResult(result))
}

/// The answer to a call that the ledger did not let in; nothing when the first one's answer is still to come.
pub(crate) fn refusal(call: wire::ToolCall, refused: Refused) -> Option<wire::ToolResult> {
    match refused {
        Refused::Running => None,
        Refused::Answered(answer) => Some(answer),
        Refused::Failed(code, message) => Some(failure(call.id, code, message)),
        Refused::Violation(_) => None,
    }
}

/// The id of a call, if it is one of the relay's.
pub(crate) fn call_id(call: &wire::ToolCall) -> Option<CallId> {
    CallId::try_from(call.id.as_str()).ok()
}

fn success(id: String, result: Bytes) -> wire::ToolResult {
    wire::ToolResult { id, success: true, result, ..wire::ToolResult::default() }
}

fn failure(id: String, code: ErrorCode, mut message: String) -> wire::ToolResult {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    let code = Code::from(code).as_str().to_owned();
    wire::ToolResult { id, success: false, error: message, code, ..wire::ToolResult::default() }
}
