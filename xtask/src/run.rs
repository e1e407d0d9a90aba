//! Running other programs, with what they are for said before and what failed said after.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// How long one run of the tests may take until something is taken to hang.
pub(crate) const TEST_LIMIT: Duration = Duration::from_secs(15 * 60);

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Where cargo builds.
pub(crate) fn target_folder() -> anyhow::Result<PathBuf> {
    // We lie in `<target>/debug`.
    let own = std::env::current_exe()?;
    let folder = own.ancestors().nth(2).context("this program lies in no target folder")?;
    Ok(folder.to_owned())
}

pub(crate) fn step(text: &str) {
    eprintln!("\n=== {text}");
}

/// Runs a program to its end.
pub(crate) fn check(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?} cannot be run"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

/// Runs a program to its end, which has to come within `limit`.
pub(crate) fn check_within(limit: Duration, command: &mut Command) -> anyhow::Result<()> {
    // A group of its own, so that what it started can be stopped with it.
    let mut child = command.process_group(0).spawn().with_context(|| format!("{command:?} cannot be run"))?;
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            if status.success() {
                return Ok(());
            }
            bail!("{command:?} failed: {status}");
        }
        if started.elapsed() > limit {
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-KILL", "--", &group]).status()?;
            child.wait()?;
            bail!("{command:?} was stopped: it took more than {} minutes", limit.as_secs() / 60);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The standard output of a program.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
