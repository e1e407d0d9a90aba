//! The client as an application uses it: values of its own types, events as a stream, tools that come late, errors to act on.

use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use host_client::{
    Client, ClientConfig, Effect, Error, ErrorCode, Event, ExecuteRequest, Host, LocalRelay, Policy, ToolError, Tools,
};
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

async fn connected(tools: Tools) -> (LocalRelay, Client) {
    let relay = LocalRelay::start().await.unwrap();
    let client = Client::connect(relay.client_config().await.unwrap(), tools).await.unwrap();
    (relay, client)
}

#[tokio::test]
async fn a_value_comes_as_a_type_of_the_application() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Sum {
        of: Vec<u32>,
        sum: u32,
    }
    let (_relay, client) = connected(Tools::new()).await;
    let request = ExecuteRequest::new("return {of: [1, 2], sum: 3}").wall(Duration::from_secs(20));
    assert_eq!(client.run_as::<Sum>(request).await.unwrap(), Sum { of: vec![1, 2], sum: 3 });
    let error = client.run_as::<Sum>(ExecuteRequest::new("return 7")).await.unwrap_err();
    assert!(matches!(error, Error::Result(_)), "{error}");
    let error = client.run(ExecuteRequest::new("for (;;);").wall(Duration::from_millis(200))).await.unwrap_err();
    assert!(error.is_timeout() && error.error_code() == Some(ErrorCode::Timeout), "{error}");
}

#[tokio::test]
async fn events_are_a_stream_that_ends_with_the_execution() {
    let (_relay, client) = connected(Tools::new()).await;
    let execution = client.execute(ExecuteRequest::new("console.log('hello'); return 1")).await.unwrap();
    let (execution, events) = execution.with_events();
    let (outcome, events) = tokio::join!(execution, events.collect::<Vec<_>>());
    assert_eq!(outcome.unwrap().value().unwrap(), 1);
    assert!(events.iter().any(|event| matches!(event, Event::Output(item) if item.text.contains("hello"))));
    assert!(matches!(events.last(), Some(Event::Ended { code: None, .. })), "{events:?}");
}

#[tokio::test]
async fn a_tool_that_comes_late_can_be_waited_for() {
    let tools = Tools::new();
    let (_relay, client) = connected(tools.clone()).await;
    // Nothing has changed: nothing is waited for.
    client.tools_announced().await.unwrap();
    for name in ["late.one", "late.two"] {
        let one = move |_: serde_json::Map<String, serde_json::Value>| async move { Ok::<_, ToolError>(name) };
        tools.add(name, "Comes late", Effect::ReadOnly, one).unwrap();
        client.tools_announced().await.unwrap();
        // Code reaches it by the server's object, which the relay makes of what it was told.
        let code = format!("return {name}({{}})");
        let request = ExecuteRequest::for_model(code).always_in_sandbox();
        assert_eq!(client.run_as::<String>(request).await.unwrap(), name);
    }
}

#[tokio::test]
async fn waiting_for_tools_ends_with_the_session() {
    let tools = Tools::new();
    let (mut relay, client) = connected(tools.clone()).await;
    relay.kill().await.unwrap();
    let execution = client.run(ExecuteRequest::new("return 1").always_in_sandbox()).await.unwrap_err();
    assert_eq!(execution.error_code(), Some(ErrorCode::SessionLost));
    let none = |_: serde_json::Map<String, serde_json::Value>| async { Ok::<_, ToolError>(()) };
    tools.add("late.one", "", Effect::ReadOnly, none).unwrap();
    let error = client.tools_announced().await.unwrap_err();
    assert_eq!(error.error_code(), Some(ErrorCode::SessionLost), "{error}");
}

#[tokio::test]
async fn a_server_that_is_busy_says_when_to_ask_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 2048];
            assert!(stream.read(&mut head).await.unwrap() > 0);
            let answer = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        }
    });
    let error =
        Client::connect(ClientConfig::new(format!("ws://{address}/ws"), "token"), Tools::new()).await.unwrap_err();
    assert!(error.is_connect() && error.is_retryable() && !error.is_auth(), "{error}");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert!(error.to_string().contains("503"), "{error}");
}

#[tokio::test]
async fn a_policy_that_names_no_tool_is_refused_before_anything_is_sent() {
    let host = Host::new(Tools::new()).policy(Policy::new().deny(["ops_deploy"], "never"));
    let config = ClientConfig::new("ws://127.0.0.1:1/ws", "token");
    let error = Client::connect(config, host).await.unwrap_err().to_string();
    assert!(error.contains("rule 1") && error.contains("\"ops_deploy\" can fit no tool"), "{error}");
    let (_relay, client) = connected(Tools::new()).await;
    let error = client.run(ExecuteRequest::new("return 1").tools(["ops"])).await.unwrap_err();
    assert!(matches!(error, Error::Pattern(_)), "{error}");
    let error = Tools::new().amend(["ops"], host_client::ManifestChange::default()).unwrap_err();
    assert!(matches!(error, Error::Pattern(_)), "{error}");
}

/// The runtime has one thread, and a tool blocks it for longer than the relay may be silent: the session goes on, for the relay was
/// not silent.
#[tokio::test]
async fn a_tool_that_blocks_the_runtime_is_not_the_relays_silence() {
    const HEARTBEAT: Duration = Duration::from_millis(40);
    let (address, listening) = std::sync::mpsc::channel();
    // The relay has a runtime of its own, which is not blocked.
    let relay = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            address.send(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            let mut sequence = 0;
            let mut message = |payload: Payload| {
                sequence += 1;
                Message::Binary(frame::encode(&wire::Message { sequence, ..payload.into() }))
            };
            while let Some(Ok(received)) = socket.next().await {
                let Message::Binary(frame) = received else { continue };
                match frame::decode(frame).unwrap().payload.unwrap() {
                    Payload::Hello(_) => {
                        let welcome = wire::Welcome { protocol_version: 1, ..Default::default() };
                        socket.send(message(Payload::Welcome(welcome))).await.unwrap();
                    }
                    Payload::Execute(execute) => {
                        let call = wire::ToolCall {
                            id: "1".into(),
                            tool: "a.block".into(),
                            arguments: b"{}".as_slice().into(),
                            execution_id: execute.execution_id,
                            remaining_ms: 30_000,
                            ..Default::default()
                        };
                        socket.send(message(Payload::ToolCall(call))).await.unwrap();
                    }
                    Payload::ToolResult(result) => {
                        assert!(result.success, "{result:?}");
                        let result = wire::Result {
                            execution_id: "1".into(),
                            data: b"1".as_slice().into(),
                            ..Default::default()
                        };
                        socket.send(message(Payload::Result(result))).await.unwrap();
                    }
                    _ => {}
                }
            }
        });
    });
    let address = listening.recv().unwrap();
    let tools = Tools::new();
    let block = |_: serde_json::Map<String, serde_json::Value>| async {
        let since = Instant::now();
        while since.elapsed() < HEARTBEAT * 12 {
            std::thread::sleep(HEARTBEAT);
        }
        Ok::<_, ToolError>(())
    };
    tools.add("a.block", "Blocks its thread", Effect::ReadOnly, block).unwrap();
    let config = ClientConfig { heartbeat: HEARTBEAT, ..ClientConfig::new(format!("ws://{address}/ws"), "token") };
    let client = Client::connect(config, tools).await.unwrap();
    let outcome = client.run(ExecuteRequest::new("the code").always_in_sandbox()).await.unwrap();
    assert_eq!(outcome.value().unwrap(), 1);
    drop(client);
    // Not on this thread: the connection has to be closed on it.
    tokio::task::spawn_blocking(move || relay.join().unwrap()).await.unwrap();
}
