//! One host's state: what it may do, what runs for it, which calls are open. It knows messages and no transport.

mod announced;
mod faults;
mod request;
mod sink;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use relay_proto::code::warning;
use relay_proto::limit::Clamped;
use relay_proto::wire::message::Payload;
use relay_proto::{CallId, Code, ErrorCode, ExecutionId, LimitName, Limits, PROTOCOL_VERSION, ToolPatterns, wire};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use crate::App;
use crate::admission::SessionNumber;
use crate::auth::{Grant, Identity, Unauthenticated};
use crate::execution::{
    Bindings, CallFailure, CallStates, Command, Control, ExecutionError, ExecutionRequest, Wait, WorkerCall,
};
use crate::outbound::Outbound;
use crate::store::Store;
use crate::subject::SubjectPermit;
use announced::AnnouncedTools;
use faults::Faults;
use sink::{SessionSink, run_execution};

/// How many execution ids of the past a session remembers, to notice one that is used again.
const REMEMBERED_EXECUTIONS: usize = 1_024;
/// How many executions of one session may run or wait together.
const MAX_LIVE_EXECUTIONS: usize = 512;
/// How many bytes of source and input they may hold.
const SESSION_SOURCE_BYTES: usize = 32 << 20;
/// The most bytes of a host's words on a failed call.
const MAX_FAILURE_BYTES: usize = 8 << 10;

/// What `welcome` offers.
const FEATURES: [&str; 7] =
    ["call_state", "granted_tools", "local_tools", "renew", "repeatable", "tools_changed", "traceparent"];

/// The peer did what the session's state does not allow: the session is over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Violation(pub(crate) String);

/// The session of one connection.
pub(crate) struct Session {
    shared: Arc<Shared>,
    mode: Mode,
    /// The sequence number of the last message that came.
    received: u64,
    faults: Faults,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nothing has come yet.
    New,
    /// It opened with `execute` or `ping`: one execution at a time, short tool names.
    Basic,
    /// It opened with `hello`.
    Full,
}

/// What the executions of a session share with it.
struct Shared {
    app: Arc<App>,
    number: SessionNumber,
    subject: Arc<str>,
    of_subject: SubjectPermit,
    /// What executions that begin now may do.
    grant: RwLock<Arc<SessionGrant>>,
    expires: watch::Sender<Instant>,
    outbound: Outbound,
    source_bytes: Arc<Semaphore>,
    /// What the host announced last; without hello no tool is known by name.
    tools: RwLock<Arc<AnnouncedTools>>,
    /// What executions leave for those after them.
    store: Mutex<Store>,
    state: Mutex<State>,
    /// Told whenever an execution has ended.
    ended: Notify,
}

/// What the token allows, within what the relay allows.
struct SessionGrant {
    tools: ToolPatterns,
    limits: Limits,
    clamped: Vec<Clamped>,
    jit: bool,
}

impl SessionGrant {
    fn new(app: &App, grant: Grant) -> Self {
        let (limits, clamped) = app.limits.defaults.replaced(&grant.limits, &app.limits.maxima);
        Self { tools: grant.tools, limits, clamped, jit: grant.jit && app.jit_pool.is_some() }
    }

    fn warnings(&self) -> Vec<wire::Warning> {
        self.clamped.iter().map(clamp_warning).collect()
    }
}

/// The answer to a message.
pub(crate) enum Reply {
    /// It goes now.
    Now(Box<Payload>),
    /// It depends on whether this token is accepted.
    Renewal(String),
}

#[derive(Default)]
struct State {
    executions: HashMap<ExecutionId, LiveExecution>,
    past: VecDeque<ExecutionId>,
    past_set: HashSet<ExecutionId>,
    calls: HashMap<CallId, (ExecutionId, WorkerCall)>,
    last_call: u64,
}

/// How an execution that runs or waits is told something.
struct LiveExecution {
    commands: mpsc::Sender<Command>,
    states: Arc<CallStates>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grant(&self) -> Arc<SessionGrant> {
        Arc::clone(&self.grant.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn tools(&self) -> Arc<AnnouncedTools> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self, tools: AnnouncedTools) {
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
    }
}

impl State {
    fn remember(&mut self, id: ExecutionId) {
        self.past.push_back(id.clone());
        self.past_set.insert(id);
        if self.past.len() > REMEMBERED_EXECUTIONS
            && let Some(oldest) = self.past.pop_front()
        {
            self.past_set.remove(&oldest);
        }
    }
}

impl Session {
    /// A session for whoever showed a token.
    pub(crate) fn new(
        app: Arc<App>,
        number: SessionNumber,
        identity: Identity,
        of_subject: SubjectPermit,
        outbound: Outbound,
    ) -> Self {
        let grant = RwLock::new(Arc::new(SessionGrant::new(&app, identity.grant)));
        let shared = Shared {
            app,
            number,
            subject: identity.subject,
            of_subject,
            grant,
            expires: watch::Sender::new(Instant::now() + identity.expires_in),
            outbound,
            source_bytes: Arc::new(Semaphore::new(SESSION_SOURCE_BYTES)),
            tools: RwLock::default(),
            store: Mutex::default(),
            state: Mutex::default(),
            ended: Notify::new(),
        };
        Self { shared: Arc::new(shared), mode: Mode::New, received: 0, faults: Faults::new() }
    }

    /// Takes one message and gives the answer that it has at once, if any. Executions answer later, by themselves.
    ///
    /// # Errors
    /// The message is not allowed now.
    pub(crate) fn handle(&mut self, message: wire::Message) -> Result<Option<Reply>, Violation> {
        if self.mode == Mode::New
            && let Some(payload) = &message.payload
        {
            self.mode = if matches!(payload, Payload::Hello(_)) { Mode::Full } else { Mode::Basic };
            self.shared.outbound.number_messages(self.mode == Mode::Full);
        }
        // A kind that a newer peer has counts, and means nothing here; what is empty altogether does not even count.
        if self.mode == Mode::Full && (message.payload.is_some() || message.sequence > 0) {
            self.received += 1;
            if message.sequence != self.received {
                return Err(Violation(format!("message {} came in the place of {}", message.sequence, self.received)));
            }
            self.shared.outbound.acknowledge(self.received);
        }
        let Some(payload) = message.payload else {
            self.faults.count()?;
            return Ok(None);
        };
        let name = payload.kind().1;
        match (payload, self.mode) {
            (Payload::Hello(hello), Mode::Full) if self.received == 1 => self.welcome(hello).map(now),
            (Payload::Execute(execute), mode) => match self.execute(execute, mode) {
                None => Ok(None),
                Some(refusal) => self.faults.count().map(|()| now(refusal)),
            },
            (Payload::Renew(renew), Mode::Full) => {
                // A host renews now and then; whoever does nothing else is at fault.
                self.faults.count().map(|()| Some(Reply::Renewal(renew.token)))
            }
            (Payload::ToolsChanged(changed), Mode::Full) => {
                // It costs as much as a hello. Whoever sends nothing else is at fault.
                self.faults.count()?;
                self.shared.announce(AnnouncedTools::new(changed.tools)?);
                Ok(None)
            }
            (Payload::CallState(state), Mode::Full) => self.call_state(&state).map(|()| None),
            (Payload::ToolResult(result), mode) => self.tool_result(result, mode).map(|()| None),
            (Payload::Error(error), Mode::Basic) => self.failed_call(error).map(|()| None),
            (Payload::Cancel(cancel), Mode::Full) => {
                self.cancel(&cancel);
                Ok(None)
            }
            (Payload::Ping(wire::Ping { id }), _) => Ok(now(Payload::Pong(wire::Pong { id }))),
            (Payload::Pong(_), _) => Ok(None),
            _ => Err(Violation(format!("a {name} message is not expected here"))),
        }
    }

    /// Completes when no execution runs or waits.
    pub(crate) fn idle(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            loop {
                let ended = shared.ended.notified();
                if shared.lock().executions.is_empty() {
                    return;
                }
                ended.await;
            }
        }
    }

    /// Completes when the token has expired that was shown last.
    pub(crate) fn expired(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut expires = self.shared.expires.subscribe();
        async move {
            loop {
                let at = *expires.borrow_and_update();
                tokio::select! {
                    () = tokio::time::sleep_until(at) => return,
                    changed = expires.changed() => if changed.is_err() { return std::future::pending().await },
                }
            }
        }
    }

    /// Tells whether anything runs.
    pub(crate) fn activity(&self) -> Activity {
        Activity(Arc::clone(&self.shared))
    }

    /// Goes on with a newer token of the same subject, or as before.
    pub(crate) fn renew(&mut self, verified: Result<Identity, Unauthenticated>) -> Payload {
        let refuse = |code: ErrorCode, error: &str| {
            Payload::Renewed(wire::Renewed { error: error.into(), code: code.as_str().into(), ..Default::default() })
        };
        let shared = &self.shared;
        let identity = match verified {
            Ok(identity) => identity,
            Err(reason) => {
                tracing::info!(session = shared.number.0, reason = short(&reason.to_string()), "a renewal was refused");
                return refuse(ErrorCode::Unauthenticated, "the token is not accepted");
            }
        };
        if identity.subject != shared.subject {
            return refuse(ErrorCode::PermissionDenied, "the token is of another subject");
        }
        if let Err(reason) = shared.app.verifier.use_up(&identity) {
            tracing::info!(session = shared.number.0, %reason, "a renewal was refused");
            return refuse(ErrorCode::Unauthenticated, "the token is not accepted");
        }
        let grant = SessionGrant::new(&shared.app, identity.grant);
        let (limits, tools, warnings) = (grant.limits.to_wire(), grant.tools.to_wire(), grant.warnings());
        *shared.grant.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(grant);
        shared.expires.send_replace(Instant::now() + identity.expires_in);
        let expires_in_ms = u64::try_from(identity.expires_in.as_millis()).unwrap_or(u64::MAX);
        Payload::Renewed(wire::Renewed { expires_in_ms, limits, tools, warnings, ..Default::default() })
    }

    fn welcome(&self, hello: wire::Hello) -> Result<Payload, Violation> {
        if hello.protocol_version == 0 {
            return Err(Violation("hello names no protocol version".into()));
        }
        let shared = &self.shared;
        shared.announce(AnnouncedTools::new(hello.tools)?);
        let (grant, expires_in) = (shared.grant(), shared.expires.borrow().saturating_duration_since(Instant::now()));
        tracing::info!(session = shared.number.0, subject = &*shared.subject, client = short(&hello.client), "hello");
        Ok(Payload::Welcome(wire::Welcome {
            protocol_version: PROTOCOL_VERSION.min(hello.protocol_version),
            features: FEATURES.map(Into::into).into(),
            session_id: shared.number.0.to_string(),
            relay: concat!("sandbox-relay/", env!("CARGO_PKG_VERSION")).into(),
            limits: grant.limits.to_wire(),
            executions: u32::try_from(shared.app.session_executions).unwrap_or(u32::MAX),
            expires_in_ms: u64::try_from(expires_in.as_millis()).unwrap_or(u64::MAX),
            warnings: grant.warnings(),
            bindings: Bindings::NAMES.map(Into::into).into(),
            tools: grant.tools.to_wire(),
        }))
    }

    fn execute(&mut self, execute: wire::Execute, mode: Mode) -> Option<Payload> {
        // A basic peer has one at a time and no ids, so that any name will do.
        let execution_id = if mode == Mode::Full { execute.execution_id.clone() } else { String::new() };
        let id = if mode == Mode::Full { execution_id.clone() } else { "basic".into() };
        let refuse = |code, message: String| {
            let error = ExecutionError::new(code, message).into_wire(wire::Usage::default(), Vec::new());
            Some(Payload::Error(wire::Error { execution_id: execution_id.clone(), ..error }))
        };
        let Ok(id) = ExecutionId::try_from(id) else {
            return refuse(ErrorCode::InvalidInput, relay_proto::id::InvalidExecutionId.to_string());
        };
        let grant = self.shared.grant();
        // What is none is not passed on.
        let traceparent = execute.traceparent.parse().ok();
        let only = if mode == Mode::Full { request::only(&execute) } else { Ok(ToolPatterns::default()) };
        let checked = only.and_then(|only| Ok((only, request::request(execute, mode, &grant)?)));
        let (only, (request, warnings)) = match checked {
            Ok(checked) => checked,
            Err(message) => return refuse(ErrorCode::InvalidInput, message),
        };
        let in_flight = request.limits.size(LimitName::ToolCallsInFlight);
        let Some(held) = self.hold_source(&request) else {
            return refuse(ErrorCode::Overloaded, "too many bytes of source wait to be run already".into());
        };
        let control = {
            let mut state = self.shared.lock();
            let live = state.executions.len();
            if mode == Mode::Basic && live > 0 {
                return refuse(
                    ErrorCode::Overloaded,
                    "an execution runs already; without hello there is one at a time".into(),
                );
            }
            if live >= MAX_LIVE_EXECUTIONS {
                return refuse(ErrorCode::Overloaded, format!("{live} executions of this session run or wait already"));
            }
            if mode == Mode::Full && (state.executions.contains_key(&id) || state.past_set.contains(&id)) {
                return refuse(ErrorCode::InvalidInput, format!("the execution id {id} was used before"));
            }
            // One answer for each open call, and a cancel.
            let (sender, commands) = mpsc::channel(in_flight + 1);
            let states = Arc::<CallStates>::default();
            state.executions.insert(id.clone(), LiveExecution { commands: sender, states: Arc::clone(&states) });
            Control { commands, states }
        };
        let shared = Arc::clone(&self.shared);
        let introspects = request.bindings.introspection;
        let suggestions = sink::SUGGESTIONS.into();
        let basic = mode != Mode::Full;
        let sink = SessionSink { shared, grant, only, introspects, suggestions, id, traceparent, basic };
        tokio::spawn(run_execution(sink, request, control, warnings, held));
        None
    }

    /// Room for a request's texts: this session's, its subject's and the relay's.
    fn hold_source(&self, request: &ExecutionRequest) -> Option<HeldSource> {
        let bytes = u32::try_from(request.held_bytes()).ok()?;
        let of_session = Arc::clone(&self.shared.source_bytes).try_acquire_many_owned(bytes).ok()?;
        let of_subject = Arc::clone(&self.shared.of_subject.budgets.sources).try_acquire_many_owned(bytes).ok()?;
        let of_relay = Arc::clone(&self.shared.app.source_bytes).try_acquire_many_owned(bytes).ok()?;
        Some([of_session, of_subject, of_relay])
    }

    fn tool_result(&mut self, result: wire::ToolResult, mode: Mode) -> Result<(), Violation> {
        let outcome = if result.success {
            Ok(result.result)
        } else {
            let code = if mode == Mode::Full && !result.code.is_empty() { result.code } else { "TOOL_FAILED".into() };
            Err(CallFailure { code: Code::from(short(&code).to_owned()), message: bounded(result.error) })
        };
        self.settle(&result.id, outcome)
    }

    fn failed_call(&mut self, error: wire::Error) -> Result<(), Violation> {
        if error.id.is_empty() {
            tracing::info!(session = self.shared.number.0, error = short(&error.error), "the host reports an error");
            return Ok(());
        }
        let failure = CallFailure { code: ErrorCode::ToolFailed.into(), message: bounded(error.error) };
        self.settle(&error.id, Err(failure))
    }

    fn settle(&mut self, id: &str, outcome: Result<bytes::Bytes, CallFailure>) -> Result<(), Violation> {
        let call = CallId::try_from(id).map_err(|error| Violation(error.to_string()))?;
        let mut state = self.shared.lock();
        let Some((execution, worker_call)) = state.calls.remove(&call) else {
            // An answer that crossed with the end of its call is no fault; one to a call that never was, is.
            let was_sent = (1..=state.last_call).contains(&call.0);
            return if was_sent { Ok(()) } else { Err(Violation(format!("there is no tool call {call}"))) };
        };
        if let Some(live) = state.executions.get(&execution) {
            live.states.forget(worker_call);
            // There is room for one answer to each open call, so this fails only when the execution has just ended.
            let _ = live.commands.try_send(Command::Settle { call: worker_call, outcome });
        }
        Ok(())
    }

    fn call_state(&mut self, of: &wire::CallState) -> Result<(), Violation> {
        let call = CallId::try_from(of.call_id.as_str()).map_err(|error| Violation(error.to_string()))?;
        let wait = match of.status() {
            wire::CallStatus::AwaitingApproval => Some(Wait::Answer),
            wire::CallStatus::AwaitingTurn => Some(Wait::Turn),
            wire::CallStatus::Started | wire::CallStatus::Unspecified => None,
        };
        let is_news = {
            let state = self.shared.lock();
            if !(1..=state.last_call).contains(&call.0) {
                return Err(Violation(format!("there is no tool call {call}")));
            }
            match state.calls.get(&call) {
                Some((execution, worker_call)) => {
                    state.executions.get(execution).is_some_and(|live| live.states.set(*worker_call, wait))
                }
                // It crossed with the end of its call.
                None => false,
            }
        };
        if is_news { Ok(()) } else { self.faults.count() }
    }

    fn cancel(&self, cancel: &wire::Cancel) {
        // An execution that has just ended is no fault.
        if let Ok(id) = ExecutionId::try_from(cancel.execution_id.clone())
            && let Some(live) = self.shared.lock().executions.get(&id)
        {
            // A place is kept for it. Where a second cancel finds none, the first is on its way.
            let _ = live.commands.try_send(Command::Cancel);
        }
    }
}

/// Room for a source.
type HeldSource = [OwnedSemaphorePermit; 3];

/// Whether anything runs in a session.
pub(crate) struct Activity(Arc<Shared>);

impl Activity {
    pub(crate) fn is_idle(&self) -> bool {
        self.0.lock().executions.is_empty()
    }
}

fn now(payload: Payload) -> Option<Reply> {
    Some(Reply::Now(payload.into()))
}

impl Drop for Session {
    fn drop(&mut self) {
        // Executions end when nobody can answer them any more.
        self.shared.lock().executions.clear();
    }
}

fn clamp_warning(clamped: &Clamped) -> wire::Warning {
    wire::Warning { code: warning::LIMIT_CLAMPED.into(), message: clamped.to_string() }
}

/// What a script may read of a host's words.
fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_FAILURE_BYTES));
    text.shrink_to_fit();
    text
}

/// The start of a text from a peer, for logs and errors.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}
