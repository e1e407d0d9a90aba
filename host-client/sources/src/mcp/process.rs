//! A server that is a child process: what it gets from this one, what it says, and its end, with all that it started.

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
use super::words::{Secrets, clip};

/// What a server gets of this process's environment, beside the names that begin with one of `PASSED_PREFIXES`.
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
/// Locale and folders, and how the package runners reach their registries.
const PASSED_PREFIXES: [&str; 5] = ["LC_", "XDG_", "NPM_CONFIG_", "PIP_", "UV_"];
/// What such a name never holds, so that a registry's credentials stay here unless the file passes them on.
const KEPT: [&str; 4] = ["TOKEN", "PASSWORD", "SECRET", "AUTH"];

/// How long a server may take to end by itself, first when its input is closed, then when it is asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// How long the last words of a server that ended may take to arrive.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(500);
/// How much of the standard error is kept.
const KEPT_LINES: usize = 5;
const LINE_BYTES: usize = 300;

/// A child process that leads a process group, which is killed as a whole when this is dropped.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    reader: JoinHandle<()>,
}

impl Process {
    /// Starts it.
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

    /// Waits until the child has ended, and leaves it to be reaped: until then its number, by which its group is killed, is
    /// nobody else's.
    pub(super) async fn ended(&self) {
        // Where signals cannot be had, the child's closed output has to do.
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

    /// Gives the child, whose input is closed, time to end by itself, then asks it to, then kills it and its group.
    pub(super) async fn close(&mut self) {
        if timeout(ENDS_WITHIN, self.ended()).await.is_err() {
            self.signal(Signal::TERM);
            // Whether it obeyed does not matter: the group is killed next.
            let _ = timeout(ENDS_WITHIN, self.ended()).await;
        }
        self.kill().await;
    }

    /// Kills what is left of the group, and reaps the child. Gives how the child ended, and its last words.
    pub(super) async fn kill(&mut self) -> (Option<ExitStatus>, Vec<String>) {
        let ended_by_itself = self.has_ended();
        self.signal(Signal::KILL);
        let status = self.child.wait().await.ok();
        self.group = None;
        // A process that left the group may keep the pipe open for ever.
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

fn is_passed(name: &OsString) -> bool {
    let Some(name) = name.to_str().map(str::to_ascii_uppercase) else { return false };
    let has_prefix = PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    PASSED.contains(&name.as_str()) || has_prefix && !KEPT.iter().any(|kept| name.contains(kept))
}

/// Logs what the server says there, and keeps the end of it.
async fn read_stderr(server: String, stderr: ChildStderr, secrets: Secrets, lines: Arc<Mutex<VecDeque<String>>>) {
    let mut stderr = BufReader::new(stderr);
    while let Ok(Some(line)) = next_line(&mut stderr).await {
        let line = secrets.hide_in(line);
        tracing::debug!(server, line, "an MCP server's standard error");
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(clip(&line, LINE_BYTES));
    }
}

/// The next line that is not blank; a very long one comes in pieces.
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
