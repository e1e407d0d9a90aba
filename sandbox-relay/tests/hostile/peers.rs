//! Hostile peers: those that are slow, silent, deaf or loud, too many of them, and messages made to cost more than they
//! weigh.

use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use host_client::{ExecuteRequest, Tools};
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::hostile::arena::Arena;
use crate::hostile::rfc6455::{client_frame, close_code, next_frame, upgraded};
use crate::support::{until, within};

/// Reads until the other side closes; gives how long that took.
async fn closed(stream: &mut TcpStream) -> Duration {
    let started = Instant::now();
    let _ = within(stream.read_to_end(&mut Vec::new())).await;
    started.elapsed()
}

async fn http(arena: &Arena, head: &str) -> String {
    let mut stream = TcpStream::connect(&arena.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = within(stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn who_is_slow_before_the_upgrade_is_closed() {
    let arena = Arena::start(&["--handshake-ms", "300"]).await;
    let mut silent = TcpStream::connect(&arena.address).await.unwrap();
    assert!(closed(&mut silent).await < Duration::from_secs(5));
    // A byte now and then is not progress.
    let mut slow = TcpStream::connect(&arena.address).await.unwrap();
    let started = Instant::now();
    for byte in b"GET /ws HTTP/1.1\r\nHost: relay\r\nX-Slow: 0123456789012345678901234567890123456789".iter().cycle() {
        if slow.write_all(&[*byte]).await.is_err() {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "it is served for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Nor is asking for the same again and again, nor not reading the answers.
    let mut polite = TcpStream::connect(&arena.address).await.unwrap();
    let started = Instant::now();
    while polite.write_all(b"GET /health HTTP/1.1\r\nHost: relay\r\n\r\n").await.is_ok() {
        assert!(started.elapsed() < Duration::from_secs(20), "it is served for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut deaf = TcpStream::connect(&arena.address).await.unwrap();
    let many = b"GET /health HTTP/1.1\r\nHost: relay\r\n\r\n".repeat(10_000);
    let _ = tokio::time::timeout(Duration::from_secs(10), deaf.write_all(&many)).await;
    drop((silent, slow, polite, deaf));
    arena.unharmed().await;
}

#[tokio::test]
async fn connections_are_limited_by_address_and_by_subject() {
    let arena = Arena::start(&["--address-connections", "6", "--handshake-ms", "60000"]).await;
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(TcpStream::connect(&arena.address).await.unwrap());
    }
    let mut one_more = TcpStream::connect(&arena.address).await.unwrap();
    assert!(closed(&mut one_more).await < Duration::from_secs(5), "the seventh");
    drop(held);
    within(async { while http(&arena, "GET /ready HTTP/1.0\r\n\r\n").await.is_empty() {} }).await;
    arena.unharmed().await;

    let arena = Arena::start(&["--subject-connections", "2"]).await;
    let held = [arena.connect("many", Tools::new()).await, arena.connect("many", Tools::new()).await];
    let token = arena.token(&["--subject", "many"]).await;
    let config = host_client::ClientConfig::new(format!("ws://{}/ws", arena.address), token);
    let error = within(host_client::Client::connect(config, Tools::new())).await.unwrap_err();
    assert!(error.to_string().contains("429"), "{error}");
    drop(arena.connect("another", Tools::new()).await);
    drop(held);
    arena.unharmed().await;
}

#[tokio::test]
async fn browsers_are_refused_unless_their_origin_is_allowed() {
    let arena = Arena::start(&["--allow-origin", "https://good.example"]).await;
    let token = arena.token(&["--subject", "browser"]).await;
    let answer = |origin: &'static str| {
        let request =
            format!("GET /ws HTTP/1.1\r\nHost: relay\r\nOrigin: {origin}\r\nAuthorization: Bearer {token}\r\n\r\n");
        let arena = &arena;
        async move {
            let mut stream = TcpStream::connect(&arena.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut head = [0; 12];
            within(stream.read_exact(&mut head)).await.unwrap();
            String::from_utf8_lossy(&head[9..]).into_owned()
        }
    };
    for refused in ["https://evil.example", "null", "https://good.example.evil.example", "http://good.example", ""] {
        assert_eq!(answer(refused).await, "403", "{refused}");
    }
    // It is no WebSocket that is asked for, but the origin is not what is wrong with it.
    assert_eq!(answer("https://good.example").await, "426");
    arena.unharmed().await;
}

#[tokio::test]
async fn floods_that_the_protocol_allows_are_closed() {
    let arena = Arena::start(&[]).await;
    let mut pings = upgraded(&arena, "flood").await;
    let flood = client_frame(0x89, b"x").repeat(300);
    let _ = pings.write_all(&flood).await;
    assert_eq!(close_code(&mut pings).await, Some(1008), "pings");

    let mut fragments = upgraded(&arena, "flood").await;
    let _ = fragments.write_all(&client_frame(0x02, b"")).await;
    let _ = fragments.write_all(&client_frame(0x00, b"").repeat(5_000)).await;
    assert_eq!(close_code(&mut fragments).await, Some(1008), "fragments");

    // Messages of no meaning: ignored at first, and a violation when there is nothing else.
    let mut empty = upgraded(&arena, "flood").await;
    let _ = empty.write_all(&client_frame(0x82, b"").repeat(3_000)).await;
    assert_eq!(close_code(&mut empty).await, Some(1002), "empty messages");

    // Control frames that announce what they may not have are closed before it comes.
    let mut long = upgraded(&arena, "flood").await;
    let _ = long.write_all(&[0x89, 0xff, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 1, 2, 3, 4]).await;
    assert_eq!(close_code(&mut long).await, Some(1002), "a ping of 16 MiB");
    arena.unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_on_their_way_hold_no_more_than_their_subject_may() {
    let arena = Arena::start(&[]).await;
    // Each announces 16 MiB and sends all but the end.
    let mut held = Vec::new();
    for _ in 0..24 {
        let mut stream = upgraded(&arena, "hoarder").await;
        let head = [0x82, 0xff, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        stream.write_all(&head).await.unwrap();
        held.push(tokio::spawn(async move {
            let chunk = vec![0; 1 << 20];
            for _ in 0..15 {
                if tokio::time::timeout(Duration::from_secs(2), stream.write_all(&chunk)).await.is_err() {
                    break;
                }
            }
            stream
        }));
    }
    for task in &mut held {
        let _ = within(task).await;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", arena.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 200 << 10, "24 × 15 MiB were sent, and {kib} KiB are held");
    // Another subject's large messages go through meanwhile.
    let client = arena.connect("other", Tools::new()).await;
    let source = format!("return {}.length", json!("x".repeat(900_000)));
    let outcome = within(client.run(ExecuteRequest::new(source))).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!(900_000));
    drop((held, client));
}

#[tokio::test]
async fn who_never_reads_is_closed_and_holds_up_nobody() {
    let arena = Arena::start(&["--heartbeat-ms", "300"]).await;
    let mut deaf = upgraded(&arena, "deaf").await;
    let execute = wire::Execute { code: "return 'x'.repeat(9e6)".into(), ..Default::default() };
    let execute = frame::encode(&Payload::Execute(execute).into());
    for _ in 0..4 {
        deaf.write_all(&client_frame(0x82, &execute)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let client = arena.connect("other", Tools::new()).await;
    assert_eq!(within(client.run(ExecuteRequest::new("return 1"))).await.unwrap().value().unwrap(), json!(1));
    until(|| arena.log().contains("disconnected session=2")).await;
    drop((deaf, client));
    arena.unharmed().await;
}

#[tokio::test]
async fn who_says_nothing_for_long_is_closed() {
    let arena = Arena::start(&["--idle-ms", "400"]).await;
    let mut idle = upgraded(&arena, "idle").await;
    assert_eq!(close_code(&mut idle).await, Some(1000));
    // Pings are nothing to stay for; an execution is.
    let mut pinging = upgraded(&arena, "idle").await;
    let execute = wire::Execute { code: "await mcp.call('host.a'); return 1".into(), ..Default::default() };
    let execute = frame::encode(&Payload::Execute(execute).into());
    pinging.write_all(&client_frame(0x82, &execute)).await.unwrap();
    let (_, call) = next_frame(&mut pinging).await.unwrap();
    // Two others come and are closed meanwhile, each after the time that would close this one.
    for _ in 0..2 {
        assert_eq!(close_code(&mut upgraded(&arena, "other").await).await, Some(1000));
    }
    let Some(Payload::ToolCall(call)) = frame::decode(call.into()).unwrap().payload else { panic!("no call") };
    let result = wire::ToolResult { id: call.id, success: true, ..Default::default() };
    let result = frame::encode(&Payload::ToolResult(result).into());
    pinging.write_all(&client_frame(0x82, &result)).await.unwrap();
    let (_, result) = next_frame(&mut pinging).await.unwrap();
    assert!(matches!(frame::decode(result.into()).unwrap().payload, Some(Payload::Result(_))));
    for _ in 0..20 {
        let _ = pinging.write_all(&client_frame(0x89, b"")).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(close_code(&mut pinging).await, Some(1000));
    arena.unharmed().await;
}

#[tokio::test]
async fn messages_that_cost_more_than_they_weigh_are_refused() {
    let arena = Arena::start(&[]).await;
    let repeated = |field: u8, item: &[u8], count: usize| {
        let inner = item.repeat(count);
        let mut bytes = vec![field << 3 | 2];
        let mut length = inner.len();
        while length >= 0x80 {
            bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        bytes.push(u8::try_from(length).unwrap());
        bytes.extend(inner);
        bytes
    };
    let bombs = [
        ("execute with many tools", repeated(3, &[0x12, 0x00], 100_000), 1009),
        ("hello with many tools", repeated(8, &[0x1a, 0x00], 100_000), 1009),
        ("a ping over its cap", repeated(6, &[b'\n', 0x00], 10_000), 1009),
        ("groups in groups", [0x0b_u8].repeat(100_000), 1007),
        ("a length over everything", vec![0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], 1007),
        ("a varint without end", [0xff_u8].repeat(64), 1007),
        ("two payloads", vec![0x32, 0x00, 0x3a, 0x00], 1007),
        ("fields without end", [0x08_u8, 0x01].repeat(1_000), 1007),
        ("a text that is not UTF-8", vec![0x1a, 0x03, 0x0a, 0x01, 0xff], 1007),
    ];
    for (name, bytes, code) in bombs {
        let mut stream = upgraded(&arena, "bombs").await;
        stream.write_all(&client_frame(0x82, &bytes)).await.unwrap();
        assert_eq!(close_code(&mut stream).await, Some(code), "{name}");
    }
    arena.unharmed().await;
}

#[tokio::test]
async fn half_an_upgrade_is_none() {
    let arena = Arena::start(&[]).await;
    let token = arena.token(&["--subject", "half"]).await;
    let good = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (missing, _) in good {
        let headers: Vec<_> = good
            .iter()
            .filter(|(name, _)| *name != missing)
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer {token}\r\n{}Connection: close\r\n\r\n",
            headers.concat()
        );
        assert!(http(&arena, &request).await.starts_with("HTTP/1.1 426"), "{missing}");
    }
    // The token is in no other place than the header.
    for place in [format!("/ws?token={token}"), format!("/ws?access_token={token}")] {
        let request =
            format!("GET {place} HTTP/1.1\r\nHost: relay\r\nCookie: token={token}\r\nConnection: close\r\n\r\n");
        assert!(http(&arena, &request).await.starts_with("HTTP/1.1 401"), "{place}");
    }
    let mut request = format!("ws://{}/ws", arena.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", token.parse().unwrap());
    let stream = TcpStream::connect(&arena.address).await.unwrap();
    assert!(within(tokio_tungstenite::client_async(request, stream)).await.is_err());
    arena.unharmed().await;
}

#[tokio::test]
async fn a_session_that_is_full_of_refusals_ends() {
    let arena = Arena::start(&[]).await;
    let token = arena.token(&["--subject", "refused"]).await;
    let mut request = format!("ws://{}/ws", arena.address).into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let stream = TcpStream::connect(&arena.address).await.unwrap();
    let (socket, _) = within(tokio_tungstenite::client_async(request, stream)).await.unwrap();
    let (mut sink, mut stream) = socket.split();
    let writing = tokio::spawn(async move {
        let local_tools = [("x".to_owned(), String::new())].into();
        let execute = wire::Execute { local_tools, ..Default::default() };
        let bad = frame::encode(&Payload::Execute(execute).into());
        for _ in 0..3_000 {
            if sink.send(Message::Binary(bad.clone())).await.is_err() {
                return;
            }
        }
    });
    let mut refusals = 0;
    let code = loop {
        match within(stream.next()).await {
            Some(Ok(Message::Binary(_))) => refusals += 1,
            Some(Ok(Message::Close(Some(close)))) => break u16::from(close.code),
            Some(Ok(_)) => {}
            other => panic!("{refusals} refusals, then {other:?}"),
        }
    };
    assert!(code == 1002 && (1_000..2_500).contains(&refusals), "{code} after {refusals}");
    within(writing).await.unwrap();
    drop(stream);
    arena.unharmed().await;
}

/// An outcome takes memory of the relay until its host reads it: it keeps its place for so long, and the executions behind it
/// wait.
#[tokio::test]
async fn outcomes_that_nobody_reads_keep_their_places() {
    const EXECUTIONS: u64 = 24;
    let arena = Arena::start(&[]).await;
    let mut deaf = upgraded(&arena, "deaf").await;
    let hello = Payload::Hello(wire::Hello { protocol_version: 1, ..Default::default() });
    let execute = |number: u64| {
        let code = "return 'x'.repeat(9e6)".into();
        Payload::Execute(wire::Execute { code, execution_id: number.to_string(), ..Default::default() })
    };
    for (sequence, payload) in (1..).zip([hello].into_iter().chain((1..=EXECUTIONS).map(execute))) {
        let message = wire::Message { sequence, ..payload.into() };
        deaf.write_all(&client_frame(0x82, &frame::encode(&message))).await.unwrap();
    }
    let health = async || -> serde_json::Value {
        let answer = http(&arena, "GET /health HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n").await;
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    within(async {
        while health().await["executions"] != 8 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Those that run come to their ends. No others follow them.
    until(|| arena.runs_no_worker()).await;
    let health = health().await;
    assert_eq!(health["executions"], 8, "the places of a session are taken: {health}");
    // One or two outcomes lie in the queue to the host and in the system's buffers.
    assert!(health["queued"].as_u64().unwrap() >= EXECUTIONS - 8 - 3, "others wait: {health}");
    let client = arena.connect("other", Tools::new()).await;
    assert_eq!(within(client.run(ExecuteRequest::new("return 1"))).await.unwrap().value().unwrap(), json!(1));
    drop((deaf, client));
    arena.unharmed().await;
}
