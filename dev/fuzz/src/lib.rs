//! The fuzz targets. Each takes any bytes at all and must neither panic nor hang; what else has to hold is asserted inside.
//!
//! CI replays the corpus and a fixed number of mutations of it (`tests/corpus.rs`), on stable Rust. By hand, for more:
//! `RELAY_FUZZ_TIMES=1000 cargo test --release --package relay-fuzz`, or, with a nightly toolchain and cargo-fuzz,
//! `cargo +nightly fuzz run --features libfuzzer session`.

use bytes::Bytes;
pub use host_client::fuzz::{schema, session as host_session};
pub use sandbox_relay::fuzz::{meter, session, source, token};

/// Target of fuzzing: its name, which is also that of its corpus, and the function that takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 8] = [
    ("frame", frame),
    ("meter", meter),
    ("session", session),
    ("token", token),
    ("source", source),
    ("shortcut", shortcut),
    ("host_session", host_session),
    ("schema", schema),
];

/// Decodes the bytes with the decoder of both ends. What is accepted must survive encoding and decoding.
pub fn frame(data: &[u8]) {
    if let Ok(message) = relay_proto::frame::decode(Bytes::copy_from_slice(data)) {
        let again = relay_proto::frame::decode(relay_proto::frame::encode(&message));
        assert_eq!(again.as_ref(), Ok(&message));
    }
}

/// Looks at code as a host does, on the smallest stack that the documentation promises to be enough. Code that is taken
/// for a single call must also be accepted as a program.
pub fn shortcut(data: &[u8]) {
    const STACK_BYTES: usize = 1 << 20;
    let Ok(text) = std::str::from_utf8(data) else { return };
    let look = || {
        if relay_script::shortcut(text).is_some() {
            assert!(relay_script::prepare(text).is_ok());
        }
    };
    let failed = std::thread::scope(|scope| {
        let looking = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, look);
        looking.map(|thread| thread.join().is_err())
    });
    assert!(matches!(failed, Ok(false)), "no thread, or it panicked: {failed:?}");
}
