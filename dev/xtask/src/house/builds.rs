//! Checks that commands share what they compile. Cargo builds a package once for several commands only if its features
//! are the same in all of them, and these follow from all packages that are built together.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;

use crate::run::{cargo, output};
use crate::selection;

/// Kinds of dependencies that a build follows, and those that a build with tests follows.
const BUILD: &str = "normal,build";
const TESTS: &str = "normal,build,dev";

/// Packages that a build compiles, by name and version, each with the sets of features that it is compiled with. There
/// are two sets where a build script or a macro needs others.
type Build = BTreeMap<String, BTreeSet<String>>;

/// Checks pairs of commands: the later one must compile nothing that the earlier one has not compiled.
///
/// # Errors
/// Cargo cannot list the packages.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let demo = build(&selection::DEMO, BUILD)?;
    let plain = build(&[], BUILD)?;
    let mut check_of_v8 = build(&selection::with(&selection::DEMO, &[selection::V8_CHECK]), BUILD)?;
    check_of_v8.retain(|package, _| !package.starts_with("v8-check "));
    let workspace = build(&["--workspace"], TESTS)?;
    let tests = build(&selection::TESTS, TESTS)?;
    let pairs = [
        (("`cargo xtask demo`", &demo), ("`cargo build`", &plain)),
        (("`cargo xtask demo`", &demo), ("the check of V8 before it", &check_of_v8)),
        (("the build with the lints", &workspace), ("the tests", &tests)),
    ];
    Ok(pairs.into_iter().flat_map(|(first, second)| faults(first, second)).collect())
}

/// Asks cargo what a command with this selection of packages builds. An empty selection is that of a plain `cargo
/// build`.
fn build(selection: &[&str], edges: &str) -> anyhow::Result<Build> {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--edges", edges, "--prefix", "none", "--format", "{p}|{f}"]);
    parsed(&output(tree.args(selection))?)
}

fn parsed(tree: &str) -> anyhow::Result<Build> {
    let mut build = Build::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let (package, features) = line.split_once('|').with_context(|| format!("cargo tree says {line:?}"))?;
        // A path or a remark may follow the version.
        let package = package.split(' ').take(2).collect::<Vec<_>>().join(" ");
        // Cargo marks a package that it has printed before.
        let features = features.strip_suffix(" (*)").unwrap_or(features).to_owned();
        build.entry(package).or_default().insert(features);
    }
    Ok(build)
}

/// Lists what a build after `first` compiles again or in addition. `first` and `second` name the commands.
fn faults((first, built): (&str, &Build), (second, wanted): (&str, &Build)) -> Vec<String> {
    let fault = |(package, sets): (&String, &BTreeSet<String>)| {
        let Some(known) = built.get(package) else {
            return Some(format!("{second} builds {package}, and {first} does not"));
        };
        let [known, sets]: [Vec<_>; 2] = [known, sets].map(|all| all.iter().map(String::as_str).collect());
        let new: Vec<_> = sets.into_iter().filter(|features| !known.contains(features)).collect();
        (!new.is_empty()).then(|| {
            let (known, new) = (known.join("] and ["), new.join("] and ["));
            format!("{second} builds {package} once more: with the features [{new}], after {first} with [{known}]")
        })
    };
    wanted.iter().filter_map(fault).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_other_features_and_one_that_is_new_are_faults() {
        let demo = [
            "demo v0.1.0 (/w/demo)|",
            "serde v1.0.0|derive,std",
            "tokio v1.2.0|rt",
            "serde v1.0.0|derive,std (*)",
            "",
            "syn v2.0.0|full",
        ];
        let demo = parsed(&demo.join("\n")).unwrap();
        let same = parsed("tokio v1.2.0|rt (*)\nserde v1.0.0|derive,std").unwrap();
        assert_eq!(faults(("the demo", &demo), ("cargo build", &same)), [""; 0]);
        let other = "tokio v1.2.0|net,rt\ntokio v1.2.0|rt\nserde v2.0.0|derive,std\nsyn v2.0.0 (proc-macro)|full";
        let other = parsed(other).unwrap();
        assert_eq!(
            faults(("the demo", &demo), ("cargo build", &other)),
            [
                "cargo build builds serde v2.0.0, and the demo does not",
                "cargo build builds tokio v1.2.0 once more: with the features [net,rt], after the demo with [rt]",
            ]
        );
        assert!(parsed("no features").is_err());
    }

    #[test]
    fn features_follow_from_what_is_built_together() {
        let alone = build(&["--package", "relay-proto"], BUILD).unwrap();
        let together = build(&["--package", "relay-proto", "--package", "xtask"], BUILD).unwrap();
        assert!(alone.keys().all(|package| together.contains_key(package)), "{alone:?}");
        assert!(together.keys().any(|package| package.starts_with("xtask v")), "{together:?}");
        assert!(alone.keys().any(|package| package.starts_with("prost v")), "{alone:?}");
    }
}
