//! Checks whether an archive has what the relay needs: links a tiny program with it, which starts V8, forks and runs a
//! script.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::archive::{Files, TARGET, last_line};
use super::{configuration, sha256, shown};
use crate::crates;
use crate::run::{self, cargo, target_folder};
use crate::selection::{self, V8_CHECK};

/// Time limit of the program in seconds; it takes a hundredth of one.
const SECONDS: &str = "60";

/// Result of the program's script.
const ANSWER: &str = "Donnerstag, 1. Januar 1970";

/// Way of building the program. It is that of the next build, so that both share what they compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

/// The verdict on an archive; `Err`: the reason why it cannot be used.
pub(crate) type Verdict = Result<(), String>;

/// Links the program with an archive and runs it.
///
/// # Errors
/// The program does not build for a reason that has nothing to do with the archive.
pub(crate) fn link_and_run(files: &Files, version: &str, profile: Profile) -> anyhow::Result<Verdict> {
    eprintln!("    checking it: a small program links it, forks and runs a script");
    let log = target_folder()?.join("v8-check.log");
    let log_file = std::fs::File::create(&log)?;
    let mut build = cargo();
    build.args(["build", "--locked", "--bin", V8_CHECK]).stdout(log_file.try_clone()?).stderr(log_file);
    // Select the packages of the next build as well, so that the crate `v8` is compiled once for both.
    let (mut build, folder) = match profile {
        Profile::Debug => {
            build.arg("--workspace");
            (build, "debug")
        }
        Profile::Release => {
            build.arg("--release").args(selection::with(&selection::DEMO, &[V8_CHECK]));
            (build, "release")
        }
    };
    build.envs(configuration::environment(files));
    if !build.status().context("cargo cannot be run")?.success() {
        let said = std::fs::read_to_string(&log)?;
        if said.contains("linking with") && !said.contains("No space left") {
            return Ok(Err(format!("no program can be linked with it; {} says why", shown(&log))));
        }
        bail!("the program that checks V8 does not build; {} says why", shown(&log));
    }
    let expected = format!("{} {ANSWER}", v8_version(&crates::source("v8", version)?)?);
    judge(&target_folder()?.join(folder).join(V8_CHECK), &expected)
}

/// Runs the program and compares its output.
fn judge(program: &Path, expected: &str) -> anyhow::Result<Verdict> {
    let mut run = Command::new("timeout");
    let run = run.args(["--signal=KILL", SECONDS]).arg(program).stdin(Stdio::null()).output()?;
    match run.status.code() {
        Some(0) => {}
        // `timeout` ends with this status when there is no such program.
        Some(126 | 127) => bail!("{} cannot be run: {}", program.display(), last_line(&run.stderr)),
        _ => return Ok(Err(format!("a program linked with it fails ({}): {}", run.status, last_line(&run.stderr)))),
    }
    let said = String::from_utf8_lossy(&run.stdout);
    let said = said.trim();
    Ok(if said == expected { Ok(()) } else { Err(format!("it is another V8: {said:?}, not {expected:?}")) })
}

/// Returns V8's own name for its version, from the source of a crate.
pub(crate) fn v8_version(source: &Path) -> anyhow::Result<String> {
    let header = source.join("v8/include/v8-version.h");
    let text = std::fs::read_to_string(&header).with_context(|| format!("{} cannot be read", header.display()))?;
    let version = crates::v8_version(&text)?;
    // V8 omits a patch level of zero.
    Ok(format!("{}-rusty", version.strip_suffix(".0").unwrap_or(&version)))
}

/// Makes cargo link again if the archive is another one than before. Cargo does not notice this where only the bytes
/// have changed, nor where the target folder was moved, though the linker was given an absolute path into it.
pub(crate) fn use_archive(archive: &Path) -> anyhow::Result<()> {
    let sum = format!("{}\n{}\n", sha256(archive)?, target_folder()?.display());
    let record = record()?;
    if std::fs::read_to_string(&record).is_ok_and(|used| used == sum) {
        return Ok(());
    }
    for profile in [&["--profile", "dev"][..], &["--release"], &["--release", "--target", TARGET]] {
        let mut clean = cargo();
        run::output(clean.args(["clean", "--package", "v8"]).args(profile))?;
    }
    std::fs::write(&record, sum).with_context(|| format!("{} cannot be written", record.display()))
}

fn record() -> anyhow::Result<PathBuf> {
    Ok(target_folder()?.join("v8-archive.sha256"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn verdict(script: &str) -> anyhow::Result<Verdict> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        judge(&program, "1.2.3-rusty text")
    }

    #[test]
    fn a_program_is_judged_by_what_it_says() {
        assert_eq!(verdict("echo 1.2.3-rusty text").unwrap(), Ok(()));
        let other = "it is another V8: \"1.2.4-rusty text\", not \"1.2.3-rusty text\"".to_owned();
        assert_eq!(verdict("echo 1.2.4-rusty text").unwrap(), Err(other));
        let failed = "a program linked with it fails (exit status: 3): compressed pointers".to_owned();
        assert_eq!(verdict("echo compressed pointers >&2; exit 3").unwrap(), Err(failed));
        let killed = verdict("kill -SEGV $$").unwrap().unwrap_err();
        assert_eq!(killed, "a program linked with it fails (signal: 11 (SIGSEGV)): it did not say why");
    }

    #[test]
    fn a_program_that_is_not_there_says_nothing_about_v8() {
        let error = judge(Path::new("/not/there"), "").unwrap_err().to_string();
        assert!(error.starts_with("/not/there cannot be run: "), "{error}");
    }

    #[test]
    fn v8s_version_is_that_of_its_header() {
        let folder = tempfile::tempdir().unwrap();
        let header = |patch: u32| {
            let lines = [("MAJOR_VERSION", 15), ("MINOR_VERSION", 2), ("BUILD_NUMBER", 124), ("PATCH_LEVEL", patch)];
            lines.map(|(name, value)| format!("#define V8_{name} {value}\n")).concat()
        };
        std::fs::create_dir_all(folder.path().join("v8/include")).unwrap();
        for (patch, version) in [(1, "15.2.124.1-rusty"), (0, "15.2.124-rusty")] {
            std::fs::write(folder.path().join("v8/include/v8-version.h"), header(patch)).unwrap();
            assert_eq!(v8_version(folder.path()).unwrap(), version);
        }
    }
}
