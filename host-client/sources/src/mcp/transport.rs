//! Transports of the three kinds of server: a child process, streamable HTTP, a service in this process.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use reqwest::redirect::Policy;
use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientInitializeError, DynService, NotificationContext, RequestContext, RoleClient, RoleServer, RunningService,
    Service, ServiceExt, ServiceRole,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::config::{HttpConfig, ProcessConfig, ServerConfig};
use super::events::ReadingClient;
use super::failure::{Evidence, Failure};
use super::lines::Lines;
use super::link::Link;
use super::listing::HostHandler;
use super::process::Process;
use super::text::Secrets;
use super::watched::{Seen, Watched};

/// Size of the pipe to a service in this process, in bytes.
const PIPE_BYTES: usize = 64 << 10;
/// Maximum time to connect to an HTTP server.
const HTTP_CONNECTS_WITHIN: Duration = Duration::from_secs(10);
/// Maximum pause before a broken event stream is opened again.
const MAX_STREAM_PAUSE: Duration = Duration::from_secs(30);

/// Client side of an open connection.
pub(super) type Running = RunningService<RoleClient, HostHandler>;

/// Way to start a server.
#[derive(Debug)]
pub(super) enum Launch {
    Configured(ServerConfig),
    Service(SharedService),
}

/// Server behind a connection. Dropping this ends it.
pub(super) enum Backing {
    Process { process: Box<Process>, seen: Seen },
    Http,
    Service { _task: JoinSet<()>, seen: Seen },
}

/// Transport to a server before the first message.
pub(super) enum Wire {
    Lines(Lines<Watched<Box<dyn AsyncRead + Send + Unpin>>, Box<dyn AsyncWrite + Send + Unpin>>),
    Http(StreamableHttpClientTransport<ReadingClient>),
}

/// Service of this process that can be connected to more than once.
#[derive(Clone)]
pub(super) struct SharedService(Arc<dyn DynService<RoleServer>>);

impl Launch {
    /// Returns the values that no error message may contain.
    pub(super) fn secrets(&self) -> Secrets {
        match self {
            Self::Configured(config) => config.secrets(),
            Self::Service(_) => Secrets::default(),
        }
    }

    /// Returns `true` if the server's annotations may declare that a tool only reads.
    pub(super) fn trusts_annotations(&self) -> bool {
        match self {
            Self::Configured(config) => config.trusts_annotations(),
            Self::Service(_) => true,
        }
    }

    /// Starts the server, without sending it anything.
    pub(super) fn open(&self, link: &Link) -> Result<(Backing, Wire), Failure> {
        match self {
            Self::Configured(ServerConfig::Process(config)) => open_process(config, link),
            Self::Configured(ServerConfig::Http(config)) => open_http(config, link).map_err(Failure::Client),
            Self::Service(service) => Ok(open_service(service.clone(), link)),
        }
    }
}

fn open_process(config: &ProcessConfig, link: &Link) -> Result<(Backing, Wire), Failure> {
    let spawned = Process::spawn(link.server(), config, link.secrets());
    let (process, stdout, stdin) =
        spawned.map_err(|error| Failure::Spawn { command: config.command.clone(), error })?;
    let seen = Seen::default();
    let wire = lines(link, Box::new(stdout), Box::new(stdin), &seen);
    Ok((Backing::Process { process: Box::new(process), seen }, wire))
}

/// Makes the transport to a server that reads and writes lines.
fn lines(
    link: &Link,
    output: Box<dyn AsyncRead + Send + Unpin>,
    input: Box<dyn AsyncWrite + Send + Unpin>,
    seen: &Seen,
) -> Wire {
    Wire::Lines(Lines::new(link.server(), Watched::new(output, seen.clone()), input))
}

fn open_http(config: &HttpConfig, link: &Link) -> Result<(Backing, Wire), reqwest::Error> {
    let mut client = reqwest::Client::builder()
        .connect_timeout(HTTP_CONNECTS_WITHIN)
        // Headers may hold secrets, and are sent to the configured URL only.
        .redirect(Policy::none());
    if config.is_of_this_machine() {
        // Requests to this machine stay on it.
        client = client.no_proxy();
    }
    let mut headers = HashMap::new();
    for name in config.headers.keys() {
        headers.extend(config.headers.get(name).map(|value| (name.clone(), value.clone())));
    }
    let mut pauses = ExponentialBackoff::default();
    pauses.max_delay = Some(MAX_STREAM_PAUSE);
    let mut transport = StreamableHttpClientTransportConfig::with_uri(config.url.as_str())
        .custom_headers(headers)
        // Otherwise the library would send calls again in a new session.
        .reinit_on_expired_session(false);
    transport.retry_config = Arc::new(pauses);
    let client = ReadingClient::new(link.server(), client.build()?);
    let transport = StreamableHttpClientTransport::with_client(client, transport);
    Ok((Backing::Http, Wire::Http(transport)))
}

fn open_service(service: SharedService, link: &Link) -> (Backing, Wire) {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let mut task = JoinSet::new();
    task.spawn(async move {
        match service.serve(theirs).await {
            // Our end of the pipe shows that the service ended.
            Ok(running) => drop(running.waiting().await),
            Err(error) => tracing::debug!(%error, "an MCP service in this process was not initialized"),
        }
    });
    let (read, write) = tokio::io::split(ours);
    let seen = Seen::default();
    let wire = lines(link, Box::new(read), Box::new(write), &seen);
    (Backing::Service { _task: task, seen }, wire)
}

impl Wire {
    /// Initializes the MCP connection.
    pub(super) async fn initialize(self, host: HostHandler) -> Result<Running, ClientInitializeError> {
        match self {
            Self::Lines(transport) => host.serve(transport).await,
            Self::Http(transport) => host.serve(transport).await,
        }
    }
}

impl Backing {
    /// Waits until the process has ended; forever if the server is not a process.
    pub(super) async fn ended(&self) {
        match self {
            Self::Process { process, .. } => process.ended().await,
            Self::Http | Self::Service { .. } => std::future::pending().await,
        }
    }

    /// Waits up to `within` for the end of a process whose output is closed, so that its exit status is known.
    pub(super) async fn settle(&self, within: Duration) {
        if let Self::Process { process, .. } = self {
            // After this time the process counts as one that did not end by itself.
            let _ = timeout(within, process.ended()).await;
        }
    }

    /// Ends the server in an orderly way. Its input is already closed.
    pub(super) async fn close(mut self) {
        if let Self::Process { process, .. } = &mut self {
            process.close().await;
        }
    }

    /// Kills the server, and returns the facts about its end.
    pub(super) async fn kill(self) -> Evidence {
        match self {
            Self::Process { mut process, seen } => {
                let (status, stderr) = process.kill().await;
                Evidence { output: seen.evidence(), status, stderr }
            }
            Self::Service { seen, .. } => Evidence { output: seen.evidence(), ..Evidence::default() },
            Self::Http => Evidence::default(),
        }
    }
}

impl SharedService {
    pub(super) fn new(service: impl Service<RoleServer>) -> Self {
        Self(Arc::new(service))
    }
}

impl fmt::Debug for SharedService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedService")
    }
}

impl Service<RoleServer> for SharedService {
    async fn handle_request(
        &self,
        request: <RoleServer as ServiceRole>::PeerReq,
        context: RequestContext<RoleServer>,
    ) -> Result<<RoleServer as ServiceRole>::Resp, rmcp::ErrorData> {
        // The library would lose a panic, and the call would wait forever.
        let answer = AssertUnwindSafe(self.0.handle_request(request, context)).catch_unwind().await;
        answer.unwrap_or_else(|_| Err(rmcp::ErrorData::internal_error("the tool failed inside (it panicked)", None)))
    }

    async fn handle_notification(
        &self,
        notification: <RoleServer as ServiceRole>::PeerNot,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), rmcp::ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> <RoleServer as ServiceRole>::Info {
        self.0.get_info()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }
}
