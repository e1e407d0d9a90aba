//! Life of one server: connect, list, serve; after a failure wait, longer each time, and retry.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::Tool as ListedTool;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::catalogue::Catalogue;
use super::failure::Failure;
use super::link::{Connection, Link, State};
use super::listing::{HostHandler, Listing, list};
use super::tool::McpTool;
use super::transport::{Backing, Launch, Running};
use host_client_core::tool::{InvalidTool, Tool};
use host_client_core::tools::Mount;

/// Pause before the first retry. It doubles with each failure.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Connections that last at least this long reset the pause.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// Number of failed attempts after which a server that never connected is given up.
const FIRST_TRIES: u32 = 5;
/// Maximum time for a connected server to list its changed tools.
const LISTS_WITHIN: Duration = Duration::from_secs(30);
/// Minimum time between two listings of the tools of one server.
const LIST_EVERY: Duration = Duration::from_millis(200);
/// Maximum time between the end of a process and the end of its output, or the reverse.
const ENDS_WITHIN: Duration = Duration::from_secs(1);
/// Maximum time that the MCP library may take to close a connection.
const GOODBYE_WITHIN: Duration = Duration::from_secs(3);

/// Server with everything that is needed to start it again and again.
pub(super) struct Life {
    pub(super) link: Arc<Link>,
    pub(super) mount: Mount,
    pub(super) launch: Launch,
    pub(super) catalogue: Option<Catalogue>,
    /// Maximum time for starting, initializing and listing together.
    pub(super) connect_within: Duration,
    /// Maximum time that a call waits for the server to start.
    pub(super) call_waits: Duration,
}

/// Server that was initialized and has listed its tools.
struct Connected {
    running: Running,
    backing: Backing,
    listing: Listing,
    /// The handler of the server's notifications.
    host: HostHandler,
}

/// Counter of failed attempts, from which the next pause follows.
#[derive(Default)]
struct Tries {
    failed: u32,
    was_connected: bool,
}

impl Life {
    /// Registers the tools of the catalogue, so that calls learn that the server still starts.
    pub(super) fn mount_catalogue(&self) {
        self.set(State::starting(None));
        self.mount.set_starting(Some(self.call_waits));
        if let Some(tools) = self.catalogue.as_ref().and_then(Catalogue::load) {
            self.register(tools);
        }
    }

    /// Sets the state, as the tools of the server see it and as calls of tools that it does not have are told.
    fn set(&self, state: State) {
        self.mount.set_note(self.link.note(&state));
        if !matches!(state, State::Starting { after: None, .. }) {
            self.mount.set_starting(None);
        }
        self.link.set(state);
    }

    /// Runs the server until `stop` is cancelled, then closes it. The server's name is free once this returns.
    pub(super) async fn live(self, stop: CancellationToken) {
        let mut tries = Tries::default();
        loop {
            let connected = match stop.run_until_cancelled(self.connect()).await {
                Some(connected) => connected,
                None => break,
            };
            let why = match connected {
                Ok(connected) => {
                    let since = Instant::now();
                    let Some(why) = self.serve(connected, &stop).await else { break };
                    tries.connection_ended(since.elapsed());
                    why
                }
                Err(why) => {
                    tries.failed += 1;
                    why
                }
            };
            let why: Arc<str> = why.into();
            let server = self.link.server();
            let Some(pause) = tries.next_pause() else {
                tracing::error!(server, %why, "an MCP server is given up");
                self.set(State::GivenUp { why });
                stop.cancelled().await;
                break;
            };
            tracing::warn!(server, %why, ?pause, "an MCP server is not available");
            self.set(State::Waiting { why: Arc::clone(&why), until: Instant::now() + pause });
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                break;
            }
            self.set(State::starting(Some(why)));
        }
        self.link.set(State::Closed);
    }

    /// Starts the server, initializes it and lists its tools.
    ///
    /// # Errors
    /// The reason in words, without secrets.
    async fn connect(&self) -> Result<Connected, String> {
        let deadline = Instant::now() + self.connect_within;
        let (backing, wire) = match self.launch.open(&self.link) {
            Ok(opened) => opened,
            Err(failure) => return Err(failure.explain(Default::default(), self.link.secrets())),
        };
        let silent = |what| Failure::Silent { what, within: self.connect_within };
        let host = HostHandler::default();
        let greeted = async {
            let greeted = timeout_at(deadline, wire.initialize(host.clone())).await;
            let running = greeted.map_err(|_| silent("initialize"))?.map_err(Box::new)?;
            let listing = timeout_at(deadline, list(running.peer())).await;
            Ok((running, listing.map_err(|_| silent("tools/list"))??))
        };
        match greeted.await {
            Ok((running, listing)) => Ok(Connected { running, backing, listing, host }),
            Err::<_, Failure>(failure) => Err(self.explain(&failure, backing).await),
        }
    }

    /// Answers calls until the connection ends. Returns the reason in words; `None` if `stop` was cancelled.
    async fn serve(&self, connected: Connected, stop: &CancellationToken) -> Option<String> {
        let Connected { running, backing, listing, host } = connected;
        let quit = running.cancellation_token();
        let (broken, mut broken_rx) = mpsc::channel(1);
        let (peer, progress) = (running.peer().clone(), host.progress);
        let connection = Connection { peer, progress, broken, tools: 0, left_out: Arc::default() };
        self.publish(&connection, listing).await;
        tracing::info!(server = self.link.server(), "an MCP server is connected");
        let mut ended = std::pin::pin!(running.waiting());
        let failure = tokio::select! {
            () = stop.cancelled() => None,
            _ = &mut ended => Some(Failure::Ended),
            Some(failure) = broken_rx.recv() => Some(failure),
            () = backing.ended() => {
                // The last messages may still be on their way; after this time they are lost.
                let _ = timeout(ENDS_WITHIN, &mut ended).await;
                Some(Failure::Ended)
            }
            never = self.follow_changes(&connection, &host.changed) => match never {},
        };
        quit.cancel();
        match failure {
            None => {
                self.link.set(State::Closed);
                // A server that does not read its input can block the goodbye; its process is ended at the same time.
                let goodbye = timeout(GOODBYE_WITHIN, &mut ended);
                let _ = tokio::join!(goodbye, backing.close());
                None
            }
            Some(failure) => Some(self.explain(&failure, backing).await),
        }
    }

    /// Kills what is left of the server, and returns the reason why it is not available.
    async fn explain(&self, failure: &Failure, backing: Backing) -> String {
        if failure.is_end() {
            backing.settle(ENDS_WITHIN).await;
        }
        failure.explain(backing.kill().await, self.link.secrets())
    }

    /// Lists the tools again whenever the server reports that they changed.
    async fn follow_changes(&self, connection: &Connection, changed: &Notify) -> Infallible {
        loop {
            changed.notified().await;
            match timeout(self.connect_within.min(LISTS_WITHIN), list(&connection.peer)).await {
                Ok(Ok(listing)) => self.publish(connection, listing).await,
                Ok(Err(error)) => self.keep_old_tools(&error.to_string()),
                Err(_) => self.keep_old_tools("it did not answer"),
            }
            sleep(LIST_EVERY).await;
        }
    }

    /// Logs that a changed list of tools could not be read. The tools before it stay.
    fn keep_old_tools(&self, why: &str) {
        tracing::warn!(server = self.link.server(), why, "the changed tools of an MCP server cannot be listed");
    }

    /// Registers the listed tools, lets calls through, and saves the list for the next start.
    async fn publish(&self, connection: &Connection, listing: Listing) {
        let Listing { tools, unreadable, .. } = listing;
        let refused = self.register(tools.clone());
        let registered = tools.len().saturating_sub(refused.len());
        let left_out: Vec<String> = unreadable.iter().map(|tool| tool.reason.clone()).chain(refused).collect();
        self.mount.leave_out(unreadable.into_iter().filter_map(|tool| {
            let name = format!("{}.{}", self.link.server(), tool.name?);
            Some(InvalidTool { name, reason: tool.reason })
        }));
        for reason in &left_out {
            tracing::warn!(server = self.link.server(), reason, "a tool of an MCP server is left out");
        }
        self.set(State::Connected(Connection { tools: registered, left_out: left_out.into(), ..connection.clone() }));
        if let Some(catalogue) = self.catalogue.clone() {
            let saved = tokio::task::spawn_blocking(move || catalogue.save(&tools)).await;
            if let Ok(Err(error)) = saved {
                tracing::warn!(server = self.link.server(), %error, "the tools of an MCP server are not kept on disk");
            }
        }
    }

    /// Replaces the registered tools. Returns the reasons of those that are refused.
    fn register(&self, tools: Vec<ListedTool>) -> Vec<String> {
        let tools = tools.into_iter().map(|listed| {
            let tool: Arc<dyn Tool> = Arc::new(McpTool { link: Arc::clone(&self.link), listed });
            tool
        });
        self.mount.replace(tools).iter().map(ToString::to_string).collect()
    }
}

impl Tries {
    /// Records the end of a connection that lasted so long.
    fn connection_ended(&mut self, lasted: Duration) {
        self.was_connected = true;
        self.failed = if lasted >= HEALTHY_AFTER { 1 } else { self.failed + 1 };
    }

    /// Returns the delay before the next attempt, with random jitter; `None`: the server is given up.
    fn next_pause(&self) -> Option<Duration> {
        if !self.was_connected && self.failed >= FIRST_TRIES {
            return None;
        }
        let doublings = self.failed.saturating_sub(1).min(10);
        let pause = PAUSE.saturating_mul(1 << doublings).min(MAX_PAUSE);
        let mut random = [0];
        // Without randomness there is no jitter, and servers that died together start together.
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        Some(pause.mul_f64(0.75 + f64::from(random[0]) / 512.0))
    }
}
