//! Servers that print junk, hang, die, lie and change, and what the host and its code learn of it.

use std::path::Path;
use std::time::{Duration, Instant};

use host_client::{McpOptions, McpServers, ServerState, Tools};
use serde_json::{Value, json};

use super::relay::Relay;
use super::{PATIENCE, config, eventually, fake, is_connected, options, reason, started, started_with, state, within};

fn with_env(mut entry: Value, env: Value) -> Value {
    entry["env"] = env;
    entry
}

fn notes(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn is_alive(pid: &str) -> bool {
    // A zombie is dead.
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

#[tokio::test]
async fn junk_is_passed_over_and_shown_when_the_server_fails() {
    let (tools, servers) = started(json!({"banner": fake("banner"), "chatter": fake("chatter")})).await;
    assert!(is_connected(&servers, "banner"));
    let mut relay = Relay::start(&tools).await;
    assert_eq!(relay.call("banner.echo", json!({"a": 1})).await.unwrap()["arguments"], json!({"a": 1}));
    let reason = reason(&servers, "chatter");
    assert!(
        reason.contains("too much on its standard output that is no message: \"Listening for requests\""),
        "{reason}"
    );
}

#[tokio::test]
async fn a_line_without_an_end_is_not_collected() {
    let (_tools, servers) = started(json!({"fake": fake("endless-line")})).await;
    assert!(reason(&servers, "fake").contains("it sent a message of more than 64 MiB"));
}

#[tokio::test]
async fn servers_that_never_start_are_given_up_with_the_reason() {
    let missing = json!({"command": "surely-no-such-program"});
    let dies = with_env(fake("dies"), json!({"API_KEY": "correct-horse"}));
    let (tools, servers) = started(json!({"missing": missing, "dies": dies, "refuses": fake("refuses")})).await;
    let expected = "it ended (exit status: 3); the last of its standard error: the key is ***";
    assert_eq!(reason(&servers, "dies"), expected);
    assert!(reason(&servers, "missing").contains("\"surely-no-such-program\" cannot be run: No such file"));
    assert_eq!(reason(&servers, "refuses"), "it refused to be initialized: no licence");
    assert!(tools.specs().is_empty());
    let mut relay = Relay::start(&tools).await;
    let (code, message) = relay.fail("refuses.search", json!({})).await;
    assert!(code == "UNKNOWN_TOOL" && message.contains("it refused to be initialized: no licence"), "{message}");
    eventually("it is given up", || matches!(state(&servers, "dies"), ServerState::GivenUp { .. })).await;
}

#[tokio::test]
async fn a_server_that_hangs_fails_its_try_and_holds_up_nobody() {
    let options = McpOptions { connect_within: Duration::from_secs(3), ..options() };
    let start = Instant::now();
    let (tools, servers) = started_with(json!({"hangs": fake("hangs"), "plain": fake("plain")}), options).await;
    assert_eq!(reason(&servers, "hangs"), "it did not answer initialize within 3 s");
    assert!(start.elapsed() < Duration::from_secs(20));
    let mut relay = Relay::start(&tools).await;
    relay.call("plain.echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_listing_without_end_is_refused() {
    let modes = ["endless-pages", "same-page", "many-tools"];
    let entries: serde_json::Map<_, _> = modes.iter().map(|mode| ((*mode).to_owned(), fake(mode))).collect();
    let (_tools, servers) = started(entries.into()).await;
    for (mode, expected) in modes.iter().zip(["more than 100 pages", "the same page again", "more than 2000 tools"]) {
        let reason = reason(&servers, mode);
        assert!(reason.starts_with("its tools cannot be listed: ") && reason.contains(expected), "{reason}");
    }
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_leaves_its_outcome_unknown_and_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    std::fs::write(&go, "").unwrap();
    let (tools, servers) = started(json!({"fake": with_env(fake("slow-start"), json!({"GO": go}))})).await;
    let mut relay = Relay::start(&tools).await;
    // It does not come back before it is told to.
    std::fs::remove_file(&go).unwrap();
    let (code, message) = relay.fail("fake.die", json!({})).await;
    assert_eq!(code, "OUTCOME_UNKNOWN");
    let why = "it ended (exit status: 7); the last of its standard error: the database is gone";
    assert!(message.contains(why) && message.contains("look before you repeat it"), "{message}");
    // Its tools stay, and say what is wrong.
    assert!(tools.spec("fake.echo").is_some());
    let (code, message) = relay.fail("fake.echo", json!({})).await;
    assert_eq!(code, "TOOL_FAILED");
    assert!(message.contains(why) && message.contains("started again"), "{message}");
    std::fs::write(&go, "").unwrap();
    eventually("it is connected again", || is_connected(&servers, "fake")).await;
    relay.call("fake.echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn tools_that_change_during_a_call_let_it_end() {
    let (tools, _servers) = started(json!({"fake": fake("plain")})).await;
    let mut relay = Relay::start(&tools).await;
    assert_eq!(relay.call("fake.change", json!({})).await.unwrap(), json!("changed"));
    eventually("there are other tools", || tools.spec("fake.fresh").is_some() && tools.spec("fake.echo").is_none())
        .await;
    assert_eq!(relay.fail("fake.change", json!({})).await.0, "UNKNOWN_TOOL");
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cancelled_at_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    let (tools, _servers) = started(json!({"fake": with_env(fake("plain"), json!({"NOTES": path}))})).await;
    let mut relay = Relay::start(&tools).await;
    relay.begin("fake.wait", json!({}), Duration::from_millis(300)).await;
    assert_eq!(relay.result().await.unwrap_err().0, "TOOL_TIMEOUT");
    eventually("the server is told", || notes(&path) == "waiting\ncancelled True\n").await;
    relay.call("fake.echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_read_is_given_up_before_calls_pile_up() {
    let (tools, servers) = started(json!({"fake": fake("deaf")})).await;
    let mut relay = Relay::start(&tools).await;
    relay.begin("fake.echo", json!({"text": "x".repeat(500_000)}), Duration::from_millis(300)).await;
    assert_eq!(relay.result().await.unwrap_err().0, "TOOL_TIMEOUT");
    eventually("the connection ends", || !is_connected(&servers, "fake")).await;
    assert_eq!(reason(&servers, "fake"), "it does not read what is sent to it");
}

#[tokio::test]
async fn a_call_that_is_open_when_the_host_closes_has_an_unknown_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    let (tools, servers) = started(json!({"fake": with_env(fake("plain"), json!({"NOTES": path}))})).await;
    let mut relay = Relay::start(&tools).await;
    relay.begin("fake.wait", json!({}), PATIENCE).await;
    eventually("it is called", || notes(&path) == "waiting\n").await;
    let ((), result) = tokio::join!(within(servers.close()), relay.result());
    let (code, message) = result.unwrap_err();
    assert_eq!(code, "OUTCOME_UNKNOWN", "{message}");
}

#[tokio::test]
async fn what_a_server_asks_of_its_client_is_declined() {
    let (tools, _servers) = started(json!({"fake": fake("plain")})).await;
    let mut relay = Relay::start(&tools).await;
    assert_eq!(relay.call("fake.ask", json!({})).await.unwrap(), json!("-32601"));
}

#[tokio::test]
async fn a_server_gets_what_is_meant_for_it_and_nothing_else_of_the_environment() {
    let entry = with_env(fake("plain"), json!({"GREETING": "hello ${PATH}"}));
    let (tools, _servers) = started(json!({"fake": entry})).await;
    let environment = Relay::start(&tools).await.call("fake.environment", json!({})).await.unwrap();
    let path = std::env::var("PATH").unwrap();
    assert_eq!(environment["GREETING"], json!(format!("hello {path}")));
    // Whatever starts Python may have put something in front.
    assert!(environment["PATH"].as_str().unwrap().ends_with(&path), "{environment}");
    // Cargo sets many for its tests.
    let leaked = environment.as_object().unwrap().keys().find(|name| name.starts_with("CARGO"));
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && leaked.is_none(), "{leaked:?}");
}

#[tokio::test]
async fn all_that_a_server_started_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    let family = json!({"fake": with_env(fake("family"), json!({"NOTES": path}))});
    for closes in [true, false] {
        let _ = std::fs::remove_file(&path);
        let (tools, servers) = started(family.clone()).await;
        let child = notes(&path).trim().to_owned();
        assert!(is_alive(&child));
        if closes {
            within(servers.close()).await;
            assert!(tools.specs().is_empty());
            assert_eq!(state(&servers, "fake"), ServerState::Closed);
        } else {
            drop(servers);
        }
        eventually("its child is killed", || !is_alive(&child)).await;
        eventually("its name is free", || tools.mount("fake", "somebody else").is_ok()).await;
    }
}

#[tokio::test]
async fn a_server_that_is_known_from_before_is_said_to_be_starting() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let catalogues = folder.path().join("catalogues");
    let options = McpOptions { catalogues: Some(catalogues.clone()), ..options() };
    let entry = |value: &str| json!({"fake": with_env(fake("slow-start"), json!({"GO": go, "KEY": value}))});
    std::fs::write(&go, "").unwrap();
    let (_tools, servers) = started_with(entry("one"), options.clone()).await;
    let files = || std::fs::read_dir(&catalogues).into_iter().flatten().map(|file| file.unwrap().path());
    eventually("its tools are kept", || files().any(|path| path.extension().is_some_and(|it| it == "json"))).await;
    within(servers.close()).await;
    let files: Vec<_> = files().collect();
    assert_eq!(files.len(), 1);
    let mode = std::os::unix::fs::PermissionsExt::mode(&files[0].metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    std::fs::remove_file(&go).unwrap();
    let tools = Tools::new();
    let impatient = McpOptions { call_waits: Duration::ZERO, ..options.clone() };
    let servers = McpServers::with_options(&tools, impatient);
    // Another value of a variable is still the same server.
    servers.start(config(entry("two"))).unwrap();
    let mut relay = Relay::start(&tools).await;
    let (code, message) = relay.fail("fake.echo", json!({})).await;
    assert_eq!(code, "TOOL_FAILED");
    assert!(message.starts_with("the MCP server \"fake\" is still starting, since "), "{message}");
    std::fs::write(&go, "").unwrap();
    servers.ready(PATIENCE).await;
    relay.call("fake.echo", json!({})).await.unwrap();
    within(servers.close()).await;

    // A call waits for a server that starts.
    std::fs::remove_file(&go).unwrap();
    let tools = Tools::new();
    let servers = McpServers::with_options(&tools, options.clone());
    servers.start(config(entry("two"))).unwrap();
    let mut relay = Relay::start(&tools).await;
    let called = relay.call("fake.echo", json!({"late": true}));
    let (answer, ()) = tokio::join!(called, async { std::fs::write(&go, "").unwrap() });
    assert_eq!(answer.unwrap()["arguments"]["late"], true);
    within(servers.close()).await;

    // What is not a catalogue is as good as none.
    std::fs::write(&files[0], "[1, 2").unwrap();
    std::fs::remove_file(&go).unwrap();
    let tools = Tools::new();
    let servers = McpServers::with_options(&tools, options);
    servers.start(config(entry("three"))).unwrap();
    assert!(tools.specs().is_empty());
}
