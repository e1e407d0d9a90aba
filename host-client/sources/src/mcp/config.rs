//! Configuration file of MCP servers, in the `mcpServers` format that MCP clients share.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use host_client_core::{Error, ToolName};
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use serde_json::Value;

use super::entry::{Members, Node};
use super::problem::ServerProblem;
use super::text::Secrets;

/// Maximum size of a configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Key of the object that holds the servers.
const SERVERS: &str = "mcpServers";
/// Keys of a server's entry that are read. Others are ignored with a warning in the log.
const KNOWN_KEYS: [&str; 8] = ["type", "command", "args", "env", "cwd", "url", "headers", "disabled"];

/// Configuration of MCP servers: how each is started or reached.
///
/// ```
/// use host_client_sources::McpConfig;
///
/// # fn main() -> Result<(), host_client_sources::McpConfigError> {
/// let json = r#"{"mcpServers": {
///   "git":  {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": "${GIT_TOKEN:-none}"}, "cwd": "/repo"},
///   "wiki": {"url": "https://wiki.example/mcp", "headers": {"Authorization": "Bearer ${WIKI_TOKEN:-none}"}},
///   "old":  {"command": "old-server", "disabled": true}
/// }}"#;
/// let config = McpConfig::from_json(json, "mcp.json")?;
/// assert_eq!(config.names().collect::<Vec<_>>(), ["git", "wiki"]);
/// # Ok(()) }
/// ```
///
/// In every string, `${NAME}` and `${NAME:-default}` are replaced from this process's environment. A server with
/// `"disabled": true` is left out. Unknown keys, such as those of other clients, are ignored with a warning in the log.
#[derive(Debug, Clone)]
pub struct McpConfig {
    pub(super) origin: String,
    pub(super) servers: BTreeMap<String, ServerConfig>,
}

/// Configuration of one server.
#[derive(Debug, Clone)]
pub(super) enum ServerConfig {
    Process(ProcessConfig),
    Http(HttpConfig),
}

/// Configuration of a program that speaks MCP on its standard input and output.
#[derive(Clone)]
pub(super) struct ProcessConfig {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    /// Environment variables, beside those that every server gets.
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: Option<PathBuf>,
}

/// Configuration of a server that speaks MCP over streamable HTTP.
#[derive(Clone)]
pub(super) struct HttpConfig {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
}

/// Error of a configuration of MCP servers.
#[derive(Debug, thiserror::Error)]
pub enum McpConfigError {
    /// The file cannot be read.
    #[error("{origin} cannot be read: {error}")]
    Read {
        /// The path of the file, or the origin given to [`McpConfig::from_json`].
        origin: String,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The file is larger than 1 MiB. Holds its path.
    #[error("{0} has more than {MAX_FILE_BYTES} bytes; it is no file of MCP servers")]
    TooLarge(String),
    /// The text is not a JSON object.
    #[error("{origin} is not a JSON object: {error}")]
    Json {
        /// The path of the file, or the origin given to [`McpConfig::from_json`].
        origin: String,
        /// The error of the JSON parser, with line and column.
        #[source]
        error: serde_json::Error,
    },
    /// The member `mcpServers` is missing, given twice, or not an object. Holds the origin.
    #[error("{0} needs exactly one object \"mcpServers\", with a server under each name")]
    NoServers(String),
    /// Two servers have the same name.
    #[error("{origin}: two servers are named {server:?}: {first} and {second}; give one of them another name")]
    TwoServers {
        /// The path of the file, or the origin given to [`McpConfig::from_json`].
        origin: String,
        /// The name that both have.
        server: String,
        /// A summary of the first one: its program or its URL.
        first: String,
        /// A summary of the second one: its program or its URL.
        second: String,
    },
    /// The entry of a server is invalid.
    #[error("{origin}: the server {server:?}: {problem}")]
    Server {
        /// The path of the file, or the origin given to [`McpConfig::from_json`].
        origin: String,
        /// The server's name.
        server: String,
        /// The problem with the entry.
        problem: ServerProblem,
    },
}

impl From<McpConfigError> for Error {
    fn from(error: McpConfigError) -> Self {
        Self::source("the file of MCP servers", error)
    }
}

impl McpConfig {
    /// Reads a configuration file of at most 1 MiB.
    ///
    /// # Errors
    /// [`McpConfigError::Read`] and [`McpConfigError::TooLarge`] if the file cannot be read; else as
    /// [`McpConfig::from_json`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, McpConfigError> {
        let origin = path.as_ref().display().to_string();
        let mut text = String::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
        match read {
            Ok(bytes) if bytes as u64 > MAX_FILE_BYTES => Err(McpConfigError::TooLarge(origin)),
            Ok(_) => Self::from_json(&text, origin),
            Err(error) => Err(McpConfigError::Read { origin, error }),
        }
    }

    /// Reads a configuration from JSON. Error messages and [`ServerStatus::origin`](super::ServerStatus::origin) name
    /// `origin` as the place that it comes from.
    ///
    /// # Errors
    /// [`McpConfigError::Json`] if it is not a JSON object, [`McpConfigError::NoServers`] without `mcpServers`,
    /// [`McpConfigError::TwoServers`] for a name given twice, [`McpConfigError::Server`] for an invalid entry.
    pub fn from_json(json: &str, origin: impl Into<String>) -> Result<Self, McpConfigError> {
        let origin = origin.into();
        let json = json.trim_start_matches('\u{feff}');
        let root: Members = match serde_json::from_str(json) {
            Ok(root) => root,
            Err(error) => return Err(McpConfigError::Json { origin, error }),
        };
        let mut found = root.0.iter().filter(|(key, _)| key == SERVERS);
        let (Some((_, Node::Object(entries))), None) = (found.next(), found.next()) else {
            return Err(McpConfigError::NoServers(origin));
        };
        let mut seen = BTreeMap::new();
        let mut servers = BTreeMap::new();
        for (server, entry) in &entries.0 {
            if let Some(first) = seen.insert(server, entry) {
                let (first, second) = (first.summary(), entry.summary());
                return Err(McpConfigError::TwoServers { origin, server: server.clone(), first, second });
            }
            match read_server(server, entry) {
                Ok(Some(config)) => drop(servers.insert(server.clone(), config)),
                Ok(None) => tracing::debug!(server, origin, "an MCP server is disabled"),
                Err(problem) => return Err(McpConfigError::Server { origin, server: server.clone(), problem }),
            }
        }
        Ok(Self { origin, servers })
    }

    /// Returns the names of the servers that are not disabled, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }
}

impl ServerConfig {
    /// Returns the values that only the server may read: environment variables, header values and the query of its URL.
    pub(super) fn secrets(&self) -> Secrets {
        match self {
            Self::Process(process) => Secrets::new(process.env.values().cloned()),
            Self::Http(http) => {
                let headers = http.headers.values().filter_map(|value| value.to_str().ok());
                // Split at spaces, because the token after `Bearer` is the secret.
                let headers = headers.flat_map(|value| value.split(' ')).map(str::to_owned);
                Secrets::new(headers.chain(http.url.query().map(str::to_owned)))
            }
        }
    }
}

/// Reads the entry of one server. Returns `None` if it is disabled.
fn read_server(server: &str, entry: &Node) -> Result<Option<ServerConfig>, ServerProblem> {
    ToolName::new(server, "tool").map_err(|_| ServerProblem::Name)?;
    let Node::Object(members) = entry else {
        return Err(ServerProblem::WrongType { key: "its entry".into(), expected: "an object" });
    };
    let members = members.by_key()?;
    for key in members.keys().filter(|key| !KNOWN_KEYS.contains(key)) {
        tracing::warn!(server, key, "a key of an MCP server means nothing here and is ignored");
    }
    match members.get("disabled") {
        None | Some(Node::Other(Value::Null | Value::Bool(false))) => {}
        Some(Node::Other(Value::Bool(true))) => return Ok(None),
        Some(_) => return Err(ServerProblem::WrongType { key: "disabled".into(), expected: "true or false" }),
    }
    let text = |key: &str| members.get(key).map(|node| node.text(key)).transpose().map(Option::flatten);
    let config = match (text("command")?, text("url")?) {
        (None, None) if text("type")?.as_deref() == Some("sse") => return Err(ServerProblem::Sse),
        (None, None) => return Err(ServerProblem::NeitherCommandNorUrl),
        (Some(_), Some(_)) => return Err(ServerProblem::BothCommandAndUrl),
        (Some(command), None) => ServerConfig::Process(ProcessConfig {
            command,
            args: members.get("args").map_or(Ok(Vec::new()), |node| node.texts("args"))?,
            env: members.get("env").map_or(Ok(BTreeMap::new()), |node| node.text_members("env"))?,
            cwd: text("cwd")?.map(PathBuf::from),
        }),
        (None, Some(url)) => {
            let headers = members.get("headers").map_or(Ok(BTreeMap::new()), |node| node.text_members("headers"))?;
            ServerConfig::Http(HttpConfig::new(&url, headers)?)
        }
    };
    match (text("type")?.as_deref(), &config) {
        (None | Some("stdio"), ServerConfig::Process(_)) => {}
        (None | Some("http" | "streamable-http" | "streamableHttp"), ServerConfig::Http(_)) => {}
        (Some("sse"), _) => return Err(ServerProblem::Sse),
        (Some(other), _) => return Err(ServerProblem::Type(other.to_owned())),
    }
    Ok(Some(config))
}

impl HttpConfig {
    fn new(url: &str, headers: BTreeMap<String, String>) -> Result<Self, ServerProblem> {
        let url = Url::parse(url).map_err(|_| ServerProblem::Url)?;
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
        if !is_web || !url.username().is_empty() || url.password().is_some() {
            return Err(ServerProblem::Url);
        }
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let parsed = (HeaderName::try_from(&name), HeaderValue::try_from(value));
            let (Ok(header), Ok(mut value)) = parsed else { return Err(ServerProblem::Header(name)) };
            value.set_sensitive(true);
            map.insert(header, value);
        }
        let config = Self { url, headers: map };
        if !config.headers.is_empty() && config.url.scheme() != "https" && !config.is_of_this_machine() {
            return Err(ServerProblem::HeadersInTheClear);
        }
        Ok(config)
    }

    /// Returns `true` if the URL names `localhost` or a loopback address. No name is resolved.
    pub(super) fn is_of_this_machine(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default();
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }
}

impl fmt::Debug for ProcessConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.env.keys().collect();
        f.debug_struct("ProcessConfig").field("command", &self.command).field("env", &names).finish_non_exhaustive()
    }
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConfig").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}
