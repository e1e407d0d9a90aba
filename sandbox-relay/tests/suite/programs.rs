//! The subcommands as a user meets them: what they print, where, and their exit status.

use std::process::{Output, Stdio};
use std::time::Duration;

use host_client::{Client, ClientConfig, ErrorCode, ExecuteRequest, LocalRelay, Tools};
use rustix::process::{Pid, Signal};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::{Fixture, binary, connect, start_relay, until, until_async, within};

const SECRET: &str = "0123456789012345678901234567890123456789";

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).kill_on_drop(true).stdin(Stdio::null());
    for name in ["RELAY_JWT_SECRET", "RELAY_LISTEN", "RELAY_CONFIG"] {
        command.env_remove(name);
    }
    command
}

async fn output(mut command: Command) -> Output {
    within(command.output()).await.unwrap()
}

pub(crate) async fn http(relay: &LocalRelay, path: &str) -> (u16, serde_json::Value) {
    relay_test_support::http::get(relay.address(), path).await.unwrap()
}

#[tokio::test]
async fn without_a_key_it_does_not_start_and_says_what_to_do() {
    let output = output(command(&["serve", "--listen", "127.0.0.1:0"])).await;
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("RELAY_JWT_SECRET") && text.contains("--dev") && output.stdout.is_empty(), "{text}");
}

#[tokio::test]
async fn wrong_settings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("relay.toml");
    std::fs::write(&config, "listen = \"127.0.0.1:0\"\nlissten = 1\n").unwrap();
    let mut short = command(&["serve", "--listen", "127.0.0.1:0"]);
    short.env("RELAY_JWT_SECRET", "short");
    let mut two = command(&["serve", "--listen", "127.0.0.1:0", "--jwt-secret-file", "/dev/null"]);
    two.env("RELAY_JWT_SECRET", SECRET);
    let mut unknown = command(&["serve", "--config", config.to_str().unwrap()]);
    unknown.env("RELAY_JWT_SECRET", SECRET);
    let mut busy = command(&["serve", "--listen", "203.0.113.1:1"]);
    busy.env("RELAY_JWT_SECRET", SECRET);
    for (command, text) in [
        (short, "at least 32"),
        (two, "more than one key"),
        (unknown, "lissten"),
        (busy, "203.0.113.1:1"),
        (command(&["serve", "--dev", "--listen", "0.0.0.0:0"]), "loopback"),
        (command(&["token", "--subject", "s", "--limit", "wall=1"]), "wall_ms"),
        (command(&["token", "--subject", "s"]), "RELAY_JWT_SECRET"),
        (command(&["serve", "--jwt-secret-file", "/nowhere"]), "/nowhere"),
    ] {
        let output = output(command).await;
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(text), "{text}: {error}");
    }
}

#[tokio::test]
async fn dev_prints_a_token_that_works_and_one_line_on_standard_output() {
    let mut child = command(&["serve", "--dev", "--listen", "127.0.0.1:0"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = within(lines.next_line()).await.unwrap().unwrap();
    let address = line.strip_prefix("listening on ").unwrap().to_owned();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let token = loop {
        let line = within(errors.next_line()).await.unwrap().unwrap();
        if line.trim().starts_with("eyJ") {
            break line.trim().to_owned();
        }
    };
    // The rest of the log has to go somewhere.
    tokio::spawn(async move { while let Ok(Some(_)) = errors.next_line().await {} });
    let client = Client::connect(ClientConfig::new(format!("ws://{address}/ws"), token), Tools::new()).await.unwrap();
    let outcome = within(client.run(ExecuteRequest::new("return 6 * 7"))).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!(42));
    rustix::process::kill_process(Pid::from_raw(child.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert!(within(child.wait()).await.unwrap().success());
    assert_eq!(lines.next_line().await.unwrap(), None, "nothing else is ever printed there");
}

#[tokio::test]
async fn settings_come_from_flags_then_the_environment_then_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (config, secret) = (folder.path().join("relay.toml"), folder.path().join("secret"));
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let text = format!(
        "listen = \"127.0.0.1:1\"\njwt_secret_file = {secret:?}\njwt_issuer = \"file\"\njwt_audience = \"file\"\n\
         [limits]\nwall_ms = 4321\n[max_limits]\ncpu_ms = 5000\n"
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let mut child = command(&["serve", "--config", config, "--listen", "127.0.0.1:0"]);
    child.env("RELAY_LISTEN", "127.0.0.1:2").env("RELAY_JWT_ISSUER", "environment");
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = within(lines.next_line()).await.unwrap().unwrap();
    let url = format!("ws://{}/ws", line.strip_prefix("listening on ").unwrap());
    let mut token = command(&["token", "--subject", "s", "--config", config]);
    token.env("RELAY_JWT_ISSUER", "environment");
    let token = String::from_utf8(output(token).await.stdout).unwrap();
    let client = Client::connect(ClientConfig::new(&url, token.trim()), Tools::new()).await.unwrap();
    let limits = client.limits();
    assert_eq!(limits.get(host_client::LimitName::WallMs), Some(4_321));
    assert_eq!(limits.get(host_client::LimitName::CpuMs), Some(5_000), "a default is never over its maximum");
    let other =
        String::from_utf8(output(command(&["token", "--subject", "s", "--config", config])).await.stdout).unwrap();
    assert!(Client::connect(ClientConfig::new(&url, other.trim()), Tools::new()).await.is_err(), "another issuer");
}

#[tokio::test]
async fn health_ready_and_healthcheck_tell_how_it_is() {
    let relay = start_relay(&[]).await;
    let client = connect(&relay, Tools::new()).await;
    within(client.run(ExecuteRequest::new("return 1"))).await.unwrap();
    let (status, health) = http(&relay, "/health").await;
    assert_eq!(
        (status, &health["ok"], &health["connected"], &health["encoding"]),
        (200, &json!(true), &json!(1), &json!("protobuf"))
    );
    within(async {
        while http(&relay, "/ready").await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(http(&relay, "/nothing").await.0, 404);
    assert_eq!(http(&relay, "/ws").await.0, 401, "who shows no token learns nothing else");
    assert!(output(command(&["healthcheck", "--listen", relay.address()])).await.status.success());
    let gone = output(command(&["healthcheck", "--listen", "127.0.0.1:1"])).await;
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8(gone.stderr).unwrap().contains("127.0.0.1:1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_gets_no_turn_in_time_is_not_begun() {
    let fixture = Fixture::start(&["--executions", "1"]).await;
    let held = fixture.client.execute(ExecuteRequest::new("for(;;){}")).await.unwrap();
    until_async(async || http(&fixture.relay, "/health").await.1["executions"] == json!(1)).await;
    let mut config = fixture.relay.client_config().await.unwrap();
    config.queue_timeout = Duration::from_millis(300);
    let impatient = within(Client::connect(config, Tools::new())).await.unwrap();
    let since = std::time::Instant::now();
    let error = within(impatient.run(ExecuteRequest::new("return 1"))).await.unwrap_err();
    assert!(since.elapsed() < Duration::from_secs(10), "without the bound it takes the CPU's limit, 10 s: {error}");
    assert_eq!(error.error_code(), Some(ErrorCode::Overloaded), "{error}");
    assert!(error.to_string().contains("did not begin within 300 ms") && error.is_retryable(), "{error}");
    assert_eq!(http(&fixture.relay, "/health").await.1["queued"], json!(0), "it has left the queue");
    held.cancel();
    let ran = within(fixture.client.run(ExecuteRequest::new("return 'turn'"))).await.unwrap();
    assert_eq!(ran.value().unwrap(), json!("turn"));
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_what_runs_come_to_its_end() {
    let mut fixture = Fixture::start(&["--executions", "1"]).await;
    let idle = connect(&fixture.relay, Tools::new()).await;
    let code = "await mcp.call('test.wait', {ms: 1000}); return 'done'";
    let execution = fixture.client.execute(ExecuteRequest::new(code).always_in_sandbox()).await.unwrap();
    until(|| fixture.seen.running.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
    let waiting = idle.execute(ExecuteRequest::new("return 1")).await.unwrap();
    until_async(async || http(&fixture.relay, "/health").await.1["queued"] == json!(1)).await;
    let pid = Pid::from_raw(fixture.relay.process_id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let turned_away = within(waiting).await;
    let refused = within(fixture.client.run(ExecuteRequest::new("return 1"))).await;
    for refused in [turned_away, refused] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.error_code(), Some(ErrorCode::Draining), "{refused}");
        assert!(refused.to_string().contains("another relay") && refused.is_retryable(), "{refused}");
    }
    assert_eq!(within(execution).await.unwrap().value().unwrap(), json!("done"));
    assert!(within(fixture.relay.wait()).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_stops_what_does_not_end_in_time() {
    let mut fixture = Fixture::start(&["--drain-ms", "300"]).await;
    let execution = fixture.client.execute(ExecuteRequest::new("for(;;){}")).await.unwrap();
    fixture.value("return 1").await;
    let pid = Pid::from_raw(fixture.relay.process_id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let error = within(execution).await.unwrap_err();
    assert!(error.to_string().contains("SESSION_LOST"), "{error}");
    assert!(within(fixture.relay.wait()).await.unwrap().success());
}
