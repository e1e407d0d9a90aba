//! Starts a program, reads its outputs, and makes sure that it ends.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, timeout, timeout_at};

use host_client_core::tool::ToolError;

/// Maximum time to read the outputs after the program has ended and its group was killed: a process that left the group
/// may hold them open.
const DRAINS_WITHIN: Duration = Duration::from_secs(1);

/// Program with its folder, environment and limits.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) output_bytes: usize,
}

/// Result of a program that ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Ended {
    /// Exit status of the program; `null` if a signal ended it.
    status: Option<i32>,
    /// Number of the signal that ended the program; absent if it exited by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// Standard output. Bytes that are not UTF-8 become U+FFFD. A cut output ends in a line that says so.
    stdout: String,
    /// Standard error, in the same form.
    stderr: String,
    /// `true`: an output was cut.
    truncated: bool,
}

/// Failure of a program to start or to end in time.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("the program could not be started")]
    Start(#[source] io::Error),
    #[error("the program could not be waited for")]
    Wait(#[source] io::Error),
    #[error("the program did not end within the time of the call and was killed; what it had done by then stays done")]
    Deadline,
}

impl RunError {
    /// Converts the failure to the error that code receives. A program that was killed at its deadline is
    /// `OUTCOME_UNKNOWN`.
    pub(super) fn into_tool_error(self) -> ToolError {
        match self {
            Self::Deadline => ToolError::outcome_unknown(self.to_string()),
            Self::Start(_) | Self::Wait(_) => self.into(),
        }
    }
}

/// Guard that kills the process group of a program when dropped.
struct GroupGuard(Pid);

impl GroupGuard {
    fn kill(&self) {
        // The group may be gone already.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Beginning of an output, and how long it is.
struct Captured<R> {
    output: Option<R>,
    kept: Vec<u8>,
    most: usize,
    seen: u64,
}

/// Runs the program until it ends, or kills it at the deadline.
///
/// # Errors
/// [`RunError::Deadline`] if it was killed, [`RunError::Start`] and [`RunError::Wait`] if the operating system fails.
pub(super) async fn run(
    program: &Program,
    argv: &[String],
    input: Option<String>,
    deadline: Instant,
) -> Result<Ended, RunError> {
    let mut child = Command::new(&program.path)
        .args(argv)
        .env_clear()
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&program.folder)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(RunError::Start)?;
    let pid = pid(&child).map_err(RunError::Start)?;
    // Dropped before the child: until the child is reaped, its pid, which names the group, is not reused.
    let group = GroupGuard(pid);
    let mut stdout = Captured::new(child.stdout.take(), program.output_bytes);
    let mut stderr = Captured::new(child.stderr.take(), program.output_bytes);
    let stdin = child.stdin.take().zip(input);
    let ended = async {
        let talk = async { tokio::join!(feed(stdin), stdout.fill(), stderr.fill()) };
        tokio::pin!(talk);
        let exit = exit(pid);
        tokio::pin!(exit);
        tokio::select! {
            exited = &mut exit => {
                exited?;
                group.kill();
                // After this time the outputs are held open by a process that left the group.
                let _ = timeout(DRAINS_WITHIN, talk).await;
                Ok(())
            }
            _ = &mut talk => exit.await,
        }
    };
    timeout_at(deadline, ended).await.map_err(|_elapsed| RunError::Deadline)?.map_err(RunError::Wait)?;
    drop(group);
    let status = child.wait().await.map_err(RunError::Wait)?;
    let truncated = stdout.is_cut() || stderr.is_cut();
    let (stdout, stderr) = (stdout.into_text(), stderr.into_text());
    Ok(Ended { status: status.code(), signal: status.signal(), stdout, stderr, truncated })
}

/// Returns the process id of a child that was not reaped.
fn pid(child: &Child) -> io::Result<Pid> {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// Waits for the end of the program without reaping it, so that its pid, which names the group, is not reused before
/// the group is killed.
async fn exit(pid: Pid) -> io::Result<()> {
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(pid), options) {
                Err(rustix::io::Errno::INTR) => {}
                done => return done.map(drop).map_err(io::Error::from),
            }
        }
    };
    tokio::task::spawn_blocking(wait).await?
}

/// Writes the input to the program.
async fn feed(stdin: Option<(ChildStdin, String)>) {
    if let Some((mut stdin, input)) = stdin {
        // A program need not read all its input.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
}

impl<R: AsyncRead + Unpin> Captured<R> {
    fn new(output: Option<R>, most: usize) -> Self {
        Self { output, kept: Vec::new(), most, seen: 0 }
    }

    /// Reads to the end and keeps the beginning, so that a program that prints more is not blocked.
    async fn fill(&mut self) {
        let Some(output) = &mut self.output else { return };
        let mut buffer = vec![0; 16 << 10];
        // A read error ends the output.
        while let Ok(read @ 1..) = output.read(&mut buffer).await {
            self.seen += read as u64;
            let room = (self.most - self.kept.len()).min(read);
            self.kept.extend_from_slice(&buffer[..room]);
        }
    }

    fn is_cut(&self) -> bool {
        self.seen > self.kept.len() as u64
    }

    /// Returns the text that was kept, with a last line that says if it was cut.
    fn into_text(self) -> String {
        let (cut, seen) = (self.is_cut(), self.seen);
        let mut kept = self.kept;
        if let Err(error) = std::str::from_utf8(&kept)
            && cut
            && error.error_len().is_none()
        {
            kept.truncate(error.valid_up_to());
        }
        let mut text = String::from_utf8_lossy(&kept).into_owned();
        if cut {
            text.push_str(&format!("\n[cut: the first {} of {seen} bytes]", kept.len()));
        }
        text
    }
}
