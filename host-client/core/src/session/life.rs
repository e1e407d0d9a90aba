//! The life of a session's connections: one after the other, until the session is over.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures_util::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::announce::announce;
use super::config::ClientConfig;
use super::connection::{Purpose, Socket, dial, first_message};
use super::grant::TokenGrant;
use super::renewal::renew;
use super::socket::{self, End};
use super::state::SessionLoss;
use super::token::Tokens;
use super::{Outbox, Session, SessionFault, short_reason};
use crate::error::Error;

/// The length of a secret for resuming, in bytes.
const SECRET_BYTES: usize = 32;
/// The minimum time of an attempt to connect, so that a window that is nearly over does not end in a busy loop.
const MIN_PAUSE: Duration = Duration::from_millis(1);
/// The maximum time for telling the relay that a session without a connection is over.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// What a session needs to go on, on another connection.
pub(super) struct Resumption {
    session_id: String,
    epoch: u64,
    secret: bytes::Bytes,
    /// The number of attempts to resume the session so far.
    attempts: u64,
    /// The maximum time for which the session can be resumed after its connection was lost.
    pub(super) window: Duration,
}

impl Resumption {
    /// Reads what welcome says about resuming.
    ///
    /// # Errors
    /// [`Error::Refused`]: it offers to resume, and does not say how.
    pub(super) fn of(config: &ClientConfig, welcome: &wire::Welcome) -> Result<Self, Error> {
        let (secret, epoch) = (welcome.resume_secret.clone(), welcome.epoch);
        if secret.len() != SECRET_BYTES || epoch == 0 {
            return Err(Error::Refused("its welcome offers to resume the session, without a usable secret".into()));
        }
        let window = Duration::from_millis(welcome.resume_window_ms).min(config.resume.unwrap_or_default());
        Ok(Self { session_id: welcome.session_id.clone(), epoch, secret, attempts: 0, window })
    }
}

/// The connections of one session.
pub(super) struct Life {
    pub(super) config: ClientConfig,
    pub(super) tokens: Arc<Tokens>,
    /// `None`: the session ends with its connection.
    pub(super) resumption: Option<Resumption>,
    pub(super) session: Weak<Session>,
    pub(super) outbox: Outbox,
    pub(super) attempts: Attempts,
}

/// The reason why an attempt to resume a session failed.
enum Failed {
    /// Another attempt may succeed.
    Again(String),
    /// The session is over.
    Over(SessionFault),
}

impl Life {
    /// Keeps the session connected until it is over, tells the relay of changed tools, and renews the token.
    pub(super) async fn run(mut self, socket: Socket, changes: Option<watch::Receiver<u64>>, renews: bool) {
        let fault = SessionFault::new("the runtime of the connection is gone".into());
        let mut guard = EndGuard { session: self.session.clone(), fault };
        let (session, tokens) = (self.session.clone(), Arc::clone(&self.tokens));
        guard.fault = tokio::select! {
            fault = self.connections(socket) => fault,
            never = announce_if(changes, &session) => match never {},
            never = renew(&session, &tokens), if renews => match never {},
        };
    }

    /// Uses one connection after the other; returns the reason when the session is over.
    async fn connections(&mut self, mut socket: Socket) -> SessionFault {
        // Bounds for the timer, which takes neither zero nor an endless time.
        let heartbeat = self.config.heartbeat.clamp(Duration::from_millis(10), Duration::from_secs(3_600));
        loop {
            let before = self.received();
            let reason = match socket::carry(socket, &self.session, &mut self.outbox, heartbeat).await {
                End::Ended(fault) | End::Closed(fault) => return fault,
                End::Cut(reason) => reason,
            };
            let Some(window) = self.resumption.as_ref().map(|resumption| resumption.window) else {
                return SessionFault::new(reason);
            };
            if self.received() > before {
                self.attempts = Attempts::new(&self.config);
            }
            let since = Instant::now();
            let mut until = since + window;
            let states = {
                let Some(session) = self.session.upgrade() else { return self.leave().await };
                session.disconnected(since, &reason);
                until = session.drains_at().map_or(until, |at| until.min(at));
                session.state_changes()
            };
            let resumed = tokio::select! {
                resumed = self.resume(&reason, until) => resumed,
                () = unused(states.0) => return self.leave().await,
            };
            socket = match resumed {
                Ok(socket) => socket,
                Err(_) if self.session.strong_count() == 0 => return self.leave().await,
                Err(fault) => return fault,
            };
            let Some(session) = self.session.upgrade() else {
                socket::farewell(&mut socket).await;
                return gone();
            };
            session.resumed(since.elapsed());
        }
    }

    /// Tries to resume the session until it is resumed, it is over, or this time has come.
    async fn resume(&mut self, reason: &str, until: Instant) -> Result<Socket, SessionFault> {
        let mut last = "the relay drops its connections".to_owned();
        loop {
            if let Some(pause) = self.attempts.pause() {
                if Instant::now() + pause >= until {
                    return Err(self.given_up(reason, &last));
                }
                tokio::time::sleep(pause).await;
            }
            let limit = until.min(Instant::now() + self.config.connect_timeout);
            match tokio::time::timeout_at(limit, self.attempt()).await {
                Ok(Ok(socket)) => return Ok(socket),
                Ok(Err(Failed::Over(fault))) => return Err(fault),
                Ok(Err(Failed::Again(why))) => last = why,
                Err(_elapsed) => "the relay did not answer in time".clone_into(&mut last),
            }
            tracing::debug!(reason = last, "the session could not be resumed yet");
        }
    }

    /// Returns the sequence of the last message of the relay that was handed over; 0: the client is gone.
    fn received(&self) -> u64 {
        self.session.upgrade().map_or(0, |session| session.delivery.received())
    }

    /// Returns the end of a session that could not be resumed in time. `reason` tells why it had to be, `last` why the last
    /// attempt failed.
    fn given_up(&self, reason: &str, last: &str) -> SessionFault {
        let loss = match self.session.upgrade().and_then(|session| session.drains_at()) {
            Some(_) => SessionLoss::Drained,
            None => SessionLoss::Expired,
        };
        SessionFault::lost(loss, format!("{reason}; the session could not be resumed in time: {last}"))
    }

    /// Connects once and resumes the session.
    async fn attempt(&mut self) -> Result<Socket, Failed> {
        let (mut socket, token, resumed) = self.ask().await?;
        let Some(resumption) = &mut self.resumption else { return Err(Failed::Over(gone())) };
        if let Err(fault) = take(resumption, &self.session, &self.tokens, token, resumed) {
            socket::farewell(&mut socket).await;
            return Err(Failed::Over(fault));
        }
        Ok(socket)
    }

    /// Connects once and asks the relay for the session. Returns the connection, the token that opened it, and the answer.
    async fn ask(&mut self) -> Result<(Socket, String, wire::Resumed), Failed> {
        let Some(resumption) = &mut self.resumption else { return Err(Failed::Over(gone())) };
        let token = self.tokens.usable().await.map_err(|error| Failed::Again(error.to_string()))?;
        let mut socket =
            dial(&self.config, &token, Purpose::Resume).await.map_err(|error| refused(error, &self.tokens))?;
        resumption.attempts += 1;
        let resume = wire::Resume {
            session_id: resumption.session_id.clone(),
            epoch: resumption.epoch,
            secret: resumption.secret.clone(),
            received: self.outbox.received(),
            attempt: resumption.attempts,
        };
        let resume = frame::encode(&Payload::Resume(resume).into());
        let again = |error: &dyn std::error::Error| Failed::Again(error.to_string());
        socket.send(Message::Binary(resume)).await.map_err(|error| again(&error))?;
        let answer = match first_message(&mut socket, &self.config.url).await {
            Ok(message) => message.payload,
            Err(error) => return Err(refused(error, &self.tokens)),
        };
        match answer {
            Some(Payload::Resumed(resumed)) => Ok((socket, token, resumed)),
            Some(Payload::Error(error)) => Err(denied(&error)),
            _ => Err(Failed::Over(SessionFault::new("the relay did not answer to resume".into()))),
        }
    }

    /// Ends a session that nobody uses any more while it has no connection: resumes it once and closes it, so that the relay
    /// does not keep it and its executions for the rest of the window. Nobody waits for this; it takes 2 s at most. If it
    /// fails, the window ends the session.
    async fn leave(&mut self) -> SessionFault {
        let closed = async {
            if let Ok((mut socket, ..)) = self.ask().await {
                socket::farewell(&mut socket).await;
                // A socket that is dropped with messages unread is reset, and the relay might not see the close.
                while socket.next().await.is_some_and(|message| message.is_ok()) {}
            }
        };
        let _ = tokio::time::timeout(LEAVE_WITHIN, closed).await;
        gone()
    }
}

/// Takes the relay's answer to resume: the numbers go on from there.
///
/// # Errors
/// [`SessionFault`]: the answer cannot be true.
fn take(
    resumption: &mut Resumption,
    session: &Weak<Session>,
    tokens: &Tokens,
    token: String,
    resumed: wire::Resumed,
) -> Result<(), SessionFault> {
    if resumed.epoch <= resumption.epoch || resumed.secret.len() != SECRET_BYTES {
        return Err(SessionFault::new("the relay's answer to resume has no usable secret".into()));
    }
    let session = session.upgrade().ok_or_else(gone)?;
    let numbers = session.delivery.resume_after(resumed.received);
    numbers.map_err(|gap| SessionFault::lost(SessionLoss::Gap, gap.to_string()))?;
    (resumption.epoch, resumption.secret) = (resumed.epoch, resumed.secret);
    session.set_grant(TokenGrant::new(&resumed.limits, &resumed.tools));
    tokens.accepted(token, resumed.expires_in_ms);
    Ok(())
}

/// Returns what follows from an error of connecting.
fn refused(error: Error, tokens: &Tokens) -> Failed {
    let is_refused = match &error {
        Error::Unauthenticated => true,
        Error::Status { status, .. } => *status == StatusCode::FORBIDDEN,
        Error::Address { .. } => return Failed::Over(SessionFault::new(error.to_string())),
        _ => false,
    };
    if is_refused {
        tokens.rejected();
        if !tokens.has_source() {
            return Failed::Over(SessionFault::new(error.to_string()));
        }
    }
    Failed::Again(error.to_string())
}

/// Returns what follows from the relay's refusal to resume.
fn denied(error: &wire::Error) -> Failed {
    let (loss, text) = (SessionLoss::of(error.loss), short_reason(&error.error));
    match loss {
        None if matches!(error.code.as_str(), "OVERLOADED" | "DRAINING") => Failed::Again(text.to_owned()),
        None => Failed::Over(SessionFault::new(format!("the relay did not resume the session: {text}"))),
        Some(loss) => Failed::Over(SessionFault::lost(loss, format!("the session was lost ({loss}): {text}"))),
    }
}

/// The attempts to connect again since the relay was last heard of the session: a relay that lets sessions be resumed and drops
/// them at once is asked less and less often.
pub(super) struct Attempts {
    is_first: bool,
    pauses: backon::ExponentialBackoff,
    most: Duration,
}

impl Attempts {
    pub(super) fn new(config: &ClientConfig) -> Self {
        let most = config.backoff.most.max(MIN_PAUSE);
        let builder = ExponentialBuilder::default()
            .with_min_delay(config.backoff.first.clamp(MIN_PAUSE, most))
            .with_max_delay(most)
            .with_jitter()
            .without_max_times();
        Self { is_first: true, pauses: builder.build(), most }
    }

    /// Returns the pause before the next attempt; `None`: it is the first, which is made at once.
    fn pause(&mut self) -> Option<Duration> {
        if std::mem::take(&mut self.is_first) {
            return None;
        }
        Some(self.pauses.next().unwrap_or(self.most).max(MIN_PAUSE))
    }
}

fn gone() -> SessionFault {
    SessionFault::new("the client is gone".into())
}

/// Waits until nothing uses the session any more.
async fn unused(mut states: watch::Receiver<super::ConnectionState>) {
    while states.changed().await.is_ok() {}
}

/// Tells the relay of changed tools if it wants to know. Never returns.
async fn announce_if(changes: Option<watch::Receiver<u64>>, session: &Weak<Session>) -> Infallible {
    match changes {
        Some(changes) => announce(changes, session).await,
        None => std::future::pending().await,
    }
}

/// Ends the session when it is dropped with the connection's task, however that task ends.
struct EndGuard {
    session: Weak<Session>,
    fault: SessionFault,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            session.end(&self.fault);
        }
    }
}
