//! The setup of a server: a folder with its files, and its command line.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::within;
use crate::servers::program;

pub(crate) const RELAY_HOST: &str = env!("CARGO_BIN_EXE_relay-host");

/// The files and options of one server.
pub(crate) struct Setup {
    folder: TempDir,
    options: Vec<String>,
}

impl Setup {
    /// With the small server of `tests/mcp/fake.py`, whose tools are named `fake.*`.
    pub(crate) fn new() -> Self {
        Self::with(json!({}))
    }

    /// With the server that shows everything that MCP has, too.
    pub(crate) fn with_everything() -> Self {
        Self::with(json!({"everything": {"command": program("mcp-server-everything"), "args": ["stdio"]}}))
    }

    /// With the small server, which starts when the file `go` is there.
    pub(crate) fn starting_slowly() -> Self {
        let setup = Self::new();
        let file = setup.path("mcp.json");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let server = &mut config["mcpServers"]["fake"];
        server["args"].as_array_mut().unwrap().push("slow-start".into());
        server["env"]["GO"] = setup.path("go").to_str().unwrap().into();
        std::fs::write(file, config.to_string()).unwrap();
        setup
    }

    fn with(mut servers: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/suite/mcp/fake.py");
        let notes = folder.path().join("notes");
        servers["fake"] = json!({"command": "python3", "args": [script], "env": {"NOTES": notes}});
        let file = folder.path().join("mcp.json");
        std::fs::write(&file, json!({"mcpServers": servers}).to_string()).unwrap();
        let options = vec!["--mcp".to_owned(), file.to_str().unwrap().to_owned()];
        Self { folder, options }
    }

    pub(crate) fn option(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.options.extend([name.to_owned(), value.as_ref().to_owned()]);
        self
    }

    pub(crate) fn flag(mut self, name: &str) -> Self {
        self.options.push(name.to_owned());
        self
    }

    /// Nobody is asked about anything.
    pub(crate) fn allowing_all(self) -> Self {
        let file = self.path("policy.toml");
        std::fs::write(&file, "[default]\nunknown = \"allow\"\nmutating = \"allow\"\n").unwrap();
        self.option("--policy", file.to_str().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the notes that the fake server wrote.
    pub(crate) fn notes(&self) -> String {
        std::fs::read_to_string(self.path("notes")).unwrap_or_default()
    }

    /// Returns the arguments after the program's name.
    pub(crate) fn arguments(&self) -> Vec<String> {
        [vec!["serve-mcp".to_owned()], self.options.clone()].concat()
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(RELAY_HOST);
        command.args(self.arguments()).env("XDG_CACHE_HOME", self.path("cache")).kill_on_drop(true);
        command
    }

    /// Starts it as an HTTP server on a free port.
    pub(crate) async fn serve_http(&self) -> HttpServer {
        let mut command = self.command();
        let mut child = command.args(["--http", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        within(BufReader::new(child.stdout.take().unwrap()).read_line(&mut line)).await.unwrap();
        let url = line.trim().strip_prefix("listening on ").expect(&line).to_owned();
        HttpServer { child, url }
    }
}

/// A server that listens.
pub(crate) struct HttpServer {
    pub(crate) child: Child,
    /// With the path.
    pub(crate) url: String,
}
