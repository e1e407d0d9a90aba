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

    /// Where the sources of a package are.
    pub(crate) fn folder_of(&self, name: &str) -> anyhow::Result<&Path> {
        let package = self.packages().find(|package| package["name"] == name);
        package.and_then(folder).with_context(|| format!("cargo knows no package {name}"))
    }

    fn packages(&self) -> impl Iterator<Item = &Value> {
        self.0["packages"].as_array().into_iter().flatten()
    }
}

fn folder(package: &Value) -> Option<&Path> {
    Path::new(package["manifest_path"].as_str()?).parent()
}
