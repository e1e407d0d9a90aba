//! Builds a release once more, from a clone in another folder, and names the files that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::bail;

use super::{remove, source::Source, sums};
use crate::run::{cargo, check as run, step, target_folder};

/// Builds the commit again and compares. Where the releases differ, the clone stays, so that it can be looked at.
pub(super) fn check(first: &Path, source: &Source, without_image: bool) -> anyhow::Result<()> {
    let folder = target_folder()?.join("dist-check");
    step(&format!("Building it again in {}", folder.display()));
    remove(&folder)?;
    let clone = folder.join("clone");
    let git = || Command::new("git");
    run(git().args(["clone", "--quiet", "--no-checkout", "."]).arg(&clone))?;
    run(git().arg("-C").arg(&clone).args(["checkout", "--quiet", "--detach", &source.commit]))?;
    // A folder beside the checkout may hold V8: the clone finds it at the same relative path.
    if let Ok(beside) = fs::canonicalize("../shared") {
        symlink(beside, folder.join("shared"))?;
    }
    // The tools may differ from run to run; only what they make is compared.
    let target = clone.join("target");
    fs::create_dir(&target)?;
    symlink(target_folder()?.join("tools"), target.join("tools"))?;

    let mut dist = cargo();
    dist.args(["xtask", "dist"]).current_dir(&clone).env("CARGO_TARGET_DIR", &target);
    if without_image {
        dist.arg("--without-image");
    }
    run(&mut dist)?;

    let second = target.join("dist");
    let sums = (sums::read(first)?, sums::read(&second)?);
    let different = different(&sums.0, &sums.1);
    if !different.is_empty() {
        let names = different.into_iter().collect::<Vec<_>>().join("\n  ");
        bail!("these files differ between {} and {}:\n  {names}", first.display(), second.display());
    }
    remove(&folder)?;
    step("Both releases are the same, byte for byte");
    Ok(())
}

/// Lists the files that are not the same in both releases, or are in one of them only.
fn different<'a>(first: &'a BTreeMap<String, String>, second: &'a BTreeMap<String, String>) -> BTreeSet<&'a str> {
    let names = first.keys().chain(second.keys());
    names.filter(|name| first.get(*name) != second.get(*name)).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_or_are_in_one_release_only_are_named() {
        let sums = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, sum)| ((*name).to_owned(), (*sum).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let first = sums(&[("same", "1"), ("other", "2"), ("first", "3")]);
        let second = sums(&[("same", "1"), ("other", "x"), ("second", "3")]);
        assert_eq!(different(&first, &second).into_iter().collect::<Vec<_>>(), ["first", "other", "second"]);
        assert!(different(&first, &first).is_empty());
    }
}
