//! The MCP server over streamable HTTP.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::CodeServer;

/// The shortest token, in bytes.
const MIN_TOKEN_BYTES: usize = 16;
/// The most sessions at once. Clients that end without a goodbye leave theirs behind until it is idle for too long.
const MAX_SESSIONS: usize = 256;
/// How long a session lives in which nothing is said: longer than any code runs, and than a person is usually waited for.
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// The header by which a request belongs to a session.
const SESSION: &str = "mcp-session-id";

/// Who may use the server over HTTP, and until when.
#[derive(Debug, Clone, Default)]
pub struct HttpConfig {
    /// What requests have to carry as their bearer token; without, whoever reaches the address may run code.
    pub token: Option<HttpToken>,
    /// The names under which the server is reached, beside those of loopback: anything else is refused, so that no web page
    /// can be made to reach it by a name of its own.
    pub hosts: Vec<String>,
    /// The origins of web pages that may use it, such as `https://app.example.com:443`; none unless said.
    pub origins: Vec<String>,
    /// Ends all sessions, and with them what runs.
    pub stop: CancellationToken,
}

/// A bearer token, as a digest.
#[derive(Clone, Copy)]
pub struct HttpToken([u8; 32]);

/// The token is too short to be a secret.
#[derive(Debug, thiserror::Error)]
#[error(
    "the token is too short: it needs at least {MIN_TOKEN_BYTES} characters, such as those of `openssl rand -hex 32`"
)]
pub struct WeakToken;

impl HttpToken {
    /// The token that requests carry.
    ///
    /// # Errors
    /// It has less than 16 bytes.
    pub fn new(token: &str) -> Result<Self, WeakToken> {
        if token.len() < MIN_TOKEN_BYTES { Err(WeakToken) } else { Ok(Self(digest(token))) }
    }

    fn is_carried_by(&self, request: &Request) -> bool {
        let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, token)) = header.and_then(|value| value.split_once(' ')) else { return false };
        // Comparing digests tells nothing of the token by how long it takes.
        scheme.eq_ignore_ascii_case("bearer") && digest(token.trim_start()) == self.0
    }
}

impl fmt::Debug for HttpToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpToken")
    }
}

/// The server at `/mcp`, with a session of its own for every client.
pub fn router(server: CodeServer, config: HttpConfig) -> Router {
    let mut settings =
        StreamableHttpServerConfig::default().enforce_origin_validation().with_cancellation_token(config.stop);
    settings.allowed_hosts.extend(config.hosts);
    settings.allowed_origins = config.origins;
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE);
    let sessions = Arc::new(sessions);
    let service = StreamableHttpService::new(move || Ok(server.for_another_session()), Arc::clone(&sessions), settings);
    let router = Router::new().nest_service("/mcp", service).layer(middleware::from_fn_with_state(sessions, bounded));
    match config.token {
        Some(token) => router.layer(middleware::from_fn_with_state(token, authenticated)),
        None => router,
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

async fn authenticated(State(expected): State<HttpToken>, request: Request, next: Next) -> Response {
    if expected.is_carried_by(&request) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "a bearer token is needed\n").into_response()
}

/// Lets no new session in where there are too many.
async fn bounded(State(sessions): State<Arc<LocalSessionManager>>, request: Request, next: Next) -> Response {
    if !request.headers().contains_key(SESSION) && sessions.sessions.read().await.len() >= MAX_SESSIONS {
        return (StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions; end one of them\n").into_response();
    }
    next.run(request).await
}
