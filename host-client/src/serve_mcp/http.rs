//! The MCP server over streamable HTTP.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};

use super::CodeServer;

/// Who may use the server over HTTP.
#[derive(Clone, Default)]
pub struct HttpConfig {
    /// What requests have to carry as their bearer token; without, whoever reaches the address may run code.
    pub token: Option<String>,
    /// The names under which the server is reached, beside those of loopback: anything else is refused, so that no web page
    /// can be made to reach it by a name of its own.
    pub hosts: Vec<String>,
    /// The origins of web pages that may use it; none unless said.
    pub origins: Vec<String>,
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConfig").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// The server at `/mcp`, with a session of its own for every client.
pub fn router(server: CodeServer, config: HttpConfig) -> Router {
    let mut settings = StreamableHttpServerConfig::default().enforce_origin_validation();
    settings.allowed_hosts.extend(config.hosts);
    settings.allowed_origins = config.origins;
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.for_another_session()), sessions, settings);
    let router = Router::new().nest_service("/mcp", service);
    match config.token {
        Some(token) => router.layer(middleware::from_fn_with_state(Arc::from(digest(&token)), check)),
        None => router,
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

async fn check(State(expected): State<Arc<[u8; 32]>>, headers: HeaderMap, request: Request, next: Next) -> Response {
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer "));
    // Comparing digests tells nothing of the token by how long it takes.
    if token.is_some_and(|token| digest(token) == *expected) {
        next.run(request).await
    } else {
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "a bearer token is needed\n").into_response()
    }
}
