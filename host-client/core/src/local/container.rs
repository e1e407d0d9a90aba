//! A relay in a container, by a Docker engine.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};

use bollard::Docker;
use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error as EngineError;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, HostConfig, PortBinding};
use bollard::query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptions};
use futures_util::{Stream, StreamExt as _};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::Launch;
use super::process::{LISTENING, START_WITHIN};
use crate::error::Error;

/// The relay's program in its image.
const PROGRAM: &str = "/sandbox-relay";
/// The port that the relay listens on in its image.
const PORT: &str = "8080/tcp";
/// The address of the engine, unless another one is named.
const SOCKET: &str = "unix:///var/run/docker.sock";
/// The memory of the container, in bytes.
const MEMORY_BYTES: i64 = 1 << 30;
/// The maximum number of processes in the container.
const MAX_PROCESSES: i64 = 256;
/// The maximum length of the first line of output, in bytes, which says where the relay listens.
const MAX_LINE_BYTES: usize = 4 << 10;

/// A relay in a container; it ends with this value.
pub(super) struct Container {
    docker: Docker,
    id: String,
    /// The relay ends when this is closed, and the engine closes it when this process is gone, however it went.
    stdin: Mutex<Pin<Box<dyn AsyncWrite + Send>>>,
    /// The exit code of the container; `None`: it has not ended, or, once the sender is gone, the code is not known.
    exit: watch::Receiver<Option<i64>>,
    tasks: [AbortHandle; 2],
}

/// The output of a container.
type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, EngineError>> + Send>>;

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Container {
    /// Starts a container of an image, and returns it with the address of its relay.
    ///
    /// # Errors
    /// A text that says why there is no such relay.
    pub(super) async fn start(image: String, launch: Launch) -> Result<(Self, String), String> {
        let docker = connect(std::env::var("DOCKER_HOST").ok()).await?;
        let created = docker.create_container(None::<CreateContainerOptions>, body(&image, launch)).await;
        let id = created.map_err(|error| not_created(&image, &error))?.id;
        let failed = |error: EngineError| format!("the container of {image} could not be started: {error}");
        let started = Self::attach_and_start(docker.clone(), &id).await.map_err(failed);
        let (container, listening) = match started {
            Ok(started) => started,
            Err(reason) => {
                // A container that never started would stay for ever. The error that counts is `reason`.
                let _ = docker.remove_container(&id, None).await;
                return Err(reason);
            }
        };
        // From here on it ends with the value.
        let listens = tokio::time::timeout(START_WITHIN, listening).await;
        if !matches!(listens, Ok(Ok(()))) {
            return Err(format!("the container of {image} did not say that it listens; its log says why"));
        }
        let address = container.address().await.map_err(failed)?;
        let address = address.ok_or_else(|| format!("the container of {image} has no port {PORT}"))?;
        Ok((container, address))
    }

    /// Attaches to the container's input and output, then starts it: in this order, it cannot outlive this process.
    async fn attach_and_start(docker: Docker, id: &str) -> Result<(Self, oneshot::Receiver<()>), EngineError> {
        let streams = AttachContainerOptionsBuilder::new().stream(true).stdin(true).stdout(true).stderr(true).build();
        let AttachContainerResults { output, input } = docker.attach_container(id, Some(streams)).await?;
        docker.start_container(id, None).await?;
        let (listens, listening) = oneshot::channel();
        let (exited, exit) = watch::channel(None);
        let output = tokio::spawn(follow(output, listens)).abort_handle();
        let mut ended = Box::pin(docker.wait_container(id, None));
        let waiting = tokio::spawn(async move {
            let code = match ended.next().await {
                Some(Ok(response)) => Some(response.status_code),
                Some(Err(EngineError::DockerContainerWaitError { code, .. })) => Some(code),
                // The code is not known: the sender is dropped.
                _ => None,
            };
            exited.send_replace(code);
        });
        let tasks = [output, waiting.abort_handle()];
        Ok((Self { docker: docker.clone(), id: id.to_owned(), stdin: Mutex::new(input), exit, tasks }, listening))
    }

    /// Returns the address at which the port is published; `None`: it is not published.
    async fn address(&self) -> Result<Option<String>, EngineError> {
        let container = self.docker.inspect_container(&self.id, None).await?;
        let ports = container.network_settings.and_then(|network| network.ports);
        let bindings = ports.and_then(|mut ports| ports.remove(PORT).flatten()).unwrap_or_default();
        Ok(bindings.into_iter().find_map(|binding| Some(format!("{}:{}", binding.host_ip?, binding.host_port?))))
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn is_running(&self) -> bool {
        self.exit.borrow().is_none() && self.exit.has_changed().is_ok()
    }

    pub(super) async fn token(&self, arguments: &[&str]) -> Result<String, Error> {
        let failed = |error: EngineError| Error::Local(format!("no token could be made in the container: {error}"));
        let command = [PROGRAM, "token"].iter().chain(arguments).map(|it| (*it).to_owned()).collect();
        let options = CreateExecOptions {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command),
            ..CreateExecOptions::default()
        };
        let exec = self.docker.create_exec(&self.id, options).await.map_err(failed)?.id;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        if let StartExecResults::Attached { mut output, .. } =
            self.docker.start_exec(&exec, None).await.map_err(failed)?
        {
            while let Some(piece) = output.next().await {
                match piece.map_err(failed)? {
                    LogOutput::StdErr { message } => stderr.extend(message),
                    other => stdout.extend(other.into_bytes()),
                }
            }
        }
        let ended = self.docker.inspect_exec(&exec).await.map_err(failed)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match ended.exit_code {
            Some(0) => Ok(text(&stdout)),
            _ => Err(Error::Local(text(&stderr))),
        }
    }

    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.docker.kill_container(&self.id, None).await.map_err(io::Error::other)?;
        self.wait().await.map(drop)
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let unknown = || io::Error::other("the container engine does not say how the container ended");
        let code = *self.exit.wait_for(Option::is_some).await.map_err(|_gone| unknown())?;
        let code = code.and_then(|code| i32::try_from(code).ok()).ok_or_else(unknown)?;
        // Encoded as the system does for a process that exited.
        Ok(ExitStatus::from_raw((code & 0xff) << 8))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // It closes at once or with the connection, which goes now, too: nothing is left to wait for.
        let stdin = self.stdin.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = stdin.as_mut().poll_shutdown(&mut Context::from_waker(Waker::noop()));
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Connects to the engine at this address, by default at [`SOCKET`], and agrees on a version of its interface.
async fn connect(address: Option<String>) -> Result<Docker, String> {
    let address = address.unwrap_or_else(|| SOCKET.to_owned());
    let silent = |error: EngineError| {
        format!("no container engine answers at {address} ({error}): start one, or name another in DOCKER_HOST")
    };
    let docker = Docker::connect_with_host(&address).map_err(silent)?;
    docker.negotiate_version().await.map_err(silent)
}

fn not_created(image: &str, error: &EngineError) -> String {
    match error {
        EngineError::DockerResponseServerError { status_code: 404, .. } => format!(
            "the container engine has no image {image}: pull it, or build it in the repository of the relay with \
             `cargo xtask image`"
        ),
        other => format!("no container of {image} could be made: {other}"),
    }
}

/// Describes the container: hardened, its port on loopback, gone when it ends, ended when its input is closed.
fn body(image: &str, launch: Launch) -> ContainerCreateBody {
    let Launch { arguments, variables } = launch;
    let serve = ["serve", "--exit-with-stdin"].map(str::to_owned);
    let port = PortBinding { host_ip: Some("127.0.0.1".to_owned()), host_port: None };
    let hardened = HostConfig {
        auto_remove: Some(true),
        cap_drop: Some(vec!["ALL".to_owned()]),
        memory: Some(MEMORY_BYTES),
        pids_limit: Some(MAX_PROCESSES),
        port_bindings: Some([(PORT.to_owned(), Some(vec![port]))].into()),
        readonly_rootfs: Some(true),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        image: Some(image.to_owned()),
        cmd: Some(serve.into_iter().chain(arguments).collect()),
        env: Some(variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect()),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        stdin_once: Some(true),
        host_config: Some(hardened),
        ..ContainerCreateBody::default()
    }
}

/// Signals when the relay listens, and copies its log to standard error, where that of a child process goes, too.
async fn follow(mut output: Output, listens: oneshot::Sender<()>) {
    let (mut listens, mut line) = (Some(listens), Vec::new());
    let mut log = tokio::io::stderr();
    while let Some(Ok(piece)) = output.next().await {
        match piece {
            LogOutput::StdOut { message } if listens.is_some() && line.len() <= MAX_LINE_BYTES => {
                line.extend(message);
                if line.contains(&b'\n') && line.starts_with(LISTENING.as_bytes()) {
                    // Nobody waits any more when this fails.
                    let _ = listens.take().map(|listens| listens.send(()));
                }
            }
            // Fails only if nobody can read it.
            LogOutput::StdErr { message } => drop(log.write_all(&message).await),
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_engine_that_does_not_answer_is_named() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for address in ["unix:///nowhere/docker.sock".to_owned(), format!("tcp://{closed}"), "nonsense".to_owned()] {
            let error = connect(Some(address.clone())).await.unwrap_err();
            assert!(error.contains(&address) && error.contains("DOCKER_HOST"), "{error}");
        }
    }
}
