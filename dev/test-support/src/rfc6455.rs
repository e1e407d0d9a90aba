//! RFC 6455's own rules, as frames that keep or break them: sent byte by byte to either end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

/// Tells what an end does with some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It fails the connection with this close code.
    Fails(u16),
    /// It answers the peer's close with this code; 1005 stands for none.
    Closes(u16),
    /// It goes on.
    GoesOn,
    /// It answers with a pong that carries these bytes.
    Pong(&'static [u8]),
}

/// A rule, the bytes that try it, and what has to come of them.
#[derive(Debug)]
pub struct Rule {
    /// The section, and what it says.
    pub name: &'static str,
    /// The frames.
    pub bytes: Vec<u8>,
    /// The expected outcome.
    pub expected: Expected,
}

/// Sender of frames: a client masks them, a server does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    Client,
    Server,
}

const FIN: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A frame, with the length written in as few bytes as can be.
pub fn frame(from: From, first: u8, payload: &[u8]) -> Vec<u8> {
    let length = match payload.len() {
        short @ 0..126 => vec![u8::try_from(short).unwrap()],
        medium @ 126..65_536 => [vec![126], u16::try_from(medium).unwrap().to_be_bytes().to_vec()].concat(),
        long => [vec![127], (long as u64).to_be_bytes().to_vec()].concat(),
    };
    with_length(from, first, length, payload)
}

/// A frame with a length as it stands, masked if the sender's are.
fn with_length(from: From, first: u8, mut length: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x11, 0x22, 0x33, 0x44];
    let mut bytes = vec![first];
    if from == From::Client {
        length[0] |= 0x80;
        bytes.extend(length);
        bytes.extend(MASK);
        bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    } else {
        bytes.extend(length);
        bytes.extend(payload);
    }
    bytes
}

/// All rules, for frames that go this way.
pub fn rules(from: From) -> Vec<Rule> {
    use Expected::{Closes, Fails, GoesOn, Pong};
    let frame = |first: u8, payload: &[u8]| self::frame(from, first, payload);
    let other = match from {
        From::Client => From::Server,
        From::Server => From::Client,
    };
    let mut rules = Vec::new();
    let mut rule = |name, bytes, expected| rules.push(Rule { name, bytes, expected });

    rule("5.1: masked by a client, never by a server", self::frame(other, FIN | BINARY, b""), Fails(1002));
    for reserved in [0x40, 0x20, 0x10, 0x70] {
        rule("5.2: reserved bits are 0 without an extension", frame(FIN | reserved | BINARY, b""), Fails(1002));
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        rule("5.2: unknown opcodes fail", frame(FIN | opcode, b""), Fails(1002));
    }
    rule(
        "5.2: the length's highest bit is 0",
        with_length(from, FIN | BINARY, vec![127, 0x80, 0, 0, 0, 0, 0, 0, 0], b""),
        Fails(1002),
    );
    let over = with_length(from, FIN | BINARY, [vec![127], (17_u64 << 20).to_be_bytes().to_vec()].concat(), b"");
    rule("7.4.1: a message over the cap is 1009, known from its length", over, Fails(1009));
    let medium = with_length(from, FIN | PING, vec![126, 0, 4], b"ping");
    rule("5.2: the length takes as few bytes as it can (16 bits)", medium, Fails(1002));
    let long = with_length(from, FIN | BINARY, vec![127, 0, 0, 0, 0, 0, 0, 0, 0], b"");
    rule("5.2: the length takes as few bytes as it can (64 bits)", long, Fails(1002));

    rule("5.4: a continuation continues something", frame(FIN, b"x"), Fails(1002));
    rule("5.4: a fragment that is not continued", [frame(BINARY, b""), frame(FIN | BINARY, b"")].concat(), Fails(1002));
    rule("5.4: a text within a fragmented message", [frame(BINARY, b""), frame(FIN | TEXT, b"")].concat(), Fails(1002));
    let fragments = [frame(BINARY, b""), frame(0, b""), frame(FIN, b"")].concat();
    rule("5.4: fragments, empty ones too, are one message", fragments, GoesOn);
    let interleaved = [frame(BINARY, b""), frame(FIN | PING, b"between"), frame(FIN, b"")].concat();
    rule("5.4: control frames may stand between fragments", interleaved, Pong(b"between"));

    rule("5.5: control frames are not fragmented", frame(PING, b""), Fails(1002));
    rule("5.5: control frames are not continued", [frame(CLOSE, b""), frame(FIN, b"")].concat(), Fails(1002));
    rule("5.5: control frames have at most 125 bytes", frame(FIN | PING, &[b'x'; 126]), Fails(1002));
    rule("5.5.2: a ping is answered with its bytes", frame(FIN | PING, b"hello"), Pong(b"hello"));
    rule("5.5.2: an empty ping is answered", frame(FIN | PING, b""), Pong(b""));
    rule("5.5.3: a pong that nobody asked for is no fault", frame(FIN | PONG, b"hello"), GoesOn);
    rule("5.6: an empty binary message is a message", frame(FIN | BINARY, b""), GoesOn);

    rule("7.1.5: a close without a code", frame(FIN | CLOSE, b""), Closes(1005));
    rule("5.5.1: a close with half a code", frame(FIN | CLOSE, &[3]), Fails(1002));
    for code in [1000_u16, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
        rule("7.4: codes that may be sent are answered", frame(FIN | CLOSE, &code.to_be_bytes()), Closes(code));
    }
    for code in [0_u16, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535] {
        rule("7.4: codes that may not be sent fail", frame(FIN | CLOSE, &code.to_be_bytes()), Fails(1002));
    }
    let reason = [&1000_u16.to_be_bytes()[..], b"\xff\xfe"].concat();
    rule("8.1: a close reason is UTF-8", frame(FIN | CLOSE, &reason), Fails(1007));
    rule("8.1: a text is UTF-8", frame(FIN | TEXT, b"\xc3\x28"), Fails(1007));
    rule("8.1: a text that ends in half a character", frame(FIN | TEXT, b"\xe2\x82"), Fails(1007));
    let halves = [frame(TEXT, b"\xf8"), frame(FIN, b"")].concat();
    rule("8.1: a text that is wrong from its first fragment on", halves, Fails(1007));
    rules
}
