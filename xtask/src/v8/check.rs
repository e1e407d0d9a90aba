//! Whether an archive does what the relay needs: a tiny program links it, starts V8, forks and runs a script.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::archive::{TARGET, last_line};
use super::{sha256, shown};
use crate::crates;
use crate::run::{self, cargo, target_folder};

/// What the script of the program gives.
const ANSWER: &str = "Donnerstag, 1. Januar 1970";

/// How the program is built: as what will be built next, so that this is no extra work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

/// Links the program with an archive, as `environment` names it to the crate `v8`, and runs it.
pub(crate) fn link_and_run(environment: &run::Environment, version: &str, profile: Profile) -> anyhow::Result<()> {
    eprintln!("    checking it: a small program links it, forks and runs a script");
    let log = target_folder()?.join("v8-check.log");
    let log_file = std::fs::File::create(&log)?;
    let mut build = cargo();
    build.args(["build", "--package", "v8-check"]).stdout(log_file.try_clone()?).stderr(log_file);
    let (mut build, folder) = match profile {
        Profile::Debug => (build, "debug"),
        Profile::Release => {
            build.arg("--release");
            (build, "release")
        }
    };
    run::apply(&mut build, environment);
    if !build.status().context("cargo cannot be run")?.success() {
        bail!("a program linked with it does not build; {} says why", shown(&log));
    }
    let expected = format!("{} {ANSWER}", v8_version(&crates::source("v8", version)?)?);
    let said = ask(&target_folder()?.join(folder).join("v8-check"))?;
    if said != expected {
        bail!("a program linked with it says {said:?}, not {expected:?}: another version of V8");
    }
    Ok(())
}

/// What the program prints.
fn ask(program: &Path) -> anyhow::Result<String> {
    let mut run = Command::new("timeout");
    let run = run.args(["--signal=KILL", "60"]).arg(program).stdin(Stdio::null()).output()?;
    if !run.status.success() {
        bail!("a program linked with it fails ({}): {}", run.status, last_line(&run.stderr));
    }
    Ok(String::from_utf8_lossy(&run.stdout).trim().to_owned())
}

/// What V8 calls itself, in the source of a crate.
pub(crate) fn v8_version(source: &Path) -> anyhow::Result<String> {
    let header = source.join("v8/include/v8-version.h");
    let text = std::fs::read_to_string(&header).with_context(|| format!("{} cannot be read", header.display()))?;
    let number = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
        let number = lines.find_map(|rest| rest.trim().parse::<u32>().ok());
        number.with_context(|| format!("{} has no {name}", header.display()))
    };
    let [major, minor] = [number("V8_MAJOR_VERSION ")?, number("V8_MINOR_VERSION ")?];
    let [build, patch] = [number("V8_BUILD_NUMBER ")?, number("V8_PATCH_LEVEL ")?];
    // V8 leaves out a patch level of zero.
    let patch = if patch == 0 { String::new() } else { format!(".{patch}") };
    Ok(format!("{major}.{minor}.{build}{patch}-rusty"))
}

/// Makes cargo link another archive than before, which it would not notice by itself where only the bytes have changed.
pub(crate) fn use_archive(archive: &Path) -> anyhow::Result<()> {
    let sum = sha256(archive)?;
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
