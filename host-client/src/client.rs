//! Connecting to a relay, running code there, and what came of it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use relay_proto::wire::message::Payload;
use relay_proto::{Code, ErrorCode, ExecutionId, LimitName, LimitOverrides, ToolPatterns, frame, wire};
use serde::de::DeserializeOwned;
use tokio::sync::{broadcast, oneshot};
use tokio::time::Sleep;

use crate::approval::{Approver, Asked};
use crate::connection::{self, Shared};
use crate::error::{Error, ExecutionError};
use crate::event::{Event, EventStream, OutputItem, Path};
use crate::host::{ExecutionContext, Host, new_trace};
use crate::ledger::{Budget, Ended};
use crate::policy::{Phase, Spending};
use crate::short_path::{self, OwnCall};
use relay_proto::TraceContext;

/// What a relay may take on top of the limits before an execution is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What code of a model has beside `mcp` where the relay offers it: models write these without being told.
pub const MODEL_BINDINGS: [&str; 4] = ["console", "timers", "servers", "introspection"];

/// The most bytes of a token that are looked at.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Whose a token is, as it says itself. The relay has checked it.
fn subject(token: &str) -> Option<String> {
    let claims = token.get(..token.len().min(MAX_TOKEN_BYTES))?.split('.').nth(1)?;
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    Some(claims.get("sub")?.as_str()?.to_owned())
}

/// The limits that this version knows.
fn known_limits(limits: &BTreeMap<String, u64>) -> LimitOverrides {
    let mut known = LimitOverrides::default();
    for (name, value) in limits {
        if let Ok(name) = name.parse() {
            known.set(name, *value);
        }
    }
    known
}

/// Where the relay is, and who we are.
#[derive(Clone)]
pub struct ClientConfig {
    /// The relay's address, such as `ws://127.0.0.1:8080/ws`.
    pub url: String,
    /// The bearer token.
    pub token: String,
    /// Our name, for the relay's log.
    pub name: String,
    /// How long connecting may take, from the first packet to the relay's welcome.
    pub connect_timeout: Duration,
    /// How often the relay is pinged; it is given up after three times as long without a sign.
    pub heartbeat: Duration,
    /// The authorities that the relay's certificate has to be from, as certificates in PEM; none but these are trusted then.
    /// Without, those of the web are. For `wss://`.
    pub authorities: Option<Vec<u8>>,
    /// How long an execution may wait for its turn at the relay. After this and its `wall_ms`, and with some patience on top,
    /// it is given up with `TIMEOUT`, whatever the relay does.
    pub queue_timeout: Duration,
    /// Allow `ws://` to an address that is not loopback: the token can then be read on the way.
    pub allow_plain_remote: bool,
}

impl ClientConfig {
    /// An address and a token; everything else as usual.
    pub fn new(url: impl Into<String>, token: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: token.into(),
            name: concat!("host-client/", env!("CARGO_PKG_VERSION")).into(),
            connect_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(15),
            authorities: None,
            queue_timeout: Duration::from_secs(300),
            allow_plain_remote: false,
        }
    }
}

impl std::fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientConfig").field("url", &self.url).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Code to run.
#[derive(Clone)]
pub struct ExecuteRequest {
    /// JavaScript, in any of the forms that the relay takes.
    pub code: String,
    /// Limits that are to be lower than the session's.
    pub limits: LimitOverrides,
    /// What the code has beside `mcp`; `console` unless changed.
    pub bindings: Vec<String>,
    /// Further bindings, of which it gets those that the relay offers: asking for others in [`bindings`](Self::bindings) is
    /// an error.
    pub bindings_if_offered: Vec<String>,
    /// What `read_input()` returns, with the binding `io`.
    pub input: String,
    /// Patterns of the tools that the code may call, such as `github.*`; without, all that the client has.
    pub tools: Option<Vec<String>>,
    /// What the policy offers: only what reads, or what changes things, too; without, what its rules say.
    pub phase: Option<Phase>,
    /// Who is asked about its calls; without, the host's approver.
    pub approver: Option<Arc<dyn Approver>>,
    /// The trace and the span that the execution belongs to; without, a new trace.
    pub trace: Option<TraceContext>,
    /// What `Math.random` begins with; without, it is fresh.
    pub seed: Option<u64>,
    /// The time that the code begins at, in ms since 1970; without, it is now.
    pub now_ms: Option<i64>,
    /// Whether what is no more than one tool call may be made on this host, without a sandbox.
    pub short_paths: bool,
    /// Functions of our own that run beside the code, by the name after `local.`.
    pub local_tools: BTreeMap<String, String>,
}

impl std::fmt::Debug for ExecuteRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecuteRequest").field("code", &self.code).field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl ExecuteRequest {
    /// Code with the session's limits and `console`.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            limits: LimitOverrides::default(),
            bindings: vec!["console".into()],
            bindings_if_offered: Vec::new(),
            input: String::new(),
            tools: None,
            phase: None,
            approver: None,
            trace: None,
            seed: None,
            now_ms: None,
            local_tools: BTreeMap::new(),
            short_paths: true,
        }
    }

    /// Code that a model wrote: with the session's limits, and with those of [`MODEL_BINDINGS`] that the relay offers.
    pub fn for_model(code: impl Into<String>) -> Self {
        let bindings_if_offered = MODEL_BINDINGS.map(Into::into).into();
        Self { bindings: Vec::new(), bindings_if_offered, ..Self::new(code) }
    }

    /// Runs the code in the sandbox in any case. Without, what is no more than one tool call is made on this host: the outcome
    /// is the same.
    #[must_use]
    pub fn always_in_sandbox(mut self) -> Self {
        self.short_paths = false;
        self
    }

    /// Makes the outcome the same whenever the same code gets the same tool results: `Math.random` begins with `seed`, and the
    /// clock with `now_ms`, in ms since 1970. That clock stands still but for timers, which take no time, and results come to
    /// the code in the order of its calls.
    #[must_use]
    pub fn repeatable(mut self, seed: u64, now_ms: i64) -> Self {
        (self.seed, self.now_ms) = (Some(seed), Some(now_ms));
        self
    }

    /// Sends along a function that runs beside the code, as `mcp.call("local.NAME", args)`, without a way to us and back. It is
    /// JavaScript or TypeScript: one function of one argument. What it does counts as the code's: it passes no policy, no
    /// schema and no audit.
    #[must_use]
    pub fn local_tool(mut self, name: impl Into<String>, source: impl Into<String>) -> Self {
        self.local_tools.insert(name.into(), source.into());
        self
    }

    /// Lets the code call only tools that one of these patterns fits, such as `github.*`. We check it, and so does the relay.
    #[must_use]
    pub fn tools<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.tools = Some(patterns.into_iter().map(Into::into).collect());
        self
    }

    /// Offers the code only the tools of one of the policy's phases.
    #[must_use]
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Sets who is asked about its calls, in the place of the host's approver.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Makes the execution a part of a trace.
    #[must_use]
    pub fn trace(mut self, parent: TraceContext) -> Self {
        self.trace = Some(parent);
        self
    }

    /// Lowers a limit, in the unit of its name.
    #[must_use]
    pub fn limit(mut self, name: LimitName, value: u64) -> Self {
        self.limits.set(name, value);
        self
    }

    /// Gives the code `read_input()`, which returns `input`, and `emit(text)`.
    #[must_use]
    pub fn io(mut self, input: impl Into<String>) -> Self {
        self.bindings.push("io".into());
        self.input = input.into();
        self
    }

    /// Gives the code exactly these bindings beside `mcp`.
    #[must_use]
    pub fn bindings<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.bindings = names.into_iter().map(Into::into).collect();
        self.bindings_if_offered.clear();
        self
    }

    /// With those bindings in [`bindings`](Self::bindings) that it wants if they are offered, and that are.
    fn with_offered(mut self, offered: &[String]) -> Self {
        for name in std::mem::take(&mut self.bindings_if_offered) {
            if offered.contains(&name) && !self.bindings.contains(&name) {
                self.bindings.push(name);
            }
        }
        self
    }
}

/// What an execution used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Waiting for a worker.
    pub queue: Duration,
    /// From the hand-over to the worker until the end, without waiting for approvals.
    pub wall: Duration,
    /// Waiting for approvals.
    pub approval: Duration,
    /// CPU time of the worker.
    pub cpu: Duration,
    /// Tool calls that were sent.
    pub tool_calls: u64,
    /// Bytes of output.
    pub output_bytes: u64,
    /// The most memory that was resident in the worker at once, in bytes, shared pages included.
    pub memory_bytes: u64,
}

impl From<wire::Usage> for Usage {
    fn from(usage: wire::Usage) -> Self {
        Self {
            queue: Duration::from_micros(usage.queue_us),
            wall: Duration::from_micros(usage.wall_us),
            approval: Duration::from_micros(usage.approval_us),
            cpu: Duration::from_micros(usage.cpu_us),
            tool_calls: usage.tool_calls,
            output_bytes: usage.output_bytes,
            memory_bytes: usage.memory_bytes,
        }
    }
}

/// Something that an author should know, although the code ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// One of [`relay_proto::code::warning`], or what a newer relay sends.
    pub code: String,
    /// What was noticed.
    pub message: String,
}

impl From<wire::Warning> for Warning {
    fn from(warning: wire::Warning) -> Self {
        Self { code: warning.code, message: warning.message }
    }
}

/// What came of an execution that succeeded.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The returned value, as UTF-8 JSON.
    pub json: Bytes,
    /// What the code printed.
    pub output: Vec<OutputItem>,
    /// What was noticed.
    pub warnings: Vec<Warning>,
    /// What was used.
    pub usage: Usage,
}

impl Outcome {
    /// The returned value.
    ///
    /// # Errors
    /// It is not a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_slice(&self.json)?)
    }

    /// The returned value, whatever it is.
    ///
    /// # Errors
    /// The relay sent what is no JSON.
    pub fn value(&self) -> Result<serde_json::Value, Error> {
        self.parse()
    }
}

/// A session with a relay. Clones share it; it ends when the last is dropped.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    welcome: Arc<wire::Welcome>,
    /// What the token allows; a renewal can change it.
    granted: Arc<RwLock<Granted>>,
    queue_timeout: Duration,
    /// Who we are, as the token says.
    subject: Arc<str>,
}

/// What a token allows.
#[derive(Debug, Clone)]
struct Granted {
    /// What an execution may use unless it asks for less.
    limits: LimitOverrides,
    /// The tools that exist for it.
    tools: ToolPatterns,
}

impl Granted {
    fn new(limits: &BTreeMap<String, u64>, tools: &[String]) -> Self {
        let tools = ToolPatterns::new((!tools.is_empty()).then(|| tools.to_vec()));
        Self { limits: known_limits(limits), tools }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("session", &self.welcome.session_id).field("relay", &self.welcome.relay).finish()
    }
}

impl Client {
    /// Connects and announces the tools. Where there are only [`crate::Tools`], those that read run and all others are
    /// refused; a [`Host`] has rules, and somebody to ask.
    ///
    /// # Errors
    /// No relay answers at the address, or it refuses the token.
    pub async fn connect(config: ClientConfig, host: impl Into<Arc<Host>>) -> Result<Self, Error> {
        let (shared, welcome) = connection::connect(&config, host.into()).await?;
        let subject = subject(&config.token).unwrap_or_else(|| "unknown".into()).into();
        let granted = Arc::new(RwLock::new(Granted::new(&welcome.limits, &welcome.tools)));
        Ok(Self { shared, welcome: Arc::new(welcome), granted, queue_timeout: config.queue_timeout, subject })
    }

    /// Whether the session has ended, so that nothing can be run in it any more.
    pub fn is_over(&self) -> bool {
        self.shared.ledger.is_lost()
    }

    /// The tools, the rules and who is asked.
    pub fn host(&self) -> &Host {
        &self.shared.host
    }

    pub(crate) fn shared_host(&self) -> Arc<Host> {
        Arc::clone(&self.shared.host)
    }

    /// The limits that an execution has here unless it asks for less, as far as this version knows them.
    pub fn limits(&self) -> LimitOverrides {
        self.granted().limits
    }

    fn granted(&self) -> Granted {
        self.granted.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on in the same session with a newer token of the same subject. What that token allows holds for executions from
    /// now on. Gives how long it is good.
    ///
    /// # Errors
    /// The relay does not accept the token, cannot renew, or is renewing already: the session goes on as before. Or the
    /// session is over.
    pub async fn renew(&self, token: &str) -> Result<Duration, Error> {
        if !self.welcome.features.iter().any(|feature| feature == "renew") {
            return Err(Error::Refused("it cannot renew a session".into()));
        }
        let over = || Error::from(Box::new(ExecutionError::new(ErrorCode::SessionLost, "the session is over")));
        // From here on nothing is waited for until it is sent: whoever stops waiting leaves nothing half done.
        let room = self.shared.outbound.reserve().await.map_err(|_| over())?;
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.shared.renewal.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.is_some() {
                return Err(Error::Refused("a renewal is on its way already".into()));
            }
            *waiting = Some(sender);
        }
        room.send(Payload::Renew(wire::Renew { token: token.to_owned() }));
        let renewed = answer.await.map_err(|_| over())?;
        match renewed.code.as_str() {
            "" => {
                *self.granted.write().unwrap_or_else(PoisonError::into_inner) =
                    Granted::new(&renewed.limits, &renewed.tools);
                Ok(Duration::from_millis(renewed.expires_in_ms))
            }
            "UNAUTHENTICATED" => Err(Error::Unauthenticated),
            _ => Err(Error::Refused(renewed.error)),
        }
    }

    /// The bindings that an execution may ask for here.
    pub fn offered(&self) -> &[String] {
        &self.welcome.bindings
    }

    /// What the relay had to say about the token.
    pub fn warnings(&self) -> Vec<Warning> {
        self.welcome.warnings.iter().cloned().map(Into::into).collect()
    }

    /// Sends code and waits for what comes of it.
    ///
    /// # Errors
    /// The code failed, hit a limit, or the session ended.
    pub async fn run(&self, request: ExecuteRequest) -> Result<Outcome, Error> {
        self.execute(request).await?.await
    }

    /// Sends code. The execution runs until it ends or what is returned here is dropped.
    ///
    /// # Errors
    /// The session is over.
    pub async fn execute(&self, request: ExecuteRequest) -> Result<Execution, Error> {
        // Which path it takes depends on what it has.
        let request = request.with_offered(self.offered());
        let session = self.granted();
        let (budget, within) = self.budget(&request, &session);
        let own_call = self.own_call(&request, &budget);
        let code: Arc<str> = request.code.into();
        let trace = request.trace.unwrap_or_else(new_trace);
        let policy = &self.shared.host.policy;
        let limits = session.limits;
        let (tools, result_bytes) = (budget.tools.clone(), budget.result_bytes);
        let context = |id: ExecutionId, events| ExecutionContext {
            tools,
            span: tracing::info_span!(
                "execute_code",
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = "execute_code",
                execution = id.as_str(),
                trace_id = trace.trace_id(),
            ),
            needs_trail: self.shared.host.audit.is_some(),
            trail: OnceLock::new(),
            id,
            code: Arc::clone(&code),
            phase: request.phase,
            trace,
            events,
            spending: Spending::new(&policy.budget),
            asked: Asked::default(),
            approver: request.approver.or_else(|| self.shared.host.approver.clone()),
            approval_timeout: Duration::from_millis(granted(&limits, &request.limits, LimitName::ApprovalMs)),
        };
        let lost = |reason: String| Box::new(ExecutionError::new(ErrorCode::SessionLost, reason));
        let opened = self.shared.ledger.open(budget, context).map_err(lost)?;
        // From here on, dropping it cancels.
        let execution = Execution {
            shared: Arc::clone(&self.shared),
            events: Some(opened.events),
            outcome: opened.outcome,
            deadline: Box::pin(tokio::time::sleep(within)),
            given_up_at: tokio::time::Instant::now() + within,
            context: opened.context,
        };
        let context = &execution.context;
        self.shared.host.record(context, &self.subject, &self.shared.key, &request.limits)?;
        context.tell(Event::CodeReceived { bytes: code.len() });
        if let Some(call) = own_call {
            context.tell(Event::PathChosen(Path::Host));
            context.tell(Event::Started);
            short_path::start(&self.shared, context, call);
            return Ok(execution);
        }
        self.shared.ledger.start(&context.id);
        context.tell(Event::PathChosen(Path::Relay));
        let mut limits = request.limits;
        if policy.budget.bytes_returned.is_some() {
            limits.set(LimitName::ResultBytes, result_bytes);
        }
        let execute = wire::Execute {
            code: code.as_ref().to_owned(),
            execution_id: context.id.as_str().to_owned(),
            limits: limits.to_wire(),
            bindings: request.bindings,
            input: request.input,
            remote_tools: request.tools.unwrap_or_default(),
            traceparent: trace.to_string(),
            local_tools: request.local_tools,
            seed: request.seed,
            now_ms: request.now_ms,
        };
        let message = Payload::Execute(execute);
        let size = frame::payload_len(&message);
        if let Some(cap) = frame::cap(message.kind().0)
            && size > cap.bytes
        {
            let text = format!("the code and its input have {size} bytes; at most {} can be sent", cap.bytes);
            return Err(Box::new(ExecutionError::new(ErrorCode::InvalidInput, text)).into());
        }
        if self.shared.outbound.send(message).await.is_err() {
            return Err(lost("the session is over".into()).into());
        }
        context.tell(Event::Started);
        Ok(execution)
    }

    /// What the relay may call in an execution with these limits: we count it too, and take its word only for less than
    /// the maxima.
    fn budget(&self, request: &ExecuteRequest, session: &Granted) -> (Budget, Duration) {
        let granted = |name: LimitName| granted(&session.limits, &request.limits, name);
        let budget = Budget {
            tools: ToolPatterns::new(request.tools.clone()).and(&session.tools),
            arguments_bytes: granted(LimitName::ArgumentsBytes),
            tool_calls: granted(LimitName::ToolCalls),
            result_bytes: granted(LimitName::ResultBytes)
                .min(self.shared.host.policy.budget.bytes_returned.unwrap_or(u64::MAX)),
            in_flight: usize::try_from(granted(LimitName::ToolCallsInFlight)).unwrap_or(usize::MAX),
        };
        let wall = Duration::from_millis(granted(LimitName::WallMs));
        (budget, self.queue_timeout.saturating_add(wall).saturating_add(PATIENCE))
    }
}

impl Client {
    /// The call that a request is, if it can be made here.
    fn own_call(&self, request: &ExecuteRequest, budget: &Budget) -> Option<OwnCall> {
        if !request.short_paths {
            return None;
        }
        let session = self.limits();
        let limit = |name| match name {
            LimitName::ResultBytes => budget.result_bytes,
            name => granted(&session, &request.limits, name),
        };
        let (tools, offered) = (self.shared.host.tools(), self.offered());
        short_path::find(request, &short_path::Granted { tools, patterns: &budget.tools, offered, limit: &limit })
    }
}

/// What a session's limits and those that an execution asks for come to.
fn granted(session: &LimitOverrides, asked: &LimitOverrides, name: LimitName) -> u64 {
    let session = session.get(name).unwrap_or(u64::MAX);
    session.min(name.maximum()).min(asked.get(name).unwrap_or(u64::MAX).max(name.minimum()))
}

/// A running execution: a future of its outcome. Dropping it cancels the execution.
#[derive(Debug)]
#[must_use = "dropping an execution cancels it"]
pub struct Execution {
    context: Arc<ExecutionContext>,
    shared: Arc<Shared>,
    events: Option<broadcast::Receiver<Event>>,
    outcome: oneshot::Receiver<Ended>,
    deadline: Pin<Box<Sleep>>,
    /// When it is given up, waiting for approvals not counted.
    given_up_at: tokio::time::Instant,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Execution {
    /// The id, which is in every event and log of this execution.
    pub fn id(&self) -> &ExecutionId {
        &self.context.id
    }

    /// What happens in it, from the start. It can be taken once.
    pub fn events(&mut self) -> Option<EventStream> {
        self.events.take().map(EventStream::new)
    }

    /// Cancels it, as dropping it does, and leaves it to be awaited: it ends at once with `CANCELLED` and with what it
    /// printed so far, unless it had ended before. Its tools are no longer waited for.
    pub fn cancel(&self) {
        self.give_up(ExecutionError::new(ErrorCode::Cancelled, "the execution was cancelled"));
    }
}

impl Future for Execution {
    type Output = Result<Outcome, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut ended = Pin::new(&mut self.outcome).poll(cx);
        while ended.is_pending() && self.deadline.as_mut().poll(cx).is_ready() {
            // Waiting for people stops the relay's clock, and ours.
            let (waited, waits) = self.context.asked.clock.waited();
            let now = tokio::time::Instant::now();
            let given_up_at = self.given_up_at + waited;
            if given_up_at > now || waits {
                self.deadline.as_mut().reset(given_up_at.max(now + Duration::from_secs(1)));
                continue;
            }
            self.give_up(ExecutionError::new(ErrorCode::Timeout, "the relay did not end the execution in time"));
            ended = Pin::new(&mut self.outcome).poll(cx);
        }
        let ended = ready!(ended);
        let Ok(Ended { result, output }) = ended else {
            // The ledger always says how an execution ended; it is gone only with the whole session.
            let error = ExecutionError::new(ErrorCode::SessionLost, "the session is over");
            return Poll::Ready(Err(Box::new(error).into()));
        };
        Poll::Ready(match result {
            Ok(result) => Ok(Outcome {
                json: if result.data.is_empty() { Bytes::from_static(b"null") } else { result.data },
                output,
                warnings: result.warnings.into_iter().map(Into::into).collect(),
                usage: result.usage.unwrap_or_default().into(),
            }),
            Err(error) => Err(Box::new(ExecutionError { output, ..error }).into()),
        })
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Execution {
    /// Ends it on our side at once, with this error, and lets the relay know.
    fn give_up(&self, error: ExecutionError) {
        if !self.shared.ledger.is_open(&self.context.id) {
            return;
        }
        self.shared.ledger.end(&self.context.id, Err(error));
        let cancel = Payload::Cancel(wire::Cancel {
            execution_id: self.context.id.as_str().to_owned(),
            reason: "the host dropped it".into(),
            ..wire::Cancel::default()
        });
        if let Err(tokio::sync::mpsc::error::TrySendError::Full(cancel)) = self.shared.outbound.try_send(cancel)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let shared = Arc::clone(&self.shared);
            runtime.spawn(async move { shared.outbound.send(cancel).await });
        }
    }
}

impl Error {
    /// The code of an execution's error.
    pub fn code(&self) -> Option<&Code> {
        match self {
            Self::Execution(error) => Some(&error.code),
            _ => None,
        }
    }
}
