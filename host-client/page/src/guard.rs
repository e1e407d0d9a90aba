//! What holds for every page: headers that keep scripts and frames away, and the check of the address that a request names.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse as _, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{StatusCode, header};

/// Nothing but what comes from the page's own server, no inline script or style, no frame around it.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// Headers of every answer. A page's address may hold a secret, which no other origin is told, and no search engine keeps.
const HEADERS: [(HeaderName, &str); 9] = [
    (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (X_FRAME_OPTIONS, "DENY"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
    (HeaderName::from_static("x-robots-tag"), "noindex"),
];
/// The maximum length of a form, in bytes.
const MAX_FORM_BYTES: usize = 16 << 10;
/// The maximum time for which a form is read.
const FORM_WITHIN: Duration = Duration::from_secs(20);
/// Script of the page.
const SCRIPT: &str = include_str!("../assets/page.js");
/// Style of all pages.
const STYLE: &str = include_str!("../assets/page.css");

/// A page that says one thing, to anybody.
#[derive(Template)]
#[template(path = "note.html")]
pub(crate) struct NotePage<'a> {
    pub(crate) title: &'static str,
    pub(crate) text: &'a str,
}

/// The hosts, with their ports, that requests may name. It keeps pages of other origins away that let their own name
/// resolve to this server.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    pub(crate) named: Arc<[String]>,
    /// The only name of loopback that is admitted, whatever the port; `None`: the usual ones are.
    pub(crate) own: Option<Arc<str>>,
}

impl Hosts {
    /// Returns `true` if a request names one of the hosts, or a name of loopback that is admitted.
    fn admit(&self, headers: &HeaderMap) -> bool {
        let Some(named) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
        if self.named.iter().any(|host| host.eq_ignore_ascii_case(named)) {
            return true;
        }
        match &self.own {
            Some(own) => named.split(':').next().is_some_and(|host| host.eq_ignore_ascii_case(own)),
            None => is_loopback(named),
        }
    }
}

fn is_loopback(named: &str) -> bool {
    let host = match named.strip_prefix('[') {
        Some(rest) => return rest.split(']').next() == Some("::1"),
        None => named.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1"
}

/// Refuses requests that name another host, and adds the headers to every answer.
pub(crate) async fn guarded(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let mut response = if hosts.admit(request.headers()) {
        match read(request).await {
            Ok(request) => next.run(request).await,
            Err(refused) => refused.into_response(),
        }
    } else {
        (StatusCode::MISDIRECTED_REQUEST, "this server has another name\n").into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Reads the body of a request, so that no handler waits for a slow peer.
///
/// # Errors
/// The answer to one that is too long or too slow.
async fn read(request: Request) -> Result<Request, (StatusCode, &'static str)> {
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(FORM_WITHIN, to_bytes(body, MAX_FORM_BYTES)).await {
        Ok(Ok(body)) => Ok(Request::from_parts(parts, Body::from(body))),
        Ok(Err(_)) => Err((StatusCode::PAYLOAD_TOO_LARGE, "the form is too long, or broke off\n")),
        Err(_elapsed) => Err((StatusCode::REQUEST_TIMEOUT, "the form did not come in time\n")),
    }
}

/// Returns `true` if a browser says that a page of another origin has made the request.
pub(crate) fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text(HeaderName::from_static("sec-fetch-site")) {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = text(ORIGIN) else { return false };
    let host = origin.split_once("://").map(|(_, host)| host);
    !host.zip(text(HOST)).is_some_and(|(origin, host)| host.eq_ignore_ascii_case(origin))
}

/// Answers with the style of all pages.
pub(crate) async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, "max-age=3600")], STYLE).into_response()
}

/// Answers with the script of the page.
pub(crate) async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8"), (CACHE_CONTROL, "max-age=3600")], SCRIPT)
        .into_response()
}

/// Answers with a page.
pub(crate) fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be made");
            (StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be made\n").into_response()
        }
    }
}
