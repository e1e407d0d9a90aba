//! A folder for one test: the files in it, the program run in it, and what is left of the processes it started.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use host_client::local::BINARY_VARIABLE;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::within;

pub(crate) struct Folder(TempDir);

/// The exit status of the program, and its output.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes `mcp.json` with the server of `tests/mcp/fake.py`, in one of its modes.
    pub(crate) fn fake_server(&self, mode: &str) -> &Self {
        self.servers(json!({"fake": self.fake(mode)}))
    }

    /// The entry of that server.
    pub(crate) fn fake(&self, mode: &str) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/suite/mcp/fake.py");
        json!({"command": "python3", "args": [script, mode], "env": {"NOTES": self.path("notes")}})
    }

    pub(crate) fn servers(&self, servers: Value) -> &Self {
        self.file("mcp.json", json!({"mcpServers": servers}).to_string())
    }

    /// A program in this folder, with nothing of the environment that the test runs in, and without its terminal.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_by(&["setsid"], arguments)
    }

    /// The same, started by another program.
    pub(crate) fn command_by(&self, by: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new(by[0]);
        command.args(&by[1..]).arg(env!("CARGO_BIN_EXE_relay-host")).args(arguments);
        let kept = ["PATH", BINARY_VARIABLE].map(|name| (name, std::env::var_os(name)));
        command
            .env_clear()
            .envs(kept.into_iter().filter_map(|(name, value)| Some((name, value?))))
            .env("HOME", self.0.path())
            // Passed on to every process, which is known by it.
            .env("XDG_CACHE_HOME", self.0.path())
            .env("TERM", "xterm")
            .current_dir(self.0.path())
            .kill_on_drop(true);
        command
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Ended {
        self.run_with("", arguments).await
    }

    /// Runs the program with a standard input.
    pub(crate) async fn run_with(&self, input: &str, arguments: &[&str]) -> Ended {
        finish(self.command(arguments), input).await
    }

    /// The processes that were started from here, with their command lines.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let mark = format!("XDG_CACHE_HOME={}", self.0.path().display());
        processes(|id| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
    }
}

/// The processes that live and that fit.
pub(crate) fn processes(fits: impl Fn(i32) -> bool) -> Vec<(i32, String)> {
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let ids = names.filter_map(|name| name.to_str().and_then(|name| name.parse().ok()));
    let living = ids.filter(|id| lives(*id) && fits(*id));
    living.map(|id| (id, command_line(id))).collect()
}

pub(crate) fn lives(id: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

fn command_line(id: i32) -> String {
    let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Runs a program to its end.
pub(crate) async fn finish(mut command: Command, input: &str) -> Ended {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that does not read it is no fault.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = within(child.wait_with_output()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Ended {
    /// Returns the value that was printed; checks that the program succeeded without a message.
    pub(crate) fn value(self) -> Value {
        assert_eq!((self.status, &*self.err), (Some(0), ""), "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the message of a program; checks that it failed with this status and printed no value.
    pub(crate) fn error(self, status: i32) -> String {
        assert_eq!((self.status, &*self.out), (Some(status), ""), "{self:?}");
        assert!(self.err.starts_with("relay-host: ") || self.err.starts_with("error: "), "{self:?}");
        self.err
    }

    /// That a program failed, and said these words.
    pub(crate) fn says(self, status: i32, words: &[&str]) {
        let error = self.error(status);
        for word in words {
            assert!(error.contains(word), "{word:?} is not in: {error}");
        }
    }
}

impl AsRef<OsStr> for Folder {
    fn as_ref(&self) -> &OsStr {
        self.0.path().as_os_str()
    }
}
