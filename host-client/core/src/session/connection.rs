//! Connecting to a relay: TCP, TLS, the WebSocket, and the first messages of a session.

mod handshake;

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use http::{HeaderValue, Uri, header};
use relay_proto::credit::TooMuchCredit;
use relay_proto::session::{RESUME_HEADER, feature};
use relay_proto::wire::message::Payload;
use relay_proto::{PROTOCOL_VERSION, frame, wire};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use super::announce::{Announced, announced};
use super::config::ClientConfig;
use super::credit::{CallCredit, ExecutionCredit};
use super::grant::TokenGrant;
use super::life::{Attempts, Life, Resumption};
use super::token::Tokens;
use super::{Session, Terms, short_reason};
use crate::error::{ConnectStep, Error};
use crate::host::Host;
use crate::tls;
use crate::tools::Tools;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// It begins a session.
    Begin,
    /// It resumes one.
    Resume,
}

pub(super) type Socket = WebSocketStream<Box<dyn Duplex>>;

/// TCP, or TLS over it.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// A session with a relay that welcomed the client.
pub(crate) struct Connected {
    pub(crate) session: Arc<Session>,
    pub(crate) welcome: wire::Welcome,
    /// The token that the relay accepted.
    pub(crate) token: String,
}

/// Connects, says hello, and starts the task that handles messages from then on.
///
/// # Errors
/// [`Error::Address`], [`Error::Token`], [`Error::Unreachable`], [`Error::Certificate`], [`Error::Cut`],
/// [`Error::NoRelay`], [`Error::Unauthenticated`], [`Error::Status`], [`Error::Refused`], [`Error::Tools`].
pub(crate) async fn connect(config: ClientConfig, host: Arc<Host>) -> Result<Connected, Error> {
    // Changes from here on are announced later.
    let changes = host.tools.changes();
    let announced = Announced::version(*changes.borrow());
    let tokens = Arc::new(Tokens::new(&config));
    let connected = tokio::time::timeout(config.connect_timeout, greet(&config, &tokens, &host.tools)).await;
    let (socket, welcome, token) = connected.unwrap_or_else(|_| {
        let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
        Err(Error::Unreachable { url: config.url.clone(), error })
    })?;
    let is_on = |name: &str| wanted(&config).contains(&name) && offers(&welcome, name);
    let resumption = is_on(feature::RESUME).then(|| Resumption::of(&config, &welcome)).transpose()?;
    let counts = is_on(feature::CREDIT);
    let terms = Terms {
        knows_states: offers(&welcome, feature::CALL_STATE),
        goes_away: is_on(feature::GO_AWAY),
        window: resumption.as_ref().map(|resumption| resumption.window),
        calls: credit_if(counts, CallCredit::new(config.call_capacity.credit()))?,
        executions: credit_if(counts, ExecutionCredit::new(welcome.credit.unwrap_or_default()))?,
    };
    tokens.accepted(token.clone(), welcome.expires_in_ms);
    let (session, outbox) = Session::begin(host, terms, announced, Arc::clone(&tokens));
    session.set_grant(TokenGrant::new(&welcome.limits, &welcome.tools));
    // Changes are announced, and tokens renewed, where the relay takes that.
    let changes = offers(&welcome, feature::TOOLS_CHANGED).then_some(changes);
    let renews = tokens.has_source() && offers(&welcome, feature::RENEW);
    let attempts = Attempts::new(&config);
    let life = Life { config, tokens, resumption, session: Arc::downgrade(&session), outbox, attempts };
    tokio::spawn(life.run(socket, changes, renews));
    Ok(Connected { session, welcome, token })
}

/// Reads the credit of one direction, where both peers count; `None`: they do not.
fn credit_if<T>(counts: bool, credit: Result<T, TooMuchCredit>) -> Result<Option<T>, Error> {
    if counts { credit.map(Some).map_err(|error| Error::Refused(error.to_string())) } else { Ok(None) }
}

/// Returns the features that hello asks for.
fn wanted(config: &ClientConfig) -> Vec<&'static str> {
    let mut wanted = vec![feature::CREDIT, feature::GO_AWAY];
    wanted.extend(config.resume.is_some().then_some(feature::RESUME));
    wanted
}

fn offers(welcome: &wire::Welcome, name: &str) -> bool {
    welcome.features.iter().any(|feature| feature == name)
}

/// Opens a WebSocket, sends hello, and reads welcome.
async fn greet(
    config: &ClientConfig,
    tokens: &Tokens,
    tools: &Tools,
) -> Result<(Socket, wire::Welcome, String), Error> {
    let token = tokens.usable().await?;
    let mut socket = dial(config, &token, Purpose::Begin).await?;
    let hello = wire::Hello {
        protocol_version: PROTOCOL_VERSION,
        features: wanted(config).into_iter().map(str::to_owned).collect(),
        tools: announced(tools).map_err(Error::Tools)?,
        client: config.name.clone(),
        credit: Some(config.call_capacity.credit()),
    };
    let hello = wire::Message { sequence: 1, ..Payload::Hello(hello).into() };
    let sent = socket.send(Message::Binary(frame::encode(&hello))).await;
    sent.map_err(|error| handshake::websocket_failure(&config.url, ConnectStep::Welcome, error))?;
    match first_message(&mut socket, &config.url).await? {
        wire::Message { payload: Some(Payload::Welcome(welcome)), sequence: 1, .. } => Ok((socket, welcome, token)),
        wire::Message { payload: Some(Payload::Error(error)), .. } => {
            Err(Error::Refused(short_reason(&error.error).to_owned()))
        }
        _ => Err(handshake::no_relay(&config.url, "its first message is no welcome")),
    }
}

/// Reads the relay's first message.
pub(super) async fn first_message(socket: &mut Socket, url: &str) -> Result<wire::Message, Error> {
    let step = ConnectStep::Welcome;
    loop {
        let frame = match socket.next().await {
            Some(Ok(Message::Binary(frame))) => frame,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Ok(Message::Close(Some(close)))) => {
                return Err(Error::Refused(format!("it closed: {}", short_reason(&close.reason))));
            }
            Some(Ok(Message::Close(None))) | None => return Err(handshake::cut(url, step)),
            Some(Ok(_)) => return Err(handshake::no_relay(url, "its first message is text")),
            Some(Err(error)) => return Err(handshake::websocket_failure(url, step, error)),
        };
        return frame::decode(frame).map_err(|error| handshake::no_relay(url, &error.to_string()));
    }
}

/// Opens the TCP connection and the WebSocket. The token is shown to the configured address alone.
pub(super) async fn dial(config: &ClientConfig, token: &str, purpose: Purpose) -> Result<Socket, Error> {
    let address = |reason: &str| Error::Address { url: config.url.clone(), reason: reason.to_owned() };
    let uri: Uri = config.url.parse().map_err(|_| address("it is no address"))?;
    let secure = match uri.scheme_str() {
        Some("ws") => false,
        Some("wss") => true,
        _ => return Err(address("it has to begin with wss:// or ws://")),
    };
    let host = uri.host().ok_or_else(|| address("it names no host"))?.trim_matches(['[', ']']).to_owned();
    let is_loopback = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    if !secure && !is_loopback && !config.allow_plain_remote {
        let why = "ws:// would send the token in the clear; it is for loopback only, unless allowed: use wss://";
        return Err(address(why));
    }
    let tls = secure.then(|| tls::connector(&host, config.authorities.as_deref())).transpose();
    let tls = tls.map_err(|reason| address(&reason))?;
    let mut request = config.url.as_str().into_client_request().map_err(|error| address(&error.to_string()))?;
    let bearer = format!("Bearer {token}").parse().map_err(|_| address("the token is not usable in a header"))?;
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    if let Purpose::Resume = purpose {
        request.headers_mut().insert(RESUME_HEADER, HeaderValue::from_static("1"));
    }

    let unreachable = |error| Error::Unreachable { url: config.url.clone(), error };
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(if secure { 443 } else { 80 })))
        .await
        .map_err(unreachable)?;
    // Small frames have to leave at once.
    stream.set_nodelay(true).map_err(unreachable)?;
    let stream: Box<dyn Duplex> = match tls {
        Some(tls) => Box::new(tls.connect(stream).await.map_err(|error| handshake::tls_failure(&config.url, error))?),
        None => Box::new(stream),
    };
    let limits = WebSocketConfig::default()
        .read_buffer_size(32 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(4 * frame::MAX_FRAME_BYTES)
        .max_message_size(Some(frame::MAX_FRAME_BYTES))
        .max_frame_size(Some(frame::MAX_FRAME_BYTES));
    let opened = tokio_tungstenite::client_async_with_config(request, stream, Some(limits)).await;
    let (socket, _response) = opened
        .map_err(|error: WebSocketError| handshake::websocket_failure(&config.url, ConnectStep::WebSocket, error))?;
    Ok(socket)
}
