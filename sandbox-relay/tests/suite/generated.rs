//! Compares `src/generated/worker.rs` with what `worker.proto` generates, so that no user of the crate needs a generator.

use std::path::Path;

/// Environment variable that makes the test write the file in place of comparing it.
const WRITE: &str = "RELAY_WRITE_GENERATED";

#[test]
fn the_generated_code_is_that_of_worker_proto() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let descriptors = protox::compile(["worker.proto"], [crate_root]).unwrap();
    let mut config = prost_build::Config::new();
    config.out_dir(folder.path()).bytes(["."]).btree_map(["."]).compile_fds(descriptors).unwrap();
    let generated = std::fs::read_to_string(folder.path().join("worker.rs")).unwrap();
    let committed = crate_root.join("src/generated/worker.rs");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&committed, &generated).unwrap();
    }
    assert!(
        std::fs::read_to_string(&committed).unwrap_or_default() == generated,
        "{} does not match worker.proto; write it again with \
         `{WRITE}=1 cargo test -p sandbox-relay --test suite generated`",
        committed.display(),
    );
}
