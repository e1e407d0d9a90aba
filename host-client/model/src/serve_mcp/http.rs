//! MCP server over streamable HTTP.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::owned::Subject;
use super::sessions::Sessions;
use super::{CodeServer, SESSION};

/// Minimum length of a token, in bytes.
const MIN_TOKEN_BYTES: usize = 16;

/// Settings of the MCP server over HTTP.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Bearer token that requests must carry; `None`: everyone who reaches the address may run code.
    pub token: Option<HttpToken>,
    /// Users, each with a bearer token: a request with one of these tokens has the user as its [`Subject`]. Where there are users,
    /// every request needs a token: that of a user, or [`HttpConfig::token`], whose requests have no subject. Default: none.
    pub users: Vec<HttpUser>,
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
            users: Vec::new(),
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

/// User of the server, with the bearer token by which requests are the user's.
#[derive(Debug, Clone)]
pub struct HttpUser {
    /// Name, for the [`Subject`] and the audit.
    pub name: Arc<str>,
    /// Token.
    pub token: HttpToken,
}

/// Error of a text that is not a SHA-256 digest.
#[derive(Debug, thiserror::Error)]
#[error("it is not the SHA-256 digest of a token: 64 hexadecimal digits, such as `printf %s TOKEN | sha256sum` prints")]
pub struct InvalidDigest;

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

    /// Creates the token from its SHA-256 digest in hexadecimal, so that the token itself need not be stored. It should be random,
    /// such as that of `openssl rand -hex 32`: whoever reads the digest of a word can guess the word.
    ///
    /// # Errors
    /// [`InvalidDigest`] if it has not 64 hexadecimal digits.
    pub fn from_sha256(digest: &str) -> Result<Self, InvalidDigest> {
        let mut bytes = [0; 32];
        if digest.len() != 2 * bytes.len() || !digest.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(InvalidDigest);
        }
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&digest[at..at + 2], 16).map_err(|_| InvalidDigest)?;
        }
        Ok(Self(bytes))
    }

    /// Returns `true` if the token has this digest, in a time that does not depend on it.
    fn has(&self, digest: &[u8; 32]) -> bool {
        let different = self.0.iter().zip(digest).fold(0, |all, (one, other)| all | (one ^ other));
        std::hint::black_box(different) == 0
    }
}

/// The tokens that requests may carry.
struct Tokens {
    shared: Option<HttpToken>,
    users: Vec<HttpUser>,
}

impl Tokens {
    /// Returns the subject of a bearer token, or none if it is the shared token; outer `None`: it is no token of the server.
    fn subject(&self, digest: &[u8; 32]) -> Option<Option<Subject>> {
        let mut found = self.shared.as_ref().is_some_and(|shared| shared.has(digest)).then_some(None);
        // All are compared, whichever it is.
        for user in &self.users {
            if user.token.has(digest) {
                found = Some(Some(Subject(Arc::clone(&user.name))));
            }
        }
        found
    }
}

/// Returns the digest of the bearer token of a request; `None`: it has none.
fn carried(request: &Request) -> Option<[u8; 32]> {
    let header = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| digest(token.trim_start()))
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
    let tokens = Tokens { shared: config.token, users: config.users };
    match tokens.shared.is_some() || !tokens.users.is_empty() {
        true => router.layer(middleware::from_fn_with_state(Arc::new(tokens), authenticated)),
        false => router,
    }
}

/// Returns the SHA-256 digest of a token.
fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Refuses requests without a token, with status 401, and finds out whose the others are.
async fn authenticated(State(tokens): State<Arc<Tokens>>, mut request: Request, next: Next) -> Response {
    if let Some(subject) = carried(&request).and_then(|digest| tokens.subject(&digest)) {
        if let Some(subject) = subject {
            request.extensions_mut().insert(subject);
        }
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "a bearer token is needed\n").into_response()
}

/// Refuses new sessions over the maximum, with status 503, and requests of sessions that are not there or are another subject's,
/// with status 404. Answers the end of a session as clients expect it, with status 204.
async fn bounded(State(sessions): State<Arc<Sessions>>, request: Request, next: Next) -> Response {
    let owner = request.extensions().get::<Subject>().map(|Subject(name)| Arc::clone(name));
    let is_known = |id: &HeaderValue| id.to_str().is_ok_and(|id| sessions.is_of(id, &owner));
    match request.headers().get(SESSION) {
        Some(id) if !is_known(id) => return (StatusCode::NOT_FOUND, "there is no such session\n").into_response(),
        None if !sessions.has_room() => {
            let text = "there are too many sessions, and all run something; end one of them\n";
            return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        }
        _ => {}
    }
    let is_end = request.method() == Method::DELETE;
    let response = next.run(request).await;
    if let Some(Ok(id)) = response.headers().get(SESSION).map(HeaderValue::to_str) {
        sessions.give(id, owner);
    }
    if is_end && response.status() == StatusCode::ACCEPTED {
        return StatusCode::NO_CONTENT.into_response();
    }
    response
}
