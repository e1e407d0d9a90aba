//! Lists which packages are built together. The features of shared dependencies follow from all packages of a build, so
//! that commands with the same selection share what they compile. `house::builds` checks this.

/// Packages of `cargo xtask demo`: the product's programs, which a plain `cargo build` builds as well, and the
/// quickstart.
pub(crate) const DEMO: [&str; 6] = ["--package", "sandbox-relay", "--package", "relay-host", "--package", "quickstart"];
/// Packages of the tests that need no container.
pub(crate) const TESTS: [&str; 3] = ["--workspace", "--exclude", "container-tests"];
/// Package of the program that checks an archive of V8.
pub(crate) const V8_CHECK: &str = "v8-check";

/// Adds packages to a selection.
pub(crate) fn with<'a>(selection: &[&'a str], packages: &[&'a str]) -> Vec<&'a str> {
    let more = packages.iter().flat_map(|package| ["--package", package]);
    selection.iter().copied().chain(more).collect()
}
