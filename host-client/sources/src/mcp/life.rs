//! One server from its first try to its end: connect, list, serve, wait a little longer each time, try again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::Tool as ListedTool;
use rmcp::service::Peer;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::catalogue::Catalogue;
use super::failure::Failure;
use super::link::{Connection, Link, State};
use super::listing::{HostHandler, Listing, list};
use super::tool::McpTool;
use super::transport::{Backing, Launch, Running};
use host_client_core::tool::Tool;
use host_client_core::tools::Mount;

/// The first pause between two tries, and the longest.
const PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// A connection that lasted so long was a good one: the pauses begin anew.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// A server that never connected is given up after so many tries.
const FIRST_TRIES: u32 = 5;
/// Servers that tell of one change after another are asked once in this time.
const LIST_EVERY: Duration = Duration::from_millis(200);
/// How long a process and its output may take to end when one of them has.
const ENDS_WITHIN: Duration = Duration::from_secs(1);
/// How long the library may take to say goodbye.
const GOODBYE_WITHIN: Duration = Duration::from_secs(3);

/// What a server's life needs.
pub(super) struct Life {
    pub(super) link: Arc<Link>,
    pub(super) mount: Mount,
    pub(super) launch: Launch,
    pub(super) catalogue: Option<Catalogue>,
    /// How long starting, greeting and listing may take together.
    pub(super) connect_within: Duration,
}

/// A server that was greeted and has listed its tools.
struct Connected {
    running: Running,
    backing: Backing,
    listing: Listing,
    changed: Arc<Notify>,
}

/// Counts tries, and says when the next one is due.
#[derive(Default)]
struct Tries {
    failed: u32,
    was_connected: bool,
}

impl Life {
    /// Registers what is known of the server from before, so that calls are told that it starts.
    pub(super) fn mount_catalogue(&self) {
        if let Some(tools) = self.catalogue.as_ref().and_then(Catalogue::load) {
            self.register(tools);
        }
    }

    /// Runs until `stop`, which closes the server. The server's name is free when this has ended.
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
                self.link.set(State::GivenUp { why });
                stop.cancelled().await;
                break;
            };
            tracing::warn!(server, %why, ?pause, "an MCP server is not available");
            self.link.set(State::Waiting { why: Arc::clone(&why), until: Instant::now() + pause });
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                break;
            }
            self.link.set(State::Starting { after: Some(why) });
        }
        self.link.set(State::Closed);
    }

    /// Starts the server, greets it and asks for its tools; or tells why that came to nothing.
    async fn connect(&self) -> Result<Connected, String> {
        let deadline = Instant::now() + self.connect_within;
        let (backing, wire) = match self.launch.open(&self.link) {
            Ok(opened) => opened,
            Err(failure) => return Err(failure.explain(Default::default(), self.link.secrets())),
        };
        let silent = |what| Failure::Silent { what, within: self.connect_within };
        let host = HostHandler::default();
        let changed = Arc::clone(&host.changed);
        let greeted = async {
            let greeted = timeout_at(deadline, wire.initialize(host)).await;
            let running = greeted.map_err(|_| silent("initialize"))?.map_err(Box::new)?;
            let listing = timeout_at(deadline, list(running.peer())).await;
            Ok((running, listing.map_err(|_| silent("tools/list"))??))
        };
        match greeted.await {
            Ok((running, listing)) => Ok(Connected { running, backing, listing, changed }),
            Err::<_, Failure>(failure) => Err(self.explain(&failure, backing).await),
        }
    }

    /// Answers calls until the connection ends, and tells why it did; nothing when it was to stop.
    async fn serve(&self, connected: Connected, stop: &CancellationToken) -> Option<String> {
        let Connected { running, backing, listing, changed } = connected;
        let peer = running.peer().clone();
        let quit = running.cancellation_token();
        let (broken, mut broken_rx) = mpsc::channel(1);
        self.publish(&peer, &broken, listing).await;
        tracing::info!(server = self.link.server(), "an MCP server is connected");
        let mut ended = std::pin::pin!(running.waiting());
        let failure = tokio::select! {
            () = stop.cancelled() => None,
            _ = &mut ended => Some(Failure::Ended),
            Some(failure) = broken_rx.recv() => Some(failure),
            () = backing.ended() => {
                // What it said last may be on its way; if not, the connection ends here.
                let _ = timeout(ENDS_WITHIN, &mut ended).await;
                Some(Failure::Ended)
            }
            never = self.follow_changes(&peer, &broken, &changed) => match never {},
        };
        quit.cancel();
        match failure {
            None => {
                self.link.set(State::Closed);
                // A server that does not read its input can hold this up: its process is ended all the same.
                let goodbye = timeout(GOODBYE_WITHIN, &mut ended);
                let _ = tokio::join!(goodbye, backing.close());
                None
            }
            Some(failure) => Some(self.explain(&failure, backing).await),
        }
    }

    /// Ends what is left of the server, and tells why it is not available.
    async fn explain(&self, failure: &Failure, backing: Backing) -> String {
        if failure.is_end() {
            backing.settle(ENDS_WITHIN).await;
        }
        failure.explain(backing.kill().await, self.link.secrets())
    }

    /// Asks for the tools whenever the server says that they changed.
    async fn follow_changes(
        &self,
        peer: &Peer<RoleClient>,
        broken: &mpsc::Sender<Failure>,
        changed: &Notify,
    ) -> Infallible {
        loop {
            changed.notified().await;
            match timeout(self.connect_within, list(peer)).await {
                Ok(Ok(listing)) => self.publish(peer, broken, listing).await,
                Ok(Err(error)) => self.keep_old_tools(&error.to_string()),
                Err(_) => self.keep_old_tools("it did not answer"),
            }
            sleep(LIST_EVERY).await;
        }
    }

    fn keep_old_tools(&self, why: &str) {
        tracing::warn!(server = self.link.server(), why, "the changed tools of an MCP server cannot be listed");
    }

    /// Registers what the server listed, lets calls through, and keeps the list for the next start.
    async fn publish(&self, peer: &Peer<RoleClient>, broken: &mpsc::Sender<Failure>, listing: Listing) {
        let Listing { tools, mut unreadable, .. } = listing;
        let refused = self.register(tools.clone());
        let registered = tools.len().saturating_sub(refused.len());
        unreadable.extend(refused);
        for reason in &unreadable {
            tracing::warn!(server = self.link.server(), reason, "a tool of an MCP server is left out");
        }
        self.link.set(State::Connected(Connection {
            peer: peer.clone(),
            broken: broken.clone(),
            tools: registered,
            left_out: unreadable.into(),
        }));
        if let Some(catalogue) = self.catalogue.clone() {
            let saved = tokio::task::spawn_blocking(move || catalogue.save(&tools)).await;
            if let Ok(Err(error)) = saved {
                tracing::warn!(server = self.link.server(), %error, "the tools of an MCP server are not kept on disk");
            }
        }
    }

    /// Puts these tools in the place of those before, and tells which ones cannot be.
    fn register(&self, tools: Vec<ListedTool>) -> Vec<String> {
        let tools = tools.into_iter().map(|listed| {
            let tool: Arc<dyn Tool> = Arc::new(McpTool { link: Arc::clone(&self.link), listed });
            tool
        });
        self.mount.replace(tools).iter().map(ToString::to_string).collect()
    }
}

impl Tries {
    fn connection_ended(&mut self, lasted: Duration) {
        self.was_connected = true;
        self.failed = if lasted >= HEALTHY_AFTER { 1 } else { self.failed + 1 };
    }

    /// How long to wait before the next try, if there is to be one.
    fn next_pause(&self) -> Option<Duration> {
        if !self.was_connected && self.failed >= FIRST_TRIES {
            return None;
        }
        let doublings = self.failed.saturating_sub(1).min(10);
        let pause = PAUSE.saturating_mul(1 << doublings).min(MAX_PAUSE);
        let mut random = [0];
        // Without randomness, servers that died together start together; nothing worse.
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        Some(pause.mul_f64(0.75 + f64::from(random[0]) / 512.0))
    }
}
