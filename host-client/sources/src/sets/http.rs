//! The tool set `http`: `fetch`, which reaches listed hosts only.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::net::{Answer, BodyLimit, GuardedClient, MAX_URL_BYTES, RemoteAccess, Request, is_reserved_header};
use host_client_core::error::Error;
use host_client_core::tool::{CallContext, CallFuture, Tool, ToolError, ToolSpec};
use host_client_core::tool::{Effect, Mode};
use host_client_core::tools::{Mount, Tools};

/// Default of [`HttpSet::body_bytes`]: 1 MiB.
pub const DEFAULT_BODY_BYTES: usize = 1 << 20;
/// Maximum number of headers in a request, and of a response that code sees.
const MAX_HEADERS: usize = 32;
/// Maximum size of these headers, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Maximum number of concurrent calls.
const CONCURRENCY: usize = 16;

/// The tool `fetch` for listed hosts, with GET and HEAD unless more methods are allowed.
///
/// ```
/// use host_client_core::Tools;
/// use host_client_sources::RemoteAccess;
/// use host_client_sources::sets::http::HttpSet;
///
/// # fn main() -> Result<(), host_client_core::Error> {
/// let tools = Tools::new();
/// let access = RemoteAccess::to(["api.example.com"])?;
/// let mount = HttpSet::new(access).body_bytes(64 << 10).mount(&tools, "http")?;
/// assert!(tools.spec("http.fetch").is_some());
/// drop(mount);
/// assert!(tools.spec("http.fetch").is_none());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct HttpSet {
    access: RemoteAccess,
    methods: Vec<Method>,
    is_authorization_allowed: bool,
    body_bytes: usize,
}

/// The tool `fetch`.
struct Fetch {
    client: Arc<GuardedClient>,
    set: HttpSet,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    url: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
}

/// Result of `fetch`.
#[derive(Serialize)]
struct Fetched {
    status: u16,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl HttpSet {
    /// Creates a set that fetches from these hosts with GET and HEAD.
    pub fn new(access: RemoteAccess) -> Self {
        let methods = vec![Method::GET, Method::HEAD];
        Self { access, methods, is_authorization_allowed: false, body_bytes: DEFAULT_BODY_BYTES }
    }

    /// Allows these methods in addition to GET and HEAD. The effect of the tool is then [`Effect::Mutating`].
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        for method in methods {
            if !self.methods.contains(&method) {
                self.methods.push(method);
            }
        }
        self
    }

    /// Allows code to send an `authorization` header of its own. Default: refused. Code never sees credentials of this
    /// host.
    #[must_use]
    pub fn allow_authorization(mut self) -> Self {
        self.is_authorization_allowed = true;
        self
    }

    /// Sets how many bytes of a response body are read. Default: 1 MiB. A longer body is cut, and the result has
    /// `truncated: true`.
    #[must_use]
    pub fn body_bytes(mut self, most: usize) -> Self {
        self.body_bytes = most;
        self
    }

    /// Registers `fetch` as a tool of the server `server`. Dropping the mount removes it.
    ///
    /// # Errors
    /// The error of [`Tools::mount`] if the name is taken or invalid; [`Error::Tool`] if the authorities are not PEM
    /// certificates, or if CONNECT or TRACE is among the methods.
    pub fn mount(self, tools: &Tools, server: &str) -> Result<Mount, Error> {
        let refuse = |reason: String| Error::Tool { name: format!("{server}.fetch"), reason };
        if let Some(method) = self.methods.iter().find(|method| [Method::CONNECT, Method::TRACE].contains(method)) {
            return Err(refuse(format!("the method {method} cannot be allowed")));
        }
        let client = GuardedClient::new(self.access.clone()).map_err(|error| refuse(error.to_string()))?;
        let mount = tools.mount(server, "the tool set http")?;
        let fetch = Fetch { client: Arc::new(client), set: self, name: format!("{server}.fetch") };
        match mount.replace([Arc::new(fetch) as Arc<dyn Tool>]).into_iter().next() {
            None => Ok(mount),
            Some(refused) => Err(refused),
        }
    }
}

impl Tool for Fetch {
    fn spec(&self) -> ToolSpec {
        let methods: Vec<&str> = self.set.methods.iter().map(Method::as_str).collect();
        let only_reads = self.set.methods.iter().all(is_safe);
        let description = format!(
            "Fetches an address. Allowed: {}. Methods: {}. Of a body, at most {} bytes are read; more is cut, \
             with truncated: true. A body that is not text comes as body_base64.",
            self.set.access,
            methods.join(", "),
            self.set.body_bytes,
        );
        let input = json!({
            "type": "object",
            "properties": {
                "url": {"type": "string", "maxLength": MAX_URL_BYTES},
                "method": {"enum": methods, "default": "GET"},
                "headers": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "maxProperties": MAX_HEADERS,
                },
                "body": {"type": "string", "description": "Text to send; not with GET or HEAD."},
            },
            "required": ["url"],
            "additionalProperties": false,
        });
        let output = json!({
            "type": "object",
            "properties": {
                "status": {"type": "integer"},
                "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                "body": {"type": "string"},
                "body_base64": {"type": "string"},
                "truncated": {"type": "boolean"},
            },
            "required": ["status", "headers"],
        });
        let mut spec = ToolSpec::new(&self.name, description, input)
            .output_schema(output)
            .effect(if only_reads { Effect::ReadOnly } else { Effect::Mutating })
            .mode(Mode::RestrictedRemote);
        spec.manifest.concurrency = Some(CONCURRENCY);
        spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> CallFuture {
        let client = Arc::clone(&self.client);
        let request = self.set.request(arguments);
        let limit = BodyLimit::CutAt(self.set.body_bytes);
        Box::pin(async move {
            let request = request?;
            let is_safe = is_safe(&request.method);
            let answer = client.send(request, limit, context.deadline).await;
            let answer = answer.map_err(|error| error.into_tool_error(is_safe))?;
            Ok(serde_json::to_vec(&Fetched::from(answer))?.into())
        })
    }

    fn result_fits_by_type(&self) -> bool {
        true
    }
}

impl HttpSet {
    /// Checks the arguments of a call, and builds its request.
    fn request(&self, arguments: Value) -> Result<Request, ToolError> {
        let Arguments { url, method, headers, body } = serde_json::from_value(arguments)?;
        let url = Url::parse(&url).map_err(|error| ToolError::new(format!("the url cannot be used: {error}")))?;
        let method = method.as_deref().unwrap_or("GET");
        let Some(method) = self.methods.iter().find(|allowed| allowed.as_str() == method) else {
            return Err(ToolError::denied(format!("the method {method:.20?} is not allowed here")));
        };
        if body.is_some() && is_safe(method) {
            return Err(ToolError::new(format!("a body cannot be sent with {method}")));
        }
        Ok(Request { method: method.clone(), url, headers: self.headers(headers)?, body: body.map(Into::into) })
    }

    /// Checks the headers of a request.
    fn headers(&self, headers: BTreeMap<String, String>) -> Result<HeaderMap, ToolError> {
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
            let most = format!("{MAX_HEADERS} headers of {MAX_HEADER_BYTES} bytes in all");
            return Err(ToolError::denied(format!("a request has at most {most}")));
        }
        let mut checked = HeaderMap::new();
        for (name, value) in headers {
            let parsed = HeaderName::try_from(&name).ok().zip(HeaderValue::try_from(value).ok());
            let Some((name, value)) = parsed else {
                return Err(ToolError::new(format!("the header {name:.80?} is none that can be sent")));
            };
            let is_own = name == AUTHORIZATION && !self.is_authorization_allowed;
            if is_own || is_reserved_header(&name) {
                return Err(ToolError::denied(format!("the header {name} is not for code to set")));
            }
            checked.insert(name, value);
        }
        Ok(checked)
    }
}

impl From<Answer> for Fetched {
    fn from(answer: Answer) -> Self {
        let is_text = is_text(&answer);
        let Answer { status, headers, body, is_cut } = answer;
        let (text, base64) = match String::from_utf8(body) {
            Ok(text) => (Some(text), None),
            // The cut may split a character.
            Err(error) if is_text || (is_cut && error.utf8_error().error_len().is_none()) => {
                (Some(String::from_utf8_lossy(error.as_bytes()).into_owned()), None)
            }
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        Self { status: status.as_u16(), headers: shown(&headers), body: text, body_base64: base64, truncated: is_cut }
    }
}

/// Returns the headers that code sees, up to a bound. `set-cookie` is left out, because no cookies are kept.
fn shown(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    let mut bytes = 0;
    for (name, value) in headers.iter().filter(|(name, _)| **name != SET_COOKIE) {
        bytes += name.as_str().len() + value.len();
        if bytes > MAX_HEADER_BYTES || shown.len() >= MAX_HEADERS {
            break;
        }
        let value = String::from_utf8_lossy(value.as_bytes());
        let joined = shown.entry(name.as_str().to_owned()).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(&value);
    }
    shown
}

/// Returns `true` if the content type is a text.
fn is_text(answer: &Answer) -> bool {
    let content_type = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.starts_with("text/")
        || essence.ends_with("json")
        || essence.ends_with("xml")
        || essence.ends_with("javascript")
        || essence == "application/x-www-form-urlencoded"
}

/// Returns `true` for GET and HEAD.
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
