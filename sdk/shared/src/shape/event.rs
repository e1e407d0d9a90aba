//! The events of an execution as JSON objects, whose member `type` says which one it is.

use host_client::Event;
use host_client::event::Route;
use serde_json::{Value, json};

use super::{OutputShape, UsageShape, ms};

/// Returns an event as JSON.
pub fn event(event: &Event) -> Value {
    match event {
        Event::CodeReceived { bytes } => json!({"type": "code_received", "bytes": bytes}),
        Event::RouteChosen(Route::Host) => json!({"type": "route_chosen", "route": "host"}),
        Event::RouteChosen(_) => json!({"type": "route_chosen", "route": "relay"}),
        Event::Started => json!({"type": "started"}),
        Event::ToolCallRequested { id, tool, arguments_bytes } => {
            json!({"type": "tool_call_requested", "id": id, "tool": tool, "arguments_bytes": arguments_bytes})
        }
        Event::ToolCallDenied { id, tool, code, reason, rule } => json!({
            "type": "tool_call_denied", "id": id, "tool": tool.as_str(), "code": code.as_str(), "reason": reason,
            "rule": &**rule,
        }),
        Event::ToolCallAwaitingApproval { id, tool, rule, within } => json!({
            "type": "tool_call_awaiting_approval", "id": id, "tool": tool.as_str(), "rule": &**rule,
            "within_ms": ms(*within),
        }),
        Event::ToolCallApproved { id, tool, by, scope } => {
            json!({"type": "tool_call_approved", "id": id, "tool": tool.as_str(), "by": by, "scope": scope})
        }
        Event::ToolCallStarted { id, tool } => {
            json!({"type": "tool_call_started", "id": id, "tool": tool.as_str()})
        }
        Event::ToolCallProgress { id, tool, done, total, message } => json!({
            "type": "tool_call_progress", "id": id, "tool": tool.as_str(), "done": done, "total": total,
            "message": message,
        }),
        Event::ToolCallFinished { id, tool, elapsed, result_bytes } => json!({
            "type": "tool_call_finished", "id": id, "tool": tool.as_str(), "elapsed_ms": ms(*elapsed),
            "result_bytes": result_bytes,
        }),
        Event::ToolCallFailed { id, tool, code, message } => json!({
            "type": "tool_call_failed", "id": id, "tool": tool, "code": code.as_str(), "message": message,
        }),
        Event::Output(item) => {
            let OutputShape { kind, text } = item.into();
            json!({"type": "output", "kind": kind, "text": text})
        }
        Event::Disconnected { reason } => json!({"type": "disconnected", "reason": &**reason}),
        Event::Resumed { after } => json!({"type": "resumed", "after_ms": ms(*after)}),
        Event::Result { bytes } => json!({"type": "result", "bytes": bytes}),
        Event::Ended { code, usage } => json!({
            "type": "ended", "code": code.as_ref().map(|code| code.as_str()), "usage": UsageShape::from(*usage),
        }),
        Event::Missed(count) => json!({"type": "missed", "count": count}),
        _ => json!({"type": "unknown"}),
    }
}
