//! Runs one request: asks the model, runs its program, and repairs it if allowed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relay_proto::{ErrorCode, LimitName, LimitOverrides};

use super::answer::{Attempt, Failed, NotRepaired, ProgrammaticAnswer, ProgrammaticError, TotalUsage};
use super::model::{Message, ModelError, ModelReply, ModelRequest};
use super::request::{ProgrammaticRequest, Step};
use super::{Programmatic, Repair, reply, teach};
use host_client_core::client::{Client, ExecuteRequest, Execution, Outcome};
use host_client_core::error::{Error, ExecutionError};
use host_client_core::event::Event;
use host_client_core::tool::Effect;

/// Maximum number of programs for one request: the first, and its repair.
const MAX_ATTEMPTS: usize = 2;
/// Maximum number of tool names that an attempt keeps.
const MAX_CHANGES: usize = 50;
/// Placeholder for tools that may have been called when events were missed.
const UNKNOWN: &str = "tools that were not seen";
/// Maximum time to read the queued events of an execution that has ended.
const EVENTS_WITHIN: Duration = Duration::from_secs(1);

/// Error codes of failures that another program would not prevent.
const FINAL: [ErrorCode; 12] = [
    ErrorCode::Cancelled,
    ErrorCode::Overloaded,
    ErrorCode::Draining,
    ErrorCode::WorkerLost,
    ErrorCode::SessionLost,
    ErrorCode::Unauthenticated,
    ErrorCode::PermissionDenied,
    ErrorCode::ProtocolError,
    ErrorCode::Internal,
    ErrorCode::ApprovalDenied,
    ErrorCode::ApprovalTimeout,
    ErrorCode::OutcomeUnknown,
];

/// State of one request.
pub(super) struct Run<'a> {
    programmatic: &'a Programmatic,
    request: ProgrammaticRequest,
    system: String,
    /// Messages that the request adds to the conversation.
    messages: Vec<Message>,
    attempts: Vec<Attempt>,
}

impl<'a> Run<'a> {
    pub(super) fn new(programmatic: &'a Programmatic, request: ProgrammaticRequest) -> Self {
        let phase = request.phase.map(|phase| teach::phase(phase).to_owned());
        // The application's own prompt comes first, unchanged.
        let system = [request.system.clone(), Some(programmatic.teaching_in(request.phase)), phase];
        let system = system.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        let messages = vec![Message::user(&request.prompt)];
        Self { programmatic, request, system, messages, attempts: Vec::new() }
    }

    /// Runs the attempts until one succeeds, or none is left.
    pub(super) async fn run(mut self) -> Result<ProgrammaticAnswer, Box<Failed>> {
        loop {
            // The first failure ends both, so that no model is waited for without a relay.
            let (reply, client) = match tokio::try_join!(self.ask(), self.connect()) {
                Ok(both) => both,
                Err(error) => {
                    self.tell_failure(self.attempts.len() + 1, &error);
                    return Err(self.failed(error, NotRepaired::NotTheCode));
                }
            };
            let error = match self.attempt(reply, &client).await {
                Ok((code, outcome)) => return Ok(self.answered(code, outcome).await),
                Err(error) => error,
            };
            if let Some(last) = self.attempts.last_mut() {
                last.error = Some(error.clone());
            }
            let attempt = self.attempts.len();
            let changes: Vec<_> = self.attempts.iter().flat_map(|attempt| attempt.changes.clone()).collect();
            self.tell_failure(attempt, &error);
            self.messages.push(Message::user(teach::failure(&error)));
            if let Err(reason) = self.may_repair(&error, &changes) {
                return Err(self.failed(error, reason));
            }
            if let Some(last) = self.messages.last_mut() {
                last.content.push_str(&teach::repair(&changes));
            }
            self.tell(Step::Repairing { attempt: attempt + 1 });
        }
    }

    /// Tells the watcher of a step.
    fn tell(&self, step: Step) {
        if let Some(watcher) = &self.request.watcher {
            watcher(step);
        }
    }

    /// Tells the watcher that an attempt failed.
    fn tell_failure(&self, attempt: usize, error: &ProgrammaticError) {
        let code = match error {
            ProgrammaticError::Execution(error) => Some(error.code.clone()),
            _ => None,
        };
        self.tell(Step::Failed { attempt, code, message: error.to_string() });
    }

    /// Returns the client, connected.
    async fn connect(&self) -> Result<Client, ProgrammaticError> {
        self.programmatic.client.get().await.map_err(|error| ProgrammaticError::Relay(Arc::new(error)))
    }

    /// Asks the model for a program.
    async fn ask(&self) -> Result<ModelReply, ProgrammaticError> {
        let attempt = self.attempts.len() + 1;
        self.tell(Step::Asked { attempt });
        let config = &self.programmatic.config;
        let request = ModelRequest {
            system: self.system.clone(),
            messages: self.request.history.iter().chain(&self.messages).cloned().collect(),
            reply_bytes: config.reply_bytes,
        };
        let reply = tokio::time::timeout(config.model_timeout, self.programmatic.model.complete(request)).await;
        let reply = reply.map_err(|_| ProgrammaticError::ModelTimeout(config.model_timeout))?;
        let reply = reply.and_then(|reply| match reply.text.len() > config.reply_bytes {
            true => Err(ModelError::TooLarge { most: config.reply_bytes }),
            false => Ok(reply),
        });
        let reply = reply.map_err(|error| ProgrammaticError::Model(Arc::new(error)))?;
        self.tell(Step::Replied { attempt, bytes: reply.text.len(), usage: reply.usage });
        Ok(reply)
    }

    /// Runs the program of a reply, and records the attempt.
    async fn attempt(&mut self, reply: ModelReply, client: &Client) -> Result<(String, Outcome), ProgrammaticError> {
        let ModelReply { text, is_cut, usage } = reply;
        self.messages.push(Message::assistant(&text));
        let code = if is_cut { None } else { reply::code(&text).map(str::to_owned) };
        let limits = self.limits(client);
        self.attempts.push(Attempt {
            reply: text.clone(),
            code: code.clone(),
            model: usage,
            execution: None,
            changes: Vec::new(),
            error: None,
        });
        let code = match code {
            Some(code) => code,
            None if is_cut => return Err(ProgrammaticError::Cut),
            None => return Err(ProgrammaticError::NoCode { reply: text }),
        };
        let request = ExecuteRequest {
            limits,
            phase: self.request.phase,
            approver: self.request.approver.clone(),
            trace: self.request.trace,
            ..ExecuteRequest::for_model(&code)
        };
        let changes = Mutex::default();
        // Not on this client: its relay may have begun to shut down while the model was asked.
        let outcome = self.programmatic.client.run_with(request, |execution| self.follow(execution, &changes)).await;
        let changes = changes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let used = match &outcome {
            Ok(outcome) => Some(outcome.usage),
            Err(Error::Execution(error)) => Some(error.usage),
            Err(_) => None,
        };
        if let Some(attempt) = self.attempts.last_mut() {
            (attempt.execution, attempt.changes) = (used, changes);
        }
        match outcome {
            Ok(outcome) => Ok((code, outcome)),
            Err(Error::Execution(error)) => Err(ProgrammaticError::Execution(error)),
            Err(error) => Err(ProgrammaticError::Relay(Arc::new(error))),
        }
    }

    /// Returns the limits of the next program. Tool calls of earlier attempts count.
    fn limits(&self, client: &Client) -> LimitOverrides {
        let mut limits = self.programmatic.config.limits.clone();
        let used: u64 =
            self.attempts.iter().filter_map(|attempt| attempt.execution).map(|usage| usage.tool_calls).sum();
        let calls = limits.get(LimitName::ToolCalls).or_else(|| client.limits().get(LimitName::ToolCalls));
        if let Some(calls) = calls.filter(|_| used > 0) {
            limits.set(LimitName::ToolCalls, calls.saturating_sub(used));
        }
        limits
    }

    /// Waits for an execution, and puts into `changed` the tools that it called and whose effect is not `ReadOnly`.
    async fn follow(&self, mut execution: Execution, changed: &Mutex<Vec<String>>) -> Result<Outcome, Error> {
        let mut changes = Vec::new();
        let attempt = self.attempts.len();
        self.tell(Step::Running { attempt, execution: execution.id().clone() });
        let Some(mut events) = execution.events() else { return execution.await };
        let outcome = loop {
            tokio::select! {
                biased;
                Some(event) = events.next() => self.seen(event, &mut changes),
                outcome = &mut execution => break outcome,
            }
        };
        let rest = async {
            while let Some(event) = events.next().await {
                self.seen(event, &mut changes);
            }
        };
        if tokio::time::timeout(EVENTS_WITHIN, rest).await.is_err() {
            note(&mut changes, UNKNOWN);
        }
        *changed.lock().unwrap_or_else(PoisonError::into_inner) = changes;
        outcome
    }

    /// Records an event, and passes it to the watcher.
    fn seen(&self, event: Event, changes: &mut Vec<String>) {
        match &event {
            Event::ToolCallStarted { tool, .. } => {
                let spec = self.programmatic.client.host().tools().spec(tool.as_str());
                if spec.and_then(|spec| spec.manifest.effect) != Some(Effect::ReadOnly) {
                    note(changes, tool.as_str());
                }
            }
            Event::Missed(_) => note(changes, UNKNOWN),
            _ => {}
        }
        self.tell(Step::Execution { attempt: self.attempts.len(), event });
    }

    /// Checks that the model may be asked for another program.
    fn may_repair(&self, error: &ProgrammaticError, changes: &[String]) -> Result<(), NotRepaired> {
        let is_of_the_code = match error {
            ProgrammaticError::NoCode { .. } | ProgrammaticError::Cut => true,
            ProgrammaticError::Execution(error) => is_of_the_code(error),
            _ => false,
        };
        match self.programmatic.config.repair {
            _ if !is_of_the_code => Err(NotRepaired::NotTheCode),
            Repair::Never => Err(NotRepaired::NotWanted),
            Repair::IfNothingChanged if !changes.is_empty() => Err(NotRepaired::Changed(changes.to_vec())),
            _ if self.attempts.len() >= MAX_ATTEMPTS => Err(NotRepaired::Tried),
            _ => Ok(()),
        }
    }

    /// Makes the answer, and tells the model the result.
    async fn answered(mut self, code: String, outcome: Outcome) -> ProgrammaticAnswer {
        let (json, output) = (outcome.json.clone(), self.programmatic.config.output);
        // A large value takes long, and must not block other requests of this thread.
        let shown = tokio::task::spawn_blocking(move || teach::result(&json, output)).await;
        let shown = shown.unwrap_or_else(|_| "The program returned what could not be shown.".to_owned());
        self.messages.push(Message::user(shown));
        self.tell(Step::Done { attempt: self.attempts.len() });
        let usage = TotalUsage::sum(&self.attempts);
        ProgrammaticAnswer { outcome, code, attempts: self.attempts, usage, messages: self.messages }
    }

    /// Makes the error.
    fn failed(self, error: ProgrammaticError, not_repaired: NotRepaired) -> Box<Failed> {
        let usage = TotalUsage::sum(&self.attempts);
        Box::new(Failed { error, not_repaired, attempts: self.attempts, usage, messages: self.messages })
    }
}

/// Adds a tool, once, up to a maximum.
fn note(changes: &mut Vec<String>, tool: &str) {
    if changes.len() < MAX_CHANGES && !changes.iter().any(|known| known == tool) {
        changes.push(tool.to_owned());
    }
}

/// Returns `true` if another program might succeed. Failures of the relay or the session, and denials, are not the
/// program's fault.
fn is_of_the_code(error: &ExecutionError) -> bool {
    let of_the_tool = error.tool.as_ref().map(|(_, code)| code);
    !std::iter::once(&error.code).chain(of_the_tool).any(|code| FINAL.iter().any(|known| code == known))
}
