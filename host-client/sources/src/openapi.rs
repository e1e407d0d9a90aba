//! An OpenAPI document as one server of tools: a tool for each operation, with the credentials kept on the host.
//!
//! The document, its server and the code that calls are trusted with nothing: calls go to one server of the document
//! and to no private address, arguments stay values, and what cannot be represented is left out and said.
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

mod call;
mod credential;
mod document;
mod error;
mod operation;
mod parameters;
mod place;
mod request;
mod schema;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::HeaderMap;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use url::Url;

pub use credential::Credential;
pub use error::{Flaw, LeftOut, Unusable};

use call::{Api, OperationTool};
use credential::Credentials;
use document::{Document, server_url};
use operation::Reader;

use crate::net::{self, BodyLimit, GuardedClient, RemoteAccess, Request};
use host_client_core::error::Error;
use host_client_core::tool::Tool;
use host_client_core::tools::{Mount, Tools};

/// The most bytes of a document.
const MAX_DOCUMENT_BYTES: usize = 8 << 20;
/// The most operations of a document.
const MAX_OPERATIONS: usize = 1_000;
/// The most bytes of one operation's schema and description.
const MAX_OPERATION_BYTES: usize = 256 << 10;
/// The most bytes of those of all operations: a relay is told all of them in one message.
const MAX_TOTAL_BYTES: usize = 4 << 20;
/// How long fetching a document may take.
const FETCH_WITHIN: Duration = Duration::from_secs(30);
/// How many servers an error names.
const NAMED_SERVERS: usize = 20;

/// An OpenAPI 3.0 or 3.1 document, in JSON or YAML, of at most 8 MiB.
#[derive(Clone)]
pub struct OpenApi {
    source: Source,
    credentials: BTreeMap<String, Credential>,
    server: Option<String>,
    access: RemoteAccess,
    propagates_trace: bool,
}

#[derive(Clone)]
enum Source {
    Text(String),
    File(PathBuf),
    Url(String),
}

/// The tools of a document. They go when this is dropped.
#[derive(Debug)]
pub struct OpenApiMount {
    /// Holds the server's name.
    pub mount: Mount,
    /// The operations that are not among the tools.
    pub left_out: Vec<LeftOut>,
}

/// What a document becomes.
struct Built {
    tools: Vec<Arc<dyn Tool>>,
    left_out: Vec<LeftOut>,
}

// Without the document's text, and without what its address may hold.
impl fmt::Debug for OpenApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApi")
            .field("document", &self.origin())
            .field("credentials", &self.credentials)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl OpenApi {
    /// The document in a file.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self::from(Source::File(path.into()))
    }

    /// The document at an address. It is fetched from that host alone, when it is mounted.
    pub fn from_url(url: impl Into<String>) -> Self {
        Self::from(Source::Url(url.into()))
    }

    /// A document's text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::from(Source::Text(text.into()))
    }

    fn from(source: Source) -> Self {
        let credentials = BTreeMap::new();
        Self { source, credentials, server: None, access: RemoteAccess::default(), propagates_trace: false }
    }

    /// Authenticates with this where the document asks for the security scheme of this name.
    #[must_use]
    pub fn credentials(mut self, scheme: impl Into<String>, credential: Credential) -> Self {
        self.credentials.insert(scheme.into(), credential);
        self
    }

    /// Calls this server of the document's instead of the first. Operations on other servers are left out.
    #[must_use]
    pub fn server(mut self, url: impl Into<String>) -> Self {
        self.server = Some(url.into());
        self
    }

    /// Lets the server, and the document's address, lie in this private network, such as `10.1.0.0/16`.
    ///
    /// # Errors
    /// It is no network.
    pub fn allow_private(mut self, network: &str) -> Result<Self, Error> {
        self.access = self.access.allow_private(network)?;
        Ok(self)
    }

    /// Takes certificates (PEM) of these authorities instead of those of the web.
    #[must_use]
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.access = self.access.authorities(pem);
        self
    }

    /// Whether the server is told which trace a call belongs to, in `traceparent`. It is not, unless asked for.
    #[must_use]
    pub fn propagate_trace(mut self, yes: bool) -> Self {
        self.propagates_trace = yes;
        self
    }

    /// Reads the document and registers its operations under this server's name. What a result has to look like is not
    /// checked: documents promise too much.
    ///
    /// # Errors
    /// The name is taken or none, or the document cannot be used at all.
    pub async fn mount(self, tools: &Tools, server: &str) -> Result<OpenApiMount, Error> {
        let origin = self.origin();
        let mount = tools.mount(server, format!("the OpenAPI document {origin}"))?;
        let unusable = |reason: Unusable| Error::source(format!("the OpenAPI document {origin}"), reason);
        let (text, base) = self.read().await.map_err(unusable)?;
        // Megabytes of text, and a thousand schemas: not for a thread that others wait for.
        let building = tokio::task::spawn_blocking(move || {
            let Built { tools, mut left_out } = self.build(&text, base.as_ref(), mount.server())?;
            left_out.extend(mount.replace(tools).into_iter().map(|refused| match refused {
                Error::Tool { name, reason } => LeftOut { operation: name, reason: Flaw::Refused(reason) },
                other => LeftOut { operation: String::new(), reason: Flaw::Refused(other.to_string()) },
            }));
            Ok(OpenApiMount { mount, left_out })
        });
        building.await.map_err(|_| Unusable::Ending).flatten().map_err(unusable)
    }

    /// Where it comes from, for people. Of an address, what holds no secret.
    fn origin(&self) -> String {
        match &self.source {
            Source::Text(_) => "of the application".to_owned(),
            Source::File(path) => path.display().to_string(),
            Source::Url(url) => Url::parse(url).map_or_else(|_| "at no address".to_owned(), |url| net::origin(&url)),
        }
    }

    /// The text, and the address that relative ones in it are relative to.
    async fn read(&self) -> Result<(String, Option<Url>), Unusable> {
        match &self.source {
            Source::Text(text) => Ok((text.clone(), None)),
            Source::File(path) => {
                let mut bytes = Vec::new();
                let most = MAX_DOCUMENT_BYTES as u64 + 1;
                tokio::fs::File::open(path).await?.take(most).read_to_end(&mut bytes).await?;
                Ok((String::from_utf8_lossy(&bytes).into_owned(), None))
            }
            Source::Url(url) => {
                let url = Url::parse(url).map_err(|_| Unusable::Address)?;
                let fetched = self.fetch(url.clone()).await?;
                Ok((fetched, Some(url)))
            }
        }
    }

    async fn fetch(&self, url: Url) -> Result<String, Unusable> {
        let client = client(self.access.clone(), &url)?;
        let request = Request { method: Method::GET, url, headers: HeaderMap::new(), body: None };
        let answer = client.send(request, BodyLimit::FailOver(MAX_DOCUMENT_BYTES), Instant::now() + FETCH_WITHIN).await;
        let answer = answer.map_err(|error| Unusable::Fetch(error.to_string()))?;
        if !answer.status.is_success() {
            return Err(Unusable::Fetch(format!("the server answered with {}", answer.status)));
        }
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    fn build(self, text: &str, base: Option<&Url>, tools: &str) -> Result<Built, Unusable> {
        let document = Document::parse(text)?;
        let credentials = Credentials::new(&document, &self.credentials)?;
        let server = self.choose(&document.servers(document.root(), base))?;
        if let Some(base) = base
            && !credentials.are_empty()
            && self.server.is_none()
            && base.origin() != server.origin()
        {
            return Err(Unusable::ForeignServer { document: net::origin(base), server: net::origin(&server) });
        }
        // Credentials in clear text may cross a network that was allowed by name, never the internet.
        let is_clear = server.scheme() == "http" && !credentials.are_empty();
        let access = if is_clear { self.access.only_private() } else { self.access };
        let reader = Reader { document: &document, server: &server, base, credentials: &credentials, tools };
        let found = reader.read();
        let client = client(access, &server)?;
        let api = Arc::new(Api { client, server, credentials, propagates_trace: self.propagates_trace });
        let tool = |operation| Arc::new(OperationTool { api: Arc::clone(&api), operation }) as Arc<dyn Tool>;
        Ok(Built { tools: found.callable.into_iter().map(tool).collect(), left_out: found.left_out })
    }

    /// The server to call, which is one of these.
    fn choose(&self, servers: &[Url]) -> Result<Url, Unusable> {
        let first = servers.first().ok_or(Unusable::NoServer)?;
        let Some(chosen) = &self.server else { return Ok(first.clone()) };
        let found = server_url(chosen, None).filter(|url| servers.contains(url));
        found.ok_or_else(|| Unusable::Server {
            chosen: chosen.clone(),
            known: servers.iter().take(NAMED_SERVERS).map(Url::as_str).collect::<Vec<_>>().join(", "),
        })
    }
}

/// A client for the host of this address and no other.
fn client(access: RemoteAccess, url: &Url) -> Result<GuardedClient, Unusable> {
    let access = access.and(&net::origin(url)).map_err(|_| Unusable::Address)?;
    GuardedClient::new(access).map_err(|error| Unusable::Client(error.to_string()))
}
