//! The bytes of every message that is in use. A change of the wire cannot pass unseen: it changes these.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use relay_proto::frame::{self, FrameError};
use relay_proto::wire::message::Payload;
use relay_proto::wire::{self, Message};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn usage() -> wire::Usage {
    wire::Usage { queue_us: 1, wall_us: 2, cpu_us: 3, tool_calls: 4, output_bytes: 5, memory_bytes: 6, approval_us: 7 }
}

fn credit() -> wire::Credit {
    wire::Credit { count: 3, bytes: 4 }
}

fn failures() -> Vec<wire::StepFailure> {
    vec![wire::StepFailure { call: 2, code: "C".into(), message: "m".into() }]
}

fn warnings() -> Vec<wire::Warning> {
    vec![wire::Warning { code: "W".into(), message: "m".into() }]
}

/// Each message with its bytes in hexadecimal.
fn messages() -> Vec<(Payload, &'static str)> {
    let json = Bytes::from_static(b"{}");
    vec![
        (
            Payload::ToolCall(wire::ToolCall {
                id: "1".into(),
                tool: "a.b".into(),
                arguments: json.clone(),
                execution_id: "e".into(),
                remaining_ms: 300,
                traceparent: "t".into(),
                line: 7,
                index: 9,
                steps: Bytes::from_static(b"s"),
                failures: failures(),
            }),
            "0a2d0a01311203612e621a027b7d820101658801ac0292010174980107a00109aa010173b2010808021201431a016d",
        ),
        (
            Payload::ToolResult(wire::ToolResult {
                id: "1".into(),
                success: true,
                result: json.clone(),
                error: "x".into(),
                code: "C".into(),
            }),
            "12100a013110011a027b7d22017882010143",
        ),
        (
            Payload::Execute(wire::Execute {
                code: "1".into(),
                remote_tools: vec!["r".into()],
                local_tools: [("l".to_owned(), "s".to_owned())].into(),
                execution_id: "e".into(),
                limits: [("wall_ms".to_owned(), 5)].into(),
                bindings: vec!["io".into()],
                input: "i".into(),
                traceparent: "t".into(),
                seed: Some(1),
                now_ms: Some(-1),
                large_integers: wire::LargeIntegers::Text.into(),
                begin_within_ms: 9,
                durable: Some(wire::Durable {
                    steps: Bytes::from_static(b"s"),
                    failures: failures(),
                    calls: 3,
                    again: true,
                    store: [("k".to_owned(), json.clone())].into(),
                    waiting_after_ms: 4,
                    tools: vec!["a.b".into()],
                    clock_ms: Some(-1),
                }),
            }),
            "1a660a01311201721a060a016c120173820101658a010b0a0777616c6c5f6d731005920102696f9a010169a2010174a9010100000000000000b00101b80101c00109ca01230a0173120808021201431a016d180320012a070a016b12027b7d30043a03612e624001",
        ),
        (
            Payload::Result(wire::Result {
                data: json.clone(),
                execution_id: "e".into(),
                usage: Some(usage()),
                warnings: warnings(),
            }),
            "22220a027b7d820101658a010e08011002180320042805300638079201060a015712016d",
        ),
        (
            Payload::Error(wire::Error {
                id: "1".into(),
                error: "x".into(),
                code: "C".into(),
                execution_id: "e".into(),
                tool: "a.b".into(),
                tool_code: "T".into(),
                limit: "l".into(),
                line: 1,
                column: 2,
                hint: "h".into(),
                usage: Some(usage()),
                warnings: warnings(),
                loss: wire::SessionLoss::Gap.into(),
            }),
            "2a420a01311201781a0143820101658a0103612e62920101549a01016ca00101a80102b2010168ba010e0801100218032004280530063807c201060a015712016dc80104",
        ),
        (Payload::Ping(wire::Ping { id: "p".into() }), "32030a0170"),
        (Payload::Pong(wire::Pong { id: "p".into() }), "3a030a0170"),
        (
            Payload::Hello(wire::Hello {
                protocol_version: 1,
                features: vec!["f".into()],
                tools: vec![wire::Tool {
                    name: "a.b".into(),
                    description: "d".into(),
                    input_schema: json.clone(),
                    output_schema: json.clone(),
                }],
                client: "c".into(),
                credit: Some(credit()),
            }),
            "422008011201661a100a03612e621201641a027b7d22027b7d2201632a0408031004",
        ),
        (
            Payload::Welcome(wire::Welcome {
                protocol_version: 1,
                features: vec!["f".into()],
                session_id: "s".into(),
                relay: "r".into(),
                limits: [("wall_ms".to_owned(), 5)].into(),
                executions: 8,
                expires_in_ms: 9,
                warnings: warnings(),
                bindings: vec!["io".into()],
                tools: vec!["a.*".into()],
                resume_secret: Bytes::from_static(b"s"),
                resume_window_ms: 10,
                epoch: 1,
                unacknowledged_bytes: 11,
                credit: Some(credit()),
                build: "b".into(),
            }),
            "4a4008011201661a01732201722a0b0a0777616c6c5f6d7310053008380942060a015712016d4a02696f5203612e2a5a0173600a6801700b7a040803100482010162",
        ),
        (
            Payload::Cancel(wire::Cancel { execution_id: "e".into(), call_id: "1".into(), reason: "r".into() }),
            "52090a01651201311a0172",
        ),
        (
            Payload::Output(wire::Output {
                execution_id: "e".into(),
                items: vec![wire::OutputItem { kind: wire::OutputKind::Log.into(), text: "t".into() }],
                steps: Bytes::from_static(b"s"),
                failures: failures(),
            }),
            "5a170a0165120508021201741a0173220808021201431a016d",
        ),
        (Payload::Renew(wire::Renew { token: "t".into() }), "62030a0174"),
        (
            Payload::Renewed(wire::Renewed {
                expires_in_ms: 5,
                limits: [("wall_ms".to_owned(), 7)].into(),
                warnings: warnings(),
                error: "e".into(),
                code: "C".into(),
                tools: vec!["a.*".into()],
            }),
            "6a220805120b0a0777616c6c5f6d7310071a060a015712016d2201652a01433203612e2a",
        ),
        (
            Payload::ToolsChanged(wire::ToolsChanged {
                tools: vec![wire::Tool {
                    name: "a.b".into(),
                    description: "d".into(),
                    input_schema: json.clone(),
                    output_schema: json.clone(),
                }],
            }),
            "72120a100a03612e621201641a027b7d22027b7d",
        ),
        (
            Payload::CallState(wire::CallState {
                execution_id: "e".into(),
                call_id: "1".into(),
                status: wire::CallStatus::AwaitingApproval.into(),
            }),
            "7a080a01651201311802",
        ),
        (
            Payload::Resume(wire::Resume {
                session_id: "s".into(),
                epoch: 1,
                secret: Bytes::from_static(b"x"),
                received: 2,
                attempt: 3,
            }),
            "82010c0a017310011a017820022803",
        ),
        (
            Payload::Resumed(wire::Resumed {
                epoch: 2,
                received: 3,
                secret: Bytes::from_static(b"x"),
                expires_in_ms: 4,
                executions: vec!["e".into()],
                limits: [("wall_ms".to_owned(), 7)].into(),
                tools: vec!["a.*".into()],
                warnings: warnings(),
            }),
            "8a0126080210031a017820042a0165320b0a0777616c6c5f6d7310073a03612e2a42060a015712016d",
        ),
        (Payload::Credit(credit()), "92010408031004"),
        (Payload::GoAway(wire::GoAway { deadline_ms: 5, reason: "r".into() }), "9a01050805120172"),
        (
            Payload::Begun(wire::Begun {
                execution_id: "e".into(),
                store: [("k".to_owned(), json)].into(),
                tools: vec!["a.b".into()],
            }),
            "a201110a016512070a016b12027b7d1a03612e62",
        ),
        (
            Payload::Waiting(wire::Waiting {
                execution_id: "e".into(),
                timer_in_ms: Some(0),
                steps: Bytes::from_static(b"s"),
                failures: failures(),
            }),
            "aa01120a016510001a0173220808021201431a016d",
        ),
    ]
}

#[test]
fn every_message_has_its_bytes() {
    let mut kinds = std::collections::BTreeSet::new();
    for (payload, bytes) in messages() {
        kinds.insert(payload.kind().0);
        let message = Message::from(payload);
        let encoded = frame::encode(&message);
        assert_eq!(hex(&encoded), bytes, "{message:?}");
        assert_eq!(frame::decode(encoded).as_ref(), Ok(&message));
    }
    assert_eq!(kinds, (1..=21).collect(), "a message without golden bytes");
    let numbered = Message { sequence: 1, acknowledged: 300, ..Payload::Ping(wire::Ping::default()).into() };
    assert_eq!(hex(&frame::encode(&numbered)), "3200a00601a806ac02");
}

#[test]
fn what_is_not_known_is_no_fault() {
    assert_eq!(frame::decode(Bytes::new()), Ok(Message::default()));
    // Field 50 of a newer peer, as bytes and as a number.
    for unknown in [&[0x92, 0x03, 0x01, 0x00][..], &[0x90, 0x03, 0x07]] {
        assert_eq!(frame::decode(unknown.to_vec().into()), Ok(Message::default()));
    }
    // A field of a newer peer inside a message that is known.
    let ping = frame::decode(vec![0x32, 0x06, 0x0a, 0x01, b'p', 0x92, 0x03, 0x00].into()).unwrap();
    assert_eq!(ping.payload, Some(Payload::Ping(wire::Ping { id: "p".into() })));
}

#[test]
fn caps_hold_before_anything_is_allocated() {
    let undecodable =
        |bytes: &[u8]| assert!(matches!(frame::decode(bytes.to_vec().into()), Err(FrameError::Undecodable(_))));
    undecodable(&[0xff]);
    undecodable(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    undecodable(&[0x0b, 0x0c]);
    undecodable(&[0x0d, 0x00]);
    undecodable(&[0x08, 0x01].repeat(100));
    let two = [0x32, 0x00, 0x3a, 0x00];
    assert_eq!(frame::decode(two.to_vec().into()), Err(FrameError::TwoPayloads));

    let long = Payload::Ping(wire::Ping { id: "x".repeat(2_000) });
    let error = frame::decode(frame::encode(&long.clone().into())).unwrap_err();
    assert!(matches!(error, FrameError::OverCap { field: 6, unit: "bytes", got: 2_003, .. }), "{error:?}");
    assert_eq!(frame::payload_len(&long), 2_003);

    // Two bytes on the wire for each tool, a hundred in memory.
    let mut hello = vec![0x42, 0x80, 0x80, 0x02];
    hello.extend([0x1a, 0x00].repeat(16 * 1024));
    let error = frame::decode(hello.into()).unwrap_err();
    assert!(matches!(error, FrameError::OverCap { field: 8, unit: "fields", .. }), "{error:?}");

    // The same in the record of a durable execution, also in two parts.
    let part = [&[0xca, 0x01, 0x80, 0x80, 0x01][..], &[0x12, 0x00].repeat(8 * 1024)].concat();
    let execute = |parts: usize| wire_message(0x1a, &part.repeat(parts));
    assert!(frame::decode(execute(2)).is_ok());
    let error = frame::decode(execute(3)).unwrap_err();
    assert!(matches!(error, FrameError::OverCap { field: 3, unit: "fields", .. }), "{error:?}");
    undecodable(&wire_message(0x1a, &[0xca, 0x01, 0x01, 0x12]));
}

/// Returns a message with one payload field, whose key is `key`.
fn wire_message(key: u8, payload: &[u8]) -> Bytes {
    let mut message = vec![key];
    prost::encoding::encode_varint(payload.len() as u64, &mut message);
    message.extend(payload);
    message.into()
}
