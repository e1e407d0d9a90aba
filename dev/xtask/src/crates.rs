//! Fetches the sources of crates from the registry through cargo, which knows the user's mirrors, proxies and vendored
//! folders.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::run::{cargo, target_folder};

/// The folder with the source of one version of a crate. It is cargo's own: who changes anything works on a copy.
///
/// The features of the crate play no part; those that it depends on come along, as cargo fetches whole projects only.
pub(crate) fn source(name: &str, version: &str) -> anyhow::Result<PathBuf> {
    // Answers of earlier calls: cargo takes a third of a second for each.
    static KNOWN: Mutex<BTreeMap<(String, String), PathBuf>> = Mutex::new(BTreeMap::new());
    let key = (name.to_owned(), version.to_owned());
    if let Some(folder) = KNOWN.lock().ok().and_then(|known| known.get(&key).cloned()) {
        return Ok(folder);
    }
    let folder = asked_for(name, version)?;
    if let Ok(mut known) = KNOWN.lock() {
        known.insert(key, folder.clone());
    }
    Ok(folder)
}

fn asked_for(name: &str, version: &str) -> anyhow::Result<PathBuf> {
    let project = Scratch::with(&format!("{name}-{version}"), name, &format!("={version}"))?;
    // Try without the network first: the source is here in most cases.
    let metadata = match project.metadata(&["--offline"]) {
        Ok(metadata) => metadata,
        Err(_) => {
            eprintln!("    fetching the source of the crate {name} {version}");
            project.metadata(&[]).with_context(|| {
                format!("there is no source of {name} {version}: is that a version, and can cargo reach its registry?")
            })?
        }
    };
    let manifest = package(&metadata, name)?["manifest_path"].as_str().map(PathBuf::from);
    let folder = manifest.as_deref().and_then(|it| it.parent()).context("cargo metadata gives no path")?;
    Ok(folder.to_owned())
}

/// Asks the registry for the newest version of a crate that is neither yanked nor a pre-release.
pub(crate) fn newest(name: &str) -> anyhow::Result<String> {
    let project = Scratch::with(&format!("{name}-newest"), name, "*")?;
    // A lock file of an earlier run would pin an older version.
    match std::fs::remove_file(project.folder.join("Cargo.lock")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut lock = cargo();
    lock.arg("generate-lockfile").arg("--manifest-path").arg(project.manifest());
    run(&mut lock)
        .with_context(|| format!("the newest version of {name} cannot be asked for; name one to go on without"))?;
    let lock = std::fs::read_to_string(project.folder.join("Cargo.lock"))?;
    locked_version(&lock, name).with_context(|| format!("cargo found no version of {name}"))
}

/// Returns a version of a crate that meets a requirement; asks the registry if this machine has none.
pub(crate) fn matching(name: &str, requirement: &str) -> anyhow::Result<String> {
    let project = Scratch::with(&format!("{name}-matching"), name, requirement)?;
    let metadata = match project.metadata(&["--offline"]) {
        Ok(metadata) => metadata,
        Err(_) => project.metadata(&[])?,
    };
    Ok(package(&metadata, name)?["version"].as_str().context("cargo metadata gives no version")?.to_owned())
}

/// Returns the version of a package in a `Cargo.lock`.
pub(crate) fn locked_version(lock: &str, name: &str) -> Option<String> {
    let name = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    Some(lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')?.to_owned())
}

/// Returns the value of `#define NAME value` in a C header.
pub(crate) fn defined<'a>(header: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let values = header.lines().filter_map(|line| line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' '));
    values.map(str::trim).next().with_context(|| format!("a header of V8 does not define {name}"))
}

/// Returns V8's own version, four numbers, from its header `v8-version.h`.
pub(crate) fn v8_version(header: &str) -> anyhow::Result<String> {
    let numbers = ["V8_MAJOR_VERSION", "V8_MINOR_VERSION", "V8_BUILD_NUMBER", "V8_PATCH_LEVEL"];
    let numbers = numbers.map(|name| defined(header, name));
    Ok(numbers.into_iter().collect::<anyhow::Result<Vec<_>>>()?.join("."))
}

/// Empty project with one dependency, about which cargo is asked.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn with(folder: &str, name: &str, requirement: &str) -> anyhow::Result<Self> {
        let folder = target_folder()?.join("crate-sources").join(folder);
        std::fs::create_dir_all(folder.join("src"))?;
        std::fs::write(folder.join("src/lib.rs"), "")?;
        // The empty workspace keeps the project out of this repository's workspace, in whose folder it lies.
        let manifest = format!(
            "[package]\nname = \"scratch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
             [dependencies]\n{name} = \"{requirement}\"\n\n[workspace]\n"
        );
        // Write only what has changed: another run may be reading it.
        if !std::fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|now| now == manifest) {
            let new = folder.join(format!("Cargo.toml.{}", std::process::id()));
            std::fs::write(&new, manifest)?;
            std::fs::rename(new, folder.join("Cargo.toml"))?;
        }
        Ok(Self { folder })
    }

    fn manifest(&self) -> PathBuf {
        self.folder.join("Cargo.toml")
    }

    /// Fetches all packages of the project and returns what cargo knows of them.
    fn metadata(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let mut metadata = cargo();
        // Run it in the present folder, where cargo looks for its configuration.
        metadata.args(["metadata", "--format-version", "1"]).args(arguments);
        let json = run(metadata.arg("--manifest-path").arg(self.manifest()))?;
        serde_json::from_slice(&json).context("cargo metadata gives no JSON")
    }
}

/// Finds the only package of a name in the output of `cargo metadata`.
fn package<'a>(metadata: &'a Value, name: &str) -> anyhow::Result<&'a Value> {
    let packages = metadata["packages"].as_array().context("cargo metadata gives no packages")?;
    packages.iter().find(|package| package["name"] == name).with_context(|| format!("cargo does not know {name}"))
}

/// Runs a cargo that may use the network and returns its output. Cargo's own time limits bound it.
fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?} cannot be run"))?;
    if !output.status.success() {
        bail!("cargo says: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_that_of_the_version() {
        let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
        let version = locked_version(&lock, "v8").unwrap();
        let folder = source("v8", &version).unwrap();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("version = \"{version}\"")));
    }

    #[test]
    fn a_version_that_does_not_exist_is_said_to() {
        let error = format!("{:#}", source("v8", "0.0.999").unwrap_err());
        assert!(error.starts_with("there is no source of v8 0.0.999: is that a version, and"), "{error}");
        assert!(error.contains("cargo says: "), "{error}");
    }

    #[test]
    fn a_version_stands_in_the_lock_under_the_whole_name() {
        let lock =
            "[[package]]\nname = \"v8-more\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"v8\"\nversion = \"2.0.0\"\n";
        assert_eq!(locked_version(lock, "v8").unwrap(), "2.0.0");
        assert_eq!(locked_version(lock, "more"), None);
    }
}
