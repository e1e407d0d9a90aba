//! `execute_code`: one execution as one MCP request.

use std::time::Duration;

use futures_util::future::OptionFuture;
use relay_proto::LimitName;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResult, ContentBlock, ElicitRequestParams, ElicitationAction, ElicitationSchema, EnumSchema,
    ProgressNotificationParam,
};
use rmcp::service::{ElicitationMode, Peer, RequestContext};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{CodeServer, ExecuteArguments, RESULT_BYTES, failure};
use crate::approval::{Approval, ApprovalRequest, CallbackApprover};
use crate::client::{ExecuteRequest, Outcome};
use crate::error::{Error, ExecutionError};
use crate::event::{Event, EventStream, OutputItem, OutputKind};
use crate::prompt::{self, Question as Shown};
use crate::visible::visible;

/// The most bytes of output that are shown.
const MAX_OUTPUT_BYTES: usize = 20_000;
/// The most bytes of what code is for that a person is shown.
const MAX_INTENT_BYTES: usize = 500;

/// A question, and where its answer goes.
type Question = (ApprovalRequest, oneshot::Sender<Approval>);

impl CodeServer {
    pub(super) async fn execute(
        &self,
        arguments: ExecuteArguments,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let ExecuteArguments { code, limits, intent } = arguments;
        let mut request = ExecuteRequest::new(code).limit(LimitName::ResultBytes, RESULT_BYTES);
        for (name, value) in limits {
            match name.parse::<LimitName>() {
                Ok(name) => request = request.limit(name, value),
                Err(error) => return failure(format!("INVALID_INPUT: {error}")),
            }
        }
        let client = match self.client().await {
            Ok(client) => client,
            Err(error) => return failure(format!("the sandbox cannot be reached: {error}")),
        };
        // One question at a time is open.
        let (questions, mut asked) = mpsc::channel::<Question>(1);
        request = request.approver(CallbackApprover::new("MCP elicitation", move |request| {
            let questions = questions.clone();
            async move {
                let (sender, answer) = oneshot::channel();
                match questions.send((request, sender)).await {
                    Ok(()) => answer.await.unwrap_or_else(|_| Approval::deny()),
                    Err(_) => Approval::deny(),
                }
            }
        }));
        let mut execution = match client.execute(request).await {
            Ok(execution) => execution,
            Err(error) => return failure(error.to_string()),
        };
        let Some(mut events) = execution.events() else { return failure("INTERNAL: there are no events") };
        let mut progress = Progress::new(&context);
        let mut open: OptionFuture<_> = None.into();
        loop {
            tokio::select! {
                outcome = &mut execution => {
                    progress.finish(&mut events).await;
                    return report(outcome);
                }
                // Dropping the execution cancels it. Nobody reads the answer.
                () = context.ct.cancelled() => return failure("CANCELLED: the request was cancelled"),
                Some(event) = events.next() => progress.tell(&event).await,
                // The request's own task asks: the question belongs to this request.
                Some((request, answer)) = asked.recv() => {
                    let peer = context.peer.clone();
                    open = Some(Box::pin(ask(peer, request, intent.clone(), answer))).into();
                }
                Some(()) = &mut open => open = None.into(),
            }
        }
    }
}

/// Asks the person at the other end, if there is one.
async fn ask(
    peer: Peer<RoleServer>,
    request: ApprovalRequest,
    intent: Option<String>,
    answer: oneshot::Sender<Approval>,
) {
    // Who waited may be gone.
    let _ = answer.send(elicit(&peer, &request, intent.as_deref()).await);
}

async fn elicit(peer: &Peer<RoleServer>, request: &ApprovalRequest, intent: Option<&str>) -> Approval {
    let deny = |reason: &str| Approval::Deny { reason: Some(reason.to_owned()) };
    if !peer.supported_elicitation_modes().contains(&ElicitationMode::Form) {
        return deny("this client cannot ask anybody (it has no elicitation); allow the tool in the policy instead");
    }
    let scopes = ["once", "execution", "session"].map(str::to_owned).to_vec();
    let titles =
        ["This call", "This tool, until the code ends", "This tool, for the session"].map(str::to_owned).to_vec();
    let scope = match EnumSchema::builder(scopes).enum_titles(titles) {
        Ok(builder) => builder.title("Allow").build(),
        Err(_) => return deny("the question could not be made"),
    };
    let Ok(requested_schema) = ElicitationSchema::builder().required_enum_schema("allow", scope).build() else {
        return deny("the question could not be made");
    };
    let message = question(request, intent);
    let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    let within = request.deadline.saturating_duration_since(tokio::time::Instant::now());
    let answer = peer.create_elicitation_with_timeout(params, Some(within.max(Duration::from_millis(1)))).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(%error, "an approval could not be asked for");
            return deny("the question could not be asked");
        }
    };
    match (answer.action, answer.content.as_ref().and_then(|content| content.get("allow")).and_then(Value::as_str)) {
        (ElicitationAction::Accept, Some("once")) => Approval::Once,
        (ElicitationAction::Accept, Some("execution")) => Approval::Execution,
        (ElicitationAction::Accept, Some("session")) => Approval::Session,
        _ => Approval::deny(),
    }
}

/// What a person reads.
fn question(request: &ApprovalRequest, intent: Option<&str>) -> String {
    let mut text = prompt::describe(&Shown {
        tool: request.tool.as_str(),
        effect: request.manifest.effect,
        rule: &request.rule,
        arguments: &request.arguments,
        script: Some((&request.code, None)),
        remaining: Duration::ZERO,
    });
    if let Some(intent) = intent {
        let intent = &intent[..intent.floor_char_boundary(MAX_INTENT_BYTES)];
        text.push_str(&format!("Its author says what it is for: {}\n", visible(intent)));
    }
    text
}

/// What the model reads.
fn report(outcome: Result<Outcome, Error>) -> CallToolResult {
    match outcome {
        Ok(outcome) => {
            let value = outcome.value().unwrap_or_default();
            let text = match &value {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            let mut structured = json!({"result": value});
            if !outcome.output.is_empty() {
                structured["output"] = printed(&outcome.output).into();
            }
            let warnings: Vec<_> = outcome.warnings.iter().map(|warning| warning.message.clone()).collect();
            if !warnings.is_empty() {
                structured["warnings"] = json!(warnings);
            }
            structured["usage"] =
                json!({"tool_calls": outcome.usage.tool_calls, "wall_ms": milliseconds(outcome.usage.wall)});
            let mut content = vec![ContentBlock::text(text)];
            content.extend(notes(&outcome.output, &warnings));
            let mut result = CallToolResult::success(content);
            result.structured_content = Some(structured);
            result
        }
        Err(Error::Execution(error)) => failed(&error),
        Err(error) => failure(error.to_string()),
    }
}

fn failed(error: &ExecutionError) -> CallToolResult {
    let mut content = vec![ContentBlock::text(error.to_string())];
    content.extend(notes(&error.output, &[]));
    CallToolResult::error(content)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What was printed and noticed, beside the value.
fn notes(output: &[OutputItem], warnings: &[String]) -> Option<ContentBlock> {
    let mut text = String::new();
    if !output.is_empty() {
        text.push_str(&format!("Output:\n{}", printed(output)));
    }
    for warning in warnings {
        text.push_str(&format!("\nWarning: {warning}"));
    }
    (!text.is_empty()).then(|| ContentBlock::text(text.trim_start().to_owned()))
}

fn printed(output: &[OutputItem]) -> String {
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

/// The shape of what [`report`] gives for code that came to its end.
pub(super) fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "result": {"description": "What the code returned"},
            "output": {"type": "string", "description": "What it printed"},
            "warnings": {"type": "array", "items": {"type": "string"}},
            "usage": {"type": "object", "properties": {"tool_calls": {"type": "integer"}, "wall_ms": {"type": "integer"}}},
        },
        "required": ["result"],
    })
}

/// Tool calls as progress, for a client that asked for it.
struct Progress {
    to: Option<(Peer<RoleServer>, rmcp::model::ProgressToken)>,
    /// Progress has to grow with every notification.
    told: f64,
    done: u64,
}

impl Progress {
    fn new(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self { to: token.map(|token| (context.peer.clone(), token)), told: 0.0, done: 0 }
    }

    async fn tell(&mut self, event: &Event) {
        let Some((peer, token)) = &self.to else { return };
        let text = match event {
            Event::ToolCallStarted { tool, .. } => format!("{tool} …"),
            Event::ToolCallAwaitingApproval { tool, .. } => format!("{tool} awaits approval"),
            Event::ToolCallFinished { tool, result_bytes, .. } => {
                self.done += 1;
                format!("{tool}: {result_bytes} bytes ({} calls done)", self.done)
            }
            Event::ToolCallFailed { tool, code, .. } => format!("{tool} failed: {code}"),
            Event::ToolCallDenied { tool, code, .. } => format!("{tool} was not allowed: {code}"),
            _ => return,
        };
        self.told += 1.0;
        let progress = ProgressNotificationParam::new(token.clone(), self.told).with_message(text);
        // Who does not hear of it does without.
        let _ = peer.notify_progress(progress).await;
    }

    /// Tells what is left to tell when the execution has ended.
    async fn finish(&mut self, events: &mut EventStream) {
        while let Some(event) = events.next().await {
            self.tell(&event).await;
        }
    }
}
