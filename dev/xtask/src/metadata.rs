//! What cargo knows about the packages that the lock file names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::run::{cargo, output};
use crate::static_build::TARGET;

/// Cargo's answer; its packages' sources are on this machine once it is there.
#[derive(Debug)]
pub(crate) struct Metadata(Value);

impl Metadata {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET];
        let answer = output(cargo().args(arguments))?;
        Ok(Self(serde_json::from_str(&answer).context("cargo's metadata cannot be read")?))
    }

    /// The folders that packages of registries lie in. They are named after the address of the registry or its mirror.
    pub(crate) fn registry_folders(&self) -> BTreeSet<PathBuf> {
        let from_registry = self.packages().filter(|package| package["source"].is_string());
        from_registry.filter_map(|package| Some(folder(package)?.parent()?.to_owned())).collect()
    }

    /// The packages, those of the workspace and all that they may need on this platform.
    pub(crate) fn all(&self) -> anyhow::Result<Vec<Package<'_>>> {
        self.packages().map(|package| Package::of(package).context("cargo's metadata name a package oddly")).collect()
    }

    /// Where the sources of a package are.
    pub(crate) fn folder_of(&self, name: &str) -> anyhow::Result<&Path> {
        let package = self.packages().find(|package| package["name"] == name);
        package.and_then(folder).with_context(|| format!("cargo knows no package {name}"))
    }

    fn packages(&self) -> impl Iterator<Item = &Value> {
        self.0["packages"].as_array().into_iter().flatten()
    }
}

/// A package, as far as the rules of the house need it.
#[derive(Debug)]
pub(crate) struct Package<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    /// Its expression of SPDX. `None`: it names no licence, or a file alone.
    pub(crate) licence: Option<&'a str>,
    /// The folder of its manifest.
    pub(crate) folder: &'a Path,
    /// Whether it is one of the workspace.
    pub(crate) is_member: bool,
    /// Whether its manifest allows it to be published.
    pub(crate) publish: bool,
    /// What its manifest could tell about it, and does not.
    pub(crate) lacks: Vec<&'static str>,
}

impl<'a> Package<'a> {
    /// Reads what cargo tells of a package. `None`: its name, version or place is no text.
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
