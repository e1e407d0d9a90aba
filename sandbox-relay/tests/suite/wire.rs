//! The socket byte by byte: peers without hello, close codes, refusals.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use host_client::{Error, LocalRelay, Tools};
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use crate::support::{Fixture, connect_as, start_relay, within};

/// A WebSocket to a relay, without our client library.
#[derive(Debug)]
pub(crate) struct Raw(pub(crate) WebSocketStream<TcpStream>);

impl Raw {
    pub(crate) async fn open(relay: &LocalRelay) -> Self {
        let token = relay.token(&["--subject", "raw"]).await.unwrap();
        Self::open_with(relay, Some(&format!("Bearer {token}"))).await.unwrap()
    }

    async fn open_with(relay: &LocalRelay, authorization: Option<&str>) -> Result<Self, WebSocketError> {
        Self::open_as(relay, authorization, false).await
    }

    /// Opens a WebSocket that is there to resume a session.
    pub(crate) async fn open_to_resume(relay: &LocalRelay, token: &str) -> Result<Self, WebSocketError> {
        Self::open_as(relay, Some(&format!("Bearer {token}")), true).await
    }

    pub(crate) async fn open_with_token(relay: &LocalRelay, token: &str) -> Result<Self, WebSocketError> {
        Self::open_with(relay, Some(&format!("Bearer {token}"))).await
    }

    async fn open_as(
        relay: &LocalRelay,
        authorization: Option<&str>,
        is_to_resume: bool,
    ) -> Result<Self, WebSocketError> {
        let mut request = format!("ws://{}/ws", relay.address()).into_client_request()?;
        if let Some(authorization) = authorization {
            request.headers_mut().insert("authorization", authorization.parse().unwrap());
        }
        if is_to_resume {
            request.headers_mut().insert("relay-resume", "1".parse().unwrap());
        }
        let stream = TcpStream::connect(relay.address()).await?;
        let (socket, _) = within(tokio_tungstenite::client_async(request, stream)).await?;
        Ok(Self(socket))
    }

    async fn send(&mut self, payload: Payload) {
        self.send_message(payload.into()).await;
    }

    pub(crate) async fn send_message(&mut self, message: wire::Message) {
        self.0.send(Message::Binary(frame::encode(&message))).await.unwrap();
    }

    pub(crate) async fn execute(&mut self, code: &str) {
        self.send(Payload::Execute(wire::Execute { code: code.into(), ..wire::Execute::default() })).await;
    }

    /// The next message of the relay.
    pub(crate) async fn message(&mut self) -> wire::Message {
        self.try_message().await.expect("it closed")
    }

    /// Returns the next message of the relay; `None`: the socket ended without one.
    pub(crate) async fn try_message(&mut self) -> Option<wire::Message> {
        within(async {
            loop {
                match self.0.next().await?.ok()? {
                    Message::Binary(bytes) => return Some(frame::decode(bytes).unwrap()),
                    Message::Ping(_) | Message::Pong(_) => {}
                    Message::Close(_) => return None,
                    other => panic!("{other:?}"),
                }
            }
        })
        .await
    }

    pub(crate) async fn payload(&mut self) -> Payload {
        self.message().await.payload.unwrap()
    }

    async fn result(&mut self) -> serde_json::Value {
        match self.payload().await {
            Payload::Result(result) => serde_json::from_slice(&result.data).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn error(&mut self) -> wire::Error {
        match self.payload().await {
            Payload::Error(error) => error,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn call(&mut self) -> wire::ToolCall {
        match self.payload().await {
            Payload::ToolCall(call) => call,
            other => panic!("{other:?}"),
        }
    }

    /// Reads until the relay closes, and returns its close frame.
    pub(crate) async fn close(&mut self) -> CloseFrame {
        loop {
            match within(self.0.next()).await {
                Some(Ok(Message::Close(Some(frame)))) => return frame,
                Some(Ok(Message::Close(None))) => panic!("it closed without a code"),
                Some(Ok(_)) => {}
                Some(Err(error)) => panic!("{error}"),
                None => panic!("it ended without a close"),
            }
        }
    }

    /// Says hello with these tools.
    pub(crate) async fn hello(&mut self, tools: &[&str]) -> wire::Welcome {
        self.hello_with(tools, &[]).await
    }

    /// Says hello with these tools and features.
    pub(crate) async fn hello_with(&mut self, tools: &[&str], features: &[&str]) -> wire::Welcome {
        let features = features.iter().map(|name| (*name).to_owned()).collect();
        let tools = tools.iter().map(|name| wire::Tool { name: (*name).into(), ..wire::Tool::default() }).collect();
        let hello = wire::Hello { protocol_version: 1, tools, features, ..wire::Hello::default() };
        self.send_message(wire::Message { sequence: 1, ..Payload::Hello(hello).into() }).await;
        match self.payload().await {
            Payload::Welcome(welcome) => welcome,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn success(id: &str, result: &str) -> Payload {
    let result = result.as_bytes().to_vec().into();
    Payload::ToolResult(wire::ToolResult { id: id.into(), success: true, result, ..wire::ToolResult::default() })
}

#[tokio::test]
async fn a_peer_without_hello_is_served() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    raw.execute("return 6 * 7").await;
    assert_eq!(raw.result().await, json!(42));

    raw.execute("return await mcp.call('host.weather.now', {city: 'Bern'})").await;
    let call = raw.call().await;
    assert_eq!(call.tool, "weather.now", "the name is without its server");
    assert_eq!(&call.arguments[..], br#"{"city":"Bern"}"#);
    raw.execute("return 'too early'").await;
    assert_eq!(raw.error().await.code, "OVERLOADED");
    raw.send(success(&call.id, "{\"celsius\":7}")).await;
    assert_eq!(raw.result().await, json!({"celsius": 7}));

    // Nothing in the result is null; an error that names a call fails that call.
    raw.execute("const a = await mcp.call('host.a'); try { await mcp.call('host.b') } catch (e) { return [a, e.code, e.message] }").await;
    let call = raw.call().await;
    raw.send(success(&call.id, "")).await;
    let call = raw.call().await;
    raw.send(Payload::Error(wire::Error { id: call.id, error: "broken".into(), ..wire::Error::default() })).await;
    assert_eq!(raw.result().await, json!([null, "TOOL_FAILED", "broken"]));

    // A failed result, as supertools' own client sends it: without a code.
    raw.execute("try { await mcp.call('host.c') } catch (e) { return [e.code, e.message] }").await;
    let id = raw.call().await.id;
    raw.send(Payload::ToolResult(wire::ToolResult { id, error: "no".into(), ..wire::ToolResult::default() })).await;
    assert_eq!(raw.result().await, json!(["TOOL_FAILED", "no"]));

    raw.execute("try { await mcp.call('other.tool') } catch (e) { return [e.code, typeof console] }").await;
    assert_eq!(raw.result().await, json!(["UNKNOWN_SERVER", "undefined"]));

    raw.send(Payload::Ping(wire::Ping { id: "p1".into() })).await;
    assert_eq!(raw.payload().await, Payload::Pong(wire::Pong { id: "p1".into() }));

    let local_tools = [("x".to_owned(), "() => 1".to_owned())].into();
    let execute = wire::Execute { code: "1".into(), local_tools, ..wire::Execute::default() };
    raw.send(Payload::Execute(execute)).await;
    assert_eq!(raw.error().await.code, "INVALID_INPUT");
    let execute = wire::Execute { code: "1".into(), remote_tools: vec!["anything".into()], ..wire::Execute::default() };
    raw.send(Payload::Execute(execute)).await;
    assert_eq!(raw.result().await, json!(1));

    raw.execute("throw new Error('x')").await;
    let error = raw.error().await;
    // A basic peer gets no execution ids.
    assert_eq!((error.code.as_str(), error.id.as_str(), error.execution_id.as_str()), ("EVAL_ERROR", "", ""));
}

#[tokio::test]
async fn a_peer_with_hello_gets_what_the_wire_promises() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    let welcome = raw.hello(&["a.b", "a.c.d"]).await;
    assert_eq!((welcome.protocol_version, welcome.executions), (1, 8));
    assert_eq!(welcome.limits["wall_ms"], 120_000);
    assert_eq!(welcome.bindings, ["console", "timers", "io", "servers", "introspection", "store"]);
    let features = [
        "begin_within",
        "call_state",
        "credit",
        "durable",
        "go_away",
        "granted_tools",
        "large_integers",
        "local_tools",
        "renew",
        "repeatable",
        "resume",
        "tools_changed",
        "traceparent",
    ];
    assert_eq!(welcome.features, features, "what the relay does not do yet is not offered");
    let execute = wire::Execute {
        code: "console.log('x'); return await mcp.call('a.c.d')".into(),
        execution_id: "run-1".into(),
        bindings: vec!["console".into()],
        limits: [("wall_ms".to_owned(), 500_000), ("tool_call_ms".to_owned(), 5_000)].into(),
        ..wire::Execute::default()
    };
    raw.send_message(wire::Message { sequence: 2, ..Payload::Execute(execute.clone()).into() }).await;
    let message = raw.message().await;
    assert_eq!((message.sequence, message.acknowledged), (2, 2));
    let Some(Payload::Output(output)) = message.payload else { panic!("{message:?}") };
    assert_eq!((output.execution_id.as_str(), output.items[0].text.as_str()), ("run-1", "x"));
    let call = raw.call().await;
    assert_eq!((call.tool.as_str(), call.execution_id.as_str()), ("a.c.d", "run-1"));
    assert!((1..=5_000).contains(&call.remaining_ms));
    raw.send_message(wire::Message { sequence: 3, ..success(&call.id, "1").into() }).await;
    let message = raw.message().await;
    let Some(Payload::Result(result)) = message.payload else { panic!("{message:?}") };
    assert_eq!((message.sequence, result.execution_id.as_str(), &result.data[..]), (4, "run-1", &b"1"[..]));
    assert_eq!(result.warnings[0].code, "LIMIT_CLAMPED");
    let usage = result.usage.unwrap();
    assert_eq!((usage.tool_calls, usage.output_bytes), (1, 1));
    assert!(usage.wall_us > 0 && usage.cpu_us > 0 && usage.memory_bytes > 0);
    // An id is good for one execution; an unknown limit is refused by name. The session goes on.
    raw.send_message(wire::Message { sequence: 4, ..Payload::Execute(execute.clone()).into() }).await;
    let error = raw.error().await;
    assert_eq!((error.code.as_str(), error.execution_id.as_str()), ("INVALID_INPUT", "run-1"));
    let wrong = wire::Execute { execution_id: "run-2".into(), limits: [("wall".to_owned(), 1)].into(), ..execute };
    raw.send_message(wire::Message { sequence: 5, ..Payload::Execute(wrong).into() }).await;
    assert!(raw.error().await.error.contains("wall_ms"));
    // An answer that comes too late is no fault.
    raw.send_message(wire::Message { sequence: 6, ..success(&call.id, "1").into() }).await;
    raw.send_message(wire::Message { sequence: 7, ..Payload::Ping(wire::Ping { id: "p".into() }).into() }).await;
    assert!(matches!(raw.payload().await, Payload::Pong(_)));
}

/// Sends an execution as the second message.
async fn second(raw: &mut Raw, code: &str, limits: &[(&str, u64)]) {
    let execute = wire::Execute {
        code: code.into(),
        execution_id: "e".into(),
        limits: limits.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        traceparent: TRACEPARENT.into(),
        ..wire::Execute::default()
    };
    raw.send_message(wire::Message { sequence: 2, ..Payload::Execute(execute).into() }).await;
}

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

pub(crate) fn call_state(call: &wire::ToolCall, status: wire::CallStatus) -> Payload {
    let (execution_id, call_id) = (call.execution_id.clone(), call.id.clone());
    Payload::CallState(wire::CallState { execution_id, call_id, status: status.into() })
}

#[tokio::test]
async fn the_clocks_stand_still_while_a_call_awaits_approval() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello(&["a.b"]).await;
    let limits = [("wall_ms", 1_000), ("tool_call_ms", 800)];
    second(&mut raw, "await mcp.call('a.b'); return await mcp.call('a.b')", &limits).await;
    let call = raw.call().await;
    assert_eq!(call.traceparent, TRACEPARENT);
    raw.send_message(wire::Message { sequence: 3, ..call_state(&call, wire::CallStatus::AwaitingApproval).into() })
        .await;
    // The relay has it when it answers what comes after it.
    raw.send_message(wire::Message { sequence: 4, ..Payload::Ping(wire::Ping::default()).into() }).await;
    assert!(matches!(raw.payload().await, Payload::Pong(_)));
    // The approval takes until the time of another execution, begun later, has run out.
    let mut other = Raw::open(&relay).await;
    other.hello(&["a.b"]).await;
    second(&mut other, "await mcp.call('a.b')", &[("wall_ms", 1_000)]).await;
    other.call().await;
    while !matches!(other.payload().await, Payload::Error(error) if error.code == "TIMEOUT") {}
    raw.send_message(wire::Message { sequence: 5, ..call_state(&call, wire::CallStatus::Started).into() }).await;
    raw.send_message(wire::Message { sequence: 6, ..success(&call.id, "1").into() }).await;
    let call = raw.call().await;
    // The clock goes on where it stood.
    assert!((1..=800).contains(&call.remaining_ms), "{call:?}");
    raw.send_message(wire::Message { sequence: 7, ..success(&call.id, "2").into() }).await;
    let Payload::Result(result) = raw.payload().await else { panic!("it ended otherwise") };
    let usage = result.usage.unwrap();
    assert!(usage.approval_us >= 1_000_000 && usage.wall_us < 1_000_000, "{usage:?}");
}

#[tokio::test]
async fn an_approval_has_its_own_limit_that_no_change_of_mind_renews() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello(&["a.b"]).await;
    let code = "try { await mcp.call('a.b') } catch (error) { return error.code + error.message }";
    second(&mut raw, code, &[("approval_ms", 300), ("tool_call_ms", 60_000)]).await;
    let call = raw.call().await;
    let mut sequence = 2;
    let given_up = loop {
        for status in
            [wire::CallStatus::AwaitingApproval, wire::CallStatus::Started, wire::CallStatus::AwaitingApproval]
        {
            sequence += 1;
            raw.send_message(wire::Message { sequence, ..call_state(&call, status).into() }).await;
        }
        if let Ok(payload) = tokio::time::timeout(Duration::from_millis(50), raw.payload()).await {
            break payload;
        }
    };
    let Payload::Cancel(cancel) = given_up else { panic!("{given_up:?}") };
    assert_eq!((cancel.call_id, cancel.reason.as_str()), (call.id.clone(), "approval_ms is used up"));
    let result = raw.result().await;
    assert_eq!(result, json!("APPROVAL_TIMEOUTnobody approved the call of a.b within 300 ms"));
    // A state that crossed with the end is no fault; one of a call that never was, is.
    sequence += 1;
    raw.send_message(wire::Message { sequence, ..call_state(&call, wire::CallStatus::Started).into() }).await;
    let never = wire::ToolCall { id: "99".into(), ..call };
    sequence += 1;
    raw.send_message(wire::Message { sequence, ..call_state(&never, wire::CallStatus::Started).into() }).await;
    assert_eq!(raw.error().await.code, "PROTOCOL_ERROR");
}

#[tokio::test]
async fn a_call_says_the_line_that_makes_it_as_the_author_counts() {
    let relay = start_relay(&[]).await;
    for (code, line) in [
        ("const a = 1\n\nreturn await mcp.call('a.b', {a})", 3),
        ("// one\nasync () => {\n  await [1].map((n) =>\n    mcp.call('a.b', n))[0]\n}", 4),
        ("Do this:\n```ts\nconst a: number = 1;\nawait mcp.call('a.b', {a})\n```", 4),
        ("interface A {\n  n: number\n}\nconst a: A = {n: 1}\nreturn a.n && mcp.call('a.b')", 5),
        ("const calls = [1]\n  .map(mcp.call.bind(mcp, 'a.b'))\nreturn await calls[0]", 2),
        // The error of the call then has no stack, or one without the author's frame.
        ("Error.stackTraceLimit = 0\nreturn await mcp.call('a.b')", 2),
        ("Error.stackTraceLimit = 1\n\nreturn await ['a.b'].map((name) => name).map(mcp.call)[0]", 3),
        ("const {call} = mcp;\nreturn await Promise.resolve('a.b').then(call)", 0),
    ] {
        let mut raw = Raw::open(&relay).await;
        raw.hello(&["a.b"]).await;
        second(&mut raw, code, &[]).await;
        match raw.payload().await {
            Payload::ToolCall(call) => assert_eq!(call.line, line, "{code}"),
            ended => assert!(line == 0, "{code}: {ended:?}"),
        }
    }
    // A basic peer knows no line.
    let mut raw = Raw::open(&relay).await;
    raw.execute("return await mcp.call('host.a')").await;
    assert_eq!(raw.call().await.line, 0);
}

#[tokio::test]
async fn waiting_for_the_turn_is_no_waiting_for_the_answer_but_all_of_it_is_limited() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello(&["a.b"]).await;
    let code = "return await Promise.all([1, 2].map(n => mcp.call('a.b', n).catch(error => error.code)))";
    second(&mut raw, code, &[("approval_ms", 500), ("tool_call_ms", 60_000), ("wall_ms", 1_000)]).await;
    let (first, other) = (raw.call().await, raw.call().await);
    let states = [(&first, wire::CallStatus::AwaitingApproval), (&other, wire::CallStatus::AwaitingTurn)];
    for (sequence, (call, status)) in (3..).zip(states) {
        raw.send_message(wire::Message { sequence, ..call_state(call, status).into() }).await;
    }
    let started = std::time::Instant::now();
    let Payload::Cancel(cancel) = raw.payload().await else { panic!("the first is given up alone") };
    assert_eq!(cancel.call_id, first.id);
    // The other one waits on; after four times approval_ms the execution's own clock goes on, and ends it.
    let error = loop {
        match raw.payload().await {
            Payload::Error(error) => break error,
            Payload::Cancel(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(error.code, "TIMEOUT");
    assert!(started.elapsed() >= Duration::from_millis(2_500), "{:?}", started.elapsed());
    let usage = error.usage.unwrap();
    assert!((1_900_000..6_000_000).contains(&usage.approval_us), "{usage:?}");
}

#[tokio::test]
async fn a_host_can_change_its_tools() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello(&["a.b"]).await;
    let code = "await mcp.call('a.b'); const gone = await mcp.call('a.b').catch(error => error.code);
                return [gone, await mcp.call('c.d')]";
    second(&mut raw, code, &[]).await;
    let call = raw.call().await;
    let tools = vec![wire::Tool { name: "c.d".into(), ..wire::Tool::default() }];
    raw.send_message(wire::Message { sequence: 3, ..Payload::ToolsChanged(wire::ToolsChanged { tools }).into() }).await;
    // A running execution comes to its end.
    raw.send_message(wire::Message { sequence: 4, ..success(&call.id, "1").into() }).await;
    let call = raw.call().await;
    assert_eq!(call.tool, "c.d");
    raw.send_message(wire::Message { sequence: 5, ..success(&call.id, "2").into() }).await;
    assert_eq!(raw.result().await, json!(["UNKNOWN_SERVER", 2]));
    let tools = vec![wire::Tool { name: "no name".into(), ..wire::Tool::default() }];
    raw.send_message(wire::Message { sequence: 6, ..Payload::ToolsChanged(wire::ToolsChanged { tools }).into() }).await;
    assert_eq!(raw.error().await.code, "PROTOCOL_ERROR");
}

#[tokio::test]
async fn a_cancel_that_comes_together_with_a_result_counts() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello(&["a.b"]).await;
    let code = "for (;;) await mcp.call('a.b')".into();
    let execute = wire::Execute { code, execution_id: "e".into(), ..wire::Execute::default() };
    raw.send_message(wire::Message { sequence: 2, ..Payload::Execute(execute).into() }).await;
    let call = raw.call().await;
    let cancel = wire::Cancel { execution_id: "e".into(), ..wire::Cancel::default() };
    let burst = [success(&call.id, "1"), Payload::Cancel(cancel)];
    for (sequence, payload) in (3..).zip(burst) {
        let message = wire::Message { sequence, ..payload.into() };
        raw.0.feed(Message::Binary(frame::encode(&message))).await.unwrap();
    }
    raw.0.flush().await.unwrap();
    let ended = loop {
        match raw.payload().await {
            Payload::Error(error) => break error,
            Payload::ToolCall(_) | Payload::Cancel(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((ended.code.as_str(), ended.execution_id.as_str()), ("CANCELLED", "e"));
    // A message of a newer peer's kind counts in the sequence and means nothing.
    raw.0.send(Message::Binary(vec![0x92, 0x03, 0x00, 0xa0, 0x06, 0x05].into())).await.unwrap();
    raw.send_message(wire::Message { sequence: 6, ..Payload::Ping(wire::Ping::default()).into() }).await;
    assert!(matches!(raw.payload().await, Payload::Pong(_)));
    // The peer's close is answered.
    raw.0.close(None).await.unwrap();
    assert!(matches!(within(raw.0.next()).await, Some(Ok(Message::Close(_))) | None));
}

#[tokio::test]
async fn a_broken_protocol_closes_with_its_code() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    raw.0.send(Message::text("hello")).await.unwrap();
    assert_eq!(u16::from(raw.close().await.code), 1003);

    for garbage in [&b"\xff\xff\xff\xff"[..], b"\x0a\xff\xff\xff\xff\x0f", b"\x0b\x0c", b"\x32\x00\x3a\x00"] {
        let mut raw = Raw::open(&relay).await;
        raw.0.send(Message::Binary(garbage.to_vec().into())).await.unwrap();
        assert_eq!(u16::from(raw.close().await.code), 1007, "{garbage:?}");
    }

    // Over the cap of the transport, and over that of one kind.
    let mut raw = Raw::open(&relay).await;
    raw.0.send(Message::Binary(vec![0; frame::MAX_FRAME_BYTES + 1].into())).await.unwrap();
    assert_eq!(u16::from(raw.close().await.code), 1009);
    let mut raw = Raw::open(&relay).await;
    raw.send(Payload::Ping(wire::Ping { id: "x".repeat(5_000) })).await;
    let close = raw.close().await;
    assert_eq!(u16::from(close.code), 1009, "{close:?}");

    // Messages that the session's state does not allow.
    let unasked = success("7", "1");
    let late_hello = Payload::Hello(wire::Hello::default());
    for payload in [unasked, late_hello, Payload::Welcome(wire::Welcome::default())] {
        let mut raw = Raw::open(&relay).await;
        raw.hello(&[]).await;
        raw.send_message(wire::Message { sequence: 2, ..payload.into() }).await;
        assert_eq!(raw.error().await.code, "PROTOCOL_ERROR");
        assert_eq!(u16::from(raw.close().await.code), 1002);
    }
    let mut raw = Raw::open(&relay).await;
    raw.hello(&[]).await;
    raw.send_message(wire::Message { sequence: 9, ..Payload::Ping(wire::Ping::default()).into() }).await;
    assert_eq!(raw.error().await.code, "PROTOCOL_ERROR");

    let mut raw = Raw::open(&relay).await;
    raw.send_message(wire::Message { sequence: 1, ..Payload::Hello(wire::Hello::default()).into() }).await;
    assert_eq!(raw.error().await.code, "PROTOCOL_ERROR", "a hello without a version");

    // A message of an unknown kind is ignored.
    let mut raw = Raw::open(&relay).await;
    raw.0.send(Message::Binary(Vec::new().into())).await.unwrap();
    raw.0.send(Message::Binary(vec![0x92, 0x03, 0x01, 0x00].into())).await.unwrap();
    raw.execute("return 1").await;
    assert_eq!(raw.result().await, json!(1));
}

const SECRET: &str = "a secret of the tests, long enough for HS256";

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn sign(header: &jsonwebtoken::Header, claims: &serde_json::Value, secret: &str) -> String {
    jsonwebtoken::encode(header, claims, &jsonwebtoken::EncodingKey::from_secret(secret.as_bytes())).unwrap()
}

#[tokio::test]
async fn a_token_that_is_not_good_is_401() {
    let relay = LocalRelay::start_with(crate::support::binary(), &[], &[("RELAY_JWT_SECRET", SECRET)]).await.unwrap();
    let hs256 = jsonwebtoken::Header::default();
    let good = json!({"sub": "s", "exp": now() + 600, "aud": "sandbox-relay", "iss": "sandbox-relay"});
    let with = |name: &str, value: serde_json::Value| {
        let mut claims = good.clone();
        claims[name] = value;
        sign(&hs256, &claims, SECRET)
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        sign(&hs256, &claims, SECRET)
    };
    let headed = |change: fn(&mut jsonwebtoken::Header)| {
        let mut header = hs256.clone();
        change(&mut header);
        sign(&header, &good, SECRET)
    };
    let signed = sign(&hs256, &good, SECRET);
    let (head, rest) = signed.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
    let bad = [
        String::new(),
        "x".into(),
        format!("{signed}x"),
        format!("{head}.{body}.{}", signature.chars().rev().collect::<String>()),
        format!("{none}.{body}."),
        format!("{none}.{body}.{signature}"),
        "a".repeat(9_000),
        sign(&hs256, &good, "another secret of the tests, also long enough"),
        with("exp", json!(now() - 10)),
        with("nbf", json!(now() + 600)),
        with("aud", json!("another")),
        with("iss", json!("another")),
        with("limits", json!({"wall": 1})),
        without("exp"),
        without("aud"),
        without("iss"),
        without("sub"),
        headed(|header| header.alg = jsonwebtoken::Algorithm::HS512),
        headed(|header| header.jku = Some("https://example.com/keys".into())),
        headed(|header| header.x5u = Some("https://example.com/cert".into())),
        headed(|header| header.crit = Some(vec!["exp".into()])),
    ];
    let mut answers = std::collections::BTreeSet::new();
    let authorizations = bad.iter().map(|token| format!("Bearer {token}"));
    for authorization in authorizations.chain([format!("Basic {signed}"), "Bearer".into(), signed.clone()]) {
        match Raw::open_with(&relay, Some(&authorization)).await.expect_err(&authorization) {
            WebSocketError::Http(response) => {
                assert_eq!(response.status(), 401, "{authorization}");
                let mut headers: Vec<_> = response.headers().keys().map(ToString::to_string).collect();
                headers.sort();
                answers.insert((headers, response.into_body()));
            }
            error => panic!("{authorization}: {error}"),
        }
    }
    assert_eq!(answers.len(), 1, "every refusal looks the same: {answers:?}");
    assert!(
        matches!(Raw::open_with(&relay, None).await, Err(WebSocketError::Http(response)) if response.status() == 401)
    );
    assert!(Raw::open_with(&relay, Some(&format!("bearer {signed}"))).await.is_ok());
    assert!(
        Raw::open_with(&relay, Some(&format!("Bearer {}", with("aud", json!(["x", "sandbox-relay"]))))).await.is_ok()
    );

    let other = start_relay(&[]).await;
    let foreign = other.token(&["--subject", "s"]).await.unwrap();
    let config = host_client::ClientConfig::new(format!("ws://{}/ws", relay.address()), foreign);
    let refused = within(host_client::Client::connect(config, Tools::new())).await;
    assert!(matches!(refused, Err(Error::Unauthenticated)));
}

#[tokio::test]
async fn tokens_of_a_key_pair_are_taken_by_their_public_key_alone() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, arguments: &[&str]| {
        let private = folder.path().join(format!("{name}.pem"));
        let public = folder.path().join(format!("{name}.pub"));
        let mut command = std::process::Command::new("openssl");
        assert!(command.arg("genpkey").args(arguments).arg("-out").arg(&private).output().unwrap().status.success());
        let mut command = std::process::Command::new("openssl");
        command.args(["pkey", "-pubout", "-in"]).arg(&private).arg("-out").arg(&public);
        assert!(command.output().unwrap().status.success());
        (std::fs::read(private).unwrap(), public)
    };
    let claims = json!({"sub": "s", "exp": now() + 600, "aud": "sandbox-relay", "iss": "sandbox-relay"});
    type Read = fn(&[u8]) -> jsonwebtoken::errors::Result<jsonwebtoken::EncodingKey>;
    let kinds: [(&str, &[&str], jsonwebtoken::Algorithm, Read); 3] = [
        ("rsa", &["-algorithm", "RSA"], jsonwebtoken::Algorithm::RS256, jsonwebtoken::EncodingKey::from_rsa_pem),
        (
            "ec",
            &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            jsonwebtoken::Algorithm::ES256,
            jsonwebtoken::EncodingKey::from_ec_pem,
        ),
        ("ed", &["-algorithm", "ED25519"], jsonwebtoken::Algorithm::EdDSA, jsonwebtoken::EncodingKey::from_ed_pem),
    ];
    for (name, arguments, algorithm, read) in kinds {
        let (private, public) = make(name, arguments);
        let (mut child, url) = serve_with_key(&["--jwt-public-key-file", public.to_str().unwrap()]).await;
        let key = read(&private).unwrap();
        let token = jsonwebtoken::encode(&jsonwebtoken::Header::new(algorithm), &claims, &key).unwrap();
        let config = host_client::ClientConfig::new(&url, token);
        assert!(within(host_client::Client::connect(config, Tools::new())).await.is_ok(), "{name}");
        // The public key is no secret: a token signed with it as if it were one is none.
        let forged = sign(&jsonwebtoken::Header::default(), &claims, &std::fs::read_to_string(&public).unwrap());
        let refused =
            within(host_client::Client::connect(host_client::ClientConfig::new(&url, forged), Tools::new())).await;
        assert!(matches!(refused, Err(Error::Unauthenticated)), "{name}");
        child.kill().await.unwrap();
    }
}

#[tokio::test]
async fn a_key_set_is_looked_up_by_the_tokens_key_id() {
    let folder = tempfile::tempdir().unwrap();
    let private = folder.path().join("private.pem");
    let mut command = std::process::Command::new("openssl");
    command.args(["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out"]).arg(&private);
    assert!(command.output().unwrap().status.success());
    let algorithm = jsonwebtoken::Algorithm::ES256;
    let key = jsonwebtoken::EncodingKey::from_ec_pem(&std::fs::read(private).unwrap()).unwrap();
    let mut jwk = jsonwebtoken::jwk::Jwk::from_encoding_key(&key, algorithm).unwrap();
    jwk.common.key_id = Some("one".into());
    let set = folder.path().join("keys.json");
    std::fs::write(&set, serde_json::to_vec(&jsonwebtoken::jwk::JwkSet { keys: vec![jwk] }).unwrap()).unwrap();
    let (mut child, url) = serve_with_key(&["--jwks-file", set.to_str().unwrap()]).await;
    let claims = json!({"sub": "s", "exp": now() + 600, "aud": "sandbox-relay", "iss": "sandbox-relay"});
    for (id, is_good) in [(Some("one"), true), (Some("two"), false), (None, false)] {
        let header = jsonwebtoken::Header { kid: id.map(Into::into), ..jsonwebtoken::Header::new(algorithm) };
        let token = jsonwebtoken::encode(&header, &claims, &key).unwrap();
        let connected =
            within(host_client::Client::connect(host_client::ClientConfig::new(&url, token), Tools::new())).await;
        assert_eq!(connected.is_ok(), is_good, "{id:?}");
    }
    child.kill().await.unwrap();
}

/// A relay that checks tokens with another key than a shared secret, and its address.
async fn serve_with_key(arguments: &[&str]) -> (tokio::process::Child, String) {
    let mut command = tokio::process::Command::new(crate::support::binary());
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    command.env_remove("RELAY_JWT_SECRET").kill_on_drop(true).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().unwrap()));
    let line = within(lines.next_line()).await.unwrap().unwrap();
    (child, format!("ws://{}/ws", line.strip_prefix("listening on ").unwrap()))
}

#[tokio::test]
async fn who_does_not_finish_the_request_is_closed() {
    let relay = start_relay(&["--handshake-ms", "300"]).await;
    for sent in ["", "GET /ws HTTP/1.1\r\nHost: relay\r\nAuthor"] {
        let mut stream = TcpStream::connect(relay.address()).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // Closed, with an answer or without.
        let _ = within(stream.read_to_end(&mut answer)).await;
        assert!(!answer.starts_with(b"HTTP/1.1 101"), "{sent:?}");
    }
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    let head = format!("GET /health HTTP/1.1\r\nHost: relay\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = String::new();
    let _ = within(stream.read_to_string(&mut answer)).await;
    assert!(!answer.starts_with("HTTP/1.1 200"), "a head over the cap");
}

#[tokio::test]
async fn sources_that_wait_are_bounded_in_bytes() {
    // One place: everything else of this session waits.
    let relay = start_relay(&["--executions", "1"]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello(&[]).await;
    let mut sequence = 1;
    let mut codes = Vec::new();
    for n in 0..40 {
        sequence += 1;
        let code = if n == 0 { "for(;;){}".to_owned() } else { format!("return 1 //{}", "x".repeat(1_000_000)) };
        let execute = wire::Execute { code, execution_id: format!("e{n}"), ..wire::Execute::default() };
        raw.send_message(wire::Message { sequence, ..Payload::Execute(execute).into() }).await;
    }
    sequence += 1;
    raw.send_message(wire::Message { sequence, ..Payload::Ping(wire::Ping::default()).into() }).await;
    loop {
        match raw.payload().await {
            Payload::Error(error) => codes.push(error.code),
            Payload::Pong(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!((5..=8).contains(&codes.len()) && codes.iter().all(|code| code == "OVERLOADED"), "{codes:?}");
}

#[tokio::test]
async fn a_session_ends_with_its_token() {
    let relay = start_relay(&[]).await;
    // With the leeway this is five seconds.
    let token = relay.token(&["--subject", "s", "--ttl", "0s"]).await.unwrap();
    let mut raw = Raw::open_with(&relay, Some(&format!("Bearer {token}"))).await.unwrap();
    assert_eq!(u16::from(raw.close().await.code), 1008);
}

#[tokio::test]
async fn a_token_says_which_tools_and_limits_there_are() {
    let fixture = Fixture::start(&[]).await;
    let arguments = ["--subject", "s", "--tools", "test.add", "--limit", "wall_ms=700000", "--limit", "tool_calls=3"];
    let client = connect_as(&fixture.relay, &arguments, crate::support::tools(&fixture.seen)).await.unwrap();
    assert_eq!(client.limits().get(host_client::LimitName::WallMs), Some(700_000));
    let code = "const r = []; for (const t of ['test.fail', 'test.add', 'test.add', 'test.add', 'test.add']) \
        r.push(await mcp.call(t, {a: 1, b: 1}).catch((e) => e.code)); return r";
    let outcome = within(client.run(host_client::ExecuteRequest::new(code).always_in_sandbox())).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!(["UNKNOWN_TOOL", 2, 2, "TOOL_CALL_LIMIT", "TOOL_CALL_LIMIT"]));
    let arguments = ["--subject", "s", "--limit", "wall_ms=9000000"];
    let client = connect_as(&fixture.relay, &arguments, Tools::new()).await.unwrap();
    assert_eq!(client.warnings()[0].code, "LIMIT_CLAMPED");
}
