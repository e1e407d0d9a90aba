//! The relay behind the server, when it dies or is not there.

use rustix::process::Signal;
use serde_json::json;

use super::processes::{family, find, gone};
use super::python::Client;
use super::setup::Setup;

#[tokio::test]
async fn a_relay_that_died_is_started_again() {
    let setup = Setup::new().allowing_all();
    let mut client = Client::over_stdio(&setup).await;
    assert_eq!(client.value("return 1").await, 1);
    let relay = find(&family(client.process()), "sandbox-relay serve");
    relay.signal(Signal::KILL);
    gone(&[relay]).await;
    // Code that is sent before the host has heard of it is lost, and never run again by itself; the next finds a new relay.
    let result = client.execute("return 2").await;
    if result["isError"] == true {
        assert_eq!(result["structuredContent"]["error"]["code"], "SESSION_LOST", "{result}");
    }
    assert_eq!(client.value("return 2").await, 2);

    // Code that is one call would run on the host, which a relay's end does not touch.
    let code = "for (;;) await mcp.call('fake.wait', {})";
    let id = client.begin("execute_code", json!({"code": code})).await;
    client.hear(|said| said["message"] == "fake.wait …").await;
    let relay = find(&family(client.process()), "sandbox-relay serve");
    relay.signal(Signal::KILL);
    let end = client.end(id).await;
    assert_eq!(end["result"]["structuredContent"]["error"]["code"], "SESSION_LOST", "{end}");
    assert_eq!(client.value("return 3").await, 3);
    client.close().await;
}

#[tokio::test]
async fn a_relay_that_is_not_there_is_said_to_be() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let setup = Setup::new().option("--relay", format!("ws://127.0.0.1:{port}/ws")).option("--token", "none");
    let mut client = Client::over_stdio(&setup).await;
    let result = client.execute("return 1").await;
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("the code was not run: no relay answers at ws://127.0.0.1:"), "{text}");
    client.close().await;
}
