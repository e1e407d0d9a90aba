//! Sources of tools beside functions: MCP servers, OpenAPI documents and ready sets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use host_client::openapi::Credential;
use host_client::sets::http::HttpSet;
use host_client::sets::workspace::WorkspaceSet;
use host_client::{Error, McpConfig, Mount, OpenApi, RemoteAccess, Tools};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::SdkError;

/// One value, or a list of values.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// A list.
    Many(Vec<T>),
    /// One value.
    One(T),
}

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<T> OneOrMany<T> {
    pub(crate) fn into_vec(self) -> Vec<T> {
        match self {
            Self::Many(all) => all,
            Self::One(one) => vec![one],
        }
    }
}

/// MCP servers: the path of a file, or its JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum McpOption {
    /// The path of a file with `mcpServers`.
    Path(PathBuf),
    /// The content of such a file.
    Json(Map<String, Value>),
}

impl McpOption {
    /// Reads the configuration.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): it cannot be read.
    pub(crate) fn config(self) -> Result<McpConfig, SdkError> {
        let config = match self {
            Self::Path(path) => McpConfig::from_file(path),
            Self::Json(json) => McpConfig::from_json(&Value::Object(json).to_string(), "the option mcp"),
        };
        config.map_err(|error| Error::from(error).into())
    }
}

/// The settings of an OpenAPI document; a text is its path or URL.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenApiOptions {
    /// The path or the URL of the document.
    pub document: String,
    /// The URL of the document's server to call; `null`, the default: the first one.
    #[serde(default)]
    pub server: Option<String>,
    /// The URL to call in the place of the document's servers; `null`, the default: none.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The values of the variables of the document's servers.
    #[serde(default)]
    pub server_variables: BTreeMap<String, String>,
    /// Networks that may be reached beside public ones: in CIDR notation, `loopback` or `private`.
    #[serde(default)]
    pub networks: Vec<String>,
    /// Tags of the operations that become tools; empty: all.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Patterns of the operations that become tools; empty: all.
    #[serde(default)]
    pub operations: Vec<String>,
    /// The header in which calls that change something send their idempotency keys.
    #[serde(default)]
    pub idempotency_header: Option<String>,
    /// The credentials, by the name of their security scheme.
    #[serde(default)]
    pub credentials: BTreeMap<String, Secret>,
}

/// A credential: a secret, or a user with a password. Its text does not appear in logs.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub enum Secret {
    /// A key or a token.
    Secret(String),
    /// A user with a password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl From<Secret> for Credential {
    fn from(secret: Secret) -> Self {
        match secret {
            Secret::Secret(secret) => Self::Secret(secret),
            Secret::Basic { user, password } => Self::Basic { user, password },
        }
    }
}

impl From<String> for OpenApiOptions {
    fn from(document: String) -> Self {
        Self { document, ..Self::default() }
    }
}

impl OpenApiOptions {
    /// Mounts the document. Operations that cannot be tools are among [`Tools::left_out`].
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): the document or a setting cannot be used.
    pub(crate) async fn mount(self, tools: &Tools, name: &str) -> Result<Mount, SdkError> {
        let settings = self;
        let wrong = |reason: String| SdkError::option(format!("openapi.{name}: {reason}"));
        let mut api = OpenApi::from_place(&settings.document, "").tags(settings.tags).operations(settings.operations);
        if let Some(server) = settings.server {
            api = api.server(server);
        }
        if let Some(url) = settings.base_url {
            api = api.base_url(url);
        }
        if let Some(header) = settings.idempotency_header {
            api = api.idempotency_header(&header).map_err(|error| wrong(error.to_string()))?;
        }
        for (variable, value) in settings.server_variables {
            api = api.server_variable(variable, value);
        }
        for network in &settings.networks {
            api = api.allow_named(network).map_err(|error| wrong(error.to_string()))?;
        }
        for (scheme, secret) in settings.credentials {
            api = api.credentials(scheme, secret.into());
        }
        Ok(api.mount(tools, name).await?.mount)
    }
}

/// A folder as tools; a text is its path, and nothing in it may be changed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceOptions {
    /// The folder.
    pub folder: PathBuf,
    /// Patterns of the files that may be changed; empty, the default: none.
    #[serde(default)]
    pub writable: Vec<String>,
    /// Whether files that are writable may be created; `false` by default.
    #[serde(default)]
    pub allow_create: bool,
    /// Whether files that are writable may be deleted; `false` by default.
    #[serde(default)]
    pub allow_delete: bool,
}

impl From<String> for WorkspaceOptions {
    fn from(folder: String) -> Self {
        Self { folder: folder.into(), ..Self::default() }
    }
}

impl WorkspaceOptions {
    /// Mounts the folder as the server `workspace`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): the folder or a pattern cannot be used.
    pub(crate) fn mount(self, tools: &Tools) -> Result<Mount, SdkError> {
        let set = WorkspaceSet::open(self.folder)?.writable(&self.writable)?;
        let set = set.allow_create(self.allow_create).allow_delete(self.allow_delete);
        Ok(set.mount(tools, "workspace")?)
    }
}

/// Hosts that code may fetch from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpOptions {
    /// The hosts, such as `api.example.com` or `*.example.com`.
    pub hosts: Vec<String>,
    /// Whether code may send an `authorization` header of its own; `false` by default.
    #[serde(default)]
    pub allow_authorization: bool,
    /// The most bytes of a body that are read; 1 MiB by default.
    #[serde(default)]
    pub body_bytes: Option<usize>,
}

impl HttpOptions {
    /// Mounts the hosts as the server `http`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): a host cannot be used.
    pub(crate) fn mount(self, tools: &Tools) -> Result<Mount, SdkError> {
        let access = RemoteAccess::to(&self.hosts).map_err(|error| SdkError::option(format!("http.hosts: {error}")))?;
        let mut set = HttpSet::new(access);
        if self.allow_authorization {
            set = set.allow_authorization();
        }
        if let Some(bytes) = self.body_bytes {
            set = set.body_bytes(bytes);
        }
        Ok(set.mount(tools, "http")?)
    }
}
