//! HTTP client of the tools: it connects to allowed hosts at allowed IP addresses only.
//!
//! Checks the host name on every redirect, and the IP addresses after each name resolution, so that a DNS record that
//! changes between two requests reaches no other network.
#![cfg_attr(not(all(feature = "openapi", feature = "sets")), allow(dead_code, reason = "each feature uses a part"))]

mod access;
mod address;
#[cfg(feature = "post")]
pub(crate) mod post;

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderMap, HeaderName, LOCATION};
use http::{Method, StatusCode};
use tokio::time::Instant;
use url::{Host, Url};

pub use access::{InvalidAccess, RemoteAccess};
use address::{GuardedResolver, OutOfReach, Reach};

use host_client_core::tls;
use host_client_core::tool::ToolError;

/// Maximum number of redirects that one request follows.
const MAX_REDIRECTS: usize = 5;
/// Maximum number of headers in a response.
const MAX_HEADERS: usize = 100;
/// Maximum length of a URL, in bytes.
pub(crate) const MAX_URL_BYTES: usize = 8 << 10;
/// Maximum time to connect to a host.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of idle connections kept open for each host.
const IDLE_CONNECTIONS: usize = 4;
/// Time after which an idle connection is closed.
const IDLE_FOR: Duration = Duration::from_secs(30);

/// Request headers that neither code nor a document may set: they belong to the connection, override the method or
/// target of the request, or carry credentials of this host.
const RESERVED_HEADERS: [&str; 21] = [
    "connection",
    "content-length",
    "cookie",
    "cookie2",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
];
/// Prefix of further request headers that neither code nor a document may set.
const RESERVED_PREFIX: &str = "x-forwarded-";

/// HTTP client that sends requests to allowed hosts only.
pub(crate) struct GuardedClient {
    http: reqwest::Client,
    access: RemoteAccess,
    reach: Arc<Reach>,
}

/// HTTP request of a tool.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// Headers for the origin of `url`. A redirect to another origin keeps `accept` and `accept-language` only, because
    /// any other header may hold a secret.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// HTTP response, with at most as much of its body as the limit allows.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// `true`: the body was longer than the limit, and `body` holds its beginning.
    pub(crate) is_cut: bool,
}

/// Limit of a response body, in bytes, and how a longer body is treated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BodyLimit {
    /// Fails with [`NetError::TooLarge`] if the body is longer.
    FailOver(usize),
    /// Keeps the first bytes, and does not read the rest.
    CutAt(usize),
}

/// Failure of a request. No message contains a path or a query, because those may hold secrets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetError {
    #[error("{origin} is not allowed; allowed are: {allowed}")]
    NotAllowed { origin: String, allowed: String },
    #[error("an address with a user name or a password in it is not asked")]
    UserInfo,
    #[error("an address has at most {MAX_URL_BYTES} bytes")]
    LongUrl,
    #[error("{host} is not asked: it lies in a private, local or reserved network, which is not among those allowed")]
    OutOfReach { host: String },
    #[error("{host} sent more than {MAX_REDIRECTS} redirects")]
    TooManyRedirects { host: String },
    #[error("{host} sent a redirect to what is no address")]
    BadRedirect { host: String },
    #[error("the answer of {host} is larger than {limit} bytes")]
    TooLarge { host: String, limit: usize },
    #[error("{host} gave no whole answer in the time that there was")]
    TimedOut { host: String },
    #[error("{host} could not be asked: {reason}")]
    NotSent { host: String, reason: String },
    #[error("{host} gave no whole answer: {reason}")]
    NoAnswer { host: String, reason: String },
}

/// Failure to create a [`GuardedClient`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    #[error("{0}")]
    Tls(String),
    #[error(transparent)]
    Http(#[from] reqwest::Error),
}

impl GuardedClient {
    /// Creates a client that reaches what `access` allows.
    ///
    /// # Errors
    /// [`SetupError::Tls`] if the authorities are not PEM certificates, [`SetupError::Http`] if the HTTP library cannot
    /// start.
    pub(crate) fn new(access: RemoteAccess) -> Result<Self, SetupError> {
        let reach = Arc::new(access.reach());
        let tls = tls::client_config(access.authorities.as_deref()).map_err(SetupError::Tls)?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .dns_resolver(GuardedResolver { reach: Arc::clone(&reach) })
            // A proxy would resolve names itself, without our checks.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            // A request is sent once: the caller decides about retries.
            .retry(reqwest::retry::never())
            .referer(false)
            // No decompression, whichever features of reqwest are on: a small body could unpack to a huge one.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .http1_only()
            .http1_max_headers(MAX_HEADERS)
            .connect_timeout(CONNECT_WITHIN)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_FOR)
            .user_agent(concat!("sandbox-relay-host-client/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { http, access, reach })
    }

    /// Sends a request, and follows redirects of GET and HEAD. Other methods may change something and are never sent
    /// twice.
    ///
    /// # Errors
    /// [`NetError::TimedOut`] if no complete response arrived before `deadline`; [`NetError::NotAllowed`] and
    /// [`NetError::OutOfReach`] if the host, or that of a redirect, may not be contacted; else the variant that names
    /// the fault.
    pub(crate) async fn send(&self, request: Request, limit: BodyLimit, deadline: Instant) -> Result<Answer, NetError> {
        let host = origin(&request.url);
        match tokio::time::timeout_at(deadline, self.follow(request, limit)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(NetError::TimedOut { host }),
        }
    }

    /// Sends the request and, for GET and HEAD, at most [`MAX_REDIRECTS`] requests to where redirects point.
    async fn follow(&self, mut request: Request, limit: BodyLimit) -> Result<Answer, NetError> {
        let follows = matches!(request.method, Method::GET | Method::HEAD);
        for _ in 0..=MAX_REDIRECTS {
            self.check(&request.url)?;
            let host = origin(&request.url);
            let response = self.ask(&request, &host).await?;
            if !follows || !is_redirect(response.status()) {
                return read(response, &host, limit).await;
            }
            let Some(location) = response.headers().get(LOCATION) else { return read(response, &host, limit).await };
            let next = location.to_str().ok().and_then(|location| request.url.join(location).ok());
            let mut next = next.ok_or_else(|| NetError::BadRedirect { host: host.clone() })?;
            next.set_fragment(None);
            if next.origin() != request.url.origin() {
                request.headers = harmless(&request.headers);
            }
            request.url = next;
        }
        Err(NetError::TooManyRedirects { host: origin(&request.url) })
    }

    /// Checks a URL as far as is possible before its host name is resolved.
    fn check(&self, url: &Url) -> Result<(), NetError> {
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(NetError::LongUrl);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(NetError::UserInfo);
        }
        if !self.access.allows(url) {
            return Err(NetError::NotAllowed { origin: origin(url), allowed: self.access.to_string() });
        }
        // The resolver never sees an IP address, so that it is checked here.
        let is_within = match url.host() {
            Some(Host::Ipv4(address)) => self.reach.admits(address.into()),
            Some(Host::Ipv6(address)) => self.reach.admits(address.into()),
            _ => true,
        };
        if is_within { Ok(()) } else { Err(NetError::OutOfReach { host: origin(url) }) }
    }

    /// Sends one request, without following a redirect.
    async fn ask(&self, request: &Request, host: &str) -> Result<reqwest::Response, NetError> {
        let mut builder =
            self.http.request(request.method.clone(), request.url.clone()).headers(request.headers.clone());
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        builder.send().await.map_err(|error| {
            let host = host.to_owned();
            let (is_unsent, reason) = (error.is_connect() || error.is_builder(), reason(&error));
            if is_out_of_reach(&error) {
                NetError::OutOfReach { host }
            } else if is_unsent {
                NetError::NotSent { host, reason }
            } else {
                NetError::NoAnswer { host, reason }
            }
        })
    }
}

impl NetError {
    /// Returns `true` if the server may have carried out the request in spite of the failure.
    fn may_be_done(&self) -> bool {
        match self {
            Self::TooLarge { .. } | Self::TimedOut { .. } | Self::NoAnswer { .. } => true,
            Self::NotAllowed { .. }
            | Self::UserInfo
            | Self::LongUrl
            | Self::OutOfReach { .. }
            | Self::TooManyRedirects { .. }
            | Self::BadRedirect { .. }
            | Self::NotSent { .. } => false,
        }
    }

    /// Converts the failure to the error that code receives. Unless `is_safe` (the method changes nothing), a request
    /// that may have been carried out becomes `OUTCOME_UNKNOWN`.
    pub(crate) fn into_tool_error(self, is_safe: bool) -> ToolError {
        let message = self.to_string();
        match self {
            _ if !is_safe && self.may_be_done() => {
                ToolError::outcome_unknown(format!("{message}; what was asked may have been done"))
            }
            Self::NotAllowed { .. } | Self::UserInfo | Self::LongUrl | Self::OutOfReach { .. } => {
                ToolError::denied(message)
            }
            Self::TooLarge { .. } => ToolError::too_large(message),
            Self::TimedOut { .. } => ToolError::timed_out(message),
            Self::TooManyRedirects { .. } | Self::BadRedirect { .. } | Self::NotSent { .. } | Self::NoAnswer { .. } => {
                ToolError::new(message)
            }
        }
    }
}

/// Reads the body up to `limit`.
async fn read(mut response: reqwest::Response, host: &str, limit: BodyLimit) -> Result<Answer, NetError> {
    let (BodyLimit::FailOver(most) | BodyLimit::CutAt(most)) = limit;
    let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
    let mut body = Vec::new();
    let mut is_cut = false;
    while !is_cut {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| NetError::NoAnswer { host: host.to_owned(), reason: reason(&error) })?;
        let Some(chunk) = chunk else { break };
        let room = most - body.len();
        is_cut = chunk.len() > room;
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    match limit {
        BodyLimit::FailOver(limit) if is_cut => Err(NetError::TooLarge { host: host.to_owned(), limit }),
        _ => Ok(Answer { status, headers, body, is_cut }),
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Returns `true` if neither code nor a document may set this header.
pub(crate) fn is_reserved_header(name: &HeaderName) -> bool {
    RESERVED_HEADERS.contains(&name.as_str()) || name.as_str().starts_with(RESERVED_PREFIX)
}

/// Returns the headers that any origin may see: `accept` and `accept-language`.
fn harmless(headers: &HeaderMap) -> HeaderMap {
    let copy = |name| headers.get(&name).map(|value| (name, value.clone()));
    [ACCEPT, ACCEPT_LANGUAGE].into_iter().filter_map(copy).collect()
}

/// Formats the scheme, host and port of a URL, which hold no secret.
pub(crate) fn origin(url: &Url) -> String {
    let mut host = url.host_str().unwrap_or_default().to_owned();
    host.truncate(host.floor_char_boundary(255));
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}", url.scheme())
}

/// Returns the chain of sources of an error, the outermost first.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

fn is_out_of_reach(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| cause.is::<OutOfReach>())
}

/// Returns the innermost cause. The message of the library itself contains the whole URL.
fn reason(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| "the request is none that can be sent".to_owned(), ToString::to_string)
}
