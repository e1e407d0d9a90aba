//! MCP server that is a child process: its environment, its standard error, and its end with all that it started.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::config::ProcessConfig;
use super::text::{Secrets, clip};

/// Environment variables of this process that every server gets, beside those of [`PASSED_PREFIXES`].
const PASSED: [&str; 16] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "TZ",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
/// Prefixes of further variables that every server gets: locale, folders, and settings of the package runners.
const PASSED_PREFIXES: [&str; 5] = ["LC_", "XDG_", "NPM_CONFIG_", "PIP_", "UV_"];
/// Words that keep a variable with such a prefix here: credentials of a registry are passed only if the configuration
/// names them.
const WITHHELD: [&str; 4] = ["TOKEN", "PASSWORD", "SECRET", "AUTH"];

/// Maximum time for a server to end by itself after its input is closed, and again after SIGTERM.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// Maximum time for the last lines of standard error to arrive after the end of the process.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(500);
/// Number of lines of standard error that are kept.
const KEPT_LINES: usize = 5;
/// Maximum length of a line of standard error, in bytes.
const MAX_LINE_BYTES: usize = 300;

/// Child process that leads a process group. Dropping this kills the group.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    reader: JoinHandle<()>,
}

impl Process {
    /// Starts the program, with its standard input, output and error as pipes.
    pub(super) fn spawn(
        server: &str,
        config: &ProcessConfig,
        secrets: &Secrets,
    ) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut command = Command::new(&config.command);
        command
            .args(&config.args)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_passed(name)))
            .envs(&config.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(cwd) = &config.cwd {
            command.current_dir(cwd);
        }
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("it has no standard input, output or error"));
        };
        let lines = Arc::default();
        let reader = tokio::spawn(read_stderr(server.to_owned(), stderr, secrets.clone(), Arc::clone(&lines)));
        Ok((Self { child, group, stderr: lines, reader }, stdout, stdin))
    }

    /// Waits until the child has ended, without reaping it: until it is reaped, its process id, which names the group,
    /// is not reused.
    pub(super) async fn ended(&self) {
        // Without SIGCHLD, the end of the child's output is the only sign.
        let Ok(mut ends) = signal(SignalKind::child()) else { return std::future::pending().await };
        while !self.has_ended() {
            ends.recv().await;
        }
    }

    fn has_ended(&self) -> bool {
        let Some(group) = self.group else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(rustix::process::waitid(WaitId::Pid(group), options), Ok(None))
    }

    /// Ends the child, whose input is closed: waits 2 s, sends SIGTERM, waits 2 s, then kills the whole group.
    pub(super) async fn close(&mut self) {
        if timeout(ENDS_WITHIN, self.ended()).await.is_err() {
            self.signal(Signal::TERM);
            // The result does not matter: the group is killed next.
            let _ = timeout(ENDS_WITHIN, self.ended()).await;
        }
        self.kill().await;
    }

    /// Kills what is left of the group, and reaps the child. Returns the exit status (`None` if it had to be killed)
    /// and the last lines of standard error.
    pub(super) async fn kill(&mut self) -> (Option<ExitStatus>, Vec<String>) {
        let ended_by_itself = self.has_ended();
        self.signal(Signal::KILL);
        let status = self.child.wait().await.ok();
        self.group = None;
        // A process that left the group may keep the pipe open forever.
        if !self.reader.is_finished() {
            let _ = timeout(LAST_WORDS_WITHIN, &mut self.reader).await;
        }
        let lines = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        (status.filter(|_| ended_by_itself), lines)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may be gone already.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.reader.abort();
    }
}

/// Returns `true` if every server gets this environment variable.
fn is_passed(name: &OsString) -> bool {
    let Some(name) = name.to_str().map(str::to_ascii_uppercase) else { return false };
    let has_prefix = PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    PASSED.contains(&name.as_str()) || has_prefix && !WITHHELD.iter().any(|word| name.contains(word))
}

/// Logs each line of standard error without secrets, and keeps the last ones.
async fn read_stderr(server: String, stderr: ChildStderr, secrets: Secrets, lines: Arc<Mutex<VecDeque<String>>>) {
    let mut stderr = BufReader::new(stderr);
    while let Ok(Some(line)) = next_line(&mut stderr).await {
        let line = secrets.hide_in(line);
        tracing::debug!(server, line, "an MCP server's standard error");
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(clip(&line, MAX_LINE_BYTES));
    }
}

/// Returns the next line that is not blank, in pieces of at most 8 KiB; `None` at the end.
async fn next_line(reader: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<String>> {
    loop {
        let mut bytes = Vec::new();
        if reader.take(8 << 10).read_until(b'\n', &mut bytes).await? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end();
        if !line.trim_start().is_empty() {
            return Ok(Some(line.to_owned()));
        }
    }
}
