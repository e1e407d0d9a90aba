//! OpenAPI documents as tools: one server of tools for each document, one tool for each operation. Credentials stay on
//! the host.
//!
//! Neither the document, nor its server, nor the calling code is trusted: calls go to one server of the document,
//! private addresses are refused unless allowed, an argument can only ever be a value, and an operation that cannot be
//! represented is left out and reported.
//!
//! ```no_run
//! # async fn example(tools: host_client_core::Tools) -> Result<(), host_client_core::Error> {
//! use host_client_sources::openapi::{Credential, OpenApi};
//!
//! let petstore = OpenApi::from_file("petstore.yaml")
//!     .credentials("api_key", Credential::ApiKey("the key".into()))
//!     .mount(&tools, "petstore")
//!     .await?;
//! for operation in &petstore.left_out {
//!     eprintln!("{}: {}", operation.operation, operation.reason);
//! }
//! # Ok(()) }
//! ```

mod body;
mod call;
mod choice;
mod credential;
mod document;
mod error;
mod multipart;
mod operation;
mod parameters;
mod place;
mod request;
mod response;
mod schema;
mod server;
mod source;
mod style;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::header::HeaderName;
use url::Url;

pub use credential::Credential;
pub use error::{Flaw, LeftOut, Unusable};

use call::{Api, OperationTool};
use choice::Choice;
use credential::Credentials;
use document::Document;
use operation::{KeyHeader, Reader};
use source::Source;

use crate::net::{self, RemoteAccess};
use host_client_core::error::Error;
use host_client_core::tool::{InvalidTool, Tool};
use host_client_core::tools::{Mount, Tools};

/// Default of the maximum size of a document, in bytes.
const DOCUMENT_BYTES: usize = 32 << 20;
/// Default of the maximum number of operations of a document. Further ones are left out.
const MAX_OPERATIONS: usize = 2_000;
/// Maximum size of one operation's schema and description, in bytes.
const MAX_OPERATION_BYTES: usize = 256 << 10;
/// Maximum size of the schemas and descriptions of all operations, in bytes: a relay gets them in one message.
const MAX_TOTAL_BYTES: usize = 4 << 20;
/// Header of idempotency keys in documents.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// An OpenAPI 3.0 or 3.1 document, in JSON or YAML, with the settings to mount it.
///
/// ```
/// use host_client_core::Tools;
/// use host_client_sources::OpenApi;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let document = r#"{
///   "openapi": "3.1.0",
///   "servers": [{"url": "https://shop.example/v1"}],
///   "paths": {"/orders/{id}": {"get": {
///     "operationId": "getOrder",
///     "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}]
///   }}}
/// }"#;
/// let tools = Tools::new();
/// let shop = OpenApi::from_text(document).mount(&tools, "shop").await?;
/// assert!(shop.left_out.is_empty());
/// assert!(tools.spec("shop.getOrder").is_some());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct OpenApi {
    source: Source,
    credentials: BTreeMap<String, Credential>,
    server: Option<String>,
    base_url: Option<String>,
    variables: BTreeMap<String, String>,
    choice: Choice,
    document_bytes: usize,
    max_operations: usize,
    access: RemoteAccess,
    propagates_trace: bool,
    key: KeyHeader,
}

/// The mounted tools of a document. Dropping this removes them.
#[derive(Debug)]
pub struct OpenApiMount {
    /// The mount, which holds the server's name.
    pub mount: Mount,
    /// The operations that are not among the tools, each with the reason.
    pub left_out: Vec<LeftOut>,
}

/// Tools made of a document, and the operations that are left out.
struct Built {
    tools: Vec<Arc<dyn Tool>>,
    left_out: Vec<LeftOut>,
}

// Leaves out the document's text, and the path and query of its URL, which may hold secrets.
impl fmt::Debug for OpenApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApi")
            .field("document", &self.source.origin())
            .field("credentials", &self.credentials)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl OpenApi {
    /// Creates the settings for a document in a file. It is read by [`mount`](Self::mount).
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self::from(Source::File(path.into()))
    }

    /// Creates the settings for a document at a URL. [`mount`](Self::mount) fetches it, and follows no redirect to
    /// another host.
    pub fn from_url(url: impl Into<String>) -> Self {
        Self::from(Source::Url(url.into()))
    }

    /// Creates the settings for a document at a URL, or in a file whose path is relative to `folder`.
    pub fn from_place(place: &str, folder: impl AsRef<Path>) -> Self {
        if Self::is_url(place) { Self::from_url(place) } else { Self::from_file(folder.as_ref().join(place)) }
    }

    /// Tells whether the place of a document is a URL of `https` or `http`. `false`: it is the path of a file.
    pub fn is_url(place: &str) -> bool {
        place.starts_with("https://") || place.starts_with("http://")
    }

    /// Creates the settings for a document that is given as text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::from(Source::Text(text.into()))
    }

    fn from(source: Source) -> Self {
        Self {
            source,
            credentials: BTreeMap::new(),
            server: None,
            base_url: None,
            variables: BTreeMap::new(),
            choice: Choice::default(),
            document_bytes: DOCUMENT_BYTES,
            max_operations: MAX_OPERATIONS,
            access: RemoteAccess::default(),
            propagates_trace: false,
            key: KeyHeader { header: HeaderName::from_static(IDEMPOTENCY_KEY), is_for_all: false },
        }
    }

    /// Sets the credential for the security scheme `scheme` of the document. Operations that require the scheme are
    /// called with it.
    #[must_use]
    pub fn credentials(mut self, scheme: impl Into<String>, credential: Credential) -> Self {
        self.credentials.insert(scheme.into(), credential);
        self
    }

    /// Selects the server of the document to call, by its URL. Default: the first one. Operations on other servers are
    /// left out.
    #[must_use]
    pub fn server(mut self, url: impl Into<String>) -> Self {
        self.server = Some(url.into());
        self
    }

    /// Calls this server in the place of those of the document, such as a server on this machine. Operations with servers
    /// of their own are left out, unless this is one of them.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets a variable of the document's servers, such as `region` in `https://{region}.example.com`. Default: the
    /// default of the document.
    #[must_use]
    pub fn server_variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Chooses the operations that have one of these tags, beside those of [`operations`](Self::operations). Default:
    /// all operations.
    #[must_use]
    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.choice.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Chooses the operations that fit one of these patterns, beside those of [`tags`](Self::tags): the name of a tool,
    /// such as `getOrder` or `list*`, or a method and a path, such as `GET /orders/*`. `*` stands for any text. Default:
    /// all operations.
    #[must_use]
    pub fn operations(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.choice.patterns.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Sets the maximum size of the document, in bytes. Default: 32 MiB.
    #[must_use]
    pub fn document_bytes(mut self, bytes: usize) -> Self {
        self.document_bytes = bytes;
        self
    }

    /// Sets the maximum number of operations that become tools; further ones are left out. Default: 2,000.
    #[must_use]
    pub fn max_operations(mut self, operations: usize) -> Self {
        self.max_operations = operations;
        self
    }

    /// Allows the server, and the host of the document's URL, to have addresses in this private network, such as
    /// `10.1.0.0/16`. Default: public addresses only.
    ///
    /// # Errors
    /// [`Error::Source`] with [`InvalidAccess::Network`](crate::InvalidAccess::Network) if `network` is not in CIDR
    /// notation.
    pub fn allow_private(mut self, network: &str) -> Result<Self, Error> {
        self.access = self.access.allow_private(network)?;
        Ok(self)
    }

    /// Allows networks by a word or in CIDR notation, as [`RemoteAccess::allow_named`] does.
    ///
    /// # Errors
    /// [`Error::Source`] with [`InvalidAccess::Network`](crate::InvalidAccess::Network) if `networks` is neither word and not in
    /// CIDR notation.
    pub fn allow_named(mut self, networks: &str) -> Result<Self, Error> {
        self.access = self.access.allow_named(networks)?;
        Ok(self)
    }

    /// Trusts these certificate authorities (PEM) instead of the built-in list of public ones.
    #[must_use]
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.access = self.access.authorities(pem);
        self
    }

    /// Sends the trace context of each call to the server, in the header `traceparent`. Default: `false`.
    #[must_use]
    pub fn propagate_trace(mut self, yes: bool) -> Self {
        self.propagates_trace = yes;
        self
    }

    /// Sends the [idempotency key](host_client_core::CallContext::idempotency_key) of each call of an operation that changes
    /// something in this header: the server does a request with the same key once. These tools are
    /// [idempotent](host_client_core::Manifest::idempotent), so that a durable run makes a call again whose outcome is not
    /// known. Default: `Idempotency-Key`, for those operations alone that have a parameter for this header in the document.
    ///
    /// # Errors
    /// [`Error::Source`]: it is not the name of a header that may be set.
    pub fn idempotency_header(mut self, name: &str) -> Result<Self, Error> {
        let header = HeaderName::try_from(name).ok().filter(|header| !net::is_reserved_header(header));
        let header = header.ok_or_else(|| {
            let reason = format!("{name:?} is not the name of a header that an idempotency key may be sent in");
            Error::source(format!("the OpenAPI document {}", self.source.origin()), reason)
        })?;
        self.key = KeyHeader { header, is_for_all: true };
        Ok(self)
    }

    /// Reads the document, and registers its operations as the tools of the server `server`. Results are declared
    /// by the document's schemas and not checked against them, because documents often promise more than their servers
    /// keep.
    ///
    /// # Errors
    /// The error of [`Tools::mount`] if the name is taken or invalid; [`Error::Source`] with an [`Unusable`] if the
    /// document cannot be used at all.
    pub async fn mount(self, tools: &Tools, server: &str) -> Result<OpenApiMount, Error> {
        let origin = self.source.origin();
        let mount = tools.mount(server, format!("the OpenAPI document {origin}"))?;
        let unusable = |reason: Unusable| Error::source(format!("the OpenAPI document {origin}"), reason);
        let (text, base) = self.source.read(self.document_bytes, &self.access).await.map_err(unusable)?;
        // Parsing megabytes of text and a thousand schemas would block the other tasks of this thread.
        let building = tokio::task::spawn_blocking(move || {
            let Built { tools, mut left_out } = self.build(&text, base.as_ref(), mount.server())?;
            let refused = mount.replace(tools);
            mount.leave_out(left_out.iter().filter_map(|operation| {
                Some(InvalidTool { name: operation.tool.clone()?, reason: operation.reason.to_string() })
            }));
            left_out.retain(|operation| operation.reason != Flaw::NotChosen);
            left_out.extend(refused.into_iter().map(|refused| match refused {
                Error::Tool { name, reason } => {
                    LeftOut { operation: name.clone(), tool: Some(name), reason: Flaw::Refused(reason) }
                }
                other => LeftOut { operation: String::new(), tool: None, reason: Flaw::Refused(other.to_string()) },
            }));
            Ok(OpenApiMount { mount, left_out })
        });
        building.await.map_err(|_| Unusable::Ending).flatten().map_err(unusable)
    }

    /// Makes tools of the document's text. `base`: the URL that it came from; `tools`: the name of the server of tools.
    fn build(self, text: &str, base: Option<&Url>, tools: &str) -> Result<Built, Unusable> {
        let mut document = Document::parse(text)?;
        document.set_variables(&self.variables)?;
        let credentials = Credentials::new(&document, &self.credentials)?;
        let servers = document.servers(document.root(), base);
        let server = server::choose(&servers, self.base_url.as_deref(), self.server.as_deref())?;
        if let Some(base) = base
            && !credentials.are_empty()
            && self.server.is_none()
            && self.base_url.is_none()
            && base.origin() != server.origin()
        {
            return Err(Unusable::ForeignServer { document: net::origin(base), server: net::origin(&server) });
        }
        // Credentials are sent over plain HTTP in an allowed private network only, never over the internet.
        let is_clear = server.scheme() == "http" && !credentials.are_empty();
        let access = if is_clear { self.access.only_private() } else { self.access };
        let (choice, most) = (&self.choice, self.max_operations);
        let (credentials_of, key) = (&credentials, &self.key);
        let reader = Reader {
            document: &document,
            server: &server,
            base,
            credentials: credentials_of,
            tools,
            choice,
            key,
            most,
        };
        let found = reader.read()?;
        let client = server::client(access, &server)?;
        let api = Arc::new(Api { client, server, credentials, propagates_trace: self.propagates_trace });
        let tool = |operation| Arc::new(OperationTool { api: Arc::clone(&api), operation }) as Arc<dyn Tool>;
        Ok(Built { tools: found.callable.into_iter().map(tool).collect(), left_out: found.left_out })
    }
}
