//! Durable runs as tasks of MCP, for clients that have the tasks extension.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use relay_proto::ErrorCode as ErrorName;
use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, ErrorCode, JsonObject, Task, TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;

use super::owned::is_stateless;
use super::rounds::{can_ask, questions};
use crate::agent::ExecuteCode;
use crate::agent::handles::{Found, NotFound};
use host_client_core::durable::RunHead;
use host_client_core::runs::RunState;
use host_client_core::{Run, Runs};

/// Interval at which clients are told to look, in ms.
const LOOK_EVERY_MS: u64 = 2_000;

/// Returns whether the client has tasks.
pub(super) fn are_known(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

/// Makes the task of a run that waits; `None`: the journal cannot be read.
pub(super) async fn of(runs: &Runs, run: &Run) -> Option<CreateTaskResult> {
    let head = runs.journal().run(run.id().clone()).await.ok()??;
    Some(CreateTaskResult::new(task(&head, TaskStatus::Working)))
}

/// Returns a task in its present state.
///
/// # Errors
/// Invalid parameters: there is no such task, or it is somebody else's. Internal error: the journal cannot be read.
pub(super) async fn get(
    tools: &ExecuteCode,
    runs: &Runs,
    id: &str,
    (context, asks_client): (&RequestContext<RoleServer>, bool),
) -> Result<DetailedTask, ErrorData> {
    let found = find(tools, runs, id).await?;
    let payload = match &found {
        Found::Here(run) if run.state() != RunState::Ended => {
            let requests = match asks_client && can_ask(context) {
                true => questions(run, None, !is_stateless(context)).await,
                false => Default::default(),
            };
            match requests.is_empty() {
                true => TaskPayload::Working,
                false => TaskPayload::InputRequired { input_requests: requests },
            }
        }
        Found::Elsewhere(_) => TaskPayload::Working,
        _ => ended(tools, found).await,
    };
    let head = match id.parse() {
        Ok(id) => runs.journal().run(id).await.map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
        Err(_) => None,
    };
    let head = head.ok_or_else(|| unknown(id))?;
    Ok(DetailedTask::new(task(&head, payload.status()), payload))
}

/// Finds the run of a task.
///
/// # Errors
/// Invalid parameters: there is no such task, or it is somebody else's. Internal error: it cannot be read now.
pub(super) async fn find(tools: &ExecuteCode, runs: &Runs, id: &str) -> Result<Found, ErrorData> {
    tools.find(runs, id).await.map_err(|reason| failed(reason, id))
}

/// Cancels a task: leaves that in the journal. Its state may follow a moment later; one that has ended stays as it is.
///
/// # Errors
/// Invalid parameters: there is no such task, or it is somebody else's. Internal error: the journal does not take it.
pub(super) async fn cancel(tools: &ExecuteCode, runs: &Runs, id: &str) -> Result<(), ErrorData> {
    match tools.begin_cancel(runs, id).await {
        Ok(_) | Err(NotFound::Ended) => Ok(()),
        Err(reason) => Err(failed(reason, id)),
    }
}

fn failed(reason: NotFound, id: &str) -> ErrorData {
    match reason {
        NotFound::Unknown => unknown(id),
        reason => ErrorData::internal_error(reason.report(id).text, None),
    }
}

fn unknown(id: &str) -> ErrorData {
    ErrorData::invalid_params(format!("there is no task {:?}", host_client_core::text::short_name(id)), None)
}

/// Returns the payload of a run that has ended. That the code failed is a result of its call.
async fn ended(tools: &ExecuteCode, found: Found) -> TaskPayload {
    let report = tools.shown_found(found).await;
    let code = report.structured.as_ref().map(|report| &report["error"]["code"]);
    if code.is_some_and(|code| code == ErrorName::Cancelled.as_str()) {
        return TaskPayload::Cancelled;
    }
    match serde_json::to_value(CallToolResult::from(report)) {
        Ok(Value::Object(result)) => TaskPayload::Completed { result },
        _ => {
            let mut error = JsonObject::new();
            error.insert("code".into(), ErrorCode::INTERNAL_ERROR.0.into());
            error.insert("message".into(), "the result cannot be written as JSON".into());
            TaskPayload::Failed { error }
        }
    }
}

fn task(head: &RunHead, status: TaskStatus) -> Task {
    let task = Task::new(head.id.as_str(), status, time(head.created_ms), time(head.changed_ms));
    task.with_poll_interval_ms(LOOK_EVERY_MS)
}

fn time(ms: i64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or_default());
    let latest = SystemTime::now() + Duration::from_secs(86_400);
    humantime::format_rfc3339_millis(at.min(latest)).to_string()
}
