//! The MCP servers: real ones of npm and PyPI, pinned by the files in `dev/study/servers`, installed once and started.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use host_client::{McpConfig, McpOptions, McpServers, ServerState, Tools};
pub use relay_test_support::packages::target_folder;
use relay_test_support::packages::{Environment, Packages};
use serde_json::json;

use crate::scene::Scene;

const SERVERS: Packages = Packages {
    name: "study-servers",
    pins: &[
        ("package.json", include_str!("../servers/package.json")),
        ("package-lock.json", include_str!("../servers/package-lock.json")),
        ("requirements.txt", include_str!("../servers/requirements.txt")),
        // The server of SQLite needs an older library than the others do, and so has an environment of its own.
        ("requirements-sqlite.txt", include_str!("../servers/requirements-sqlite.txt")),
    ],
    environments: &[
        Environment { folder: "venv", requirements: "requirements.txt" },
        Environment { folder: "venv-sqlite", requirements: "requirements-sqlite.txt" },
    ],
};
/// Maximum time in which all servers have to start.
const START_WITHIN: Duration = Duration::from_secs(60);

/// A folder with the servers in it.
#[derive(Debug)]
pub struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// Installs the servers into a folder of `parent`, unless they are there already.
    ///
    /// # Errors
    /// npm or Python is missing, or a registry cannot be reached.
    pub fn below(parent: &Path) -> anyhow::Result<Self> {
        Ok(Self { folder: SERVERS.install_below(parent)? })
    }

    /// Starts the servers for a scene. Their tools are in `tools` then.
    ///
    /// # Errors
    /// One of them does not start.
    pub async fn start(&self, scene: &Scene, tools: &Tools) -> anyhow::Result<McpServers> {
        let npm = |name: &str| self.folder.join("node_modules/.bin").join(name);
        let python = |venv: &str, name: &str| self.folder.join(venv).join("bin").join(name);
        let servers = json!({
            "files": {"command": npm("mcp-server-filesystem"), "args": [scene.root()]},
            "git": {"command": python("venv", "mcp-server-git"), "args": ["--repository", scene.root().join("repo")]},
            "memory": {
                "command": npm("mcp-server-memory"), "args": [],
                "env": {"MEMORY_FILE_PATH": scene.root().join("memory.jsonl")},
            },
            "sqlite": {
                "command": python("venv-sqlite", "mcp-server-sqlite"),
                "args": ["--db-path", scene.root().join("shop.db")],
            },
            "time": {"command": python("venv", "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        });
        let config = McpConfig::from_json(&json!({"mcpServers": servers}).to_string(), "the study")?;
        let servers = McpServers::with_options(
            tools,
            McpOptions { catalogues: None, connect_within: START_WITHIN, ..McpOptions::default() },
        );
        servers.start(config)?;
        for status in servers.ready(START_WITHIN).await {
            ensure!(matches!(status.state, ServerState::Connected { .. }), "{status}");
        }
        Ok(servers)
    }

    /// The Python that the servers run on.
    pub(crate) fn python(&self) -> PathBuf {
        self.folder.join("venv/bin/python")
    }
}

/// Runs a program that has to succeed.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    if output.status.success() {
        return Ok(());
    }
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    bail!("{command:?} failed ({}):\n{out}{errors}", output.status)
}
