//! Connecting to a relay, running code there, and what came of it.

mod execution;
mod request;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use relay_proto::wire::message::Payload;
use relay_proto::{ErrorCode, ExecutionId, LimitName, LimitOverrides, ToolPatterns, frame, wire};
use tokio::sync::oneshot;

use crate::approval::Asked;
use crate::connection::{self, Shared};
use crate::dispatch::Questions;
use crate::error::{Error, ExecutionError};
use crate::event::{Event, Path};
use crate::host::{ExecutionContext, Host, new_trace};
use crate::ledger::Budget;
use crate::policy::Spending;
use crate::short_path::{self, Plan};

pub use execution::{Execution, Outcome, Usage, Warning};
pub use request::{ExecuteRequest, MODEL_BINDINGS};

/// What a relay may take on top of the limits before an execution is given up.
const PATIENCE: Duration = Duration::from_secs(30);

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
        let plan = self.plan(&request, &budget, &session);
        let code: Arc<str> = request.code.into();
        let trace = request.trace.unwrap_or_else(new_trace);
        let policy = &self.shared.host.policy;
        let limits = session.limits;
        let (tools, result_bytes) = (budget.tools.clone(), budget.result_bytes);
        let questions = Questions::of(&request.bindings);
        let context = |id: ExecutionId, events| ExecutionContext {
            tools,
            questions,
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
        let execution = Execution::new(Arc::clone(&self.shared), opened, within);
        let context = execution.context();
        self.shared.host.record(context, &self.subject, &self.shared.key, &request.limits)?;
        context.tell(Event::CodeReceived { bytes: code.len() });
        let code = match plan {
            Some(Plan::Call(call)) => {
                context.tell(Event::PathChosen(Path::Host));
                context.tell(Event::Started);
                short_path::start(&self.shared, context, call);
                return Ok(execution);
            }
            Some(Plan::Refused(error)) => {
                context.tell(Event::PathChosen(Path::Host));
                self.shared.ledger.end(&context.id, Err(error));
                return Ok(execution);
            }
            Some(Plan::Code(code)) => code,
            None => code.as_ref().to_owned(),
        };
        self.shared.ledger.start(&context.id);
        context.tell(Event::PathChosen(Path::Relay));
        let mut limits = request.limits;
        if policy.budget.bytes_returned.is_some() {
            limits.set(LimitName::ResultBytes, result_bytes);
        }
        let execute = wire::Execute {
            code,
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

    /// The call that a request is, if it can be made here.
    fn plan(&self, request: &ExecuteRequest, budget: &Budget, session: &Granted) -> Option<Plan> {
        let limit = |name| match name {
            LimitName::ResultBytes => budget.result_bytes,
            name => granted(&session.limits, &request.limits, name),
        };
        let knows_patterns = self.welcome.features.iter().any(|feature| feature == "granted_tools");
        let (tools, patterns, offered) = (self.shared.host.tools(), &budget.tools, self.offered());
        short_path::find(request, &short_path::Granted { tools, patterns, knows_patterns, offered, limit: &limit })
    }
}

/// What a session's limits and those that an execution asks for come to.
fn granted(session: &LimitOverrides, asked: &LimitOverrides, name: LimitName) -> u64 {
    let session = session.get(name).unwrap_or(u64::MAX);
    session.min(name.maximum()).min(asked.get(name).unwrap_or(u64::MAX).max(name.minimum()))
}
