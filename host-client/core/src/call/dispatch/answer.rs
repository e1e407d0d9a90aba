//! Answers to tool calls, as messages.

use bytes::Bytes;
use relay_proto::{CallId, Code, ErrorCode, wire};

use crate::call::ledger::Refused;

/// The maximum length of a failure's message, in bytes; longer ones are cut.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// Returns the answer to a call that the ledger refused; `None`: the same call still runs, so that its answer will
/// come, or the relay broke the protocol.
pub(crate) fn refusal(call: wire::ToolCall, refused: Refused) -> Option<wire::ToolResult> {
    match refused {
        Refused::Running => None,
        Refused::Answered(answer) => Some(answer),
        Refused::Failed(code, message) => Some(failure(call.id, code, message)),
        Refused::Violation(_) => None,
    }
}

/// Parses the id of a call; `None`: it is not a valid call id.
pub(crate) fn call_id(call: &wire::ToolCall) -> Option<CallId> {
    CallId::try_from(call.id.as_str()).ok()
}

/// Returns the answer to a call that has a result, as JSON.
pub(crate) fn success(id: String, result: Bytes) -> wire::ToolResult {
    wire::ToolResult { id, success: true, result, ..wire::ToolResult::default() }
}

/// Returns the answer to a call that failed.
pub(crate) fn failure(id: String, code: ErrorCode, mut message: String) -> wire::ToolResult {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    let code = Code::from(code).as_str().to_owned();
    wire::ToolResult { id, success: false, error: message, code, ..wire::ToolResult::default() }
}
