//! Finds the sources of a project's packages on this disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// Packages under one folder.
#[derive(Debug)]
pub(crate) struct Packages {
    /// The one folder that the tools can see.
    pub(crate) root: PathBuf,
    /// The packages' folders in it.
    pub(crate) folders: Vec<String>,
}

/// Finds the dependencies of a Rust project where cargo has put them, or the packages that lie in a folder.
pub(crate) fn find(folder: &Path) -> anyhow::Result<Packages> {
    let folder = folder.canonicalize().with_context(|| format!("{} is not there", folder.display()))?;
    let packages = if folder.join("Cargo.toml").is_file() { dependencies(&folder)? } else { subfolders(&folder)? };
    if packages.folders.is_empty() {
        bail!("{} is no Rust project with dependencies, and holds no packages", folder.display());
    }
    Ok(packages)
}

fn subfolders(root: &Path) -> anyhow::Result<Packages> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            folders.extend(entry.file_name().into_string().ok());
        }
    }
    folders.sort();
    Ok(Packages { root: root.to_owned(), folders })
}

fn dependencies(project: &Path) -> anyhow::Result<Packages> {
    let metadata = metadata(project)?;
    let manifests = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    // Packages without a source are the project itself.
    let dependencies = manifests.iter().filter(|package| !package["source"].is_null());
    let folders: Vec<_> = dependencies
        .filter_map(|package| Path::new(package["manifest_path"].as_str()?).parent().map(Path::to_owned))
        .collect();
    // Nearly all lie in one folder, that of the registry; the tools see no other.
    let mut roots = BTreeMap::<&Path, usize>::new();
    for root in folders.iter().filter_map(|folder| folder.parent()) {
        *roots.entry(root).or_default() += 1;
    }
    let root =
        roots.into_iter().max_by_key(|(_, count)| *count).context("the project has no dependencies")?.0.to_owned();
    let here = folders.iter().filter_map(|folder| folder.strip_prefix(&root).ok()?.to_str());
    let mut here: Vec<_> = here.map(ToOwned::to_owned).collect();
    here.sort();
    if here.len() < folders.len() {
        eprintln!("{} packages lie elsewhere and are left out", folders.len() - here.len());
    }
    Ok(Packages { root, folders: here })
}

fn metadata(project: &Path) -> anyhow::Result<Value> {
    let host = Command::new("rustc").arg("-vV").output().context("rustc cannot be run")?;
    let host = String::from_utf8(host.stdout)?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version=1", "--filter-platform", host]).current_dir(project);
    let output = command.output().context("cargo cannot be run")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
