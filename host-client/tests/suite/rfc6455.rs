//! The host's end against RFC 6455's own rules: what breaks them ends the session, what keeps them does not.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use host_client::{Client, ClientConfig, ErrorCode, ExecuteRequest, Tools};
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use relay_test_support::rfc6455::{self as rules, Expected, From};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

const PATIENCE: Duration = Duration::from_secs(30);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

/// A client with a session, and the bare connection under it.
async fn session() -> (Client, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = ClientConfig::new(format!("ws://{}/ws", listener.local_addr().unwrap()), "token");
    let relay = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        socket.next().await.unwrap().unwrap();
        let welcome = wire::Welcome { protocol_version: 1, ..Default::default() };
        let welcome = wire::Message { sequence: 1, ..Payload::Welcome(welcome).into() };
        socket.send(Message::Binary(frame::encode(&welcome))).await.unwrap();
        socket.into_inner()
    });
    let client = within(Client::connect(config, Tools::new())).await.unwrap();
    (client, within(relay).await.unwrap())
}

#[tokio::test]
async fn what_breaks_the_rules_ends_the_session_and_what_keeps_them_does_not() {
    for rule in rules::rules(From::Server) {
        // The library is lenient here, which a receiver may be; the relay, which faces strangers, is not.
        if rule.name.contains("as few bytes as it can") {
            continue;
        }
        let (client, mut stream) = session().await;
        let running = tokio::spawn(async move { client.run(ExecuteRequest::new("return 1")).await });
        // The execution is there when the host has sent it.
        let mut first = [0; 2];
        within(stream.read_exact(&mut first)).await.unwrap();
        stream.write_all(&rule.bytes).await.unwrap();
        let goes_on = matches!(rule.expected, Expected::GoesOn | Expected::Pong(_));
        if goes_on {
            let result = wire::Result { data: b"7".as_slice().into(), execution_id: "1".into(), ..Default::default() };
            let data = frame::encode(&wire::Message { sequence: 2, ..Payload::Result(result).into() });
            stream.write_all(&rules::frame(From::Server, 0x82, &data)).await.unwrap();
        }
        let outcome = within(running).await.unwrap_or_else(|error| panic!("{}: {error}", rule.name));
        match outcome {
            Ok(outcome) => assert!(goes_on && &outcome.json[..] == b"7", "{}: {:x?}", rule.name, rule.bytes),
            Err(error) => {
                let lost = error.code().is_some_and(|code| *code == ErrorCode::SessionLost);
                assert!(lost && !goes_on, "{}: {:x?}: {error}", rule.name, rule.bytes);
            }
        }
    }
}
