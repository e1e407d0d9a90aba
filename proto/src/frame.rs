//! Encodes and decodes messages. Decoding checks the cap of the message's kind before it allocates anything.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint, key_len};

use crate::wire::Message;
use crate::wire::message::Payload;

/// Maximum length of one WebSocket message in bytes.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// Cap on one kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// Maximum length of the encoded payload in bytes.
    pub bytes: usize,
    /// Maximum number of fields; every entry of a list counts, also of one in `execute.durable`.
    pub items: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Returns the cap of the payload with this field number; `None`: this version does not know the kind.
pub fn cap(field: u32) -> Option<Cap> {
    let (bytes, items) = match field {
        1 => (12 * MIB, 2_048),           // tool_call: arguments, steps and failures
        2 => (12 * MIB + 64 * KIB, 16),   // tool_result
        3 => (14 * MIB, 20 * KIB),        // execute: source, input, names, the record of a durable execution
        4 => (12 * MIB + 256 * KIB, 256), // result
        5 => (512 * KIB, 256),            // error
        6 | 7 => (KIB, 8),                // ping, pong
        8 => (8 * MIB, 8_192),            // hello: the tools and their schemas
        9 => (64 * KIB, 8_192),           // welcome: the patterns of the token
        10 => (4 * KIB, 8),               // cancel
        11 => (6 * MIB, 16 * KIB),        // output: text, steps and failures
        12 => (16 * KIB, 8),              // renew
        13 => (64 * KIB, 8_192),          // renewed
        14 => (8 * MIB, 8_192),           // tools_changed
        15 => (KIB, 8),                   // call_state
        16 => (KIB, 8),                   // resume
        17 => (64 * KIB, 8_192),          // resumed: the patterns of the token
        18 => (KIB, 8),                   // credit
        19 => (KIB, 8),                   // go_away
        20 => (4 * MIB, 10 * KIB),        // begun: the store, the names of the tools
        21 => (2 * MIB, 2_048),           // waiting: steps and failures
        _ => return None,
    };
    Some(Cap { bytes, items })
}

/// Reports bytes that are no message. The relay closes a connection over them, with 1009 for [`OverCap`](Self::OverCap)
/// and 1007 for the rest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes are not a protobuf message of this protocol.
    #[error("not a relay.Message: {0}")]
    Undecodable(String),
    /// A payload is over the cap of its kind.
    #[error("a message with payload field {field} has {got} {unit}; at most {most} are taken")]
    OverCap {
        /// Field number of the payload in `Message`.
        field: u32,
        /// Counted unit: bytes or fields.
        unit: &'static str,
        /// Number found; counting stops at the first over the cap.
        got: usize,
        /// Number allowed.
        most: usize,
    },
    /// The message holds more than one payload.
    #[error("a message holds more than one payload")]
    TwoPayloads,
}

/// Decodes one message. Byte fields of the result share `frame`'s memory.
///
/// A message of an unknown kind has the payload `None`; the caller ignores it.
///
/// ```
/// use relay_proto::{frame, wire};
///
/// let ping = wire::message::Payload::Ping(wire::Ping { id: "1".into() });
/// let bytes = frame::encode(&ping.clone().into());
/// assert_eq!(frame::decode(bytes)?.payload, Some(ping));
/// # Ok::<_, frame::FrameError>(())
/// ```
///
/// # Errors
/// - [`FrameError::Undecodable`]: the bytes are no message
/// - [`FrameError::OverCap`]: the payload is over its [`cap`]
/// - [`FrameError::TwoPayloads`]: the message holds more than one payload
pub fn decode(frame: Bytes) -> Result<Message, FrameError> {
    check(&frame)?;
    Message::decode(frame).map_err(|error| FrameError::Undecodable(error.to_string()))
}

/// Encodes one message.
pub fn encode(message: &Message) -> Bytes {
    let mut buffer = BytesMut::with_capacity(message.encoded_len());
    // A BytesMut grows, so this cannot fail.
    let _ = message.encode(&mut buffer);
    buffer.freeze()
}

/// Returns the encoded length of a payload in bytes, as [`cap`] counts it.
pub fn payload_len(payload: &Payload) -> usize {
    // The key and the length in front do not count.
    let message = payload.encoded_len();
    let prefix = key_len(payload.kind().0) + prost::length_delimiter_len(message);
    message.saturating_sub(prefix)
}

/// Field number of `durable` in `execute`.
const DURABLE: u32 = 25;

/// Checks the caps on the outer two levels without allocating; every repeated field of the protocol stands on the
/// second, or on the third in `execute.durable`.
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
        let mut items = 0_usize;
        for_each_field(payload, |inner, value| {
            let mut count = || {
                items += 1;
                let most = cap.items;
                if items > most { Err(FrameError::OverCap { field, unit: "fields", got: items, most }) } else { Ok(()) }
            };
            count()?;
            match value {
                Some(durable) if (field, inner) == (3, DURABLE) => for_each_field(durable, |_, _| count()),
                _ => Ok(()),
            }
        })?;
    }
    Ok(())
}

/// Calls `f` with each field of a message: its number, and its bytes if it is length-delimited.
fn for_each_field<'a>(
    mut message: &'a [u8],
    mut f: impl FnMut(u32, Option<&'a [u8]>) -> Result<(), FrameError>,
) -> Result<(), FrameError> {
    while message.has_remaining() {
        let (field, value) = next_field(&mut message)?;
        f(field, value)?;
    }
    Ok(())
}

/// Takes the next field: its number, and its bytes if it is length-delimited.
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
    /// Returns the payload's field number in `Message` and its name for logs.
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
            Self::Resume(_) => (16, "resume"),
            Self::Resumed(_) => (17, "resumed"),
            Self::Credit(_) => (18, "credit"),
            Self::GoAway(_) => (19, "go_away"),
            Self::Begun(_) => (20, "begun"),
            Self::Waiting(_) => (21, "waiting"),
        }
    }
}
