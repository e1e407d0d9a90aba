//! Finds V8: the archive that the crate `v8` links, from the first place that has a good one.
//!
//! - [`lookup`]: the places, in their order, and why one was not taken
//! - [`archive`]: the two files that a place has, and whether they are whole
//! - [`check`]: a tiny program that links them, starts, forks and runs a script
//! - [`download`]: files from upstream and from mirrors
//! - [`configuration`]: what cargo is told, here and when it is typed without us
//! - [`source`]: a build from the crate's own source; its [`tools`] and [`ninja`]'s progress

pub(crate) mod archive;
pub(crate) mod check;
pub(crate) mod configuration;
mod download;
pub(crate) mod lookup;
mod ninja;
mod source;
mod tools;

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::run::{self, step};
use archive::Files;
use configuration::Configuration;
use lookup::{Lookup, Place};

/// Minimum number of steps of a build of V8.
const FEWEST_STEPS: usize = 500;

/// Finds V8, checks it, and lets every cargo that this program starts use it.
pub(crate) fn provide(typed_in: &Path, profile: check::Profile) -> anyhow::Result<()> {
    let cache = cache_folder()?;
    let configuration = Configuration::read(typed_in, &cache)?;
    if configuration.from_source {
        step("V8: the crate `v8` builds it itself, since V8_FROM_SOURCE is set");
        return Ok(());
    }
    let version = version()?;
    step(&format!("Finding V8 (crate v8 {version})"));
    let _lock = Lock::take(&cache)?;
    let link = |files: &Files| {
        check::use_archive(&files.archive)?;
        check::link_and_run(files, &version, profile)
    };
    let lookup = Lookup {
        version: &version,
        named: configuration.named.as_ref(),
        mirror: configuration.mirror.as_deref(),
        cache: &cache,
        upstream: lookup::UPSTREAM,
        link: &link,
        build: &source::build,
    };
    let found = lookup.find()?;
    // Remove the files that the build worked with.
    if matches!(found.place, Place::Cache | Place::Source) {
        source::clear(&version, &cache)?;
    }
    check::use_archive(&found.files.archive)?;
    configuration::use_found(&found.files)
}

/// Configures a build from source in the target folder, to see whether a build would start.
pub(crate) fn configure_only(is_strict: bool) -> anyhow::Result<()> {
    step("Configuring a build of V8 from source");
    let folder = run::target_folder()?.join("v8-configure");
    std::fs::create_dir_all(&folder)?;
    let _lock = Lock::take(&folder)?;
    let steps = match source::configure(&version()?, &folder) {
        // Outside of CI, missing tools are no fault of this repository.
        Err(error) if !is_strict && error.is::<source::NoTools>() => {
            eprintln!("    left out, since the tools cannot be had here: {error:#}");
            return Ok(());
        }
        steps => steps?,
    };
    if steps < FEWEST_STEPS {
        bail!("V8 would be built in {steps} steps: most of it is missing");
    }
    eprintln!("    configured: {steps} steps would build it");
    Ok(())
}

/// Returns the version of the crate `v8` that the workspace pins.
pub(crate) fn version() -> anyhow::Result<String> {
    pinned_version(&std::fs::read_to_string("Cargo.toml")?)
}

fn pinned_version(manifest: &str) -> anyhow::Result<String> {
    let manifest: toml::Table = manifest.parse()?;
    let dependencies = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let pin = dependencies.and_then(|all| all.get("v8")?.as_str()?.strip_prefix('='));
    Ok(pin.context("Cargo.toml pins no version of v8, as in v8 = \"=1.2.3\"")?.to_owned())
}

/// Returns the folder that stays for every clone on this machine.
pub(crate) fn cache_folder() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let base = set("XDG_CACHE_HOME").filter(|folder| folder.is_absolute()).or_else(home);
    let folder = base.context("there is no home folder: set XDG_CACHE_HOME")?.join("sandbox-relay/v8");
    std::fs::create_dir_all(&folder).with_context(|| cannot_be_written(&folder))?;
    Ok(folder)
}

fn cannot_be_written(path: &Path) -> String {
    format!("{} cannot be written: set XDG_CACHE_HOME to a folder that can be", path.display())
}

/// Lock by which the second of two concurrent runs waits and then finds what the first has made.
#[derive(Debug)]
struct Lock {
    _file: File,
}

impl Lock {
    fn take(cache: &Path) -> anyhow::Result<Self> {
        let path = cache.join("lock");
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.with_context(|| cannot_be_written(&path))?;
        if let Err(error) = file.try_lock() {
            if let std::fs::TryLockError::Error(error) = error {
                bail!("{} cannot be locked: {error}", path.display());
            }
            let mut holder = String::new();
            file.read_to_string(&mut holder)?;
            eprintln!("    another run (process {}) is finding or building V8; waiting for it", holder.trim());
            file.lock()?;
        }
        // The content names the process that holds the lock, for those that wait.
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{}", std::process::id())?;
        Ok(Self { _file: file })
    }
}

/// Shortens a path for people: relative to the workspace or to the home folder.
pub(crate) fn shown(path: &Path) -> String {
    let relative = |base: Option<PathBuf>, mark: &str| {
        let rest = path.strip_prefix(base?).ok()?;
        Some(format!("{mark}{}", rest.display()))
    };
    relative(std::env::current_dir().ok(), "")
        .or_else(|| relative(std::env::var_os("HOME").map(PathBuf::from), "~/"))
        .unwrap_or_else(|| path.display().to_string())
}

/// Returns the SHA-256 of a file, in hexadecimal digits.
pub(crate) fn sha256(path: &Path) -> anyhow::Result<String> {
    let printed = run::output(std::process::Command::new("sha256sum").args(["--binary", "--"]).arg(path))?;
    // The program prints a backslash before the sum if the file name contains special characters.
    let sum = printed.trim_start_matches('\\').split(' ').next().unwrap_or_default();
    Ok(sum.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_second_of_two_runs_waits_for_the_first() {
        let cache = tempfile::tempdir().unwrap();
        let first = Lock::take(cache.path()).unwrap();
        let path = cache.path().to_owned();
        let (sender, receiver) = mpsc::channel();
        let second = std::thread::spawn(move || {
            let lock = Lock::take(&path).unwrap();
            sender.send(()).unwrap();
            drop(lock);
        });
        assert!(receiver.recv_timeout(Duration::from_millis(300)).is_err(), "the first one still holds it");
        drop(first);
        receiver.recv_timeout(Duration::from_secs(30)).unwrap();
        second.join().unwrap();
        assert_eq!(std::fs::read_to_string(cache.path().join("lock")).unwrap(), std::process::id().to_string());
    }

    #[test]
    fn only_a_pinned_version_is_one() {
        assert_eq!(pinned_version("[workspace.dependencies]\nv8 = \"=1.2.3\"").unwrap(), "1.2.3");
        for manifest in ["[workspace.dependencies]\nv8 = \"1.2.3\"", "[workspace.dependencies]", "[package]"] {
            let error = pinned_version(manifest).unwrap_err().to_string();
            assert_eq!(error, "Cargo.toml pins no version of v8, as in v8 = \"=1.2.3\"");
        }
    }
}
