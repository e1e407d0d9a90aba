//! Makes a branch and a folder in which V8 is raised, so that the present working tree stays as it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::Versions;
use super::report::Report;
use crate::run::{cargo, check, output};

/// Folder in which a branch of its own is checked out.
#[derive(Debug)]
pub(super) struct Worktree {
    folder: PathBuf,
    branch: String,
}

impl Worktree {
    /// The worktree of a version, made from the commit that is checked out here unless it is there.
    ///
    /// It lies beside this working tree: what is named relative to it, such as a mirror, is found from there, too, and
    /// cargo does not read our configuration for it, as it would in a folder below.
    pub(super) fn open(versions: &Versions) -> anyhow::Result<Self> {
        let here = Path::new(".").canonicalize()?;
        let branch = format!("raise-v8-{}", versions.new);
        let name = here.file_name().context("the repository is the root folder")?.to_string_lossy();
        let it = Self { folder: here.with_file_name(format!("{name}-{branch}")), branch };
        if !it.folder.join(".git").exists() {
            // If somebody has removed the folder by hand, git still holds the branch for it.
            git(Path::new("."), &["worktree", "prune"])?;
            let branch = format!("refs/heads/{}", it.branch);
            let there = git(Path::new("."), &["rev-parse", "--verify", "--quiet", &branch]).is_ok();
            let mut add = git_command(Path::new("."));
            add.args(["worktree", "add", "--quiet"]);
            if !there {
                add.args(["-b", &it.branch]);
            }
            add.arg(&it.folder).args(there.then_some(&it.branch));
            check(&mut add).context("git can make no worktree")?;
        }
        let branch = git(&it.folder, &["branch", "--show-current"])?;
        if branch != it.branch {
            bail!("{} has the branch {branch:?} checked out, not {}: remove it", it.folder.display(), it.branch);
        }
        Ok(it)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn branch(&self) -> &str {
        &self.branch
    }

    /// Pins the version in the manifest, in the lock file and wherever the pin is quoted, and commits that. Reports the
    /// other mentions of the old version, for a person to look at.
    pub(super) fn pin(&self, versions: &Versions, report: &mut Report) -> anyhow::Result<()> {
        let pin = |version: &str| format!("v8 = \"={version}\"");
        let (old, new) = (pin(&versions.old), pin(&versions.new));
        if !git(&self.folder, &["show", "HEAD:Cargo.toml"])?.contains(&new) {
            for file in self.files_with(&old)? {
                let path = self.folder.join(file);
                std::fs::write(&path, std::fs::read_to_string(&path)?.replace(&old, &new))?;
            }
            let mut update = cargo();
            update.current_dir(&self.folder).args(["update", "--quiet", "--package", "v8", "--precise", &versions.new]);
            check(&mut update).context("Cargo.lock cannot be changed")?;
            // Ask for the new version: an earlier run may have changed some of the files.
            let files = [self.files_with(&new)?, vec!["Cargo.lock".to_owned()]].concat();
            self.commit(
                &format!("V8: the crate from {} to {}", versions.old, versions.new),
                report.first_part(),
                &files,
            )?;
        }
        let others = self.mentions(&versions.old)?;
        let mut lines = vec![format!("pinned in: {}", self.files_with(&new)?.join(", "))];
        lines.extend(others.iter().map(|line| format!("names the old one still: {line}")));
        report.add("The pin", &lines)
    }

    pub(super) fn commit(&self, subject: &str, body: &str, files: &[String]) -> anyhow::Result<()> {
        let mut commit = git_command(&self.folder);
        commit.args(["commit", "--quiet", "--message", subject, "--message", body, "--"]).args(files);
        check(&mut commit).context("git cannot commit")
    }

    /// Lists the files of the repository that contain a text.
    fn files_with(&self, text: &str) -> anyhow::Result<Vec<String>> {
        Ok(self.grep(&["--name-only", text])?.lines().map(str::to_owned).collect())
    }

    /// Lists the lines that name a version, without those of the lock file, which cargo writes, and of the changelog,
    /// which is about the past.
    fn mentions(&self, version: &str) -> anyhow::Result<Vec<String>> {
        let arguments = ["--line-number", version, "--", ":!Cargo.lock", ":!CHANGELOG.md"];
        Ok(self.grep(&arguments)?.lines().map(|line| line.chars().take(160).collect()).collect())
    }

    fn grep(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut grep = git_command(&self.folder);
        let found = grep.args(["grep", "--fixed-strings", "-I"]).args(arguments).output()?;
        // Status 1: git found nothing.
        match found.status.code() {
            Some(0 | 1) => Ok(String::from_utf8(found.stdout)?),
            _ => bail!("{grep:?} failed: {}", String::from_utf8_lossy(&found.stderr)),
        }
    }
}

/// Returns the commit that is checked out in the present folder.
pub(super) fn current_commit() -> anyhow::Result<String> {
    git(Path::new("."), &["rev-parse", "--short", "HEAD"])
}

fn git_command(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder);
    git
}

fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    output(git_command(folder).args(arguments))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Manifest of a small workspace for these tests. Its versions exist, since cargo asks the registry.
    const MANIFEST: &str = r#"[package]
name = "small"
version = "0.0.0"
edition = "2024"

[lib]
path = "lib.rs"

[dependencies]
v8 = "=150.4.0"

[workspace]
"#;

    /// Makes a repository with one commit, independent of the git configuration of the person who runs the test.
    fn repository(files: &[(&str, &str)]) -> (tempfile::TempDir, Worktree) {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| git(folder.path(), arguments).unwrap();
        git(&["init", "--quiet", "--initial-branch", "raise-v8-152.0.0"]);
        git(&["config", "user.name", "Test"]);
        git(&["config", "user.email", "test@localhost"]);
        git(&["config", "commit.gpgSign", "false"]);
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let mut lock = cargo();
        check(lock.args(["generate-lockfile", "--quiet"]).current_dir(folder.path())).unwrap();
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--message", "first"]);
        let worktree = Worktree { folder: folder.path().to_owned(), branch: "raise-v8-152.0.0".into() };
        (folder, worktree)
    }

    #[test]
    fn the_pin_is_raised_wherever_it_is_quoted_and_what_else_names_the_version_is_reported() {
        let (folder, worktree) = repository(&[
            ("Cargo.toml", MANIFEST),
            ("lib.rs", ""),
            ("SECURITY.md", "pinned (`v8 = \"=150.4.0\"`)\nmeasured with 150.4.0\n"),
            ("CHANGELOG.md", "began with 150.4.0\n"),
        ]);
        let versions = Versions { old: "150.4.0".into(), new: "152.0.0".into() };
        let mut report = Report::new(folder.path().join("report.md"), "150.4.0", "152.0.0");
        worktree.pin(&versions, &mut report).unwrap();
        let manifest = std::fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
        assert_eq!(manifest, MANIFEST.replace("v8 = \"=150.4.0\"", "v8 = \"=152.0.0\""));
        let text = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
        assert!(text.contains("pinned in: Cargo.toml, SECURITY.md\n"), "{text}");
        assert!(text.contains("names the old one still: SECURITY.md:2:measured with 150.4.0\n"), "{text}");
        assert!(!text.contains("CHANGELOG"), "{text}");
        let git = |arguments: &[&str]| git(folder.path(), arguments).unwrap();
        assert_eq!(git(&["log", "-1", "--format=%s"]), "V8: the crate from 150.4.0 to 152.0.0");
        assert_eq!(git(&["show", "--format=", "--name-only"]), "Cargo.lock\nCargo.toml\nSECURITY.md");

        // A second run finds everything done, and keeps changes that somebody made in the worktree.
        std::fs::write(folder.path().join("Cargo.toml"), "mine\n").unwrap();
        worktree.pin(&versions, &mut report).unwrap();
        assert_eq!(git(&["log", "--format=%s"]).lines().count(), 2);
        assert_eq!(std::fs::read_to_string(folder.path().join("Cargo.toml")).unwrap(), "mine\n");
    }
}
