//! MCP server over streamable HTTP.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::CodeServer;
use super::sessions::Sessions;

/// Minimum length of a token, in bytes.
const MIN_TOKEN_BYTES: usize = 16;
/// Header with the session of a request.
pub(super) const SESSION: &str = "mcp-session-id";

/// Settings of the MCP server over HTTP.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Bearer token that requests must carry; `None`: everyone who reaches the address may run code.
    pub token: Option<HttpToken>,
    /// Host names of the server, in addition to those of loopback. Requests with other names in `Host` are refused,
    /// which prevents DNS rebinding.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the server, such as `https://app.example.com:443`. Default: none.
    pub origins: Vec<String>,
    /// Maximum number of open sessions. Another one closes the session that has run nothing for the longest time; if all
    /// run something, it is refused with status 503. Default: 256.
    pub sessions: usize,
    /// Time after which a session is closed that runs nothing and whose client does not listen. Default: 30 min.
    pub session_idle: Duration,
    /// Token that ends all sessions and their executions when it is cancelled.
    pub stop: CancellationToken,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            sessions: 256,
            session_idle: Duration::from_secs(30 * 60),
            stop: CancellationToken::new(),
        }
    }
}

/// Bearer token, kept as a digest.
#[derive(Clone, Copy)]
pub struct HttpToken([u8; 32]);

/// Error of a token that is shorter than 16 bytes.
#[derive(Debug, thiserror::Error)]
#[error(
    "the token is too short: it needs at least {MIN_TOKEN_BYTES} characters, such as those of `openssl rand -hex 32`"
)]
pub struct WeakToken;

impl HttpToken {
    /// Creates the token that requests must carry.
    ///
    /// # Errors
    /// [`WeakToken`] if it has less than 16 bytes.
    pub fn new(token: &str) -> Result<Self, WeakToken> {
        if token.len() < MIN_TOKEN_BYTES { Err(WeakToken) } else { Ok(Self(digest(token))) }
    }

    /// Returns `true` if the request has this bearer token.
    fn is_carried_by(&self, request: &Request) -> bool {
        let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, token)) = header.and_then(|value| value.split_once(' ')) else { return false };
        // The time to compare digests reveals nothing about the token.
        scheme.eq_ignore_ascii_case("bearer") && digest(token.trim_start()) == self.0
    }
}

impl fmt::Debug for HttpToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpToken")
    }
}

/// Returns a router with the server at `/mcp`. Every client gets a session of its own.
pub fn router(server: CodeServer, config: HttpConfig) -> Router {
    let mut settings =
        StreamableHttpServerConfig::default().enforce_origin_validation().with_cancellation_token(config.stop);
    settings.allowed_hosts.extend(config.hosts);
    settings.allowed_origins = config.origins;
    // The library marks the beginning of a stream with the id of its first event, and a client that goes on after that id
    // would miss the event.
    settings.sse_retry = None;
    let sessions = Sessions::new(config.sessions, config.session_idle);
    let service = StreamableHttpService::new(move || Ok(server.for_another_session()), Arc::clone(&sessions), settings);
    let router = Router::new().nest_service("/mcp", service).layer(middleware::from_fn_with_state(sessions, bounded));
    match config.token {
        Some(token) => router.layer(middleware::from_fn_with_state(token, authenticated)),
        None => router,
    }
}

/// Returns the SHA-256 digest of a token.
fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Refuses requests without the token, with status 401.
async fn authenticated(State(expected): State<HttpToken>, request: Request, next: Next) -> Response {
    if expected.is_carried_by(&request) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "a bearer token is needed\n").into_response()
}

/// Refuses new sessions over the maximum, with status 503, and answers the end of a session as clients expect it: with
/// status 204, or 404 if there is no such session.
async fn bounded(State(sessions): State<Arc<Sessions>>, request: Request, next: Next) -> Response {
    let session = request.headers().get(SESSION);
    if session.is_none() && !sessions.has_room() {
        let text = "there are too many sessions, and all run something; end one of them\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    }
    let is_end = request.method() == Method::DELETE;
    if is_end && session.is_some_and(|id| !id.to_str().is_ok_and(|id| sessions.has(id))) {
        return (StatusCode::NOT_FOUND, "there is no such session\n").into_response();
    }
    let response = next.run(request).await;
    if is_end && response.status() == StatusCode::ACCEPTED {
        return StatusCode::NO_CONTENT.into_response();
    }
    response
}
