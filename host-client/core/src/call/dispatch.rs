//! The steps of a tool call, from the relay's frame to the answer. Each step takes the proof of the one before, so that
//! none can be left out.

pub(crate) mod answer;
mod approve;
mod question;
mod result;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use relay_proto::wire::message::Payload;
use relay_proto::{Code, ErrorCode, LimitName, ToolName, wire};
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::run::DurableCall;
use super::{CallPermit, CallRecord, End, Unrecorded};
use crate::audit::{self, Arguments};
use crate::event::Event;
use crate::executor::{self, ToolRequest};
use crate::host::Host;
use crate::introspect;
use crate::outbound::Outbound;
use crate::rules::policy::Decision;
use crate::text::short_name;
use crate::tool::context::{CallContext, CallLife};
use crate::tool::validate::ValidArguments;
use crate::tool::{Effect, Registered};
use crate::tools::Tools;
use crate::trace;
use answer::{failure, success};
use result::{check_result, sendable};

/// The error code and the message of a failed call, as the code reads them.
struct Failure(ErrorCode, String);

/// A call that the policy allows, or that a person is to be asked about.
struct RuledCall {
    registered: Arc<Registered>,
    /// The line of the policy that decided.
    rule: Arc<str>,
    is_asked: bool,
}

/// A call whose decision is recorded in the audit, if there is an audit.
struct RecordedCall {
    ruled: RuledCall,
}

/// A call whose arguments fit its tool's schema.
struct CheckedCall {
    recorded: RecordedCall,
    arguments: ValidArguments,
}

impl CheckedCall {
    fn registered(&self) -> &Arc<Registered> {
        &self.recorded.ruled.registered
    }

    fn approved(self) -> ApprovedCall {
        ApprovedCall { registered: self.recorded.ruled.registered, arguments: self.arguments }
    }
}

/// A call that may run, with exactly the arguments that were approved. The approval is in the audit.
struct ApprovedCall {
    registered: Arc<Registered>,
    arguments: ValidArguments,
}

/// A tool's result before any check.
struct RawResult {
    registered: Arc<Registered>,
    json: Bytes,
}

/// A result that fits its limits.
struct SizedResult(RawResult);

/// A result that fits its limits and its tool's schema.
struct CheckedResult(Bytes);

/// One call on its way through the steps.
struct Dispatch<'a> {
    host: &'a Host,
    call: &'a CallRecord,
    message: &'a wire::ToolCall,
    arrived: Instant,
    caller: Caller<'a>,
}

/// The origin of a call, which decides who is told its state.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Caller<'a> {
    /// Code at a relay, which is told the call's state so that its clocks stop while a person thinks.
    Relay(&'a Outbound),
    /// Code at a relay that does not know call states: its clocks go on while a person thinks.
    RelayWithoutCallState,
    /// This host.
    Host,
    /// Code of a durable run, whose journal is told of each step.
    Run(&'a dyn DurableCall),
}

/// Takes a call through all its steps and returns the answer. If the host panics in between, the answer is `INTERNAL`.
pub(crate) async fn dispatch(
    host: &Host,
    permit: &CallPermit,
    message: wire::ToolCall,
    caller: Caller<'_>,
) -> wire::ToolResult {
    let call = &*permit.call;
    let (id, arguments_bytes) = (call.id, message.arguments.len());
    call.context.tell(Event::ToolCallRequested { id: id.0, tool: call.tool.clone(), arguments_bytes });
    if let Some(watched) = &call.context.watched {
        watched.called(id.0, &call.tool, message.line, &message.arguments);
    }
    let dispatch = Dispatch { host, call, message: &message, arrived: Instant::now(), caller };
    // A panic in any step still gives an answer.
    let outcome = AssertUnwindSafe(dispatch.run().instrument(call.span().clone())).catch_unwind().await;
    let outcome = outcome.unwrap_or_else(|_panic| {
        tracing::error!(tool = call.tool, "the host failed inside: it panicked");
        Err(Failure(ErrorCode::Internal, format!("the host failed inside, at the call of {}", call.tool)).into())
    });
    match outcome {
        Ok((tool, CheckedResult(result))) => {
            if let Some(watched) = &call.context.watched {
                watched.answered(id.0, &result);
            }
            call.close(&End::Finished { tool: &tool, result_bytes: result.len() });
            success(id.to_string(), result)
        }
        Err(Failed { failure: Failure(code, message), denied }) => {
            let answer = failure(id.to_string(), code, message);
            let (code, reason) = (Code::from(code), &answer.error);
            call.close(&match &denied {
                Some(Denied { tool, rule, .. }) => End::Denied { tool, code, reason, rule },
                None => End::Failed { code, message: reason },
            });
            answer
        }
    }
}

/// The failure of a call, with the denial if it was denied.
struct Failed {
    failure: Failure,
    denied: Option<Denied>,
}

/// The denial of a call: its tool, the tool's effect, and the line of the policy that decided or `budget` in its place.
struct Denied {
    tool: ToolName,
    effect: Option<Effect>,
    rule: Arc<str>,
}

impl Denied {
    fn new(registered: &Registered, rule: Arc<str>) -> Self {
        Self { tool: registered.name.clone(), effect: registered.spec.manifest.effect, rule }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { failure, denied: None }
    }
}

impl Dispatch<'_> {
    /// Runs the steps between the ledger and the reply.
    async fn run(&self) -> Result<(ToolName, CheckedResult), Failed> {
        let parsed = parse_arguments(self.message);
        if introspect::is_question(&self.message.tool) {
            return self.answer(parsed?).await;
        }
        let found = find(&self.host.tools, &self.message.tool);
        let ruled = found.map_err(Failed::from).and_then(|registered| self.rule(registered));
        let recorded = self.record(ruled, &parsed)?;
        let checked = check_arguments(recorded, parsed)?;
        let left = self.left();
        let approved = self.approve(checked).await?;
        // A relay that does not know call states did not stop its clock while a person thought: measure the time left
        // again.
        let left = if matches!(self.caller, Caller::RelayWithoutCallState) { self.left() } else { left };
        let name = approved.registered.name.clone();
        self.record_run().await?;
        let result = self.execute(approved, left).await?;
        let result = self.check_size(result)?;
        self.host.tools.declarations().learn(&result.0.registered, &result.0.json);
        let result = check_result(result)?;
        Ok((name, result))
    }

    /// Returns the time until the relay gives the call up.
    fn left(&self) -> Duration {
        Duration::from_millis(self.message.remaining_ms.max(1)).saturating_sub(self.arrived.elapsed())
    }

    /// Applies the policy and counts the call against the execution's budget.
    ///
    /// # Errors
    /// `TOOL_DENIED`: the policy denies it. `TOOL_CALL_LIMIT`, `TOOL_RESULT_LIMIT`: the budget is used up.
    fn rule(&self, registered: Arc<Registered>) -> Result<RuledCall, Failed> {
        let context = &self.call.context;
        let name = &registered.name;
        let ruling = self.host.policy.decide(name, &registered.spec.manifest, context.phase);
        let denied = |failure, rule| Failed { failure, denied: Some(Denied::new(&registered, rule)) };
        let is_asked = match ruling.decision {
            Decision::Deny { reason } => {
                let failure = Failure(ErrorCode::ToolDenied, format!("{name} was denied: {reason}"));
                return Err(denied(failure, ruling.rule));
            }
            Decision::Ask => true,
            Decision::Allow => false,
        };
        if let Err((code, message)) = context.spending.call(name) {
            return Err(denied(Failure(code, message), "budget".into()));
        }
        if let Some(watched) = &context.watched {
            watched.ruled(self.call.id.0, &ruling.rule, is_asked);
        }
        Ok(RuledCall { rule: ruling.rule, is_asked, registered })
    }

    /// Records the decision in the audit before anything follows from it.
    ///
    /// # Errors
    /// `INTERNAL`: it could not be recorded. Else the failure in `ruled`.
    fn record(
        &self,
        ruled: Result<RuledCall, Failed>,
        parsed: &Result<Value, Failure>,
    ) -> Result<RecordedCall, Failed> {
        let bytes = self.message.arguments.len();
        let arguments = match parsed {
            Ok(value) => Arguments::Value { value, bytes },
            Err(_) => Arguments::Unread { bytes },
        };
        let (effect, ruling) = match &ruled {
            Ok(RuledCall { registered, rule, is_asked }) => {
                let decision = if *is_asked { audit::Decision::Ask } else { audit::Decision::Allow };
                (registered.spec.manifest.effect, (decision, &**rule))
            }
            Err(Failed { denied: Some(Denied { effect, rule, .. }), .. }) => {
                (*effect, (audit::Decision::Deny, &**rule))
            }
            Err(_) => (None, (audit::Decision::Deny, "there is no such tool")),
        };
        let recorded = self.call.decide(effect, arguments, ruling);
        recorded.map_err(|error| self.unrecorded(&error))?;
        ruled.map(|ruled| RecordedCall { ruled })
    }

    /// Makes the failure of a call that is not run because it could not be recorded. The reason goes to the log: the
    /// code must not learn it.
    fn unrecorded(&self, error: &Unrecorded) -> Failure {
        tracing::error!(%error, tool = self.call.tool, "a call was not run because it could not be recorded");
        Failure(ErrorCode::Internal, format!("{} was not run: it could not be recorded", self.call.tool))
    }

    /// Records in the journal of a durable run that the tool begins to run.
    ///
    /// # Errors
    /// `INTERNAL`: it could not be recorded.
    async fn record_run(&self) -> Result<(), Failure> {
        let Caller::Run(call) = self.caller else { return Ok(()) };
        call.started().await.map_err(|error| self.unrecorded(&error.into()))
    }

    async fn tell_state(&self, status: wire::CallStatus) {
        if let Caller::Run(call) = self.caller {
            call.tell_state(status);
        }
        if let Caller::Relay(states) = self.caller {
            // Nobody is left to hear it when this fails.
            let _ = states.send(Payload::CallState(self.call.state_message(status))).await;
        }
    }

    async fn execute(&self, approved: ApprovedCall, left: Duration) -> Result<RawResult, Failure> {
        let ApprovedCall { registered, arguments } = approved;
        let (id, context, name) = (self.call.id.0, &self.call.context, &registered.name);
        let most = registered.spec.manifest.timeout.min(left);
        let deadline = Instant::now() + most;
        let life = CallLife::new(context.events.clone());
        // Dropped however this function ends: work for the call on other threads is told that the call is over.
        let _guard = life.guard();
        let waiting = Arc::clone(&life);
        let context_of_call = CallContext {
            execution: context.id.clone(),
            call: id,
            tool: name.clone(),
            deadline,
            trace: trace::of_call(self.call.span(), context.trace, id),
            key: Arc::clone(&context.key),
            result_bytes: sendable(registered.spec.manifest.result_bytes),
            life,
        };
        if !self.call.run(name, &waiting) {
            return Err(Failure(ErrorCode::Cancelled, format!("{name} was not run: nobody waits for it any more")));
        }
        let (arguments, waits) = (arguments.into_inner(), registered.spec.manifest.concurrency);
        let request = ToolRequest { context: context_of_call, arguments, registered: Arc::clone(&registered) };
        // The tool's own code may panic before its future exists, too.
        let running = async { executor::run(self.host.service.clone(), request).await };
        match tokio::time::timeout_at(deadline, AssertUnwindSafe(running).catch_unwind()).await {
            Ok(Ok(Ok(json))) => Ok(RawResult { registered, json }),
            Ok(Ok(Err((code, message)))) => Err(Failure(code, message)),
            Ok(Err(_panic)) => Err(Failure(ErrorCode::ToolFailed, format!("{name} failed inside (it panicked)"))),
            Err(_elapsed) if waiting.give_up_turn() => {
                self.call.did_not_run();
                let text = format!(
                    "{name} was not run: it waited its turn for {} ms, because only {} of its calls run at once; make fewer \
                     calls at a time",
                    most.as_millis(),
                    waits.unwrap_or(1),
                );
                Err(Failure(ErrorCode::ToolTimeout, text))
            }
            Err(_elapsed) => {
                Err(Failure(ErrorCode::ToolTimeout, format!("{name} did not answer within {} ms", most.as_millis())))
            }
        }
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

/// Parses the arguments as JSON, before anything else looks at them; no bytes are `null`.
///
/// # Errors
/// `ARGUMENTS_LIMIT`: they are too long. `INVALID_ARGUMENTS`: they are not JSON.
fn parse_arguments(call: &wire::ToolCall) -> Result<Value, Failure> {
    let (name, json) = (short_name(&call.tool), &call.arguments[..]);
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
