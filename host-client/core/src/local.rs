//! A relay of one's own, for development and tests: a child process with a secret made up for it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::client::ClientConfig;
use crate::error::Error;

/// The environment variable that names the relay's binary.
pub const BINARY_VARIABLE: &str = "SANDBOX_RELAY_BIN";
const BINARY: &str = "sandbox-relay";
const START_WITHIN: Duration = Duration::from_secs(30);

/// A relay on loopback that lives as long as this value; it also ends when this process does.
#[derive(Debug)]
pub struct LocalRelay {
    child: Child,
    /// Kept open: the relay ends when it is closed.
    _stdin: Option<ChildStdin>,
    address: String,
    secret: String,
    binary: PathBuf,
}

impl LocalRelay {
    /// Starts the `sandbox-relay` of the same build: the one that [`BINARY_VARIABLE`] names, else the one beside this
    /// program, else the one on the `PATH`.
    ///
    /// # Errors
    /// There is no such binary, or it does not start.
    pub async fn start() -> Result<Self, Error> {
        Self::start_with(find_binary(), &[], &[]).await
    }

    /// Starts a certain binary with further arguments and environment variables of `serve`.
    ///
    /// # Errors
    /// There is no such binary, or it does not start.
    pub async fn start_with(binary: PathBuf, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self, Error> {
        let secret = secret().map_err(|error| Error::Local(error.to_string()))?;
        let mut command = Command::new(&binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--exit-with-stdin"])
            .args(arguments)
            .env("RELAY_JWT_SECRET", &secret)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for this process: it may cancel what runs and go on.
            .process_group(0)
            .kill_on_drop(true);
        if std::env::var_os("RELAY_LOG").is_none() {
            command.env("RELAY_LOG", "warn");
        }
        let mut child = command.spawn().map_err(|error| {
            Error::Local(format!(
                "{} cannot be run: {error}; build it with `cargo build`, or name it in {BINARY_VARIABLE}",
                binary.display()
            ))
        })?;
        let stdout = child.stdout.take().ok_or_else(|| Error::Local("it has no standard output".into()))?;
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        let read = tokio::time::timeout(START_WITHIN, stdout.read_line(&mut line)).await;
        match (read, line.trim().strip_prefix("listening on ")) {
            (Ok(Ok(_)), Some(address)) => {
                let stdin = child.stdin.take();
                Ok(Self { child, _stdin: stdin, address: address.to_owned(), secret, binary })
            }
            _ => Err(Error::Local(format!("{} did not say that it listens; its log says why", binary.display()))),
        }
    }

    /// The relay's address and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The relay's process id, until it has ended.
    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Makes a token with the arguments of `sandbox-relay token`, such as `["--subject", "me"]`.
    ///
    /// # Errors
    /// The arguments are wrong.
    pub async fn token(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = Command::new(&self.binary);
        command.arg("token").args(arguments).env("RELAY_JWT_SECRET", &self.secret);
        let output = command.output().await.map_err(|error| Error::Local(error.to_string()))?;
        if !output.status.success() {
            return Err(Error::Local(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// What a client needs to connect.
    ///
    /// # Errors
    /// No token could be made.
    pub async fn client_config(&self) -> Result<ClientConfig, Error> {
        let token = self.token(&["--subject", "local"]).await?;
        Ok(ClientConfig::new(format!("ws://{}/ws", self.address), token))
    }

    /// Kills the relay at once.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn kill(&mut self) -> std::io::Result<()> {
        self.child.kill().await
    }

    /// Waits until the relay has ended by itself.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn wait(&mut self) -> std::io::Result<std::process::ExitStatus> {
        self.child.wait().await
    }
}

/// Where the relay's binary is, as far as can be known.
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

fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
