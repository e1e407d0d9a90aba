//! The relay in a container, started as users start it: connects, runs a real script, and breaks things.
//!
//! `cargo xtask test` builds the image and names it in RELAY_TEST_IMAGE. Without an image these tests fail; they are
//! never skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host_client::{
    Approval, CallbackApprover, Client, ClientConfig, Effect, Error, ErrorCode, ExecuteRequest, Host, LimitName,
    LocalRelay, McpConfig, McpServers, TokenRequest, ToolError, Tools,
};
use relay_test_support::{PATIENCE, servers, within};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;

const SECRET: &str = "a secret of the container tests, long enough";

fn docker() -> Command {
    Command::new(std::env::var_os("RELAY_TEST_DOCKER").unwrap_or_else(|| "docker".into()))
}

fn image() -> String {
    std::env::var("RELAY_TEST_IMAGE").expect("RELAY_TEST_IMAGE names no image: run `cargo xtask test`")
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A relay in a container that is gone with this value.
struct Container {
    id: String,
    url: String,
}

impl Container {
    /// Starts it hardened, with limits on memory and processes, and waits until it is ready.
    fn start(arguments: &[&str]) -> Self {
        let mut command = docker();
        command.args(["run", "--detach", "--rm", "--publish", "127.0.0.1::8080"]);
        command.args(["--read-only", "--cap-drop=ALL", "--security-opt", "no-new-privileges"]);
        command.args(["--memory", "512m", "--pids-limit", "128", "--env"]).arg(format!("RELAY_JWT_SECRET={SECRET}"));
        let id = output(command.arg(image()).arg("serve").args(arguments));
        let port = output(docker().args(["port", &id, "8080/tcp"]));
        let container = Self { url: format!("ws://{}/ws", port.lines().next().unwrap()), id };
        let started = Instant::now();
        while !container.exec(&["/sandbox-relay", "healthcheck"]) {
            assert!(started.elapsed() < PATIENCE, "it does not get ready: {}", container.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
        container
    }

    fn exec(&self, command: &[&str]) -> bool {
        docker().args(["exec", &self.id]).args(command).output().unwrap().status.success()
    }

    fn logs(&self) -> String {
        let output = docker().args(["logs", &self.id]).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    fn token(&self) -> String {
        self.token_with(&[])
    }

    fn token_with(&self, arguments: &[&str]) -> String {
        let mut command = docker();
        command.args(["run", "--rm", "--env"]).arg(format!("RELAY_JWT_SECRET={SECRET}"));
        output(command.arg(image()).args(["token", "--subject", "container"]).args(arguments))
    }

    async fn connect(&self, host: impl Into<Arc<Host>>) -> Client {
        Client::connect(ClientConfig::new(&self.url, self.token()), host).await.unwrap()
    }

    /// Returns the process id of the relay, as the engine's machine sees it.
    fn relay(&self) -> String {
        output(docker().args(["inspect", "--format", "{{.State.Pid}}", &self.id]))
    }

    /// Returns the process ids of the relay and all its descendants, zombies too. (`docker top` needs a `ps` beside the
    /// engine.)
    fn processes(&self) -> Vec<String> {
        let names = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let all: Vec<_> = names.map(|pid| (status(&pid, "PPid"), pid)).collect();
        let mut found = vec![self.relay()];
        let mut next = 0;
        while let Some(pid) = found.get(next).cloned() {
            found.extend(all.iter().filter(|(parent, _)| *parent == pid).map(|(_, child)| child.clone()));
            next += 1;
        }
        assert!(found.len() > 1, "the relay has a process that forks the others; is the engine on another machine?");
        found
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = docker().args(["rm", "--force", &self.id]).output();
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ReadArgs {
    path: String,
}

/// Creates tools over this repository's own sources.
fn tools() -> Tools {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../proto/src");
    let tools = Tools::new();
    let folder = root.clone();
    tools
        .add(
            "files.list",
            "The source files",
            Effect::ReadOnly,
            move |_: serde_json::Map<String, serde_json::Value>| {
                let folder = folder.clone();
                async move {
                    let mut names = Vec::new();
                    for entry in std::fs::read_dir(folder)? {
                        let entry = entry?;
                        if entry.file_type()?.is_file() {
                            names.extend(entry.file_name().into_string().ok());
                        }
                    }
                    Ok::<_, ToolError>(names)
                }
            },
        )
        .unwrap();
    tools
        .add("files.read", "The text of a file", Effect::ReadOnly, move |ReadArgs { path }: ReadArgs| {
            let path = root.join(path);
            async move { Ok::<_, ToolError>(tokio::fs::read_to_string(path).await?) }
        })
        .unwrap();
    tools
}

#[tokio::test(flavor = "multi_thread")]
async fn real_mcp_servers_and_a_person_answer_code_in_a_container() {
    let container = Container::start(&[]);
    let (tools, folder) = (Tools::new(), tempfile::tempdir().unwrap());
    let servers = McpServers::new(&tools);
    let root = folder.path().canonicalize().unwrap();
    let config = json!({"mcpServers": {
        "files": {"command": servers::program("mcp-server-filesystem"), "args": [root]},
        "time": {"command": servers::program("mcp-server-time"), "args": ["--local-timezone", "UTC"]},
    }});
    // They become known to the relay while it is connected.
    let host = Host::new(tools.clone()).approver(CallbackApprover::new("a test", |_| async {
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        Approval::Once
    }));
    let client = container.connect(host).await;
    servers.start(McpConfig::from_json(&config.to_string(), "a test").unwrap()).unwrap();
    within(servers.ready(PATIENCE)).await;
    let code = "const path = read_input() + '/a.txt';
        await mcp.call('files.write_file', {path, content: 'written from a container'});
        const [time, text] = await Promise.all([
            mcp.call('time.get_current_time', {timezone: 'Asia/Tokyo'}), mcp.call('files.read_text_file', {path})]);
        return [time.timezone, text.content]";
    let outcome = loop {
        // The relay hears of new tools a moment later. The person takes longer than the code may.
        let request =
            ExecuteRequest::new(code).always_in_sandbox().io(root.to_str().unwrap()).limit(LimitName::WallMs, 2_000);
        match within(client.run(request)).await {
            Err(Error::Execution(error)) if error.message.contains("there is no server") => {}
            outcome => break outcome.unwrap(),
        }
    };
    assert_eq!(outcome.value().unwrap(), json!(["Asia/Tokyo", "written from a container"]));
    assert!(outcome.usage.approval >= Duration::from_millis(2_400), "writing is asked about: {:?}", outcome.usage);
    within(servers.close()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_script_runs_in_a_hardened_container() {
    let container = Container::start(&[]);
    let client = container.connect(tools()).await;
    let code = "const names = await mcp.call('files.list'); \
        const texts = await Promise.all(names.map((path) => mcp.call('files.read', {path}))); \
        return Object.fromEntries(names.map((name, i) => [name, texts[i].split('\\n').length]))";
    let outcome = within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await.unwrap();
    let lines = outcome.value().unwrap();
    let text =
        std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../proto/src/frame.rs")).unwrap();
    assert_eq!(lines["frame.rs"], json!(text.split('\n').count()));

    // Hostile code ends alone, and the code after it works, in the same container.
    for (code, expected) in [
        ("for(;;){}", ErrorCode::Timeout),
        ("[].indexOf.call({length: 2**53 - 1}, 1)", ErrorCode::Timeout),
        ("const a = []; for(;;) a.push([1])", ErrorCode::MemoryLimit),
    ] {
        let request = ExecuteRequest::new(code)
            .always_in_sandbox()
            .limit(LimitName::WallMs, if expected == ErrorCode::Timeout { 300 } else { 30_000 });
        let error = within(client.run(request)).await.unwrap_err();
        assert!(error.code().is_some_and(|code| *code == expected), "{code}: {error}");
        assert_eq!(within(client.run(ExecuteRequest::new("return 1"))).await.unwrap().value().unwrap(), json!(1));
    }

    // More executions than the container's memory admits at once wait for their turn.
    let runs = (0..24).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            client.run(ExecuteRequest::new(format!("return {n}")).always_in_sandbox()).await.unwrap().value().unwrap()
        })
    });
    for (n, run) in runs.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(within(run).await.unwrap(), json!(n));
    }
    assert!(!container.logs().contains(&container.token()[..40]), "no token in the log");
}

/// Returns a field of the kernel's status of a process, as the engine's machine sees it, which is this one.
fn status(pid: &str, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    value.unwrap_or_default().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_locked_and_the_relay_is_closed_in_a_hardened_container() {
    let container = Container::start(&["--worker-stock", "2"]);
    let relay = container.relay();
    // The engine has a filter of its own; a worker has three more.
    let filters = |pid: &str| status(pid, "Seccomp_filters").parse::<u32>().unwrap_or(0);
    let started = Instant::now();
    let locked = loop {
        let processes = container.processes();
        let locked: Vec<_> = processes.into_iter().filter(|pid| filters(pid) == filters(&relay) + 3).collect();
        if locked.len() == 2 {
            break locked;
        }
        assert!(started.elapsed() < PATIENCE, "{locked:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    for pid in &locked {
        assert_eq!((status(pid, "Seccomp"), status(pid, "NoNewPrivs")), ("2".into(), "1".into()));
        assert_eq!((status(pid, "CapEff"), status(pid, "Uid")), ("0".repeat(16), ["65534"; 4].join("\t")));
    }
    let look = |pid: &str, file: &str| {
        let mut command = Command::new("cat");
        std::os::unix::process::CommandExt::uid(&mut command, 65_534);
        command.arg(format!("/proc/{pid}/{file}")).output().unwrap().status.success()
    };
    assert!(look("self", "environ"), "the test can read what it may");
    assert!(look(&relay, "status"), "it is the same user's process");
    for file in ["environ", "mem", "maps"] {
        assert!(!look(&relay, file), "{file} of the relay can be read");
    }
    let mut self_test = docker();
    self_test.args(["run", "--rm", "--read-only", "--cap-drop=ALL", "--security-opt", "no-new-privileges"]);
    let report = output(self_test.arg(image()).arg("self-test"));
    assert!(report.lines().count() > 60 && !report.contains("FAIL"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_containers_memory_runs_out_a_worker_goes_and_not_the_relay() {
    let container = Container::start(&[]);
    let token = container.token_with(&["--limit", "memory_bytes=1073741824", "--limit", "heap_bytes=536870912"]);
    let client = Client::connect(ClientConfig::new(&container.url, token), Tools::new()).await.unwrap();
    // More than the container has.
    let code = "const all = []; for (let i = 0; i < 90; i++) all.push(new Uint8Array(1e7).fill(1)); return all.length";
    let error = within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await.unwrap_err();
    assert!(error.code().is_some_and(|code| *code == ErrorCode::WorkerLost), "{error}");
    assert!(error.to_string().contains("memory"), "{error}");
    let outcome = within(client.run(ExecuteRequest::new("return 'the same session'"))).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!("the same session"));
}

#[tokio::test(flavor = "multi_thread")]
async fn process_1_leaves_no_zombies_and_stops_when_told() {
    let container = Container::start(&["--worker-stock", "2", "--worker-forks", "20"]);
    let client = container.connect(tools()).await;
    for _ in 0..60 {
        within(client.run(ExecuteRequest::new("return 1"))).await.unwrap();
    }
    // The relay, its forking process, the successor of that, and two workers that wait.
    let started = Instant::now();
    while container.processes().len() > 5 {
        assert!(started.elapsed() < PATIENCE, "{:?}", container.processes());
        std::thread::sleep(Duration::from_millis(50));
    }
    let stopping = Instant::now();
    output(docker().args(["stop", "--time", "30", &container.id]));
    assert!(stopping.elapsed() < Duration::from_secs(20), "SIGTERM ends it, not the SIGKILL after it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_container_ends_its_calls_when_the_client_gives_it_up() {
    let container = Container::start(&[]);
    let called = Arc::new(Notify::new());
    let tools = Tools::new();
    let notify = Arc::clone(&called);
    tools
        .add(
            "never.answer",
            "Waits for ever",
            Effect::ReadOnly,
            move |_: serde_json::Map<String, serde_json::Value>| {
                notify.notify_one();
                std::future::pending::<Result<(), ToolError>>()
            },
        )
        .unwrap();
    // The client tries for so long to resume its session.
    let resume = Some(Duration::from_secs(2));
    let config = ClientConfig { resume, ..ClientConfig::new(&container.url, container.token()) };
    let client = within(Client::connect(config, tools)).await.unwrap();
    let execution =
        client.execute(ExecuteRequest::new("await mcp.call('never.answer')").always_in_sandbox()).await.unwrap();
    within(called.notified()).await;
    let killed = Instant::now();
    output(docker().args(["kill", &container.id]));
    let error = within(execution).await.unwrap_err();
    assert!(error.code().is_some_and(|code| *code == ErrorCode::SessionLost), "{error}");
    assert!(killed.elapsed() < Duration::from_secs(30), "before any heartbeat would have told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_refused() {
    let container = Container::start(&[]);
    for token in ["", "nonsense", &container.token().replace('.', "x")] {
        let refused = within(Client::connect(ClientConfig::new(&container.url, token), Tools::new())).await;
        assert!(matches!(refused, Err(Error::Unauthenticated)), "{token:?}");
    }
    let mut without_key = docker();
    let refused = without_key.args(["run", "--rm", &image()]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("RELAY_JWT_SECRET"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_image_knows_how_it_is() {
    let container = Container::start(&[]);
    let health = || output(docker().args(["inspect", "--format", "{{.State.Health.Status}}", &container.id]));
    let started = Instant::now();
    while health() != "healthy" {
        assert!(started.elapsed() < PATIENCE, "{}", health());
        std::thread::sleep(Duration::from_millis(200));
    }
    let user = output(docker().args(["inspect", "--format", "{{.Config.User}}", &container.id]));
    assert_eq!(user, "65534:65534");
    let bytes: u64 = output(docker().args(["image", "inspect", "--format", "{{.Size}}", &image()])).parse().unwrap();
    assert!(bytes < 70_000_000, "{bytes} bytes");
}

/// Returns the output of a command of the engine's client.
fn said(command: &[&str]) -> String {
    output(docker().args(command))
}

/// Waits until the engine has this container no more.
async fn gone(id: &str) {
    let started = Instant::now();
    while !said(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &format!("id={id}")]).is_empty() {
        assert!(started.elapsed() < PATIENCE, "the container {id} is still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn the_librarys_own_container_is_hardened_and_takes_the_same_options_as_a_process() {
    let builder = LocalRelay::in_container(image()).limit(LimitName::ToolCalls, 3).argument("--worker-stock=1");
    let mut relay = within(builder.start()).await.unwrap();
    let id = relay.container_id().unwrap().to_owned();
    assert!(relay.is_running() && relay.process_id().is_none() && relay.address().starts_with("127.0.0.1:"));
    let host =
        "{{with .HostConfig}}{{.ReadonlyRootfs}} {{.CapDrop}} {{.SecurityOpt}} {{.Memory}} {{.PidsLimit}}{{end}}";
    assert_eq!(said(&["inspect", "--format", host, &id]), "true [ALL] [no-new-privileges] 1073741824 256");

    let client = within(Client::connect(relay.client_config().await.unwrap(), tools())).await.unwrap();
    let code = "const names = await mcp.call('files.list'); return names.includes('frame.rs')";
    let outcome = within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!(true));
    let calls = "for (let i = 0; i < 4; i++) await mcp.call('files.list')";
    let error = within(client.run(ExecuteRequest::new(calls).always_in_sandbox())).await.unwrap_err();
    assert!(error.to_string().contains("tool_calls 3 of 3"), "{error}");

    let request = TokenRequest::new("guest").tools(["other.*"]);
    let config = ClientConfig::new(relay.url(), within(relay.token_for(&request)).await.unwrap());
    let guest = within(Client::connect(config, tools())).await.unwrap();
    let code = "try { await mcp.call('files.list') } catch (e) { return e.code }";
    let outcome = within(guest.run(ExecuteRequest::new(code).always_in_sandbox())).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!("UNKNOWN_TOOL"));
    let wrong = within(relay.token(&["--nonsense"])).await.unwrap_err().to_string();
    assert!(wrong.contains("--nonsense"), "{wrong}");

    within(relay.kill()).await.unwrap();
    assert!(!relay.is_running());
    assert_eq!(within(relay.wait()).await.unwrap().code(), Some(137), "killed by a signal, as a shell says it");
    within(gone(&id)).await;
}

#[tokio::test]
async fn the_librarys_own_container_ends_with_its_value_even_after_a_panic() {
    let relay = within(LocalRelay::in_container(image()).start()).await.unwrap();
    let id = relay.container_id().unwrap().to_owned();
    drop(relay);
    within(gone(&id)).await;
    let (says, said) = tokio::sync::oneshot::channel();
    let panicked = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let relay = within(LocalRelay::in_container(image()).start()).await.unwrap();
            says.send(relay.container_id().unwrap().to_owned()).unwrap();
            panic!("on purpose: the test of an application fails");
        })
    });
    let id = within(said).await.unwrap();
    assert!(panicked.join().is_err());
    within(gone(&id)).await;
}

#[tokio::test]
async fn an_image_that_is_not_there_and_a_relay_that_does_not_start_are_said() {
    let missing = within(LocalRelay::in_container("no-such-image:local").start()).await.unwrap_err().to_string();
    assert!(missing.contains("no image no-such-image:local") && missing.contains("pull"), "{missing}");
    let wrong = within(LocalRelay::in_container(image()).argument("--nonsense").start()).await.unwrap_err().to_string();
    assert!(wrong.contains("did not say that it listens"), "{wrong}");
}
