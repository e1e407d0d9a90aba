//! Which packages are built together. The features of what they share follow from all of them, so that commands with
//! the same selection, or one that asks for no other features, share what they compile. `house::builds` checks that
//! they do.

/// What `cargo xtask demo` builds: the product's programs, which a plain `cargo build` builds as well, and the
/// quickstart.
pub(crate) const DEMO: [&str; 6] = ["--package", "sandbox-relay", "--package", "relay-host", "--package", "quickstart"];
/// What the tests without a container are of.
pub(crate) const TESTS: [&str; 3] = ["--workspace", "--exclude", "container-tests"];
/// The program that checks an archive of V8.
pub(crate) const V8_CHECK: &str = "v8-check";

/// A selection with more packages.
pub(crate) fn with<'a>(selection: &[&'a str], packages: &[&'a str]) -> Vec<&'a str> {
    let more = packages.iter().flat_map(|package| ["--package", package]);
    selection.iter().copied().chain(more).collect()
}
