//! The connections of one session, one after another: each is served until it ends; where the session can be resumed, the
//! next one is awaited. The session gives the messages their meaning.
//!
//! - `read`: takes messages; `write`: sends messages, acknowledgements and pings
//! - `close`: ends a connection so that the peer can read why

mod close;
mod read;
mod write;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use relay_proto::frame;
use relay_proto::time::millis;
use relay_proto::wire::message::Payload;
use relay_proto::wire::{self, SessionLoss};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::auth::Verifier;
use crate::heard::LastHeard;
use crate::lifecycle::{Lifecycle, Phase};
use crate::meter::Metered;
use crate::metrics;
use crate::outbound::{Outbound, OutboundQueue};
use crate::peer::Counted;
use crate::resume::{Resumable, Resumables};
use crate::session::{Epoch, Session, TokenRights};
use close::{Close, End};

/// A WebSocket to one host.
pub(crate) type Socket = WebSocketStream<Metered<Counted>>;

/// Returns the caps of the transport. The cap of each kind of message is checked when it is decoded.
pub(crate) fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(32 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(4 * frame::MAX_FRAME_BYTES)
        .max_message_size(Some(frame::MAX_FRAME_BYTES))
        .max_frame_size(Some(frame::MAX_FRAME_BYTES))
}

/// Configuration of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionConfig {
    /// Interval between two pings; a peer that is silent for [`relay_proto::session::SILENT_HEARTBEATS`] of them is closed.
    pub(crate) heartbeat: Duration,
    /// Time without a message and without an execution after which a connection is closed; `None`: never.
    pub(crate) idle: Option<Duration>,
    /// Time that running executions have when the relay shuts down.
    pub(crate) drain_timeout: Duration,
}

/// Connection of a host, before anything of its session is known.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) heard: Arc<LastHeard>,
}

/// Connection that a host has resumed its session on.
pub(crate) struct Resumption {
    connection: Connection,
    /// Sequence of the last message that the host has received.
    received: u64,
    epoch: Epoch,
    /// Rights of the token that has opened the connection.
    rights: TokenRights,
}

impl std::fmt::Debug for Resumption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The epoch holds a secret.
        f.debug_struct("Resumption").field("received", &self.received).finish_non_exhaustive()
    }
}

/// Session, its queue, and what it uses of the server.
pub(crate) struct Served {
    pub(crate) config: ConnectionConfig,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) resumables: Arc<Resumables<Resumption>>,
    pub(crate) session: Session,
    pub(crate) outbound: Outbound,
    pub(crate) queue: OutboundQueue,
    /// Place of the session among those that can be resumed; `None`: it cannot be.
    pub(crate) resumable: Option<Arc<Resumable<Resumption>>>,
}

/// Session that goes on with a connection, and the message that is written to it first.
type Next = (Served, Connection, wire::Resumed);

/// Serves a session until it is over: on its connection, and on those on which it is resumed. Its executions end with it.
pub(crate) async fn serve(connection: Connection, served: Served) {
    let mut next = Some((served, connection, None));
    while let Some((mut served, Connection { socket, heard }, first)) = next.take() {
        let (mut sink, mut stream) = socket.split();
        let end = served.serve_one(&mut stream, &mut sink, &heard, first).await;
        let Ok(socket) = stream.reunite(sink) else { return };
        let after = served.after(Connection { socket, heard }, end).await;
        next = after.map(|(served, connection, resumed)| (served, connection, Some(resumed)));
    }
}

impl Served {
    /// Serves one connection until it ends. `first` is written before everything else.
    async fn serve_one(
        &mut self,
        stream: &mut read::Stream,
        sink: &mut write::Sink,
        heard: &LastHeard,
        first: Option<wire::Resumed>,
    ) -> End {
        let expired = self.session.expired();
        let finished = self.session.finished(self.config.drain_timeout);
        let unused = unused(&self.session, heard, self.config.idle);
        let phase = self.lifecycle.phase();
        let mut reader = read::Reader {
            session: &mut self.session,
            verifier: &self.verifier,
            outbound: &self.outbound,
            resumables: &self.resumables,
            resumable: &mut self.resumable,
            heard,
            epoch: first.as_ref().map_or(1, |resumed| resumed.epoch),
        };
        let first = first.map(|resumed| frame::encode(&Payload::Resumed(resumed).into()));
        tokio::select! {
            end = reader.read(stream) => end,
            end = write::write(sink, &mut self.queue, heard, self.config.heartbeat, first) => end,
            () = expired => Close::new(CloseCode::Policy, "the token has expired").losing(SessionLoss::Expired).into(),
            () = unused => Close::new(CloseCode::Normal, "nothing has happened for long").losing(SessionLoss::Expired).into(),
            end = drained(phase, finished) => end,
        }
    }

    /// Ends a connection, and finds out how the session goes on; `None`: it is over.
    async fn after(self, connection: Connection, end: End) -> Option<Next> {
        match end {
            End::Resume(resume) => self.give_away(connection, &resume).await,
            End::Replaced(resumption) => {
                // Nothing is read from the connection before any more.
                tokio::spawn(close::replaced(connection.socket));
                return self.go_on(*resumption).await;
            }
            End::Lost if self.resumable.is_some() => {
                drop(connection);
                return self.wait().await;
            }
            End::Lost => {}
            End::Close(close) => {
                let knows_loss = self.resumable.is_some();
                let queue = self.over(close.loss);
                close::close(connection.socket, queue, close, knows_loss).await;
            }
            End::CloseUnread { code, reason } => {
                self.over(None);
                close::unread(connection.socket, code, reason).await;
            }
            End::ClosedByPeer { is_over: false } if self.resumable.is_some() => {
                tokio::spawn(close::answered(connection.socket));
                return self.wait().await;
            }
            End::ClosedByPeer { .. } => {
                self.over(None);
                close::answered(connection.socket).await;
            }
        }
        None
    }

    /// Ends the session and its executions. Its host is told the reason when it asks. Returns the queue with what is still
    /// to be sent.
    fn over(self, loss: Option<SessionLoss>) -> OutboundQueue {
        if let Some(resumable) = &self.resumable {
            self.resumables.forget(resumable, loss);
        }
        self.queue
    }

    /// Hands a connection to the session that its host has named, or tells the host why it cannot be resumed.
    async fn give_away(self, connection: Connection, resume: &wire::Resume) {
        let subject = self.session.subject();
        match self.resumables.resume(&subject, resume) {
            Ok((session, epoch)) => {
                metrics::resumed(Ok(()));
                let (received, rights) = (resume.received, self.session.rights());
                session.hand_over(Resumption { connection, received, epoch, rights });
            }
            Err(loss) => {
                tracing::info!(subject = &*subject, loss = loss.as_str_name(), "a session is not resumed");
                metrics::resumed(Err(loss));
                self.refuse(connection, loss).await;
            }
        }
    }

    /// Tells a host why its session is lost.
    async fn refuse(self, connection: Connection, loss: SessionLoss) {
        let close = Close::new(CloseCode::Policy, "the session cannot be resumed").losing(loss);
        close::close(connection.socket, self.over(Some(loss)), close, true).await;
    }

    /// Goes on with a session on the connection on which it was resumed.
    async fn go_on(self, resumption: Resumption) -> Option<Next> {
        let Resumption { connection, received, epoch, rights } = resumption;
        if let Err(gap) = self.outbound.delivery().attach(received) {
            tracing::info!(session = self.session.number().0, %gap, "a session cannot go on");
            metrics::session_lost(SessionLoss::Gap);
            self.refuse(connection, SessionLoss::Gap).await;
            return None;
        }
        tracing::info!(session = self.session.number().0, epoch = epoch.number, "resumed");
        let resumed = self.session.resumed(rights, &epoch);
        Some((self, connection, resumed))
    }

    /// Keeps a session without a connection until its host resumes it, or the window is over.
    async fn wait(self) -> Option<Next> {
        let resumable = Arc::clone(self.resumable.as_ref()?);
        let number = self.session.number().0;
        if !self.outbound.detach() {
            tracing::warn!(session = number, "there is no room to keep a session without a connection");
            metrics::session_lost(SessionLoss::Expired);
            self.over(Some(SessionLoss::Expired));
            return None;
        }
        let window = self.session.resume_window();
        tracing::info!(session = number, window_ms = millis(window), "the connection is lost");
        let detached = self.lifecycle.detach_session();
        self.session.stop_clocks(true);
        let mut phase = self.lifecycle.phase();
        // Nobody can connect to a relay that drains.
        let drains = async { drop(phase.wait_for(|phase| *phase != Phase::Serving).await) };
        let resumed = tokio::select! {
            biased;
            resumption = resumable.next() => Ok(resumption),
            () = tokio::time::sleep(window) => Err(SessionLoss::Expired),
            () = drains => Err(SessionLoss::Drained),
        };
        drop(detached);
        let loss = match resumed {
            Ok(resumption) => return self.go_on(*resumption).await,
            Err(loss) => loss,
        };
        tracing::info!(session = number, loss = loss.as_str_name(), "a session was not resumed");
        metrics::session_lost(loss);
        self.over(Some(loss));
        None
    }
}

/// Waits until the session has run nothing and the peer has sent no message for `most`; `None`: for ever.
fn unused<'a>(session: &Session, heard: &'a LastHeard, most: Option<Duration>) -> impl Future<Output = ()> + use<'a> {
    let activity = session.activity();
    async move {
        let Some(most) = most else { return std::future::pending().await };
        loop {
            let quiet = heard.quiet();
            if quiet >= most && activity.is_idle() {
                return;
            }
            // While something runs, the next look is as late as if it had just begun.
            let wait = if quiet >= most { most } else { most - quiet };
            tokio::time::sleep(wait.max(Duration::from_millis(10))).await;
        }
    }
}

/// Waits until a relay that shuts down may close the connection: its session has `finished`, or the phase is
/// [`Phase::Closing`].
async fn drained(mut phase: watch::Receiver<Phase>, finished: impl Future<Output = ()>) -> End {
    // The sender lives as long as the server.
    let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
    tokio::select! {
        () = finished => {}
        _ = phase.wait_for(|phase| *phase == Phase::Closing) => {}
    }
    Close::new(CloseCode::Away, "the relay is shutting down").losing(SessionLoss::Drained).into()
}
