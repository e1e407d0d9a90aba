//! Checks how many packages an application links that uses only the core of the host library, without features.

use std::collections::BTreeSet;

use crate::run::{cargo, output};

/// Name of the core's package.
const CORE: &str = "host-client-core";
/// Maximum number of packages, with the core itself, each counted once.
const MOST_PACKAGES: usize = 170;
/// Beginnings of the names of packages that only features may bring in.
const BEHIND_FEATURES: [&str; 4] = ["bm25", "oxc_", "serde_json_path", "toml"];

/// Lists what is wrong with the packages of the core.
///
/// # Errors
/// Cargo cannot list the packages.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--package", CORE, "--no-default-features", "--edges", "normal"]);
    Ok(faults(&output(tree.args(["--prefix", "none", "--format", "{p}"]))?))
}

fn faults(tree: &str) -> Vec<String> {
    // Cargo marks a package that it has printed before.
    let packages: BTreeSet<_> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    let is_behind = |package: &&&str| BEHIND_FEATURES.iter().any(|name| package.starts_with(name));
    let wrong = packages.iter().filter(is_behind);
    let mut faults: Vec<_> = wrong.map(|package| format!("{CORE} needs {package} without any feature")).collect();
    let count = packages.len();
    if count > MOST_PACKAGES {
        faults.push(format!("{CORE} needs {count} packages without any feature, and {MOST_PACKAGES} are the most"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_packages_and_those_that_stand_behind_features_are_faults() {
        let tree = |count: usize| (0..count).map(|n| format!("p{n} v1.0.0\np{n} v1.0.0 (*)\n")).collect::<String>();
        assert_eq!(faults(&tree(MOST_PACKAGES)), [""; 0]);
        let expected = "host-client-core needs 171 packages without any feature, and 170 are the most";
        assert_eq!(faults(&tree(MOST_PACKAGES + 1)), [expected]);
        let found = faults("tokio v1.0.0\noxc_ast v0.146.0\nbm25 v2.3.2 (*)\ntoml_edit v0.1.0");
        let needs = |package: &str| format!("host-client-core needs {package} without any feature");
        assert_eq!(found, ["bm25 v2.3.2", "oxc_ast v0.146.0", "toml_edit v0.1.0"].map(needs));
    }
}
