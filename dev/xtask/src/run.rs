//! Runs other programs: prints the purpose of each before, and what failed after.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// Time limit of one run of the tests, after which they are taken to hang.
pub(crate) const TEST_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Environment variables for a program.
pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// Variables for every cargo and every [`program`] that this program starts.
static ENVIRONMENT: Mutex<Environment> = Mutex::new(Vec::new());

/// Adds variables for every cargo and every [`program`] from now on.
pub(crate) fn add_environment(environment: Environment) {
    if let Ok(mut all) = ENVIRONMENT.lock() {
        all.extend(environment);
    }
}

/// Returns a command for the cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut cargo = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The user means a relative folder from where the command was typed; this program has gone to another folder.
    if let (Some(_), Ok(target)) = (std::env::var_os("CARGO_TARGET_DIR"), target_folder()) {
        cargo.env("CARGO_TARGET_DIR", target);
    }
    cargo
}

/// Returns a command for a program with the variables of [`add_environment`].
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut program = Command::new(name);
    if let Ok(all) = ENVIRONMENT.lock() {
        program.envs(all.iter().map(|(name, value)| (name, value)));
    }
    program
}

/// Returns a command for cargo with Clippy's lints, so that a build checks them as well and no second pass is needed. A
/// warning ends the build.
pub(crate) fn cargo_with_lints() -> anyhow::Result<Command> {
    let mut cargo = cargo();
    let clippy = Path::new(cargo.get_program()).with_file_name("clippy-driver");
    if !clippy.is_file() {
        bail!("there is no clippy beside cargo: `rustup component add clippy` gets it");
    }
    // `cargo clippy` sets the same variable.
    cargo.env("RUSTC_WORKSPACE_WRAPPER", clippy);
    cargo.env("CLIPPY_ARGS", "--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    Ok(cargo)
}

/// Returns the folder that cargo builds into.
pub(crate) fn target_folder() -> anyhow::Result<PathBuf> {
    // This program lies in `<target>/debug`, its tests one folder deeper.
    let own = std::env::current_exe()?;
    let folder = own.ancestors().skip(1).find(|folder| !folder.ends_with("deps")).and_then(Path::parent);
    Ok(folder.context("this program lies in no target folder")?.to_owned())
}

/// Steps so far, with the time at which each began.
static STEPS: Mutex<Vec<(String, Instant)>> = Mutex::new(Vec::new());

pub(crate) fn step(text: &str) {
    eprintln!("\n=== {text}");
    if let Ok(mut steps) = STEPS.lock() {
        steps.push((text.to_owned(), Instant::now()));
    }
}

/// Prints the time that each step took, and the total.
pub(crate) fn say_times() {
    let Ok(steps) = STEPS.lock() else { return };
    let now = Instant::now();
    let ends = steps.iter().skip(1).map(|(_, began)| *began).chain([now]);
    let seconds = |time: Duration| time.as_secs_f64();
    eprintln!();
    for ((step, began), end) in steps.iter().zip(ends) {
        eprintln!("{:>8.1} s  {step}", seconds(end - *began));
    }
    if let Some((_, began)) = steps.first() {
        eprintln!("{:>8.1} s  in all", seconds(now - *began));
    }
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
    // A process group, so that the program's own children can be stopped with it.
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

/// Runs a program and returns its standard output.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
