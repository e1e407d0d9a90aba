//! The fuzz targets. Each takes any bytes at all and must neither panic nor hang; what else has to hold is asserted inside.
//!
//! CI replays the corpus and a fixed number of mutations of it (`tests/corpus.rs`), on stable Rust. By hand, for more:
//! `RELAY_FUZZ_TIMES=1000 cargo test --release --package relay-fuzz`, or, with a nightly toolchain and cargo-fuzz,
//! `cargo +nightly fuzz run --features libfuzzer session`.

use bytes::Bytes;
pub use host_client::fuzz::{schema, session as host_session};
pub use sandbox_relay::fuzz::{meter, session, source, token};

/// A target: its name, which is that of its corpus, and what takes the bytes.
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

/// Both ends' decoder: what it takes, it writes and takes again.
pub fn frame(data: &[u8]) {
    if let Ok(message) = relay_proto::frame::decode(Bytes::copy_from_slice(data)) {
        let again = relay_proto::frame::decode(relay_proto::frame::encode(&message));
        assert_eq!(again.as_ref(), Ok(&message));
    }
}

/// Code that a host looks at itself, on the smallest stack that is promised to be enough: what is taken for a call is a
/// program too.
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
