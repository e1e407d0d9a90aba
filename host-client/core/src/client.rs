//! The client of a relay: connecting, running code there, and the outcome.

mod begin;
mod builder;
#[cfg(feature = "short-path")]
mod check;
mod execution;
mod lazy;
mod open;
mod outcome;
#[cfg(feature = "short-path")]
mod plan;
mod pool;
mod request;
#[cfg(feature = "short-path")]
mod short_path;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use relay_proto::session::feature;
use relay_proto::wire::message::Payload;
use relay_proto::{ErrorCode, LimitName, LimitOverrides, frame, wire};
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use crate::conversation::Conversation;
use crate::error::{Error, ExecutionError};
use crate::event::{Event, Route};
use crate::host::Host;
use crate::session::begin::{Connected, connect};
use crate::session::{self, Session, token};

pub use crate::outcome::{Usage, Warning};
pub use crate::session::config::{Backoff, ClientConfig};
pub use crate::session::credit::CallCapacity;
pub use crate::session::state::{ConnectionState, SessionLoss, StateChanges};
pub use crate::session::token::{TokenError, TokenSource};
pub use builder::ClientBuilder;
#[cfg(feature = "short-path")]
pub use check::Mistake;
pub use execution::Execution;
pub use lazy::LazyClient;
pub use outcome::Outcome;
pub use pool::{ClientLease, ConnectionPool};
pub(crate) use request::DurableAttempt;
pub use request::{Check, ExecuteRequest, LargeIntegers, MODEL_BINDINGS};

/// The time that a relay may take beyond the limits before an execution is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time for which [`Client::connect_when_free`] tries a relay that has no place for a connection.
const FREE_WITHIN: Duration = Duration::from_secs(30);
/// The range of the pause between two tries; the relay's `Retry-After` chooses within it.
const FREE_PAUSE: RangeInclusive<Duration> = Duration::from_millis(250)..=Duration::from_secs(5);

/// The time that code which names a server waits for the relay to hear of changed tools.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(2);

/// A session with a relay. Clones share it; it ends when the last is dropped.
#[derive(Clone)]
pub struct Client {
    session: Arc<Session>,
    welcome: Arc<wire::Welcome>,
    queue_timeout: Duration,
    /// The subject of the token, as the token says; `unknown` if it cannot be read.
    subject: Arc<str>,
    /// The conversation that executions belong to.
    conversation: Arc<Conversation>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("session", &self.welcome.session_id).field("relay", &self.welcome.relay).finish()
    }
}

impl Client {
    /// Connects to a relay and announces the tools. With [`crate::Tools`] alone, tools that read run and all others are
    /// refused; a [`Host`] has a policy and an approver.
    ///
    /// # Errors
    /// - [`Error::Address`]: the address is not one, or would send the token in the clear.
    /// - [`Error::Token`]: the source of tokens gives none.
    /// - [`Error::Unreachable`]: no relay answers within [`ClientConfig::connect_timeout`].
    /// - [`Error::Certificate`]: the relay's certificate is not accepted.
    /// - [`Error::Cut`]: the connection ended before there was a session.
    /// - [`Error::NoRelay`]: another server answers at the address.
    /// - [`Error::Unauthenticated`]: the relay does not accept the token.
    /// - [`Error::Status`]: the server answers with another HTTP status, such as 429 when it has no room.
    /// - [`Error::Refused`]: the relay refuses the session.
    /// - [`Error::Tools`]: the tools are more than a relay takes.
    /// - [`Error::Policy`]: a pattern of the policy can fit no tool.
    pub async fn connect(config: ClientConfig, host: impl Into<Arc<Host>>) -> Result<Self, Error> {
        let host = host.into();
        host.policy.check()?;
        let queue_timeout = config.queue_timeout;
        let Connected { session, welcome, token } = connect_to_any(config, host).await?;
        let subject = token::subject(&token).unwrap_or_else(|| "unknown".into());
        Ok(Self::over(session, welcome, queue_timeout, &subject))
    }

    /// Connects as [`Client::connect`] does, and tries again for up to 30 s while the relay answers that it has no place for
    /// another connection.
    ///
    /// # Errors
    /// Those of [`Client::connect`].
    pub async fn connect_when_free(config: ClientConfig, host: impl Into<Arc<Host>>) -> Result<Self, Error> {
        let (host, since) = (host.into(), Instant::now());
        loop {
            match Self::connect(config.clone(), Arc::clone(&host)).await {
                Err(error @ Error::Status { .. }) if error.is_retryable() && since.elapsed() < FREE_WITHIN => {
                    let asked = error.retry_after().unwrap_or_default();
                    tokio::time::sleep(asked.clamp(*FREE_PAUSE.start(), *FREE_PAUSE.end())).await;
                }
                connected => return connected,
            }
        }
    }

    /// Makes the client of a session that has begun.
    pub(crate) fn over(session: Arc<Session>, welcome: wire::Welcome, queue_timeout: Duration, subject: &str) -> Self {
        Self {
            session,
            welcome: Arc::new(welcome),
            queue_timeout,
            subject: subject.into(),
            conversation: Arc::default(),
        }
    }

    /// Tells whether the session has ended, so that no code can be run in it any more but single calls on this host.
    pub fn is_over(&self) -> bool {
        self.session.ledger.is_lost()
    }

    /// Returns the state of the connection to the relay.
    pub fn state(&self) -> ConnectionState {
        self.session.state()
    }

    /// Returns the states of the connection from now on.
    ///
    /// ```no_run
    /// # async fn example(client: host_client_core::Client) {
    /// use host_client_core::ConnectionState;
    ///
    /// let mut changes = client.state_changes();
    /// while let Some(state) = changes.next().await {
    ///     match state {
    ///         ConnectionState::Connected => println!("connected again"),
    ///         ConnectionState::Reconnecting { reason, .. } => println!("{reason}; trying again"),
    ///         ConnectionState::Lost { reason, .. } => println!("the session is over: {reason}"),
    ///         _ => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn state_changes(&self) -> StateChanges {
        self.session.state_changes()
    }

    /// Returns the maximum time for which the session is resumed after its connection was lost: the shorter of
    /// [`ClientConfig::resume`] and the relay's. Zero: it ends with its connection.
    pub fn resume_window(&self) -> Duration {
        self.session.window()
    }

    /// Tells whether the relay shuts down: it begins no more executions, and those that run have a while to end. A
    /// [`LazyClient`] then connects again for the next ones.
    pub fn is_draining(&self) -> bool {
        self.session.drains_at().is_some()
    }

    /// Returns the host: its tools, policy, approver and audit.
    pub fn host(&self) -> &Host {
        &self.session.host
    }

    fn conversation(&self) -> Arc<Conversation> {
        Arc::clone(&self.conversation)
    }

    /// Returns the client for a conversation. The session holds `place` until it ends.
    fn of(self, conversation: Arc<Conversation>, place: Option<OwnedSemaphorePermit>) -> Self {
        self.session.hold(place);
        Self { conversation, ..self }
    }

    fn shared_host(&self) -> Arc<Host> {
        Arc::clone(&self.session.host)
    }

    /// Returns the limits that an execution has here unless it asks for less, as far as this version knows them.
    pub fn limits(&self) -> LimitOverrides {
        self.session.grant().limits
    }

    /// Returns the build of the relay's sandbox, which a durable run has to be replayed on; `None`: it cannot run one.
    pub(crate) fn build(&self) -> Option<&str> {
        self.offers(feature::DURABLE).then_some(&self.welcome.build)
    }

    fn is_of_session_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.session, &other.session)
    }

    /// Returns the patterns of the tools that the token allows; none allows all.
    pub(crate) fn granted_tools(&self) -> &[String] {
        &self.welcome.tools
    }

    /// Returns the limit that holds for a request.
    pub(crate) fn effective_limit(&self, request: &ExecuteRequest, name: LimitName) -> u64 {
        self.session.grant().effective_limit(&request.limits, name)
    }

    /// Returns the name and version of the relay's software.
    pub(crate) fn relay(&self) -> &str {
        &self.welcome.relay
    }

    fn offers(&self, feature: &str) -> bool {
        self.welcome.features.iter().any(|name| name == feature)
    }

    /// Renews the session with a newer token of the same subject. The limits and tools of that token hold for
    /// executions from now on. Returns the time until it expires.
    ///
    /// # Errors
    /// - [`Error::Unauthenticated`]: the relay does not accept the token; the session goes on as before.
    /// - [`Error::Refused`]: the relay cannot renew, or is renewing already; the session goes on as before.
    /// - [`Error::Execution`] with `SESSION_LOST`: the session is over.
    pub async fn renew(&self, token: &str) -> Result<Duration, Error> {
        if !self.offers(feature::RENEW) {
            return Err(Error::Refused("it cannot renew a session".into()));
        }
        let answer = Arc::clone(&self.session).show(token).await?;
        let renewed = answer.await.map_err(|_dropped| session::over())?;
        self.session.renewed(token.to_owned(), renewed)
    }

    /// Returns the bindings that an execution may ask for here.
    pub fn offered(&self) -> &[String] {
        &self.welcome.bindings
    }

    /// Returns the relay's warnings about the token.
    pub fn warnings(&self) -> Vec<Warning> {
        self.welcome.warnings.iter().cloned().map(Into::into).collect()
    }

    /// Runs code and waits for its outcome.
    ///
    /// # Errors
    /// - [`Error::Execution`]: the code failed, hit a limit, or the session ended; [`Error::code`] says which.
    /// - [`Error::Pattern`]: a pattern of [`ExecuteRequest::tools`] can fit no tool.
    /// - [`Error::Audit`]: the execution could not be recorded, and was not begun.
    pub async fn run(&self, request: ExecuteRequest) -> Result<Outcome, Error> {
        self.execute(request).await?.await
    }

    /// Runs code and reads the value that it returns as a `T`.
    ///
    /// # Errors
    /// Those of [`Client::run`], and [`Error::Result`]: the value is not a `T`.
    pub async fn run_as<T: DeserializeOwned>(&self, request: ExecuteRequest) -> Result<T, Error> {
        self.run(request).await?.parse()
    }

    /// Waits until the relay knows of the tools as they are now: code that runs after this can call them. Changes are
    /// collected for up to a second before the relay is told. Returns at once if nothing has changed.
    ///
    /// # Errors
    /// - [`Error::Tools`]: the tools are more than a relay takes; it goes on with those that it knows.
    /// - [`Error::Refused`]: the relay takes no changes of the tools in a session.
    /// - [`Error::Execution`] with `SESSION_LOST`: the session is over.
    pub async fn tools_announced(&self) -> Result<(), Error> {
        if !self.offers(feature::TOOLS_CHANGED) {
            return Err(Error::Refused("it takes no changes of the tools in a session".into()));
        }
        let version = *self.session.host.tools.changes().borrow();
        self.session.announced(version).await
    }

    /// Starts code. Code that names an MCP server which is being started, and whose tools are not known yet, waits for it
    /// first. While the session is being resumed, this waits for the connection. The code runs until it ends or the returned
    /// [`Execution`] is dropped. Code that is a single call needs no relay: it runs while there is no connection, and after the
    /// session is over, with the tools and limits of its last token.
    ///
    /// # Errors
    /// - [`Error::Execution`] with `SESSION_LOST`: the session is over, and nothing was run.
    /// - [`Error::Execution`] with `OVERLOADED`: the relay took no further execution of this session within
    ///   [`ClientConfig::queue_timeout`], and nothing was run.
    /// - [`Error::Audit`]: the execution could not be recorded, and was not begun.
    /// - [`Error::Pattern`]: a pattern of [`ExecuteRequest::tools`] can fit no tool.
    pub async fn execute(&self, request: ExecuteRequest) -> Result<Execution, Error> {
        self.execute_of(request, None).await
    }

    /// Starts code as [`Client::execute`] does, of a durable run where one is given.
    pub(crate) async fn execute_of(
        &self,
        request: ExecuteRequest,
        durable: Option<DurableAttempt>,
    ) -> Result<Execution, Error> {
        if self.session.host.tools.await_servers_of(&request.code).await {
            // When the time is up, go on: the relay refuses calls of tools that it does not know yet, with their names.
            let _ = tokio::time::timeout(ANNOUNCED_WITHIN, self.tools_announced()).await;
        }
        // Before the route is chosen, which depends on the bindings.
        let mut request = request.with_offered(self.offered());
        let grant = self.session.grant();
        let (budget, within) = self.budget(&request, &grant)?;
        #[cfg(feature = "short-path")]
        let (plan, warnings) = self.plan(&request, &budget, &grant);
        let result_bytes = budget.result_bytes;
        let run = durable.as_ref().map(|attempt| Arc::clone(&attempt.run));
        let opened = self.open(&mut request, budget, &grant, run);
        // From here on, dropping `execution` cancels it.
        let execution = Execution::new(Arc::clone(&self.session), opened, within);
        #[cfg(feature = "short-path")]
        let execution = execution.with_warnings(warnings);
        let context = execution.context();
        context.record_start(&self.subject, &self.session.key, &request.limits)?;
        context.tell(Event::CodeReceived { bytes: context.code.len() });
        #[cfg(feature = "short-path")]
        match plan {
            Some(short_path::Plan::Call(call)) => {
                context.tell(Event::RouteChosen(Route::Host));
                context.tell(Event::Started);
                short_path::start(&self.session, context, call);
                return Ok(execution);
            }
            Some(short_path::Plan::Refused(error)) => {
                context.tell(Event::RouteChosen(Route::Host));
                self.session.ledger.end(&context.id, Err(*error));
                return Ok(execution);
            }
            Some(short_path::Plan::Code(code)) => request.code = code,
            None => {}
        }
        context.tell(Event::RouteChosen(Route::Relay));
        if self.session.host.policy.budget.bytes_returned.is_some() {
            request.limits.set(LimitName::ResultBytes, result_bytes);
        }
        let asks_for_form = request.large_integers != LargeIntegers::Number;
        let mut execute = request.into_wire(&context.id, &context.trace, self.begin_within_ms());
        execute.durable = durable.map(|attempt| attempt.history);
        let mut message = Payload::Execute(execute);
        if asks_for_form && !self.offers(feature::LARGE_INTEGERS) {
            let text =
                "this relay gives large integers as numbers alone; leave large_integers out, or update the relay";
            self.session.ledger.end(&context.id, Err(ExecutionError::new(ErrorCode::InvalidInput, text)));
            return Ok(execution);
        }
        let size = frame::payload_len(&message);
        if let Some(cap) = frame::cap(message.kind().0)
            && size > cap.bytes
        {
            // Before it is started: the relay never hears of it, and nothing has to be cancelled there.
            let text = format!("the code and its input have {size} bytes; at most {} can be sent", cap.bytes);
            self.session.ledger.end(&context.id, Err(ExecutionError::new(ErrorCode::InvalidInput, text)));
            return Ok(execution);
        }
        // Nothing is sent before there is a connection and credit: an execution that waits in vain was not begun.
        match self.may_begin(&mut message, &context.id).await {
            Ok(room) => room.send(message),
            Err(error) => {
                self.session.ledger.end(&context.id, Err(error.clone()));
                return Err(Box::new(error).into());
            }
        }
        context.tell(Event::Started);
        Ok(execution)
    }
}

/// Connects to the first of a configuration's addresses where a relay takes the session.
async fn connect_to_any(config: ClientConfig, host: Arc<Host>) -> Result<Connected, Error> {
    let fallbacks = config.fallbacks.clone();
    let mut connected = connect(config.clone(), Arc::clone(&host)).await;
    for url in fallbacks {
        let Err(error) = &connected else { break };
        if !error.is_retryable() {
            break;
        }
        tracing::info!(%error, url, "trying the next relay");
        connected = connect(ClientConfig { url, ..config.clone() }, Arc::clone(&host)).await;
    }
    connected
}
