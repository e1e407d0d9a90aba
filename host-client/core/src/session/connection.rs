//! A connection to a relay: TCP, TLS, the WebSocket, and its first message.

pub(super) mod handshake;

use std::net::IpAddr;

use futures_util::StreamExt;
use http::{HeaderValue, Uri, header};
use relay_proto::session::RESUME_HEADER;
use relay_proto::{frame, wire};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use super::config::ClientConfig;
use super::short_reason;
use crate::error::{ConnectStep, Error};
use crate::tls;

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
