//! Sessions over HTTP: how many there are, what they hold, and how they end.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::json;

use super::eventually;
use super::python::Client;
use super::setup::Setup;
use super::web::Web;

const WAITS: &str = "await mcp.call('fake.wait', {})";
/// The library waits for handlers for 5 s when a session has ended: what is stopped is stopped sooner.
const AT_ONCE: Duration = Duration::from_secs(4);

#[tokio::test]
async fn clients_that_went_without_a_word_leave_room_for_others() {
    let setup = Setup::new();
    let server = setup.serve_http().await;
    // A relay takes 64 connections of one subject.
    for number in 0..70 {
        let web = Web::open(&server).await.unwrap();
        assert_eq!(web.execute(&format!("return {number}")).await["result"], number);
    }
}

#[tokio::test]
async fn a_session_that_runs_nothing_leaves_its_connection_to_another() {
    let setup = Setup::new().allowing_all().option("--relay-connections", "1").option("--relay-idle", "3600");
    let server = setup.serve_http().await;
    let (one, other) = (Web::open(&server).await.unwrap(), Web::open(&server).await.unwrap());
    for _ in 0..3 {
        assert_eq!(one.execute("return 1").await["result"], 1);
        assert_eq!(other.execute("return 2").await["result"], 2);
    }
    let _running = one.begin_code(7, WAITS).await;
    eventually("the tool runs", || setup.notes() == "waiting\n").await;
    let mut waits = other.begin_code(8, "return 3").await;
    assert_eq!(one.delete().await, StatusCode::NO_CONTENT);
    assert_eq!(waits.answer(8).await["result"]["structuredContent"]["result"], 3);
}

#[tokio::test]
async fn an_approval_for_the_session_outlives_its_connections_to_the_relay() {
    let setup = Setup::new().option("--relay-idle", "0");
    let server = setup.serve_http().await;
    let writes = "try { await mcp.call('fake.writes', {}) } catch (e) { return e.code }";
    let mut client = Client::in_session(&server).await;
    let id = client.begin("execute_code", json!({"code": writes})).await;
    client.question().await;
    client.allow("session").await;
    assert_eq!(client.end(id).await["result"]["structuredContent"]["result"], "TOOL_FAILED");
    assert_eq!(client.value(writes).await, "TOOL_FAILED");
    assert!(!client.was_asked());

    let mut other = Client::in_session(&server).await;
    let id = other.begin("execute_code", json!({"code": writes})).await;
    other.question().await;
    other.answer("decline", json!(null)).await;
    assert_eq!(other.end(id).await["result"]["structuredContent"]["result"], "APPROVAL_DENIED");
    other.close().await;
    client.close().await;
}

#[tokio::test]
async fn there_is_an_end_to_sessions() {
    let setup = Setup::new().allowing_all().option("--http-sessions", "2");
    let server = setup.serve_http().await;
    let first = Web::open(&server).await.unwrap();
    let second = Web::open(&server).await.unwrap();
    assert_eq!(first.ping().await, StatusCode::OK);
    // The one that was unused for longer makes room.
    let third = Web::open(&server).await.unwrap();
    assert_eq!(second.ping().await, StatusCode::NOT_FOUND);
    let _running = [first.begin_code(1, WAITS).await, third.begin_code(1, WAITS).await];
    eventually("both tools run", || setup.notes() == "waiting\nwaiting\n").await;
    assert_eq!(Web::open(&server).await.err(), Some(StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(first.delete().await, StatusCode::NO_CONTENT);
    assert!(Web::open(&server).await.is_ok());
}

#[tokio::test]
async fn the_end_of_a_session_stops_its_program() {
    let setup = Setup::new().allowing_all();
    let audit = setup.path("audit.jsonl");
    let setup = setup.option("--audit", audit.to_str().unwrap());
    let server = setup.serve_http().await;
    let web = Web::open(&server).await.unwrap();
    let _running = web.begin_code(1, "try { await mcp.call('fake.wait', {}) } finally { while (true) {} }").await;
    eventually("the tool runs", || setup.notes() == "waiting\n").await;
    let since = Instant::now();
    assert_eq!(web.delete().await, StatusCode::NO_CONTENT);
    eventually("the tool is cancelled", || setup.notes() == "waiting\ncancelled True\n").await;
    let ended = || {
        let audit = std::fs::read_to_string(&audit).unwrap();
        audit.lines().any(|line| line.contains("\"kind\":\"end\"") && line.contains("\"CANCELLED\""))
    };
    eventually("the audit has the end", ended).await;
    assert!(since.elapsed() < AT_ONCE, "it took {:?}", since.elapsed());
    assert_eq!(web.delete().await, StatusCode::NOT_FOUND);
    assert_eq!(web.ping().await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_audit_says_for_whom_code_ran_and_tells_sessions_apart() {
    let setup = Setup::new();
    let audit = setup.path("audit.jsonl");
    let setup = setup.option("--audit", audit.to_str().unwrap()).option("--audit-file-mib", "1").flag("--audit-sync");
    let server = setup.serve_http().await;
    let (one, other) = (Web::open(&server).await.unwrap(), Web::open(&server).await.unwrap());
    assert_eq!(one.execute("return 'one'").await["result"], "one");
    assert_eq!(other.execute("return 'other'").await["result"], "other");
    let show = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(super::setup::RELAY_HOST);
        let output = super::within(command.args(["audit", "show"]).arg(&audit).args(arguments).output()).await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let lines: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        lines
    };
    let all = show(&[]).await;
    let begun: Vec<_> = all.iter().filter(|line| line.contains(" execution ")).collect();
    assert_eq!(begun.len(), 2, "{all:?}");
    for (line, web) in begun.iter().zip([&one, &other]) {
        let caller = format!(" by local, raw 1, MCP session {}", &web.id[..8]);
        assert!(line.ends_with(&caller) && !line.contains(&web.id), "{line}");
    }
    // The first executions of both have the same id.
    let named = begun[0].split_whitespace().nth(2).unwrap();
    let (session, id) = named.split_once('/').unwrap();
    assert_eq!(show(&["--execution", id]).await.len(), 4);
    for of_one in [show(&["--execution", named]).await, show(&["--session", session]).await] {
        assert!(of_one.len() == 2 && of_one.iter().all(|line| line.contains(named)), "{of_one:?}");
    }
}

#[tokio::test]
async fn a_stream_goes_on_after_the_last_event_that_the_client_has() {
    let setup = Setup::new().allowing_all();
    let server = setup.serve_http().await;
    let web = Web::open(&server).await.unwrap();
    let code = "const seen = []; for (let i = 0; i < 3; i++) seen.push(await mcp.call('fake.echo', {i})); \
                await mcp.call('fake.wait', {})";
    let arguments = json!({"code": code, "limits": {"wall_ms": 3_000}});
    let params = json!({"name": "execute_code", "arguments": arguments, "_meta": {"progressToken": 1}});
    let mut events = web.begin(1, "tools/call", params).await;
    let mut told = Vec::new();
    let last = loop {
        let (id, message) = events.next().await.unwrap();
        told.push(message["params"]["progress"].as_f64().unwrap());
        if message["params"]["message"] == "fake.wait …" {
            break id;
        }
    };
    drop(events);
    let mut rest = web.resume(&last).await;
    loop {
        let (_, message) = rest.next().await.expect("the answer comes on the stream that goes on");
        match message["params"]["progress"].as_f64() {
            Some(progress) => told.push(progress),
            None => {
                assert_eq!(message["result"]["structuredContent"]["error"]["code"], "TIMEOUT", "{message}");
                break;
            }
        }
    }
    let counted: Vec<_> = (1..=told.len()).map(|number| number as f64).collect();
    assert_eq!(told, counted, "each event comes once");
}
