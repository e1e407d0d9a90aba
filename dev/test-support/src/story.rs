//! The scene of the story: three servers over one folder, the code, the rules, and what comes of them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::servers::program;

/// The code.
pub const CODE: &str = include_str!("story/code.js");
/// The rules.
pub const POLICY: &str = include_str!("story/policy.toml");

/// Makes a file, and a repository with one commit that holds it.
///
/// # Panics
/// The folder cannot be written, or git cannot be run.
pub fn prepare(root: &Path) {
    std::fs::write(root.join("a.txt"), "first line\n").unwrap();
    for arguments in [&["init", "--quiet"][..], &["add", "a.txt"], &["commit", "--quiet", "--message", "first"]] {
        let settings = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
        assert!(Command::new("git").current_dir(root).args(settings).args(arguments).status().unwrap().success());
    }
}

/// Gives the entries of an `mcpServers` file.
///
/// # Panics
/// The servers cannot be installed.
pub fn servers(root: &Path) -> Value {
    json!({
        "files": {"command": program("mcp-server-filesystem"), "args": [root]},
        "git": {"command": program("mcp-server-git"), "args": ["--repository", root]},
        "time": {"command": program("mcp-server-time"), "args": ["--local-timezone", "UTC"]},
    })
}

/// Gives what the code returns where the first question is answered with yes and the second with no.
pub fn result() -> Value {
    json!({"times": 20, "text": "first line\n", "logs": 3, "written": "written",
        "refused": "APPROVAL_DENIED", "reset": "TOOL_DENIED"})
}
