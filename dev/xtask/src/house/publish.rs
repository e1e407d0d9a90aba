//! Checks the crates that are meant to be published: their metadata, and that cargo can package them.

use anyhow::Context as _;

use crate::metadata::Package;
use crate::run::{self, cargo};

/// Files with the texts of the licences, which each package must contain.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Lists what is missing in the manifests and folders of the crates that may be published.
pub(super) fn faults(packages: &[Package<'_>]) -> Vec<String> {
    let members = packages.iter().filter(|package| package.is_member && package.publish);
    let lacks = |package: &Package<'_>| {
        let absent = LICENCES.into_iter().filter(|file| !package.folder.join(file).is_file());
        let lacks: Vec<_> = package.lacks.iter().copied().chain(absent).collect();
        (!lacks.is_empty()).then(|| format!("{} may be published, and lacks: {}", package.name, lacks.join(", ")))
    };
    members.filter_map(lacks).collect()
}

/// Makes the packages of all crates that may be published, as the registry would get them. Their code is not built
/// again, since that needs V8.
///
/// Where nothing may be left out, cargo does all of `cargo publish` but the upload, which asks the registry; else it
/// asks nobody.
///
/// # Errors
/// Cargo cannot make a package: a dependency has no version, or a file is missing.
pub(super) fn package(packages: &[Package<'_>], is_strict: bool) -> anyhow::Result<()> {
    let mut package = cargo();
    if is_strict {
        package.args(["publish", "--workspace", "--dry-run"]);
    } else {
        package.args(["package", "--offline"]);
        // Cargo would package the other members as well.
        let members = packages.iter().filter(|package| package.is_member && package.publish);
        package.args(members.flat_map(|member| ["--package", member.name]));
    }
    // Uncommitted changes are not published, but they are checked.
    package.args(["--quiet", "--no-verify", "--allow-dirty", "--locked"]);
    run::output(&mut package).map(drop).context("the crates cannot be packaged")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_that_tells_too_little_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("LICENSE-MIT"), "text").unwrap();
        std::fs::write(folder.path().join("LICENSE-APACHE"), "text").unwrap();
        let told = json!({
            "name": "a", "version": "1.0.0", "source": null, "publish": null, "description": "Does it",
            "license": "MIT", "readme": "README.md", "keywords": ["one"], "categories": ["encoding"],
            "manifest_path": folder.path().join("Cargo.toml"),
        });
        assert_eq!(faults(&[Package::of(&told).unwrap()]), [""; 0]);
        let mut silent = told.clone();
        silent["description"] = json!(null);
        silent["keywords"] = json!([]);
        std::fs::remove_file(folder.path().join("LICENSE-MIT")).unwrap();
        let expected = "a may be published, and lacks: description, keywords, LICENSE-MIT";
        assert_eq!(faults(&[Package::of(&silent).unwrap()]), [expected]);
        let mut private = silent.clone();
        private["publish"] = json!([]);
        let mut foreign = silent;
        foreign["source"] = json!("registry+somewhere");
        assert_eq!(faults(&[Package::of(&private).unwrap(), Package::of(&foreign).unwrap()]), [""; 0]);
    }
}
