//! Describes the source of a release: a commit, or a working tree that differs from it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::run::output;

/// Maximum number of files that a message about uncommitted changes names.
const NAMED: usize = 10;

/// Commit, and whether the working tree differs from it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) commit: String,
    /// Time of the commit in seconds since 1970, which all files of the release get as their time.
    pub(super) seconds: u64,
    /// The same time in the format of RFC 3339.
    pub(super) time: String,
    pub(super) is_dirty: bool,
}

impl Source {
    pub(super) fn of_working_tree(allow_dirty: bool) -> anyhow::Result<Self> {
        let advice = "a release is made from a clone of the repository";
        let head = git(&["log", "-1", "--format=%H %ct %cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"]);
        let head = head.context(advice)?;
        let [commit, seconds, time] = head.split(' ').collect::<Vec<_>>()[..] else {
            bail!("git says {head:?} about its last commit");
        };
        let changes = git(&["status", "--porcelain"])?;
        if !changes.is_empty() && !allow_dirty {
            bail!("{}", refusal(&changes));
        }
        Ok(Self {
            commit: commit.to_owned(),
            seconds: seconds.parse()?,
            time: time.to_owned(),
            is_dirty: !changes.is_empty(),
        })
    }
}

fn refusal(changes: &str) -> String {
    // Each line is a state, such as `M` or `??`, and a name.
    let name = |line: &str| line.trim_start().split_once(' ').map_or("", |(_, name)| name.trim_start()).to_owned();
    let mut names: Vec<_> = changes.lines().take(NAMED).map(name).collect();
    if changes.lines().count() > NAMED {
        names.push("…".to_owned());
    }
    format!(
        "a release is made from a commit, and this is not committed:\n  {}\nCommit it, or look at a release with it: --allow-dirty",
        names.join("\n  ")
    )
}

/// Copies the working tree, without the files that git ignores.
pub(super) fn copy_to(folder: &Path) -> anyhow::Result<()> {
    let files = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    for file in files.split('\0').filter(|file| !file.is_empty()) {
        let copy = folder.join(file);
        if let Some(parent) = copy.parent() {
            fs::create_dir_all(parent)?;
        }
        match fs::copy(file, &copy) {
            // The file was removed, and the removal is not committed yet.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            copied => drop(copied.with_context(|| format!("{file} cannot be copied"))?),
        }
    }
    Ok(())
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    // Git prints times in the zone of its environment.
    output(Command::new("git").env("TZ", "UTC").args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_committed_is_named() {
        let told = refusal("M  Cargo.toml\n M a b.rs\n?? new.rs");
        assert!(told.contains(":\n  Cargo.toml\n  a b.rs\n  new.rs\nCommit it"), "{told}");
        assert!(!told.contains('…'), "{told}");
        let told = refusal(&"?? file\n".repeat(NAMED + 1));
        assert_eq!(told.matches("  file\n").count(), NAMED);
        assert!(told.contains("\n  …\n"), "{told}");
    }
}
