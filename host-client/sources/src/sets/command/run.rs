//! Starts a program, reads what it says, and sees to its end.

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

/// How long outputs are still read after the program has ended and its group was killed: what left the group may hold
/// them open.
const DRAIN: Duration = Duration::from_secs(1);

/// What is started, and in what surroundings.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) output_bytes: usize,
}

/// How a program ended, and what it said.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Ended {
    /// Its exit status; `null` if a signal ended it.
    status: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// What is not UTF-8 stands as U+FFFD. If it was cut, it ends in a line that says so.
    stdout: String,
    stderr: String,
    /// An output was cut.
    truncated: bool,
}

/// Why a program did not come to an end of its own.
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
    pub(super) fn into_tool_error(self) -> ToolError {
        match self {
            Self::Deadline => ToolError::outcome_unknown(self.to_string()),
            Self::Start(_) | Self::Wait(_) => self.into(),
        }
    }
}

/// Kills a program with all that it started, when dropped.
struct GroupGuard(Pid);

impl GroupGuard {
    fn kill(&self) {
        // There may be nobody left.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The beginning of an output.
struct Captured<R> {
    output: Option<R>,
    kept: Vec<u8>,
    most: usize,
    seen: u64,
}

/// Runs the program to its end, or until the deadline.
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
    // Dropped before the child, whose pid is its own, and its group's, until then.
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
                // What is still missing then is held open by a process that nobody can reach.
                let _ = timeout(DRAIN, talk).await;
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

fn pid(child: &Child) -> io::Result<Pid> {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// Waits for the end of the program and leaves it to be waited for once more, so that its pid, which is also that of
/// its group, is nobody else's before the group is killed.
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

/// Writes the input. A program need not read it.
async fn feed(stdin: Option<(ChildStdin, String)>) {
    if let Some((mut stdin, input)) = stdin {
        // That the program does not read on is its own business.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
}

impl<R: AsyncRead + Unpin> Captured<R> {
    fn new(output: Option<R>, most: usize) -> Self {
        Self { output, kept: Vec::new(), most, seen: 0 }
    }

    /// Reads to the end, and keeps what there is room for: a program that says more must not wait for ever.
    async fn fill(&mut self) {
        let Some(output) = &mut self.output else { return };
        let mut buffer = vec![0; 16 << 10];
        // An output that cannot be read any more has ended.
        while let Ok(read @ 1..) = output.read(&mut buffer).await {
            self.seen += read as u64;
            let room = (self.most - self.kept.len()).min(read);
            self.kept.extend_from_slice(&buffer[..room]);
        }
    }

    fn is_cut(&self) -> bool {
        self.seen > self.kept.len() as u64
    }

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
