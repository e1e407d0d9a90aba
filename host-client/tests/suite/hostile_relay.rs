//! A relay that lies in every way it can. The host's tools run only for what the host asked, within what it granted, and an
//! application always learns how its execution ended.

mod lost;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use host_client::audit::show::{Filter, Shown, records};
use host_client::audit::{series, verify};
use host_client::error::ConnectStep;
use host_client::{
    Approval, Audit, AuditConfig, Budget, CallbackApprover, Client, ClientConfig, Effect, Error, ErrorCode, Event,
    ExecuteRequest, Host, LimitName, Policy, ToolError, ToolSpec, Tools,
};
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

const PATIENCE: Duration = Duration::from_secs(30);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

/// The fake relay's end of a session, after hello and welcome.
struct Liar {
    socket: WebSocketStream<TcpStream>,
    sequence: u64,
}

impl Liar {
    async fn send(&mut self, payload: Payload) {
        self.sequence += 1;
        self.send_message(wire::Message { sequence: self.sequence, ..payload.into() }).await;
    }

    async fn send_message(&mut self, message: wire::Message) {
        // The host may have ended the session: that is what some tests are about.
        let _ = self.socket.send(Message::Binary(frame::encode(&message))).await;
    }

    /// The host's next message, or nothing when it has closed.
    async fn next(&mut self) -> Option<Payload> {
        loop {
            match within(self.socket.next()).await {
                Some(Ok(Message::Binary(bytes))) => return frame::decode(bytes).unwrap().payload,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return None,
            }
        }
    }

    /// The id of the execution that the host sends.
    async fn execution(&mut self) -> String {
        match self.next().await {
            Some(Payload::Execute(execute)) => execute.execution_id,
            other => panic!("{other:?}"),
        }
    }

    async fn result(&mut self) -> wire::ToolResult {
        match self.next().await {
            Some(Payload::ToolResult(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    async fn call(&mut self, id: &str, execution: &str, tool: &str, arguments: &str) {
        self.send(call(id, execution, tool, arguments)).await;
    }

    async fn end(&mut self, execution: &str) {
        let data = b"\"done\"".as_slice().into();
        self.send(Payload::Result(wire::Result { data, execution_id: execution.into(), ..Default::default() })).await;
    }

    /// Waits until the host has closed.
    async fn closed(&mut self) {
        while self.next().await.is_some() {}
    }
}

fn call(id: &str, execution: &str, tool: &str, arguments: &str) -> Payload {
    Payload::ToolCall(wire::ToolCall {
        id: id.into(),
        tool: tool.into(),
        arguments: arguments.as_bytes().to_vec().into(),
        execution_id: execution.into(),
        remaining_ms: 60_000,
        ..Default::default()
    })
}

fn welcome() -> wire::Welcome {
    wire::Welcome {
        protocol_version: 1,
        features: vec!["granted_tools".into(), "renew".into()],
        bindings: vec!["console".into()],
        limits: [("tool_calls".to_owned(), 5), ("tool_calls_in_flight".to_owned(), 2)].into(),
        ..Default::default()
    }
}

/// A client of a fake relay that welcomes it like this, and the relay's end.
async fn session(
    welcome: wire::Welcome,
    configure: impl FnOnce(&mut ClientConfig),
) -> (Client, Liar, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let (client, liar) = session_of(Host::new(tools(&runs)), welcome, configure).await;
    (client, liar, runs)
}

/// The same for a host that has more than tools.
async fn session_of(host: Host, welcome: wire::Welcome, configure: impl FnOnce(&mut ClientConfig)) -> (Client, Liar) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = ClientConfig::new(format!("ws://{}/ws", listener.local_addr().unwrap()), "token");
    configure(&mut config);
    let relay = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let mut liar = Liar { socket, sequence: 0 };
        assert!(matches!(liar.next().await, Some(Payload::Hello(_))));
        liar.send(Payload::Welcome(welcome)).await;
        liar
    });
    let client = within(Client::connect(config, host)).await.unwrap();
    (client, within(relay).await.unwrap())
}

async fn usual() -> (Client, Liar, Arc<AtomicUsize>) {
    session(welcome(), |_| {}).await
}

#[derive(Deserialize, JsonSchema)]
struct Pay {
    #[serde(rename = "amount")]
    _amount: u32,
}

/// `bank.pay` counts its runs; `bank.wait` never ends.
fn tools(runs: &Arc<AtomicUsize>) -> Tools {
    let tools = Tools::new();
    let counted = Arc::clone(runs);
    tools
        .add("bank.pay", "Pays", Effect::ReadOnly, move |_: Pay| {
            let run = counted.fetch_add(1, Ordering::SeqCst) + 1;
            async move { Ok::<_, ToolError>(run) }
        })
        .unwrap();
    let counted = Arc::clone(runs);
    let wait = ToolSpec::new("bank.wait", "Waits", json!(true)).effect(Effect::ReadOnly);
    tools
        .add_with(wait, move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        })
        .unwrap();
    tools
}

/// Starts an execution and returns the task that awaits its outcome, so that the relay can go on meanwhile.
async fn outcome(client: Client, request: ExecuteRequest) -> tokio::task::JoinHandle<Result<(), Error>> {
    let execution = client.execute(request).await.unwrap();
    // The client lives as long as the execution.
    tokio::spawn(async move { execution.await.map(|_| drop(client)) })
}

fn assert_code(error: &Error, expected: ErrorCode) {
    assert!(error.code().is_some_and(|code| *code == expected), "{error}");
}

/// Everything after which a host has nothing more to do with a relay.
#[tokio::test]
async fn a_relay_that_breaks_its_word_loses_the_session_and_runs_nothing() {
    let error = |execution: &str| {
        Payload::Error(wire::Error { error: "x".into(), execution_id: execution.into(), ..Default::default() })
    };
    let lies: Vec<(&str, Vec<Payload>)> = vec![
        ("a call for an execution that never was", vec![call("1", "77", "bank.pay", "{\"amount\":1}")]),
        ("a call for no execution", vec![call("1", "", "bank.pay", "{\"amount\":1}")]),
        ("a call without an id", vec![call("", "1", "bank.pay", "{\"amount\":1}")]),
        ("a call whose id is no number", vec![call("one", "1", "bank.pay", "{\"amount\":1}")]),
        ("an id with a sign", vec![call("+1", "1", "bank.pay", "{\"amount\":1}")]),
        ("hello", vec![Payload::Hello(wire::Hello::default())]),
        ("execute", vec![Payload::Execute(wire::Execute { code: "1".into(), ..Default::default() })]),
        ("a second welcome", vec![Payload::Welcome(welcome())]),
        ("a tool result", vec![Payload::ToolResult(wire::ToolResult::default())]),
        ("a renewal", vec![Payload::Renew(wire::Renew::default())]),
        ("an answer to no renewal", vec![Payload::Renewed(wire::Renewed::default())]),
        ("a cancel of nothing", vec![Payload::Cancel(wire::Cancel::default())]),
        ("a result without an execution", vec![Payload::Result(wire::Result::default())]),
        ("an error for an execution that cannot be", vec![error("\u{2028}")]),
        ("the relay's own end", vec![error("")]),
    ];
    for (name, payloads) in lies {
        let (client, mut liar, runs) = usual().await;
        let outcome = outcome(client, ExecuteRequest::new("return 1")).await;
        liar.execution().await;
        for payload in payloads {
            liar.send(payload).await;
        }
        let error = within(outcome).await.unwrap().expect_err(name);
        assert!(error.code().is_some_and(|code| *code == ErrorCode::SessionLost), "{name}: {error}");
        liar.closed().await;
        assert_eq!(runs.load(Ordering::SeqCst), 0, "{name}: a tool ran");
    }
}

#[tokio::test]
async fn an_id_that_comes_again_with_something_else_ends_the_session() {
    for (tool, arguments) in [("bank.pay", "{\"amount\":2}"), ("bank.wait", "{\"amount\":1}")] {
        let (client, mut liar, runs) = usual().await;
        let outcome = outcome(client, ExecuteRequest::new("return 1")).await;
        let execution = liar.execution().await;
        liar.call("1", &execution, "bank.pay", "{\"amount\":1}").await;
        assert!(liar.result().await.success);
        liar.call("1", &execution, tool, arguments).await;
        assert_code(&within(outcome).await.unwrap().unwrap_err(), ErrorCode::SessionLost);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn messages_out_of_their_order_end_the_session() {
    for sequence in [0, 1, 3, u64::MAX] {
        let (client, mut liar, _) = usual().await;
        let outcome = outcome(client, ExecuteRequest::new("return 1")).await;
        liar.execution().await;
        liar.send_message(wire::Message { sequence, ..Payload::Ping(wire::Ping::default()).into() }).await;
        assert_code(&within(outcome).await.unwrap().unwrap_err(), ErrorCode::SessionLost);
    }
}

#[tokio::test]
async fn bytes_of_no_meaning_end_the_session() {
    let frames = [
        Message::Text("{}".into()),
        Message::Binary(vec![0xff; 64].into()),
        Message::Binary(vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f].into()),
        // A ping and a pong in one message; sixteen thousand pieces of output for nobody.
        Message::Binary(vec![0x32, 0x00, 0x3a, 0x00].into()),
        Message::Binary([vec![0x5a, 0xc0, 0x8c, 0x02], [0x12, 0x00].repeat(17_184)].concat().into()),
        Message::Close(None),
    ];
    for frame in frames {
        let name = format!("{:.60?}", frame);
        let (client, mut liar, _) = usual().await;
        let outcome = outcome(client, ExecuteRequest::new("return 1")).await;
        liar.execution().await;
        liar.socket.send(frame).await.unwrap();
        let error = within(outcome).await.unwrap().expect_err(&name);
        assert!(error.code().is_some_and(|code| *code == ErrorCode::SessionLost), "{name}: {error}");
    }
}

#[tokio::test]
async fn the_same_call_runs_once_and_is_answered_alike() {
    let (client, mut liar, runs) = usual().await;
    let outcome = outcome(client, ExecuteRequest::new("return 1")).await;
    let execution = liar.execution().await;
    let mut answers = Vec::new();
    for _ in 0..4 {
        liar.call("1", &execution, "bank.pay", "{\"amount\":1}").await;
        answers.push(liar.result().await);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.success));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    liar.end(&execution).await;
    within(outcome).await.unwrap().unwrap();
}

#[tokio::test]
async fn calls_that_the_execution_may_not_make_fail_alone() {
    let (client, mut liar, runs) = usual().await;
    let request = ExecuteRequest::new("return 1").tools(["bank.p*"]);
    let outcome = outcome(client, request).await;
    let execution = liar.execution().await;
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let refused = [
        ("bank.wait", "{}", "UNKNOWN_TOOL"),
        ("bank.steal", "{}", "UNKNOWN_TOOL"),
        ("bank.pays", "{}", "UNKNOWN_TOOL"),
        ("bank.p\u{0}ay", "{}", "UNKNOWN_TOOL"),
        ("bank", "{}", "INVALID_TOOL_NAME"),
        ("bank.pay", "{\"amount\":\"much\"}", "INVALID_ARGUMENTS"),
        ("bank.pay", "{\"amount\":-1}", "INVALID_ARGUMENTS"),
        ("bank.pay", "{\"amount\":1", "INVALID_ARGUMENTS"),
        ("bank.pay", "", "INVALID_ARGUMENTS"),
        ("bank.pay", deep.as_str(), "INVALID_ARGUMENTS"),
    ];
    let mut used = 0;
    for (number, (tool, arguments, code)) in refused.into_iter().enumerate() {
        liar.call(&(number + 1).to_string(), &execution, tool, arguments).await;
        let answer = liar.result().await;
        assert!(!answer.success, "{tool}");
        // Five calls were granted; those that reached a tool's door count, whatever came of them.
        let expected = if used < 5 { code } else { answer.code.as_str() };
        assert_eq!(answer.code, expected, "{tool} {arguments:.40}: {}", answer.error);
        assert!(matches!(answer.code.as_str(), "TOOL_CALL_LIMIT" | "UNKNOWN_TOOL") || answer.code == code);
        used += usize::from(answer.code != "UNKNOWN_TOOL" || tool == "bank.pays" || tool.contains('\0'));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    liar.end(&execution).await;
    within(outcome).await.unwrap().unwrap();
}

#[tokio::test]
async fn no_more_calls_run_than_were_granted_whatever_the_relay_says() {
    // A relay that grants itself everything is believed up to the maxima, and no further than what was asked.
    let limits = [("tool_calls".to_owned(), u64::MAX), ("tool_calls_in_flight".to_owned(), u64::MAX)];
    let generous = wire::Welcome { limits: limits.into(), ..welcome() };
    let (client, mut liar, runs) = session(generous, |_| {}).await;
    let request = ExecuteRequest::new("return 1").limit(LimitName::ToolCalls, 3).limit(LimitName::ToolCallsInFlight, 2);
    let outcome = outcome(client.clone(), request).await;
    let execution = liar.execution().await;
    for id in 1..=3 {
        liar.call(&id.to_string(), &execution, "bank.wait", "{}").await;
    }
    let refused = liar.result().await;
    assert_eq!((refused.id.as_str(), refused.code.as_str()), ("3", "TOOL_CALL_LIMIT"), "two at once");
    for id in 1..=2_u32 {
        let cancel = wire::Cancel { execution_id: execution.clone(), call_id: id.to_string(), reason: "x".into() };
        liar.send(Payload::Cancel(cancel)).await;
    }
    liar.call("4", &execution, "bank.pay", "{\"amount\":1}").await;
    assert!(liar.result().await.success);
    liar.call("5", &execution, "bank.pay", "{\"amount\":1}").await;
    assert_eq!(liar.result().await.code, "TOOL_CALL_LIMIT", "three in all");
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    liar.end(&execution).await;
    liar.call("6", &execution, "bank.pay", "{\"amount\":1}").await;
    assert_eq!(liar.result().await.code, "CANCELLED", "after its end");
    within(outcome).await.unwrap().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn the_bound_of_the_queue_is_sent_to_a_relay_that_knows_it() {
    let mut knows = welcome();
    knows.features.push("begin_within".into());
    for (welcome, queue_timeout, expected) in [
        (knows.clone(), Duration::from_millis(300), 300),
        (knows, Duration::ZERO, 1),
        (welcome(), Duration::from_millis(300), 0),
    ] {
        let (client, mut liar, _) = session(welcome, |config| config.queue_timeout = queue_timeout).await;
        let _running = client.execute(ExecuteRequest::new("return 1")).await.unwrap();
        let Some(Payload::Execute(execute)) = liar.next().await else { panic!("no execute") };
        assert_eq!(execute.begin_within_ms, expected);
    }
}

#[tokio::test]
async fn an_execution_ends_for_the_application_even_if_it_never_does_for_the_relay() {
    let (client, mut liar, _) = session(welcome(), |config| config.queue_timeout = Duration::ZERO).await;
    let request = ExecuteRequest::new("return 1").limit(LimitName::WallMs, 1);
    let started = Instant::now();
    let outcome = outcome(client, request).await;
    let execution = liar.execution().await;
    // It answers pings and says nothing else.
    let Some(Payload::Cancel(cancel)) = next_message(&mut liar).await else { panic!("no cancel") };
    assert_eq!(cancel.execution_id, execution);
    assert_code(&within(outcome).await.unwrap().unwrap_err(), ErrorCode::Timeout);
    assert!(started.elapsed() >= Duration::from_secs(30), "patience comes on top of the limits");
}

/// Reads on, answering pings, for as long as it takes.
async fn next_message(liar: &mut Liar) -> Option<Payload> {
    tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            match liar.socket.next().await {
                Some(Ok(Message::Binary(bytes))) => return frame::decode(bytes).unwrap().payload,
                Some(Ok(_)) => {}
                _ => return None,
            }
        }
    })
    .await
    .expect("it waits for ever")
}

#[tokio::test]
async fn a_relay_that_is_silent_is_given_up() {
    let (client, liar, _) = session(welcome(), |config| config.heartbeat = Duration::from_millis(50)).await;
    let outcome = outcome(client, ExecuteRequest::new("return 1")).await;
    // It reads nothing, so that it answers no ping.
    assert_code(&within(outcome).await.unwrap().unwrap_err(), ErrorCode::SessionLost);
    drop(liar);
}

#[tokio::test]
async fn output_without_end_is_kept_within_bounds() {
    let (client, mut liar, _) = usual().await;
    let execution = client.execute(ExecuteRequest::new("return 1")).await.unwrap();
    let id = liar.execution().await;
    let item = wire::OutputItem { kind: wire::OutputKind::Log.into(), text: "x".repeat(1 << 20) };
    for _ in 0..24 {
        let output = wire::Output { execution_id: id.clone(), items: vec![item.clone()], ..Default::default() };
        liar.send(Payload::Output(output)).await;
    }
    liar.end(&id).await;
    let outcome = within(execution).await.unwrap();
    let bytes: usize = outcome.output.iter().map(|item| item.text.len()).sum();
    assert!(bytes <= 8 << 20, "{bytes}");
}

#[tokio::test]
async fn what_belongs_to_no_execution_of_ours_reaches_nobody() {
    let (client, mut liar, _) = usual().await;
    let outcome = outcome(client, ExecuteRequest::new("return 1")).await;
    let execution = liar.execution().await;
    liar.end("999").await;
    liar.send(Payload::Output(wire::Output { execution_id: "999".into(), ..Default::default() })).await;
    liar.end(&execution).await;
    // The second end of the same execution is none.
    liar.end(&execution).await;
    within(outcome).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_token_follows_no_redirect() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    let target = elsewhere.local_addr().unwrap();
    let redirecting = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        assert!(String::from_utf8_lossy(&request[..length]).contains("Bearer the-token"));
        let answer = format!(
            "HTTP/1.1 302 Found\r\nLocation: http://{target}/ws\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let error = within(Client::connect(ClientConfig::new(url, "the-token"), Tools::new())).await.unwrap_err();
    assert!(matches!(&error, Error::Status { status, .. } if status.as_u16() == 302), "{error}");
    within(redirecting).await.unwrap();
    let followed = tokio::time::timeout(Duration::from_millis(300), elsewhere.accept()).await;
    assert!(followed.is_err(), "it went where it was sent");
}

#[tokio::test]
async fn a_first_message_that_is_no_welcome_is_refused() {
    let first = [
        (Payload::Ping(wire::Ping::default()).into(), false),
        (wire::Message { sequence: 2, ..Payload::Welcome(welcome()).into() }, false),
        (wire::Message::default(), false),
        (Payload::Error(wire::Error { error: "go away".repeat(1_000), ..Default::default() }).into(), true),
    ];
    for (message, is_refusal) in first {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/ws", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            let _ = socket.send(Message::Binary(frame::encode(&message))).await;
            while socket.next().await.is_some_and(|message| message.is_ok()) {}
        });
        let error = within(Client::connect(ClientConfig::new(url, "t"), Tools::new())).await.unwrap_err();
        match &error {
            Error::Refused(reason) => assert!(is_refusal && reason.len() < 300, "{error}"),
            Error::NoRelay { reason, .. } => assert!(!is_refusal && reason.contains("no welcome"), "{error}"),
            _ => panic!("{error}"),
        }
    }
}

/// A server that does this with its first connection; returns its address.
async fn server<F: Future<Output = ()> + Send + 'static>(
    scheme: &str,
    serve: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{scheme}://{}/ws", listener.local_addr().unwrap());
    tokio::spawn(async move { serve(listener.accept().await.unwrap().0).await });
    url
}

/// The beginning of what the client sends.
async fn first_bytes(stream: &mut TcpStream) {
    stream.read_exact(&mut [0; 16]).await.unwrap();
}

async fn not_connected(url: String) -> Error {
    let error = within(Client::connect(ClientConfig::new(url, "t"), Tools::new())).await.unwrap_err();
    assert!(error.is_connect() && error.error_code().is_none(), "{error}");
    error
}

#[tokio::test]
async fn a_connection_that_is_cut_says_in_which_step() {
    let hangs_up = async |mut stream: TcpStream| first_bytes(&mut stream).await;
    let upgrades = async |stream: TcpStream| {
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        socket.next().await.unwrap().unwrap();
    };
    let closes = async |stream: TcpStream| {
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        socket.close(None).await.unwrap();
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
    };
    let cut = [
        (server("wss", hangs_up).await, ConnectStep::Tls, "in the TLS handshake"),
        (server("ws", hangs_up).await, ConnectStep::WebSocket, "in the WebSocket handshake"),
        (server("ws", upgrades).await, ConnectStep::Welcome, "before the relay's welcome"),
        (server("ws", closes).await, ConnectStep::Welcome, "before the relay's welcome"),
    ];
    for (url, expected, text) in cut {
        let error = not_connected(url).await;
        assert!(matches!(&error, Error::Cut { step, .. } if *step == expected), "{error:?}");
        assert!(error.is_retryable() && error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_no_relay_is_said_to_be_none() {
    let greets = async |mut stream: TcpStream| {
        stream.write_all(b"SSH-2.0-server\r\n").await.unwrap();
        first_bytes(&mut stream).await;
    };
    let confirms_nothing = async |mut stream: TcpStream| {
        first_bytes(&mut stream).await;
        stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    };
    let writes_text = async |stream: TcpStream| {
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        socket.send(Message::text("hello")).await.unwrap();
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
    };
    let others = [
        (server("wss", greets).await, "does not speak TLS"),
        (server("ws", greets).await, "HTTP"),
        (server("ws", confirms_nothing).await, "upgrade"),
        (server("ws", writes_text).await, "text"),
    ];
    for (url, text) in others {
        let error = not_connected(url).await;
        assert!(matches!(&error, Error::NoRelay { .. }), "{error:?}");
        assert!(!error.is_retryable() && error.to_string().to_lowercase().contains(&text.to_lowercase()), "{error}");
    }
}

#[tokio::test]
async fn plain_addresses_are_for_loopback_alone() {
    for url in ["ws://192.0.2.1/ws", "ws://relay.example/ws", "http://127.0.0.1/ws", "ws:///ws", "127.0.0.1:8080", ""] {
        let error = within(Client::connect(ClientConfig::new(url, "t"), Tools::new())).await.unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{url}: {error}");
    }
}

#[tokio::test]
async fn schemas_that_could_run_away_are_refused() {
    // The first is slow for engines that go back; ours does not. The others need such an engine: they are not checked.
    for (pattern, is_checked) in [("^(a+)+$", true), ("(?=a)b", false), ("(a)\\1", false)] {
        let tools = Tools::new();
        let spec = ToolSpec::new("a.b", "", json!({"type": "string", "pattern": pattern}));
        tools.add_with(spec, |_, _| async { Ok("1".into()) }).unwrap();
        assert_eq!(tools.notes("a.b").is_empty(), is_checked, "{pattern}: {:?}", tools.notes("a.b"));
    }
    for schema in [json!({"$ref": "#"}), json!({"$ref": "https://127.0.0.1/x"}), json!({"type": 7})] {
        let spec = ToolSpec::new("a.b", "", schema.clone());
        assert!(Tools::new().add_with(spec, |_, _| async { Ok("1".into()) }).is_err(), "{schema}");
    }
}

/// A relay that knows of approvals and grants much.
fn generous() -> wire::Welcome {
    wire::Welcome {
        features: vec!["call_state".into()],
        limits: [("tool_calls".to_owned(), 1_000), ("tool_calls_in_flight".to_owned(), 64)].into(),
        ..welcome()
    }
}

#[tokio::test]
async fn questions_that_are_withdrawn_wear_nobody_out() {
    let (runs, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, seen) = (Arc::clone(&asked), Arc::new(tokio::sync::Notify::new()));
    let shown = Arc::clone(&seen);
    let asleep = CallbackApprover::new("asleep", move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        shown.notify_one();
        std::future::pending()
    });
    let host = Host::new(tools(&runs)).policy(Policy::new().ask(["bank.pay"])).approver(asleep);
    let (client, mut relay) = session_of(host, generous(), |_| {}).await;
    let running = client.execute(ExecuteRequest::new("code")).await.unwrap();
    let execution = relay.execution().await;
    for id in 1..=20 {
        relay.call(&id.to_string(), &execution, "bank.pay", r#"{"amount":1}"#).await;
        if id <= 3 {
            within(seen.notified()).await;
        } else {
            // Nobody is asked any more, so that the call is answered at once.
            let result = loop {
                match relay.next().await {
                    Some(Payload::ToolResult(result)) => break result,
                    Some(Payload::CallState(_)) => {}
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!((result.id, result.code.as_str()), (id.to_string(), "APPROVAL_DENIED"));
            continue;
        }
        let (execution_id, call_id) = (execution.clone(), id.to_string());
        relay.send(Payload::Cancel(wire::Cancel { execution_id, call_id, reason: String::new() })).await;
    }
    assert_eq!((asked.load(Ordering::SeqCst), runs.load(Ordering::SeqCst)), (3, 0));
    drop(running);
}

#[tokio::test]
async fn a_result_over_the_policys_budget_does_not_reach_the_application() {
    let runs = Arc::new(AtomicUsize::new(0));
    let policy = Policy::new().budget(Budget { bytes_returned: Some(10), ..Budget::default() });
    let (client, mut relay) = session_of(Host::new(tools(&runs)).policy(policy), generous(), |_| {}).await;
    let running = client.execute(ExecuteRequest::new("code")).await.unwrap();
    let execution_id = relay.execution().await;
    let data = vec![b'1'; 11].into();
    relay.send(Payload::Result(wire::Result { data, execution_id, ..Default::default() })).await;
    let error = within(running).await.unwrap_err();
    assert_eq!(error.code().unwrap(), &ErrorCode::ResultLimit);
}

/// Calls of every kind, stopped at every point: what ran was decided and approved before, and every call has one end.
#[tokio::test]
async fn the_audit_of_a_hostile_session_is_whole() {
    let (runs, folder) = (Arc::new(AtomicUsize::new(0)), tempfile::tempdir().unwrap());
    let log = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(&log)).unwrap();
    let policy = Policy::new().deny(["bank.wait"], "no").ask(["bank.pay"]);
    let turns = AtomicUsize::new(0);
    let fickle = CallbackApprover::new("fickle", move |_| {
        let turn = turns.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_millis(turn as u64 % 3)).await;
            if turn % 5 == 4 { Approval::deny() } else { Approval::Once }
        }
    });
    let host = Host::new(tools(&runs)).policy(policy).approver(fickle).audit(audit.clone());
    let (client, mut relay) = session_of(host, generous(), |_| {}).await;
    let mut id = 0;
    for round in 0..30 {
        let mut running = client.execute(ExecuteRequest::new("code")).await.unwrap();
        let mut events = running.events().unwrap();
        let execution = loop {
            match relay.next().await {
                Some(Payload::Execute(execute)) => break execute.execution_id,
                Some(_) => {}
                None => panic!("the host closed"),
            }
        };
        for call in 0..8 {
            id += 1;
            let tool = ["bank.pay", "bank.wait", "bank.nothing", "nowhere.to_go"][call % 4];
            let arguments = [r#"{"amount":1}"#, r#"{"amount":"x"}"#, "{]"][(round + call) % 3];
            relay.call(&id.to_string(), &execution, tool, arguments).await;
            if (round + 2 * call) % 5 == 0 {
                let (execution_id, call_id) = (execution.clone(), id.to_string());
                relay.send(Payload::Cancel(wire::Cancel { execution_id, call_id, reason: String::new() })).await;
            }
        }
        match round % 3 {
            0 => drop(running),
            1 => {
                relay.end(&execution).await;
                within(&mut running).await.unwrap();
            }
            _ => {
                // Long enough for some answers, not for all.
                tokio::time::sleep(Duration::from_millis(20)).await;
                drop(running);
            }
        }
        // What was begun has ended before the end.
        let (mut open, mut has_ended) = (std::collections::BTreeSet::new(), false);
        while let Some(event) = within(events.next()).await {
            match event {
                Event::ToolCallRequested { id, .. } => drop(open.insert(id)),
                Event::ToolCallFinished { id, .. }
                | Event::ToolCallFailed { id, .. }
                | Event::ToolCallDenied { id, .. } => drop(open.remove(&id)),
                Event::Ended { .. } => has_ended = true,
                _ => {}
            }
        }
        assert!(has_ended && open.is_empty(), "round {round}: {open:?}");
    }
    drop((client, relay));
    let (_, hash) = audit.head();
    let files = series(&log).unwrap();
    let verified = verify(&files, Some(hash)).unwrap();
    assert!(verified.is_whole() && verified.unfinished_count == 0, "{verified}");
    let (mut approved, mut denied) = (0, 0);
    for shown in records(files, Filter::default()) {
        let Shown::Record(record) = shown.unwrap() else { panic!("it is whole") };
        let record: serde_json::Value = serde_json::from_str(record.json()).unwrap();
        match (record["kind"].as_str(), record["verdict"].as_str(), record["decision"].as_str()) {
            (Some("approval"), Some("once"), _) => approved += 1,
            (Some("decision"), _, Some("deny")) => denied += 1,
            (Some("decision"), _, Some("allow")) => panic!("nothing is allowed unasked: {record}"),
            _ => {}
        }
    }
    let runs = runs.load(Ordering::SeqCst);
    assert!(runs > 0 && runs <= approved && denied > 0, "{runs} runs, {approved} approvals, {denied} denials");
}

#[tokio::test]
async fn a_relay_has_no_say_in_what_is_made_on_the_host() {
    let (client, mut liar, runs) = usual().await;
    let request = ExecuteRequest::new(r#"{"tool": "bank.wait", "arguments": {}}"#);
    let mut execution = client.execute(request).await.unwrap();
    let mut events = execution.events().unwrap();
    while !matches!(within(events.next()).await, Some(Event::ToolCallStarted { .. })) {}
    let id = execution.id().as_str().to_owned();
    // A result, an error, output, a cancel of the call: none of them means anything. What follows shows that all were read.
    liar.end(&id).await;
    let error = wire::Error { error: "x".into(), execution_id: id.clone(), ..Default::default() };
    liar.send(Payload::Error(error)).await;
    let items = vec![wire::OutputItem { kind: 2, text: "forged".into() }];
    liar.send(Payload::Output(wire::Output { execution_id: id.clone(), items, ..Default::default() })).await;
    liar.send(Payload::Cancel(wire::Cancel { execution_id: id.clone(), call_id: "0".into(), ..Default::default() }))
        .await;
    liar.send(Payload::Ping(wire::Ping { id: "read".into() })).await;
    assert!(matches!(liar.next().await, Some(Payload::Pong(_))), "nothing of it went to the relay");
    execution.cancel();
    let error = within(execution).await.unwrap_err();
    assert_code(&error, ErrorCode::Cancelled);
    let Error::Execution(error) = error else { panic!("{error}") };
    assert_eq!(error.output, []);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    // A call for it, which the relay was never told of, ends the session, and not what the host does by itself.
    let (client, mut liar, _) = usual().await;
    let execution = client.execute(ExecuteRequest::new(r#"{"tool": "bank.wait"}"#)).await.unwrap();
    liar.call("1", "1", "bank.pay", "{\"amount\":1}").await;
    liar.closed().await;
    assert_code(&within(client.run(ExecuteRequest::new("code"))).await.unwrap_err(), ErrorCode::SessionLost);
    execution.cancel();
    assert_code(&within(execution).await.unwrap_err(), ErrorCode::Cancelled);
}

#[tokio::test]
async fn the_patterns_of_the_token_hold_on_the_host() {
    let welcome = wire::Welcome { tools: vec!["shop.*".into()], ..welcome() };
    let (client, _liar, runs) = session(welcome, |_| {}).await;
    let error = within(client.run(ExecuteRequest::new(r#"{"tool": "bank.pay", "arguments": {"amount": 1}}"#))).await;
    let Error::Execution(error) = error.unwrap_err() else { panic!("no execution") };
    assert_eq!(error.tool, Some(("bank.pay".into(), ErrorCode::UnknownTool.into())));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}
