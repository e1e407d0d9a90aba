//! Compares `src/generated/relay.rs` with what `relay.proto` generates, so that no user of the crate needs a generator.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

/// Environment variable that makes the test write the file in place of comparing it.
const WRITE: &str = "RELAY_WRITE_GENERATED";

#[test]
fn the_generated_code_is_that_of_relay_proto() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let descriptors = protox::compile(["relay.proto"], [crate_root]).unwrap();
    let mut config = prost_build::Config::new();
    config.out_dir(folder.path()).bytes(["."]).btree_map(["."]).compile_fds(descriptors).unwrap();
    let generated = std::fs::read_to_string(folder.path().join("relay.rs")).unwrap();
    let committed = crate_root.join("src/generated/relay.rs");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&committed, &generated).unwrap();
    }
    assert!(
        std::fs::read_to_string(&committed).unwrap_or_default() == generated,
        "{} does not match relay.proto; write it again with `{WRITE}=1 cargo test -p relay-proto --test generated`",
        committed.display(),
    );
}
