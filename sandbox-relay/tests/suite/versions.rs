//! A host of an older version and this relay: a recorded session goes as it went then.

use futures_util::SinkExt as _;
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use relay_test_support::fault::Way;
use relay_test_support::transcript;
use tokio_tungstenite::tungstenite::Message;

use super::wire::Raw;
use crate::support::start_relay;

/// Removes what differs from run to run, and fields that only newer hosts know: an older one passes them over.
fn comparable(mut message: wire::Message) -> wire::Message {
    match &mut message.payload {
        Some(Payload::ToolCall(call)) => {
            assert!((1..=30_000).contains(&call.remaining_ms), "{call:?}");
            (call.remaining_ms, call.line, call.index) = (0, 0, 0);
        }
        Some(Payload::Result(result)) => assert!(result.usage.take().is_some()),
        Some(Payload::Error(error)) => assert!(error.usage.take().is_some()),
        _ => {}
    }
    message
}

/// Fails unless a welcome offers all that the older one did.
fn assert_offers(welcome: &wire::Welcome, before: &wire::Welcome) {
    assert_eq!(welcome.protocol_version, before.protocol_version);
    assert!(before.features.iter().all(|name| welcome.features.contains(name)), "{welcome:?}");
    assert!(before.bindings.iter().all(|name| welcome.bindings.contains(name)), "{welcome:?}");
    assert!(before.limits.keys().all(|name| welcome.limits.contains_key(name)), "{welcome:?}");
    assert_eq!((welcome.resume_window_ms, &welcome.credit), (0, &None), "nothing that the host does not ask for");
}

#[tokio::test]
async fn a_host_from_before_sessions_could_be_resumed_is_served_as_then() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    for (way, bytes) in transcript::before_resume() {
        if way == Way::ToRelay {
            raw.0.send(Message::Binary(bytes)).await.unwrap();
            continue;
        }
        let (expected, message) = (frame::decode(bytes).unwrap(), raw.message().await);
        match (&expected.payload, &message.payload) {
            (Some(Payload::Welcome(before)), Some(Payload::Welcome(welcome))) => assert_offers(welcome, before),
            _ => assert_eq!(comparable(message), comparable(expected)),
        }
    }
}
