//! Tests the proxy between a real WebSocket client and a real server, which echoes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::*;
use crate::within;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Starts a server that echoes every message with `name` before it. Reports how each of its connections ended.
async fn echo(name: &'static str) -> (String, tokio::sync::mpsc::Receiver<(usize, Result<(), String>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, ends) = tokio::sync::mpsc::channel(100);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let tell = tell.clone();
            tokio::spawn(async move {
                let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
                let mut count = 0;
                let end = loop {
                    match socket.next().await {
                        Some(Ok(Message::Binary(bytes))) => {
                            count += 1;
                            let answer = [name.as_bytes(), &bytes].concat();
                            if let Err(error) = socket.send(Message::Binary(answer.into())).await {
                                break Err(error.to_string());
                            }
                        }
                        Some(Ok(_)) => {}
                        Some(Err(error)) => break Err(error.to_string()),
                        None => break Ok(()),
                    }
                };
                let _ = tell.send((count, end)).await;
            });
        }
    });
    (address, ends)
}

async fn connect(proxy: &FaultProxy) -> Result<Socket, Error> {
    within(tokio_tungstenite::connect_async(proxy.url())).await.map(|(socket, _)| socket)
}

/// Sends a message and returns the answer; `None`: the connection broke.
async fn ask(socket: &mut Socket, text: &str) -> Option<String> {
    socket.send(Message::Binary(text.as_bytes().to_vec().into())).await.ok()?;
    match within(socket.next()).await? {
        Ok(Message::Binary(bytes)) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
        _ => None,
    }
}

/// Asks until the connection breaks, and returns the number of answers.
async fn answers(mut socket: Socket) -> usize {
    let mut count = 0;
    while ask(&mut socket, "x").await.is_some() {
        count += 1;
    }
    count
}

#[tokio::test]
async fn without_a_fault_everything_passes_and_the_close_too() {
    let (target, mut ends) = echo("").await;
    let proxy = FaultProxy::start(target, |_| Script::clean()).await.unwrap();
    let mut socket = connect(&proxy).await.unwrap();
    for size in [0, 125, 126, 65_536, 1 << 20] {
        let text = "x".repeat(size);
        assert!(ask(&mut socket, &text).await.unwrap() == text, "{size} bytes");
    }
    socket.close(None).await.unwrap();
    while let Some(last) = within(socket.next()).await {
        assert!(last.unwrap().is_close());
    }
    drop(socket);
    assert_eq!(within(ends.recv()).await.unwrap(), (5, Ok(())));
    within(proxy.until(|fates| fates[0].is_over)).await;
    assert_eq!(proxy.fates(), [Fate { to_relay: 5, to_host: 5, broken: None, is_over: true }]);
}

#[tokio::test]
async fn a_connection_breaks_at_the_message_that_the_script_names() {
    use Place::{After, Before, Inside};
    use Way::{ToHost, ToRelay};
    // Each case: direction, message and place; number of messages at the server and of answers at the client.
    let cases = [
        (ToRelay, 3, Before, 2, 2),
        (ToRelay, 3, Inside, 2, 2),
        (ToRelay, 3, After, 3, 2),
        (ToHost, 3, Before, 3, 2),
        (ToHost, 3, Inside, 3, 2),
        (ToHost, 3, After, 3, 3),
        (ToHost, 0, After, 0, 0),
    ];
    for (way, message, place, received, answered) in cases {
        for how in [Break::Reset, Break::Finish] {
            let (target, mut ends) = echo("").await;
            let proxy =
                FaultProxy::start(target, move |_| Script::clean().cut(way, message, place, how)).await.unwrap();
            let case = format!("{way:?} {message} {place:?} {how:?}");
            assert_eq!(answers(connect(&proxy).await.unwrap()).await, answered, "{case}");
            let (count, end) = within(ends.recv()).await.unwrap();
            assert_eq!(count, received, "{case}");
            assert!(end.is_err(), "{case}: nobody closed the WebSocket");
            within(proxy.until(|fates| fates[0].is_over)).await;
            assert_eq!(proxy.fates()[0].broken, Some(how), "{case}");
        }
    }
}

#[tokio::test]
async fn a_handshake_can_be_cut_and_a_connection_refused() {
    let (target, _ends) = echo("").await;
    let plan = |number| match number {
        0 => Script::clean().cut(Way::ToRelay, 0, Place::Inside, Break::Reset),
        1 => Script::clean().cut(Way::ToHost, 0, Place::Before, Break::Finish),
        2 => Script::refused(),
        _ => Script::clean(),
    };
    let proxy = FaultProxy::start(target, plan).await.unwrap();
    for _ in 0..3 {
        connect(&proxy).await.unwrap_err();
    }
    proxy.refuse(true);
    connect(&proxy).await.unwrap_err();
    proxy.refuse(false);
    assert_eq!(ask(&mut connect(&proxy).await.unwrap(), "x").await.unwrap(), "x");
    assert_eq!(proxy.fates().len(), 5);
}

#[tokio::test]
async fn a_silent_connection_stays_open_and_carries_nothing() {
    let (target, mut ends) = echo("").await;
    let proxy = FaultProxy::start(target, |_| Script::clean().cut(Way::ToRelay, 1, Place::After, Break::Silence));
    let proxy = proxy.await.unwrap();
    let mut socket = connect(&proxy).await.unwrap();
    for _ in 0..3 {
        socket.send(Message::Binary("x".into())).await.unwrap();
    }
    within(proxy.until(|fates| fates[0].broken == Some(Break::Silence))).await;
    assert!(ends.try_recv().is_err(), "the server has lost nothing yet");
    proxy.break_all(Break::Reset);
    within(socket.next()).await.unwrap().unwrap_err();
    assert_eq!(within(ends.recv()).await.unwrap().0, 1);
}

#[tokio::test]
async fn connections_break_by_age_and_by_order_and_go_elsewhere() {
    let ((one, _one_ends), (two, _two_ends)) = (echo("one ").await, echo("two ").await);
    let plan = |number| match number {
        0 => Script::clean().cut_after(Duration::from_millis(20), Break::Finish),
        _ => Script::clean().delay(Duration::from_millis(1)),
    };
    let proxy = FaultProxy::start(one, plan).await.unwrap();
    let mut aged = connect(&proxy).await.unwrap();
    assert!(within(aged.next()).await.is_none_or(|message| message.is_err()));
    let mut kept = connect(&proxy).await.unwrap();
    proxy.redirect(two);
    assert_eq!(ask(&mut kept, "x").await.unwrap(), "one x");
    assert_eq!(ask(&mut connect(&proxy).await.unwrap(), "x").await.unwrap(), "two x");
    proxy.break_all(Break::Finish);
    assert_eq!(ask(&mut kept, "x").await, None);
}
