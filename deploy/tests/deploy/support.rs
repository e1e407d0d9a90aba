//! Files of this repository, relays and servers that end with a test, and what libraries of Python say.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use host_client::{Client, ClientConfig, Effect, ExecuteRequest, LocalRelay, ToolError, Tools};
use relay_test_support::packages::{Environment, Packages, target_folder};
use relay_test_support::within;
use serde_json::Value;

/// Secret of all relays of a test.
pub(crate) const SECRET: &str = "a secret of the tests of deploy, which is long enough";
/// Script that runs a server until standard input is closed, as the end of the test does.
const WATCHDOG: &str = r#""$@" & server=$!; read -r _; kill "$server"; wait "$server""#;

const TOOLS: Packages = Packages {
    name: "deploy",
    pins: &[("requirements.txt", include_str!("../requirements.txt"))],
    environments: &[Environment { folder: "venv", requirements: "requirements.txt" }],
};

/// Returns the path of a file or folder of this repository.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).canonicalize().unwrap_or_else(|_| panic!("no {name}"))
}

/// Reads a file of this repository.
pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

/// Returns the flags of the README's `docker run`, each with its value as `--name=value`.
pub(crate) fn docker_run() -> Vec<String> {
    let readme = read("README.md").replace("\\\n", " ");
    let line = readme.lines().find(|line| line.starts_with("docker run") && line.contains("--read-only")).unwrap();
    let mut words = line.split_ascii_whitespace().skip(2).peekable();
    let mut flags = Vec::new();
    while let Some(word) = words.next().filter(|word| word.starts_with('-')) {
        let value = words.next_if(|next| {
            ["-p", "-e", "--security-opt", "--memory", "--pids-limit"].contains(&word) && !next.starts_with('-')
        });
        flags.push(value.map_or_else(|| word.to_owned(), |value| format!("{word}={value}")));
    }
    assert!(flags.len() > 6, "{flags:?}");
    flags
}

/// Finds the relay as cargo built it beside these tests.
pub(crate) fn relay_binary() -> PathBuf {
    let binary = target_folder().unwrap().join("debug/sandbox-relay");
    assert!(binary.is_file(), "`cargo build --package sandbox-relay` builds {}", binary.display());
    binary
}

/// Starts a relay; all of them take the same tokens.
pub(crate) async fn relay(arguments: &[&str]) -> LocalRelay {
    relay_with(arguments, &[("RELAY_JWT_SECRET", SECRET)]).await
}

/// Starts a relay with these environment variables.
pub(crate) async fn relay_with(arguments: &[&str], variables: &[(&str, &str)]) -> LocalRelay {
    within(LocalRelay::start_with(relay_binary(), arguments, variables)).await.unwrap()
}

/// Returns how to connect to an address with a token of this subject, which all relays accept.
pub(crate) fn config(address: &str, subject: &str) -> ClientConfig {
    let mut command = Command::new(relay_binary());
    let output = command.args(["token", "--subject", subject]).env("RELAY_JWT_SECRET", SECRET).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ClientConfig::new(format!("ws://{address}/ws"), String::from_utf8(output.stdout).unwrap().trim())
}

/// Connects to an address with a token of this subject.
pub(crate) async fn connect(address: &str, subject: &str) -> Client {
    let tools = Tools::new();
    tools
        .add(
            "test.echo",
            "Returns its arguments",
            Effect::ReadOnly,
            |args: serde_json::Map<String, Value>| async move { Ok::<_, ToolError>(args) },
        )
        .unwrap();
    within(Client::connect(config(address, subject), tools)).await.unwrap()
}

/// Runs code that calls a tool, at the relay.
pub(crate) async fn execute(client: &Client) {
    let request = ExecuteRequest::new("return (await mcp.call('test.echo', {a: 1})).a + 1").always_in_sandbox();
    assert_eq!(within(client.run(request)).await.unwrap().value().unwrap(), 2);
}

/// Returns an address of 127.0.0.1 that is probably still free.
pub(crate) fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Waits until a question has this answer.
pub(crate) async fn until(condition: impl AsyncFn() -> bool) {
    within(async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Server that is told to end when this is dropped, or when the test is killed.
pub(crate) struct Server(Child);

impl Server {
    /// Starts a server, whose output goes to a file.
    pub(crate) fn start(command: &[&str], log: &Path) -> Self {
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", WATCHDOG, "sh"]).args(command).stdin(Stdio::piped());
        let log = std::fs::File::create(log).unwrap();
        Self(watchdog.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Runs a program and returns whether it succeeds, with all that it prints.
pub(crate) fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), texts.concat())
}

/// Asks a library of Python by `deploy/tests/tools/facts.py`.
///
/// # Panics
/// It fails: its message is that of the library.
pub(crate) fn facts(arguments: &[&str], input: &Value) -> Value {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let installed = target_folder().and_then(|target| TOOLS.install_below(&target.join("tmp")));
        installed.unwrap_or_else(|error| panic!("the packages of deploy/tests/requirements.txt cannot be had: {error}"))
    });
    let mut python = Command::new(folder.join("venv/bin/python"));
    python.arg(path("deploy/tests/tools/facts.py")).args(arguments);
    let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that needs no input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.to_string().as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
