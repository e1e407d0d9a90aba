//! Runs programs in one of the two projects, each with a log that is named when it fails.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::run;
use crate::v8::configuration;

/// Number of lines of a log that are shown when its program failed.
const TAIL_LINES: usize = 12;

/// Name of the project as it is; the other is the one in which V8 is raised.
pub(super) const NOW: &str = "now";
pub(super) const RAISED: &str = "raised";

/// Variables that name an archive and its bindings.
const NAMED: [&str; 2] = ["RUSTY_V8_ARCHIVE", "RUSTY_V8_SRC_BINDING_PATH"];

/// Working tree of this repository, and the folder that it is built into.
#[derive(Debug)]
pub(super) struct Project {
    name: &'static str,
    folder: PathBuf,
    target: PathBuf,
    logs: PathBuf,
}

impl Project {
    pub(super) fn new(name: &'static str, folder: PathBuf, target: PathBuf, logs: &Path) -> anyhow::Result<Self> {
        // Make it absolute: programs that run in another folder are given it, too.
        let target = std::path::absolute(target)?;
        Ok(Self { name, folder, target, logs: logs.to_owned() })
    }

    /// Returns [`NOW`] or [`RAISED`].
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a file of a debug build.
    pub(super) fn built(&self, file: &str) -> PathBuf {
        self.target.join("debug").join(file)
    }

    /// Returns a cargo that works on this project.
    pub(super) fn cargo(&self) -> Command {
        let mut cargo = run::cargo();
        cargo.current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.target);
        for name in NAMED {
            let is_set = std::env::var_os(name).is_some();
            // An archive that the user names is for the new version; one that was found here is for the present
            // version.
            if is_set && is_users(name) == (self.name == NOW) {
                cargo.env_remove(name);
            }
        }
        cargo
    }

    pub(super) fn log(&self, step: &str) -> PathBuf {
        self.logs.join(format!("{}-{step}.log", self.name))
    }

    /// Runs a program, with its output in a log.
    pub(super) fn run(&self, step: &str, limit: Duration, command: &mut Command) -> anyhow::Result<()> {
        let log = self.log(step);
        eprintln!("    {step}; its log is {}", log.display());
        let file = File::create(&log).with_context(|| format!("{} cannot be written", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        run::check_within(limit, command).with_context(|| failed(step, &log))
    }

    /// Runs a program in the same way, but shows its progress and sets no time limit.
    pub(super) fn run_in_sight(&self, step: &str, command: &mut Command) -> anyhow::Result<()> {
        let log = self.log(step);
        let mut file = File::create(&log).with_context(|| format!("{} cannot be written", log.display()))?;
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{command:?} cannot be run"))?;
        let mut said = child.stderr.take().context("its output is not piped")?;
        let mut bytes = [0; 4096];
        while let count @ 1.. = said.read(&mut bytes)? {
            std::io::stderr().write_all(&bytes[..count])?;
            file.write_all(&bytes[..count])?;
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("{step} failed ({status}); its log is {}", log.display());
        }
        Ok(())
    }
}

/// Returns whether the user has set a variable. The cargo that runs this program sets some, too, to what was found.
fn is_users(name: &str) -> bool {
    let cache = crate::v8::cache_folder();
    cache.and_then(|cache| configuration::is_users(name, &cache)).unwrap_or(false)
}

fn failed(step: &str, log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n    ");
    format!("{step} failed; the end of its log {}:\n    {tail}\n", log.display())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn a_program_that_fails_shows_the_end_of_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::new(NOW, PathBuf::from("."), folder.path().join("target"), folder.path()).unwrap();
        let minute = Duration::from_secs(60);
        project.run("well", minute, &mut shell("echo said; echo more >&2")).unwrap();
        assert_eq!(std::fs::read_to_string(project.log("well")).unwrap(), "said\nmore\n");
        let error = format!("{:#}", project.run("badly", minute, &mut shell("seq 100; exit 3")).unwrap_err());
        assert!(
            error.contains("badly failed; the end of its log ") && error.contains("now-badly.log:\n    89\n"),
            "{error}"
        );
        assert!(error.contains("\n    100\n") && error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn what_is_in_sight_has_a_log_too() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::new(RAISED, PathBuf::from("."), folder.path().join("target"), folder.path()).unwrap();
        let error = project.run_in_sight("look", &mut shell("echo seen >&2; exit 1")).unwrap_err().to_string();
        assert!(
            error.starts_with("look failed (exit status: 1); its log is ") && error.ends_with("raised-look.log"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(project.log("look")).unwrap(), "seen\n");
    }
}
