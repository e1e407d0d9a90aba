//! Bytes to message and back. What a message may cost is checked before anything is allocated for it.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint};

use crate::wire::Message;
use crate::wire::message::Payload;

/// The largest WebSocket message, in bytes.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// What one kind of message may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// The length of the encoded payload.
    pub bytes: usize,
    /// How many fields it may hold, every entry of a list counted.
    pub items: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The cap for the payload with this field number, or nothing for a kind that this version does not know.
pub fn cap(field: u32) -> Option<Cap> {
    let (bytes, items) = match field {
        1 => (10 * MIB + 4 * KIB, 16),        // tool_call
        2 => (12 * MIB + 64 * KIB, 16),       // tool_result
        3 => (6 * MIB, 4_096),                // execute: source, input, names
        4 => (12 * MIB + 256 * KIB, 256),     // result
        5 => (512 * KIB, 256),                // error
        6 | 7 => (KIB, 8),                    // ping, pong
        8 => (8 * MIB, 8_192),                // hello: the tools and their schemas
        9 => (64 * KIB, 8_192),               // welcome: the patterns of the token
        10 => (4 * KIB, 8),                   // cancel
        11 => (4 * MIB + 64 * KIB, 16 * KIB), // output
        12 => (16 * KIB, 8),                  // renew
        13 => (64 * KIB, 8_192),              // renewed
        14 => (8 * MIB, 8_192),               // tools_changed
        15 => (KIB, 8),                       // call_state
        _ => return None,
    };
    Some(Cap { bytes, items })
}

/// Why bytes are no message. A peer that sends them is closed with 1007.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not protobuf, or not this protocol's.
    #[error("not a relay.Message: {0}")]
    Undecodable(String),
    /// A payload over the cap of its kind.
    #[error("a message with payload field {field} has {got} {unit}; at most {most} are taken")]
    OverCap {
        /// The payload's field number in `Message`.
        field: u32,
        /// What is counted: bytes or fields.
        unit: &'static str,
        /// How many came.
        got: usize,
        /// How many may come.
        most: usize,
    },
    /// More than one payload in one message.
    #[error("a message holds more than one payload")]
    TwoPayloads,
}

/// Reads one message. Byte fields of the result share `frame`'s memory.
///
/// A message whose kind is not known has no payload; the caller ignores it.
///
/// # Errors
/// The bytes are no message, or cost more than [`cap`] allows.
pub fn decode(frame: Bytes) -> Result<Message, FrameError> {
    check(&frame)?;
    Message::decode(frame).map_err(|error| FrameError::Undecodable(error.to_string()))
}

/// Writes one message.
pub fn encode(message: &Message) -> Bytes {
    let mut buffer = BytesMut::with_capacity(message.encoded_len());
    // A BytesMut grows, so this cannot fail.
    let _ = message.encode(&mut buffer);
    buffer.freeze()
}

/// The length of a payload when it is encoded, as [`cap`] counts it.
pub fn payload_len(payload: &Payload) -> usize {
    // The key and the length in front do not count.
    let message = payload.encoded_len();
    let prefix = 1 + prost::length_delimiter_len(message);
    message.saturating_sub(prefix)
}

/// Walks over the outer two levels, without allocating: every repeated field of the protocol stands on the second.
fn check(frame: &[u8]) -> Result<(), FrameError> {
    let mut rest = frame;
    let mut seen_payload = false;
    let mut fields = 0_usize;
    while rest.has_remaining() {
        fields += 1;
        if fields > 64 {
            return Err(FrameError::Undecodable("too many fields".into()));
        }
        let (field, value) = next_field(&mut rest)?;
        let (Some(cap), Some(payload)) = (cap(field), value) else { continue };
        if std::mem::replace(&mut seen_payload, true) {
            return Err(FrameError::TwoPayloads);
        }
        if payload.len() > cap.bytes {
            return Err(FrameError::OverCap { field, unit: "bytes", got: payload.len(), most: cap.bytes });
        }
        let mut inner = payload;
        let mut items = 0_usize;
        while inner.has_remaining() {
            next_field(&mut inner)?;
            items += 1;
            if items > cap.items {
                return Err(FrameError::OverCap { field, unit: "fields", got: items, most: cap.items });
            }
        }
    }
    Ok(())
}

/// The next field's number, and its bytes if it is length-delimited.
fn next_field<'a>(rest: &mut &'a [u8]) -> Result<(u32, Option<&'a [u8]>), FrameError> {
    let undecodable = |error: prost::DecodeError| FrameError::Undecodable(error.to_string());
    let truncated = || FrameError::Undecodable("truncated".into());
    let (field, wire_type) = decode_key(rest).map_err(undecodable)?;
    let skip = match wire_type {
        WireType::Varint => {
            decode_varint(rest).map_err(undecodable)?;
            return Ok((field, None));
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::LengthDelimited => {
            let length = decode_varint(rest).map_err(undecodable)?;
            let length = usize::try_from(length).map_err(|_| truncated())?;
            let value = rest.get(..length).ok_or_else(truncated)?;
            rest.advance(length);
            return Ok((field, Some(value)));
        }
        // Groups nest without a length in front; proto3 has none.
        WireType::StartGroup | WireType::EndGroup => {
            return Err(FrameError::Undecodable("groups are not part of this protocol".into()));
        }
    };
    if rest.remaining() < skip {
        return Err(truncated());
    }
    rest.advance(skip);
    Ok((field, None))
}

impl Payload {
    /// The payload's field number in `Message`, and its name for logs.
    pub fn kind(&self) -> (u32, &'static str) {
        match self {
            Self::ToolCall(_) => (1, "tool_call"),
            Self::ToolResult(_) => (2, "tool_result"),
            Self::Execute(_) => (3, "execute"),
            Self::Result(_) => (4, "result"),
            Self::Error(_) => (5, "error"),
            Self::Ping(_) => (6, "ping"),
            Self::Pong(_) => (7, "pong"),
            Self::Hello(_) => (8, "hello"),
            Self::Welcome(_) => (9, "welcome"),
            Self::Cancel(_) => (10, "cancel"),
            Self::Output(_) => (11, "output"),
            Self::Renew(_) => (12, "renew"),
            Self::Renewed(_) => (13, "renewed"),
            Self::ToolsChanged(_) => (14, "tools_changed"),
            Self::CallState(_) => (15, "call_state"),
        }
    }
}
