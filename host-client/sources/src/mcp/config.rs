//! Configuration file of MCP servers, in the `mcpServers` format that MCP clients share.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use host_client_core::{Error, INTROSPECTION_SERVER, LOCAL_SERVER, ToolName};
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
const KNOWN_KEYS: [&str; 9] = ["type", "command", "args", "env", "cwd", "url", "headers", "disabled", TRUST];
/// Key of the setting whether the annotations of a server are believed.
const TRUST: &str = "trust_annotations";

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
/// In every string, `${NAME}` (or `${env:NAME}`, as VS Code has it) and `${NAME:-default}` are replaced from this
/// process's environment. A server with `"disabled": true` is left out. A server whose entry is invalid is left out, too,
/// and the others are not affected: [`McpConfig::problems`]. Unknown keys, such as those of other clients, are ignored
/// with a warning in the log.
///
/// Annotations of a server, such as `readOnlyHint`, may declare that a tool only reads if the server is a program that
/// this file has started, or if its entry has `"trust_annotations": true`.
///
/// A server's name has no dot, because its tools are called `name.tool`: each dot becomes `_`.
#[derive(Debug, Clone)]
pub struct McpConfig {
    pub(super) origin: String,
    pub(super) servers: BTreeMap<String, ServerConfig>,
    pub(super) problems: BTreeMap<String, ServerProblem>,
    /// Names as the file has them, of the servers that are mounted under another one.
    pub(super) renamed: BTreeMap<String, String>,
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
    pub(super) trusts_annotations: bool,
}

/// Configuration of a server that speaks MCP over streamable HTTP.
#[derive(Clone)]
pub(super) struct HttpConfig {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) trusts_annotations: bool,
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
    /// [`McpConfigError::TwoServers`] for a name given twice. An invalid entry of one server is no error, but one of
    /// [`McpConfig::problems`].
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
        for (server, entry) in &entries.0 {
            if let Some(first) = seen.insert(server.as_str(), entry) {
                let (first, second) = (first.summary(), entry.summary());
                return Err(McpConfigError::TwoServers { origin, server: server.clone(), first, second });
            }
        }
        let mut config = Self { origin, servers: BTreeMap::new(), problems: BTreeMap::new(), renamed: BTreeMap::new() };
        for (written, entry) in &entries.0 {
            let server = undotted(written, |name| seen.contains_key(name) || config.renamed.contains_key(name));
            match read_server(&server, entry) {
                Ok(Some(read)) => drop(config.servers.insert(server.clone(), read)),
                Ok(None) => {
                    tracing::debug!(server, origin = config.origin, "an MCP server is disabled");
                    continue;
                }
                Err(problem) => drop(config.problems.insert(server.clone(), problem)),
            }
            if server != *written {
                tracing::warn!(
                    "the MCP server {written:?} of {} is called {server:?} here, because a dot ends a server's name",
                    config.origin
                );
                config.renamed.insert(server, written.clone());
            }
        }
        Ok(config)
    }

    /// Returns the names of the servers that can be started, sorted: those that are not disabled and have no problem.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    /// Returns the servers whose entries are invalid, by name, each with the problem. They are not started.
    pub fn problems(&self) -> impl Iterator<Item = (&str, &ServerProblem)> {
        self.problems.iter().map(|(server, problem)| (server.as_str(), problem))
    }

    /// Describes where a server comes from, with its name as the file has it.
    pub(super) fn origin_of(&self, server: &str) -> String {
        let written = self.renamed.get(server).map_or(server, String::as_str);
        format!("the MCP server {written:?} of {}", self.origin)
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

/// Returns the name with `_` in the place of each dot, and a number after it if another server has that name.
fn undotted(written: &str, is_taken: impl Fn(&str) -> bool) -> String {
    if !written.contains('.') {
        return written.to_owned();
    }
    let name = written.replace('.', "_");
    let numbered = (2_u32..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(name)
}

impl ServerConfig {
    /// Returns `true` if the server's annotations may declare that a tool only reads.
    pub(super) fn trusts_annotations(&self) -> bool {
        match self {
            Self::Process(process) => process.trusts_annotations,
            Self::Http(http) => http.trusts_annotations,
        }
    }
}

/// Reads the entry of one server. Returns `None` if it is disabled.
fn read_server(server: &str, entry: &Node) -> Result<Option<ServerConfig>, ServerProblem> {
    ToolName::new(server, "tool").map_err(|_| ServerProblem::Name)?;
    if [INTROSPECTION_SERVER, LOCAL_SERVER].contains(&server) {
        return Err(ServerProblem::Reserved);
    }
    let Node::Object(members) = entry else {
        return Err(ServerProblem::WrongType { key: "its entry".into(), expected: "an object" });
    };
    let members = members.by_key()?;
    for key in members.keys().filter(|key| !KNOWN_KEYS.contains(key)) {
        tracing::warn!(server, key, "a key of an MCP server means nothing here and is ignored");
    }
    let switch = |key: &str| match members.get(key) {
        None | Some(Node::Other(Value::Null)) => Ok(None),
        Some(Node::Other(Value::Bool(yes))) => Ok(Some(*yes)),
        Some(_) => Err(ServerProblem::WrongType { key: key.to_owned(), expected: "true or false" }),
    };
    if switch("disabled")? == Some(true) {
        return Ok(None);
    }
    let trust = switch(TRUST)?;
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
            // Whoever has a program started on this machine trusts it with far more.
            trusts_annotations: trust.unwrap_or(true),
        }),
        (None, Some(url)) => {
            let headers = members.get("headers").map_or(Ok(BTreeMap::new()), |node| node.text_members("headers"))?;
            ServerConfig::Http(HttpConfig::new(&url, headers, trust.unwrap_or(false))?)
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
    fn new(url: &str, headers: BTreeMap<String, String>, trusts_annotations: bool) -> Result<Self, ServerProblem> {
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
        let config = Self { url, headers: map, trusts_annotations };
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
