//! A relay in a child process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::Launch;
use crate::error::Error;

/// The environment variable that names the relay's program.
pub const BINARY_VARIABLE: &str = "SANDBOX_RELAY_BIN";
const BINARY: &str = "sandbox-relay";
/// The time that a relay may take until it listens.
pub(super) const START_WITHIN: Duration = Duration::from_secs(30);
/// The text that a relay prints when it listens, before its address.
pub(super) const LISTENING: &str = "listening on ";

/// A relay in a child process; it ends with this value.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Kept open: the relay ends when it is closed.
    _stdin: Option<ChildStdin>,
    binary: PathBuf,
    variables: Vec<(String, String)>,
}

impl Process {
    /// Starts the relay's program, and returns it with the address that it listens on.
    ///
    /// # Errors
    /// A text that says why it does not listen.
    pub(super) async fn start(binary: PathBuf, launch: Launch) -> Result<(Self, String), String> {
        let Launch { arguments, variables } = launch;
        let mut command = Command::new(&binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--exit-with-stdin"])
            .args(arguments)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for this process: it may cancel what runs and go on.
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| cannot_be_run(&binary, &error))?;
        let stdout = child.stdout.take().ok_or("it has no standard output")?;
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        let read = tokio::time::timeout(START_WITHIN, stdout.read_line(&mut line)).await;
        match (read, line.trim().strip_prefix(LISTENING)) {
            (Ok(Ok(_)), Some(address)) => {
                let stdin = child.stdin.take();
                Ok((Self { child, _stdin: stdin, binary, variables }, address.to_owned()))
            }
            _ => Err(format!("{} did not say that it listens; its log says why", binary.display())),
        }
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(super) async fn token(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = Command::new(&self.binary);
        command.arg("token").args(arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = command.output().await.map_err(|error| Error::Local(error.to_string()))?;
        if !output.status.success() {
            return Err(Error::Local(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }
}

/// Explains why the program cannot be run, and how to get it, with and without the repository of the relay.
fn cannot_be_run(binary: &Path, error: &io::Error) -> String {
    let binary = binary.display();
    if error.kind() != io::ErrorKind::NotFound {
        return format!("{binary} cannot be run: {error}; another program can be named in {BINARY_VARIABLE}");
    }
    format!(
        "there is no program {binary}. In the repository of the relay, `cargo build` makes it. Elsewhere, install it from a \
         checkout with `cargo install --path sandbox-relay`, or name it in {BINARY_VARIABLE}; or run its image with \
         `LocalRelay::in_container` and the feature `container`"
    )
}

/// Finds the relay's program: the one that [`BINARY_VARIABLE`] names, else the one beside this program, else the one on the
/// `PATH`.
pub fn find_binary() -> PathBuf {
    if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
        return path.into();
    }
    let program = std::env::current_exe().unwrap_or_default();
    // Tests and examples lie one folder deeper than programs.
    let folders = program.parent().into_iter().flat_map(|folder| folder.ancestors().take(2));
    let beside = folders.map(|folder| folder.join(BINARY)).find(|path| path.is_file());
    beside.unwrap_or_else(|| Path::new(BINARY).into())
}

/// Generates a random secret for tokens: 32 bytes in hex.
pub(super) fn secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
