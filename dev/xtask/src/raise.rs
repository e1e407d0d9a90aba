//! `raise-v8`: takes the project to another version of the crate `v8`, in a worktree of its own, and shows the changes.
//!
//! - [`sources`]: what the sources of both versions tell before anything is built; [`binding`] compares the bindings
//! - [`worktree`]: the branch, the folder, the pin
//! - [`archive`]: the library that is linked
//! - [`globals`]: what scripts find in the new V8
//! - [`calls`]: what workers ask of the kernel, seen by strace
//! - [`report`]: what a person reads; [`commands`]: programs with a log

mod archive;
mod binding;
mod calls;
mod commands;
mod globals;
mod report;
mod sources;
mod worktree;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::crates;
use crate::run::{step, target_folder};
use commands::Project;
use report::Report;
use worktree::Worktree;

/// Arguments of `cargo xtask raise-v8`.
#[derive(Debug, Args)]
pub(crate) struct RaiseArgs {
    /// The version of the crate `v8`, such as 150.4.0 [default: the newest that cargo finds]
    version: Option<String>,
    /// Only compare the sources: a minute, and nothing is built or changed
    #[arg(long)]
    look: bool,
    /// Take over what scripts find in the new V8 as the pinned lists, and commit it
    #[arg(long)]
    take: bool,
    /// Go through all steps though this version is the pinned one, to try them
    #[arg(long)]
    anyway: bool,
}

/// Present version of the crate, and the version to raise it to.
#[derive(Debug)]
struct Versions {
    old: String,
    new: String,
}

pub(crate) fn raise(args: &RaiseArgs) -> anyhow::Result<()> {
    let lock = std::fs::read_to_string("Cargo.lock").context("there is no Cargo.lock")?;
    let old = crates::locked_version(&lock, "v8").context("Cargo.lock has no crate v8")?;
    let new = match &args.version {
        Some(version) => checked(version)?,
        None => crates::newest("v8")?,
    };
    if new == old && !args.anyway {
        let newest = if args.version.is_none() { ", which is the newest" } else { "" };
        eprintln!("The crate v8 is at {old} already{newest}: nothing to do.");
        return Ok(());
    }
    let versions = Versions { old, new };
    // Make it absolute: some of the programs run in another folder.
    let folder = std::path::absolute(target_folder()?.join("raise-v8").join(&versions.new))?;
    std::fs::create_dir_all(&folder)?;
    let mut report = Report::new(folder.join("report.md"), &versions.old, &versions.new);

    step(&format!("The crate v8 {} beside {}", versions.new, versions.old));
    sources::compare(&versions, &mut report)?;
    if args.look {
        eprintln!("\nThe report is {}. Nothing was built or changed.", report.path().display());
        return Ok(());
    }
    build_and_compare(&versions, folder, &mut report, args.take)
}

fn build_and_compare(versions: &Versions, folder: PathBuf, report: &mut Report, take: bool) -> anyhow::Result<()> {
    calls::provide_strace()?;
    let logs = folder.join("logs");
    std::fs::create_dir_all(&logs)?;
    let now = Project::new(commands::NOW, PathBuf::from("."), target_folder()?, &logs)?;
    let worktree = Worktree::open(versions)?;
    let raised = Project::new(commands::RAISED, worktree.folder().to_owned(), worktree.folder().join("target"), &logs)?;

    step("Building the relay as it is now, to compare with");
    archive::provide(&now)?;
    calls::build(&now).context("the relay does not build as it is now: mend that first")?;

    step(&format!("Pinning {} in {}", versions.new, worktree.folder().display()));
    worktree.pin(versions, report)?;
    step("Getting the V8 of the new version");
    archive::provide(&raised)?;
    step("Building the relay with it (some minutes)");
    calls::build(&raised).with_context(|| {
        format!(
            "the relay does not build with v8 {}: mend it in {}, commit, and run this again",
            versions.new,
            worktree.folder().display()
        )
    })?;
    archive::compare(&now, &raised, report)?;

    step("Comparing what scripts find (the tests of suite/globals)");
    globals::compare(&raised, &folder, report)?;
    if take {
        globals::take(&worktree, &folder, &versions.new)?;
    }
    step("Comparing what workers ask of the kernel (about a minute)");
    calls::compare(&now, &raised, &folder, report)?;

    let tree = worktree.folder().display();
    eprintln!(
        "\nThe report is {report}\n\
         Next: 1. Review, and `git -C {tree} log -p {base}..`; pin what scripts find: raise-v8 {new} --take.\n      \
         2. `cd {tree} && cargo xtask test`, then `cargo xtask bench`.\n      \
         3. `git merge {branch}`.\n\
         Or throw it away: git worktree remove --force {tree} && git branch -D {branch}",
        report = report.path().display(),
        base = worktree::current_commit()?,
        new = versions.new,
        branch = worktree.branch(),
    );
    Ok(())
}

/// Checks that a version consists of three numbers and nothing else. It is written into a manifest and into the names
/// of a folder and a branch.
fn checked(version: &str) -> anyhow::Result<String> {
    let numbers: Vec<_> = version.split('.').collect();
    let is_number = |number: &&str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if numbers.len() != 3 || !numbers.iter().all(is_number) {
        bail!("{version:?} is no version of the crate v8: one is three numbers, such as 150.4.0");
    }
    Ok(version.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    #[test]
    fn a_version_is_three_numbers() {
        assert_eq!(super::checked("150.4.0").unwrap(), "150.4.0");
        for wrong in ["150.4", "v150.4.0", "150.4.0\"", "152..0", "../2.0", "1.2.3.4", ""] {
            assert!(super::checked(wrong).unwrap_err().to_string().contains("three numbers"), "{wrong}");
        }
    }
}
