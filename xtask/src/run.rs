//! Running other programs, with what they are for said before and what failed said after.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// How long one run of the tests may take until something is taken to hang.
pub(crate) const TEST_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Variables for a program: their values, or none where it must not have them.
pub(crate) type Environment = Vec<(&'static str, Option<OsString>)>;

/// What every cargo gets that we start.
static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

/// Sets what every cargo gets that we start from here on; once.
pub(crate) fn set_environment(environment: Environment) {
    ENVIRONMENT.get_or_init(|| environment);
}

pub(crate) fn apply(command: &mut Command, environment: &Environment) {
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    if let Some(environment) = ENVIRONMENT.get() {
        apply(&mut cargo, environment);
    }
    cargo
}

/// Where cargo builds.
pub(crate) fn target_folder() -> anyhow::Result<PathBuf> {
    // We lie in `<target>/debug`, and our tests one deeper.
    let own = std::env::current_exe()?;
    let folder = own.ancestors().skip(1).find(|folder| !folder.ends_with("deps")).and_then(Path::parent);
    Ok(folder.context("this program lies in no target folder")?.to_owned())
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
