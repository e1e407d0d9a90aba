//! The rules of the house, which no compiler knows: looked at by `cargo xtask test` and alone by `cargo xtask house`.
//!
//! - [`circles`] over a [`tree`] of modules: no circle between siblings
//! - [`lines`]: no source file of more than 400 lines
//! - [`builds`]: commands that follow one another share what they compile
//! - [`core`]: the host library's core needs few packages
//! - [`licences`]: what is linked may be
//! - [`publish`]: the crates that are meant for others can be packaged

mod builds;
mod circles;
mod core;
mod licences;
mod lines;
mod publish;
mod tree;

use std::path::Path;

use anyhow::bail;

use crate::checkout::sources;
use crate::metadata::Metadata;
use crate::run::{step, target_folder};

/// The roots of the crates of the product, whose modules form no circle.
const CRATES: [&str; 14] = [
    "proto/src/lib.rs",
    "script/src/lib.rs",
    "sandbox-relay/src/main.rs",
    "sandbox-relay/src/lib.rs",
    "host-client/src/lib.rs",
    "host-client/core/src/lib.rs",
    "host-client/journal/src/lib.rs",
    "host-client/macros/src/lib.rs",
    "host-client/sources/src/lib.rs",
    "host-client/model/src/lib.rs",
    "host-client/page/src/lib.rs",
    "host-client/relay-host/src/main.rs",
    "sdk/shared/src/lib.rs",
    "sdk/typescript/native/src/lib.rs",
];

/// Looks at all rules. `is_strict`: the registry is asked, too, whether the crates could be published.
///
/// # Errors
/// A rule is broken: all faults, one after the other.
pub(crate) fn check(is_strict: bool) -> anyhow::Result<()> {
    step("Looking at the rules of the house");
    let mut faults = Vec::new();
    for root in CRATES {
        let found = circles::circles(Path::new(root))?;
        faults.extend(found.iter().map(|circle| format!("{root}: {circle}")));
    }
    let root = std::fs::canonicalize(".")?;
    let files = sources(&root, &target_folder()?)?;
    let relative = |file: &Path| Some(file.strip_prefix(&root).ok()?.to_str()?.to_owned());
    let files: Vec<_> = files.iter().filter_map(|file| relative(file)).collect();
    faults.extend(lines::faults(&root, &files, &lines::LONGER)?);
    faults.extend(builds::check()?);
    faults.extend(core::check()?);
    let metadata = Metadata::read()?;
    let packages = metadata.all()?;
    faults.extend(licences::faults(&packages, &std::fs::read_to_string("deny.toml")?)?);
    faults.extend(publish::faults(&packages));
    if !faults.is_empty() {
        bail!("{} rules of the house are broken:\n  {}", faults.len(), faults.join("\n  "));
    }
    step("Packaging the crates that are meant for others");
    publish::package(&packages, is_strict)
}
