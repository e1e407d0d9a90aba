//! Reads what cargo knows about the packages in the lock file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::run::{cargo, output};
use crate::static_build::TARGET;

/// Output of `cargo metadata`. After it, the sources of all packages are on this machine.
#[derive(Debug)]
pub(crate) struct Metadata(Value);

impl Metadata {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET];
        let answer = output(cargo().args(arguments))?;
        Ok(Self(serde_json::from_str(&answer).context("cargo's metadata cannot be read")?))
    }

    /// Returns the folders with the packages of registries. They are named after the address of the registry or of its
    /// mirror.
    pub(crate) fn registry_folders(&self) -> BTreeSet<PathBuf> {
        let from_registry = self.packages().filter(|package| package["source"].is_string());
        from_registry.filter_map(|package| Some(folder(package)?.parent()?.to_owned())).collect()
    }

    /// Lists the packages of the workspace and all that they may need on this platform.
    pub(crate) fn all(&self) -> anyhow::Result<Vec<Package<'_>>> {
        self.packages().map(|package| Package::of(package).context("cargo's metadata name a package oddly")).collect()
    }

    /// Returns the folder with the source of a package.
    pub(crate) fn folder_of(&self, name: &str) -> anyhow::Result<&Path> {
        let package = self.packages().find(|package| package["name"] == name);
        package.and_then(folder).with_context(|| format!("cargo knows no package {name}"))
    }

    fn packages(&self) -> impl Iterator<Item = &Value> {
        self.0["packages"].as_array().into_iter().flatten()
    }
}

/// Package, with the facts that the checks of this program need.
#[derive(Debug)]
pub(crate) struct Package<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    /// SPDX expression of its licence; `None`: it names no licence, or only a file.
    pub(crate) licence: Option<&'a str>,
    /// The folder of its manifest.
    pub(crate) folder: &'a Path,
    /// `true`: it is a member of the workspace.
    pub(crate) is_member: bool,
    /// `true`: its manifest allows it to be published.
    pub(crate) publish: bool,
    /// Fields of its manifest that are missing.
    pub(crate) lacks: Vec<&'static str>,
}

impl<'a> Package<'a> {
    /// Reads a package from cargo's output. Returns `None` if its name, version or path is no text.
    pub(crate) fn of(package: &'a Value) -> Option<Self> {
        let is_empty = |field: &&str| match &package[*field] {
            Value::Array(list) => list.is_empty(),
            other => other.as_str().is_none_or(str::is_empty),
        };
        Some(Self {
            name: package["name"].as_str()?,
            version: package["version"].as_str()?,
            licence: package["license"].as_str(),
            folder: folder(package)?,
            is_member: package["source"].is_null(),
            // `publish = false` is an empty list of registries.
            publish: package["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
            lacks: ["description", "license", "readme", "keywords", "categories"]
                .into_iter()
                .filter(is_empty)
                .collect(),
        })
    }
}

fn folder(package: &Value) -> Option<&Path> {
    Path::new(package["manifest_path"].as_str()?).parent()
}
