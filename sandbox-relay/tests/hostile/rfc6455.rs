//! The relay's end against RFC 6455's own rules, byte by byte, and whatever their bytes are cut into.

use relay_test_support::rfc6455::{self as rules, Expected, From, frame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::hostile::arena::Arena;
use crate::support::within;

/// A connection after the upgrade.
pub(crate) async fn upgraded(arena: &Arena, subject: &str) -> TcpStream {
    let token = arena.token(&["--subject", subject]).await;
    let mut stream = TcpStream::connect(&arena.address).await.unwrap();
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: relay\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(within(stream.read_u8()).await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 101") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    assert!(!head.to_lowercase().contains("sec-websocket-extensions"), "no compression: {head}");
    stream
}

/// A client's frame.
pub(crate) fn client_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    frame(From::Client, first, payload)
}

/// The next frame that is no ping of the relay's own: its opcode and its payload. Nothing at the end of the connection.
pub(crate) async fn next_frame(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    loop {
        let first = within(stream.read_u8()).await.ok()?;
        let second = within(stream.read_u8()).await.ok()?;
        assert_eq!(second & 0x80, 0, "a server masks nothing");
        let length = match second {
            126 => usize::from(within(stream.read_u16()).await.ok()?),
            127 => usize::try_from(within(stream.read_u64()).await.ok()?).unwrap(),
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        within(stream.read_exact(&mut payload)).await.ok()?;
        if first != 0x89 {
            return Some((first, payload));
        }
    }
}

/// The code of the close that comes; 1005 where it has none.
pub(crate) async fn close_code(stream: &mut TcpStream) -> Option<u16> {
    loop {
        let (first, payload) = next_frame(stream).await?;
        if first == 0x88 {
            return Some(payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code)));
        }
    }
}

#[tokio::test]
async fn every_rule_is_kept_and_every_breach_has_its_code() {
    let arena = Arena::start(&["--subject-connections", "1000", "--address-connections", "1000"]).await;
    let mut wrong = Vec::new();
    for rule in rules::rules(From::Client) {
        // In one piece, and a byte at a time.
        for size in [rule.bytes.len(), 1] {
            let mut stream = upgraded(&arena, "rules").await;
            stream.set_nodelay(true).unwrap();
            for chunk in rule.bytes.chunks(size) {
                // It may have closed already, at the first byte that is wrong.
                let _ = stream.write_all(chunk).await;
            }
            let found = match rule.expected {
                Expected::Fails(code) | Expected::Closes(code) => (close_code(&mut stream).await, Some(code)),
                Expected::GoesOn => {
                    let _ = stream.write_all(&frame(From::Client, 0x89, b"still?")).await;
                    let alive = next_frame(&mut stream).await == Some((0x8a, b"still?".to_vec()));
                    (alive.then_some(0), Some(0))
                }
                Expected::Pong(bytes) => {
                    (next_frame(&mut stream).await.filter(|it| *it == (0x8a, bytes.to_vec())).map(|_| 0), Some(0))
                }
            };
            if found.0 != found.1 {
                wrong.push(format!("{} ({:.20x?}, in pieces of {size}): {found:?}", rule.name, rule.bytes));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    arena.unharmed().await;
}
