//! Ctrl-C and SIGTERM: what runs is cancelled, and nothing is left behind.

use std::process::Stdio;

use host_client::LocalRelay;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Child;

use super::folder::{Ended, Folder, lives, processes};
use super::terminal::Terminal;
use super::{eventually, within};

fn start(folder: &Folder, arguments: &[&str]) -> Child {
    let mut command = folder.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    let id = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(id, signal).unwrap();
}

async fn ended(child: Child) -> Ended {
    let output = within(child.wait_with_output()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Waits until nothing is left of the program: servers, what they started, the relay, and its processes.
async fn nothing_is_left(folder: &Folder, relays: &[i32]) {
    eventually(|| "nothing is left".into(), || folder.processes().is_empty()).await;
    let of_relays: Vec<_> = relays.iter().map(|id| format!("--parent={id} ")).collect();
    let is_left = |line: &str| of_relays.iter().any(|it| format!("{line} ").contains(it));
    eventually(|| "no worker is left".into(), || !processes(|_| true).iter().any(|(_, line)| is_left(line))).await;
}

#[tokio::test]
async fn what_runs_is_cancelled_and_nothing_is_left() {
    let folder = Folder::new();
    folder
        .file("allow.toml", "[default]\nunknown = \"allow\"")
        .file("x.js", "console.log('on'); await mcp.call('fake.wait')");
    folder.fake_server("family");
    for kind in [Signal::INT, Signal::TERM] {
        folder.file("notes", "");
        let child = start(&folder, &["run", "x.js", "--mcp", "mcp.json", "--policy", "allow.toml"]);
        eventually(|| "the tool runs".into(), || folder.read("notes").contains("waiting")).await;
        let relays: Vec<_> =
            folder.processes().into_iter().filter(|(_, line)| line.contains("sandbox-relay serve")).collect();
        assert_eq!(relays.len(), 1, "{relays:?}");
        signal(&child, kind);
        let ended = ended(child).await;
        assert_eq!((ended.status, &*ended.out), (Some(1), ""), "{ended:?}");
        let [printed, error, before] = &ended.err.lines().collect::<Vec<_>>()[..] else { panic!("{ended:?}") };
        assert_eq!((*printed, *error), ("on", "relay-host: CANCELLED: the execution was cancelled"));
        assert!(before.contains("1 call has an unknown outcome (fake.wait)"), "{before}");
        let descendant: i32 = folder.read("notes").lines().next().unwrap().parse().unwrap();
        eventually(|| "what the server started is gone".into(), || !lives(descendant)).await;
        nothing_is_left(&folder, &[relays[0].0]).await;
    }
}

#[tokio::test]
async fn a_relay_elsewhere_is_told() {
    let relay = LocalRelay::start().await.unwrap();
    let (url, token) = (format!("ws://{}/ws", relay.address()), relay.token(&["--subject", "me"]).await.unwrap());
    let health = format!("http://{}/health", relay.address());
    let executions = async || -> Value { reqwest::get(&health).await.unwrap().json().await.unwrap() };
    let folder = Folder::new();
    folder.file("x.js", "for (;;);");
    let child = start(&folder, &["run", "x.js", "--json", "--relay", &url, "--token", &token]);
    within(async { while executions().await["executions"] != 1 {} }).await;
    signal(&child, Signal::INT);
    let ended = ended(child).await;
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.status, &object["error"]["code"]), (Some(1), &json!("CANCELLED")), "{ended:?}");
    within(async { while executions().await["executions"] != 0 {} }).await;
}

#[tokio::test]
async fn servers_that_start_and_calls_are_given_up() {
    let folder = Folder::new();
    folder.fake_server("hangs");
    for arguments in [&["tools", "--mcp", "mcp.json"][..], &["call", "fake.x", "--mcp", "mcp.json"]] {
        let child = start(&folder, arguments);
        eventually(
            || "the server starts".into(),
            || folder.processes().iter().any(|(_, line)| line.contains("fake.py")),
        )
        .await;
        signal(&child, Signal::INT);
        ended(child).await.says(1, &["relay-host: interrupted"]);
        nothing_is_left(&folder, &[]).await;
    }
    folder.fake_server("plain").file("allow.toml", "[default]\nunknown = \"allow\"");
    let child = start(&folder, &["call", "fake.wait", "--mcp", "mcp.json", "--policy", "allow.toml"]);
    eventually(|| "the tool runs".into(), || folder.read("notes").contains("waiting")).await;
    signal(&child, Signal::TERM);
    ended(child).await.says(1, &["relay-host: interrupted"]);
    nothing_is_left(&folder, &[]).await;
}

#[tokio::test]
async fn at_a_terminal_ctrl_c_does_the_same() {
    let folder = Folder::new();
    folder.file("allow.toml", "[default]\nunknown = \"allow\"").file("x.js", "await mcp.call('fake.wait')");
    folder.fake_server("plain");
    let mut terminal = Terminal::start(&folder, &["run", "x.js", "--mcp", "mcp.json", "--policy", "allow.toml"]);
    terminal.sees("1 in flight: fake.wait").await;
    terminal.types("\u{3}");
    terminal.sees("CANCELLED: the execution was cancelled").await;
    assert_eq!(terminal.ends().await.0, Some(1));
    nothing_is_left(&folder, &[]).await;
}
