//! Compares what scripts find in the new V8 with the lists that the tests pin.

use std::path::Path;

use anyhow::{Context as _, bail};

use super::commands::Project;
use super::report::{Difference, Report};
use super::worktree::Worktree;
use crate::run::TEST_LIMIT;

/// Names of the pinned lists in the folder of the tests. A test that finds another list writes it under the same name.
const LISTS: [&str; 2] = ["globals.txt", "natives.txt"];
const PINNED: &str = "sandbox-relay/tests/suite";

/// Returns the folder in which the tests leave the lists that they found.
fn found(folder: &Path) -> std::path::PathBuf {
    folder.join("found")
}

/// Runs the tests of the lists and reports the differences.
pub(super) fn compare(raised: &Project, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let found = found(folder);
    std::fs::create_dir_all(&found)?;
    // Remove the lists that an earlier run found.
    for list in LISTS {
        match std::fs::remove_file(found.join(list)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let mut build = raised.cargo();
    build.args(["test", "--locked", "--package", "sandbox-relay", "--test", "suite", "--no-run"]);
    raised.run("build-tests", super::calls::BUILD_LIMIT, &mut build)?;
    let mut test = raised.cargo();
    test.args(["test", "--locked", "--package", "sandbox-relay", "--test", "suite", "globals::"]).env("TMPDIR", &found);
    let tested = raised.run("globals", TEST_LIMIT, &mut test);
    let mut lines = Vec::new();
    for list in LISTS {
        lines.extend(difference(&raised.folder().join(PINNED).join(list), &found.join(list))?.lines(list));
    }
    // A list that differs is a result, not a failure.
    match tested {
        Err(error) if !LISTS.iter().any(|list| found.join(list).exists()) => {
            Err(error.context("the tests failed before they found what scripts find"))
        }
        _ => report.add("What scripts find", &lines),
    }
}

/// Copies the found lists into the worktree and commits them.
pub(super) fn take(worktree: &Worktree, folder: &Path, version: &str) -> anyhow::Result<()> {
    let mut taken = Vec::new();
    for list in LISTS {
        let from = found(folder).join(list);
        if from.exists() {
            let to = Path::new(PINNED).join(list);
            std::fs::copy(&from, worktree.folder().join(&to))?;
            taken.push(to.display().to_string());
        }
    }
    if taken.is_empty() {
        eprintln!("    There is nothing to take: the lists are as they were.");
        return Ok(());
    }
    worktree.commit(&format!("Tests: what scripts find with v8 {version}"), "Looked at, and taken over.", &taken)?;
    eprintln!("    Taken over and committed: {}", taken.join(", "));
    Ok(())
}

/// Compares a pinned list with the one that the tests found. A test that finds no difference leaves no list.
fn difference(pinned: &Path, found: &Path) -> anyhow::Result<Difference> {
    let pinned = std::fs::read_to_string(pinned).with_context(|| format!("{} is not there", pinned.display()))?;
    if !found.exists() {
        return Ok(Difference::default());
    }
    let found = std::fs::read_to_string(found)?;
    if found.trim().is_empty() {
        bail!("a test found an empty list: the sandbox is broken");
    }
    Ok(Difference::of_lists(&pinned, &found))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_left_is_compared_and_one_that_was_not_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (pinned, found) = (folder.path().join("pinned"), folder.path().join("found"));
        std::fs::write(&pinned, "Array\nDate\n").unwrap();
        assert!(difference(&pinned, &found).unwrap().is_empty());
        std::fs::write(&found, "Array\nTemporal\n").unwrap();
        assert_eq!(
            difference(&pinned, &found).unwrap().lines("g"),
            ["g: 1 new, 1 gone, 0 changed", "  gone    Date", "  new     Temporal"]
        );
        std::fs::write(&found, "\n").unwrap();
        assert!(difference(&pinned, &found).unwrap_err().to_string().contains("empty list"));
    }
}
