//! Extracts from the pages the programs that the tests run and do not only compile: see `tests/docs/examples.rs`.

use std::path::Path;
use std::{env, fs, io};

/// Name of the file to write, page, and beginning of the block.
const RUN: [(&str, &str, &str); 2] =
    [("readme.rs", "README.md", "```rust,no_run\n"), ("test.rs", "docs/rust.md", "```rust,no_run,test_harness\n")];

fn main() -> io::Result<()> {
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    for (name, page, start) in RUN {
        let path = Path::new("../..").join(page);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path)?;
        let block = text.split_once(start).and_then(|(_, rest)| rest.split_once("\n```"));
        let (block, _) = block.ok_or_else(|| io::Error::other(format!("{page} has no block {start:?}")))?;
        fs::write(Path::new(&out).join(name), block)?;
    }
    Ok(())
}
