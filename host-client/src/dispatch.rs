//! What a tool call passes, from the relay's frame to the answer. Each step takes the proof of the one before, so that none
//! can be left out.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use relay_proto::id::MAX_TOOL_NAME_BYTES;
use relay_proto::wire::message::Payload;
use relay_proto::{CallId, Code, ErrorCode, LimitName, ToolName, wire};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::approval::{self, Approval, ApprovalRequest, Approved, Grants, NotApproved};
use crate::audit::{self, Arguments, AuditError, CallTrail};
use crate::event::Event;
use crate::executor::{self, ToolRequest};
use crate::host::Host;
use crate::ledger::{Ledger, LedgerPermit, Refused};
use crate::manifest::Overflow;
use crate::policy::Decision;
use crate::registry::{Registered, Tools};
use crate::tools::CallContext;
use crate::validate::ValidArguments;

/// The longest text of a failure that is sent, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// A failure, as the code reads it.
struct Failure(ErrorCode, String);

/// A call that the policy allows, or that a person is to be asked about.
struct RuledCall {
    registered: Arc<Registered>,
    /// The line of the policy.
    rule: Arc<str>,
    is_asked: bool,
}

/// A call whose decision is in the audit, where there is one.
struct RecordedCall {
    ruled: RuledCall,
}

/// A call whose arguments fit its tool's schema.
struct CheckedCall {
    recorded: RecordedCall,
    arguments: ValidArguments,
}

/// A call that may run, with exactly the arguments that were approved. The approval is in the audit.
struct ApprovedCall {
    registered: Arc<Registered>,
    arguments: ValidArguments,
}

/// A tool's result, as it came.
struct RawResult {
    registered: Arc<Registered>,
    json: Bytes,
}

/// A result that fits its limits.
struct SizedResult(RawResult);

/// A result that fits its tool's schema, too.
struct CheckedResult(Bytes);

/// One call on its way.
struct Dispatch<'a> {
    host: &'a Host,
    /// What was approved for the whole session.
    of_session: &'a Grants,
    permit: &'a LedgerPermit,
    call: &'a wire::ToolCall,
    /// When the relay gives it up, approvals not counted.
    remaining: Duration,
    /// Where the call's state is told; nothing where nobody would understand.
    states: Option<&'a mpsc::Sender<Payload>>,
    /// What is recorded of the call, from its decision on.
    trail: OnceLock<CallTrail<'a>>,
}

/// Takes a call through all its steps. Gives the answer, unless nobody waits for it any more.
pub(crate) async fn dispatch(
    host: &Host,
    of_session: &Grants,
    ledger: &Ledger,
    permit: LedgerPermit,
    call: wire::ToolCall,
    states: Option<&mpsc::Sender<Payload>>,
) -> Option<wire::ToolResult> {
    let (started, id, context) = (Instant::now(), permit.id.0, Arc::clone(&permit.context));
    let tool = short(&call.tool).to_owned();
    // The names of the conventions of OpenTelemetry for generative AI.
    let span = tracing::info_span!(
        parent: &context.span,
        "execute_tool",
        otel.name = format_args!("execute_tool {tool}"),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        gen_ai.tool.call.id = id,
        error.r#type = tracing::field::Empty,
    );
    context.tell(Event::ToolCallRequested { id, tool: tool.clone(), arguments_bytes: call.arguments.len() });
    let remaining = Duration::from_millis(call.remaining_ms.max(1));
    let trail = OnceLock::new();
    let mut dispatch = Dispatch { host, of_session, permit: &permit, call: &call, remaining, states, trail };
    let outcome = dispatch.run().instrument(span.clone()).await;
    let trail = dispatch.trail.take();
    let answer = match outcome {
        Ok((tool, CheckedResult(result))) => {
            let result_bytes = result.len();
            if let Some(trail) = trail {
                trail.finish(None, result_bytes);
            }
            context.tell(Event::ToolCallFinished { id, tool, elapsed: started.elapsed(), result_bytes });
            success(permit.id.to_string(), result)
        }
        Err(Failed { failure: Failure(code, message), denied }) => {
            span.record("error.type", code.as_str());
            let answer = failure(permit.id.to_string(), code, message);
            let (code, message) = (Code::from(code), answer.error.clone());
            if let Some(trail) = trail {
                trail.finish(Some(&code), 0);
            }
            context.tell(match denied {
                Some((tool, rule)) => Event::ToolCallDenied { id, tool, code, reason: message, rule },
                None => Event::ToolCallFailed { id, tool, code, message },
            });
            answer
        }
    };
    ledger.answer(&permit, &answer).then_some(answer)
}

/// Why a call gave no result; for one that was denied, the tool and the line of the policy.
struct Failed {
    failure: Failure,
    denied: Option<(ToolName, Arc<str>)>,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { failure, denied: None }
    }
}

impl Dispatch<'_> {
    /// The steps between the ledger and the reply.
    async fn run(&self) -> Result<(ToolName, CheckedResult), Failed> {
        let arrived = Instant::now();
        let parsed = parse_arguments(self.call);
        let found = find(&self.host.tools, &self.call.tool);
        let recorded = self.record(found.map_err(Failed::from).and_then(|it| self.rule(it)), &parsed)?;
        let name = recorded.ruled.registered.name.clone();
        let checked = check_arguments(recorded, parsed)?;
        let left = self.remaining.saturating_sub(arrived.elapsed());
        let approved = self.approve(checked).await?;
        let result = self.execute(approved, left).await?;
        let result = self.check_size(result)?;
        let result = check_result(result)?;
        Ok((name, result))
    }

    /// The policy, and what it lets an execution use.
    fn rule(&self, registered: Arc<Registered>) -> Result<RuledCall, Failed> {
        let context = &self.permit.context;
        let name = &registered.name;
        let ruling = self.host.policy.decide(name, &registered.spec.manifest, context.phase);
        let denied = |failure| Failed { failure, denied: Some((name.clone(), Arc::clone(&ruling.rule))) };
        let is_asked = match ruling.decision {
            Decision::Deny { reason } => {
                return Err(denied(Failure(ErrorCode::ToolDenied, format!("{name} was denied: {reason}"))));
            }
            Decision::Ask => true,
            Decision::Allow => false,
        };
        if let Err((code, message)) = context.spending.call(name) {
            return Err(Failed { failure: Failure(code, message), denied: Some((name.clone(), "budget".into())) });
        }
        Ok(RuledCall { rule: ruling.rule, is_asked, registered })
    }

    /// The decision goes into the audit before anything follows from it.
    fn record(
        &self,
        ruled: Result<RuledCall, Failed>,
        parsed: &Result<Value, Failure>,
    ) -> Result<RecordedCall, Failed> {
        if let Some(trail) = self.permit.context.trail.get() {
            let bytes = self.call.arguments.len();
            let arguments = match parsed {
                Ok(value) => Arguments::Value { value, bytes },
                Err(_) => Arguments::Unread { bytes },
            };
            let (effect, ruling) = match &ruled {
                Ok(RuledCall { registered, rule, is_asked }) => {
                    let decision = if *is_asked { audit::Decision::Ask } else { audit::Decision::Allow };
                    (registered.spec.manifest.effect, (decision, &**rule))
                }
                Err(Failed { denied: Some((_, rule)), .. }) => (None, (audit::Decision::Deny, &**rule)),
                Err(_) => (None, (audit::Decision::Deny, "there is no such tool")),
            };
            let recorded = trail.decision(self.permit.id, &self.call.tool, effect, arguments, ruling);
            // Nothing was recorded of this call before.
            drop(self.trail.set(recorded.map_err(|error| self.unrecorded(&error))?));
        }
        ruled.map(|ruled| RecordedCall { ruled })
    }

    /// What cannot be recorded is not done. What the reason is, is not for the code to know.
    fn unrecorded(&self, error: &AuditError) -> Failure {
        tracing::error!(%error, "a call was not run because it could not be recorded");
        Failure(ErrorCode::Internal, format!("{} was not run: it could not be recorded", short(&self.call.tool)))
    }

    /// A person's word, where the policy asks for one.
    async fn approve(&self, checked: CheckedCall) -> Result<ApprovedCall, Failed> {
        let CheckedCall { recorded: RecordedCall { ruled }, arguments } = checked;
        let RuledCall { registered, rule, is_asked } = ruled;
        if !is_asked {
            return Ok(ApprovedCall { registered, arguments });
        }
        let (id, context, tool) = (self.permit.id.0, &self.permit.context, &registered.name);
        // A relay that does not know of approvals goes on counting.
        let within = match self.states {
            Some(_) => context.approval_timeout,
            None => context.approval_timeout.min(self.remaining),
        };
        let event = Event::ToolCallAwaitingApproval { id, tool: tool.clone(), rule: Arc::clone(&rule), within };
        context.tell(event);
        self.tell_state(wire::CallStatus::AwaitingApproval).await;
        let (waiting, since) = (context.asked.clock.start(), Instant::now());
        let request = ApprovalRequest {
            execution: context.id.clone(),
            code: Arc::clone(&context.code),
            call: id,
            tool: tool.clone(),
            description: registered.spec.description.clone(),
            arguments: arguments.share(),
            manifest: registered.spec.manifest.clone(),
            rule: Arc::clone(&rule),
            deadline: Instant::now() + within,
        };
        let answer = approval::ask(context.approver.as_ref(), self.of_session, &context.asked, request).await;
        drop(waiting);
        if let Some(trail) = self.trail.get() {
            let (verdict, approver) = verdict(&answer);
            let recorded = trail.approval(verdict, approver, since.elapsed());
            recorded.map_err(|error| self.unrecorded(&error))?;
        }
        match answer {
            Ok(approved) => {
                let scope = approved.scope.as_str();
                context.tell(Event::ToolCallApproved { id, tool: tool.clone(), by: approved.by, scope });
                self.tell_state(wire::CallStatus::Started).await;
                Ok(ApprovedCall { registered, arguments })
            }
            Err(refused) => {
                Err(Failed { failure: Failure(refused.code, refused.message), denied: Some((tool.clone(), rule)) })
            }
        }
    }

    async fn tell_state(&self, status: wire::CallStatus) {
        if let Some(states) = self.states {
            let state = wire::CallState {
                execution_id: self.permit.context.id.as_str().to_owned(),
                call_id: self.permit.id.to_string(),
                status: status.into(),
            };
            // Nobody is left to hear it when this fails.
            let _ = states.send(Payload::CallState(state)).await;
        }
    }

    async fn execute(&self, approved: ApprovedCall, left: Duration) -> Result<RawResult, Failure> {
        let ApprovedCall { registered, arguments } = approved;
        let (id, context, name) = (self.permit.id.0, &self.permit.context, &registered.name);
        let most = registered.spec.manifest.timeout.min(left);
        let deadline = Instant::now() + most;
        let context_of_call = CallContext {
            execution: context.id.clone(),
            call: id,
            tool: name.clone(),
            deadline,
            trace: context.trace.child(id),
        };
        context.tell(Event::ToolCallStarted { id, tool: name.clone() });
        let arguments = arguments.into_inner();
        let request = ToolRequest { context: context_of_call, arguments, registered: Arc::clone(&registered) };
        // The tool's own code may panic before its future exists, too.
        let running = async { executor::run(self.host.service.clone(), request).await };
        match tokio::time::timeout_at(deadline, AssertUnwindSafe(running).catch_unwind()).await {
            Ok(Ok(Ok(json))) => Ok(RawResult { registered, json }),
            Ok(Ok(Err((code, message)))) => Err(Failure(code, message)),
            Ok(Err(_panic)) => Err(Failure(ErrorCode::ToolFailed, format!("{name} failed inside (it panicked)"))),
            Err(_elapsed) => {
                Err(Failure(ErrorCode::ToolTimeout, format!("{name} did not answer within {} ms", most.as_millis())))
            }
        }
    }

    /// The tool's limit, and what the policy lets the execution read.
    fn check_size(&self, result: RawResult) -> Result<SizedResult, Failure> {
        let RawResult { registered, mut json } = result;
        let manifest = &registered.spec.manifest;
        // What is larger could not be sent at all.
        let sendable = usize::try_from(LimitName::ToolResultBytes.maximum()).unwrap_or(usize::MAX);
        let most = manifest.result_bytes.min(sendable);
        if json.len() > most {
            let cut = (manifest.overflow == Overflow::Cut).then(|| cut_text(&json, most)).flatten();
            json = cut.ok_or_else(|| {
                let (name, bytes) = (&registered.name, json.len());
                let message = format!("the result of {name} has {bytes} bytes; at most {most} are allowed");
                Failure(ErrorCode::ToolResultLimit, message)
            })?;
        }
        let spent = self.permit.context.spending.read(&registered.name, json.len() as u64);
        spent.map_err(|(code, message)| Failure(code, message))?;
        Ok(SizedResult(RawResult { registered, json }))
    }
}

fn find(tools: &Tools, name: &str) -> Result<Arc<Registered>, Failure> {
    let known = tools.get(name);
    known.ok_or_else(|| match ToolName::try_from(name.to_owned()) {
        Err(error) => Failure(ErrorCode::InvalidToolName, error.to_string()),
        Ok(name) => {
            let (code, message) = tools.unknown(&name);
            Failure(code, message)
        }
    })
}

/// The arguments as a value, before anybody looks at what they say.
fn parse_arguments(call: &wire::ToolCall) -> Result<Value, Failure> {
    let (name, json) = (short(&call.tool), &call.arguments[..]);
    let most = LimitName::ArgumentsBytes.maximum();
    if json.len() as u64 > most {
        let message = format!("the arguments of {name} have {} bytes; at most {most} are taken", json.len());
        return Err(Failure(ErrorCode::ArgumentsLimit, message));
    }
    let json = if json.is_empty() { b"null" } else { json };
    serde_json::from_slice(json).map_err(|error| unfit(name, &error.to_string()))
}

fn check_arguments(recorded: RecordedCall, parsed: Result<Value, Failure>) -> Result<CheckedCall, Failure> {
    let registered = &recorded.ruled.registered;
    let arguments = registered.arguments.check(parsed?);
    let arguments = arguments.map_err(|reason| unfit(registered.name.as_str(), &reason))?;
    Ok(CheckedCall { recorded, arguments })
}

fn unfit(name: &str, reason: &str) -> Failure {
    Failure(ErrorCode::InvalidArguments, format!("{name} was called with arguments that do not fit: {reason}"))
}

/// A tool's name as it came, but not longer than a name.
fn short(tool: &str) -> &str {
    &tool[..tool.floor_char_boundary(MAX_TOOL_NAME_BYTES)]
}

/// What a person said, for the audit, and who it was.
fn verdict(answer: &Result<Approved, NotApproved>) -> (audit::Verdict, Option<&str>) {
    match answer {
        Ok(Approved { by, scope }) => {
            let verdict = match scope {
                Approval::Execution => audit::Verdict::Execution,
                Approval::Session => audit::Verdict::Session,
                Approval::Once | Approval::Deny { .. } => audit::Verdict::Once,
            };
            (verdict, by.as_deref())
        }
        Err(NotApproved { code: ErrorCode::ApprovalTimeout, by, .. }) => (audit::Verdict::TimedOut, by.as_deref()),
        Err(NotApproved { by: None, .. }) => (audit::Verdict::Failed, None),
        Err(NotApproved { by, .. }) => (audit::Verdict::Denied, by.as_deref()),
    }
}

/// The result against the schema of its tool, before the code sees it.
fn check_result(result: SizedResult) -> Result<CheckedResult, Failure> {
    let RawResult { registered, json } = result.0;
    let Some(schema) = &registered.result else { return Ok(CheckedResult(json)) };
    let invalid = |reason: String| {
        let message = format!("{} answered with what its own output schema forbids: {reason}", registered.name);
        Failure(ErrorCode::InvalidResult, message)
    };
    let text: &[u8] = if json.is_empty() { b"null" } else { &json };
    let value = serde_json::from_slice(text).map_err(|error| invalid(format!("it is no JSON: {error}")))?;
    schema.check(value).map_err(invalid)?;
    Ok(CheckedResult(json))
}

/// The start of a JSON text that is longer than `most` bytes, with a note at its end; nothing where it is no text.
fn cut_text(json: &[u8], most: usize) -> Option<Bytes> {
    let text: String = serde_json::from_slice(json).ok()?;
    let note = |kept: usize| {
        format!("\n[cut: {} of {} bytes are left out; the tool's limit is {most}]", text.len() - kept, text.len())
    };
    // Escapes make JSON longer than its text: try shorter starts until one fits.
    let mut kept = most.saturating_sub(note(0).len() + 2).min(text.len());
    loop {
        kept = text.floor_char_boundary(kept);
        let cut = serde_json::to_vec(&format!("{}{}", &text[..kept], note(kept))).ok()?;
        if cut.len() <= most {
            return Some(cut.into());
        }
        if kept == 0 {
            return None;
        }
        kept = (kept.saturating_mul(most) / cut.len()).min(kept - 1);
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        for text in ["x".repeat(10_000), "\u{1}\"ü€".repeat(2_000), "é".repeat(5_000)] {
            let json = serde_json::to_vec(&text).unwrap();
            for most in [200, 1_000, 4_097] {
                let cut = cut_text(&json, most).unwrap();
                assert!(cut.len() <= most && cut.len() * 3 > most, "{} of {most}", cut.len());
                let cut: String = serde_json::from_slice(&cut).unwrap();
                let (kept, note) = cut.split_once("\n[cut: ").unwrap();
                assert!(text.starts_with(kept) && !kept.is_empty());
                assert!(note.starts_with(&format!("{} of {} bytes", text.len() - kept.len(), text.len())), "{note}");
            }
        }
        assert_eq!(cut_text(b"[1,2,3]", 5), None);
        assert_eq!(cut_text(b"\"a long text\"", 5), None, "there is no room for the note");
    }
}
