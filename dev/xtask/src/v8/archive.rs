//! Describes the two files that V8 consists of here: the static library, and the bindings that were generated with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::check::Verdict;
use crate::crates;

pub(crate) use crate::static_build::TARGET;

/// Names of the static library in the crate's releases: packed and unpacked.
pub(crate) const PACKED: &str = "librusty_v8_release_x86_64-unknown-linux-gnu.a.gz";
const PLAIN: &str = "librusty_v8_release_x86_64-unknown-linux-gnu.a";
pub(crate) const BINDING: &str = "src_binding_release_x86_64-unknown-linux-gnu.rs";

/// Name of the file with their sums, in the format of sha256sum.
pub(crate) const SUMS: &str = "SHA256SUMS";

/// Paths of a static library and of the bindings to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) archive: PathBuf,
    pub(crate) binding: PathBuf,
}

impl Files {
    /// Finds the files in a folder: first in its folder for the version, then in the folder itself. Returns `None` if
    /// neither has an archive. An archive without bindings beside it is used with the crate's own.
    pub(crate) fn in_folder(folder: &Path, version: &str) -> anyhow::Result<Option<Self>> {
        let folders = [folder.join(format!("v{version}")), folder.to_owned()];
        let names = [PACKED, PLAIN];
        let mut candidates = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
        let Some(archive) = candidates.find(|path| path.is_file()) else { return Ok(None) };
        Self::with_binding_beside(archive, version).map(Some)
    }

    /// Pairs an archive with the bindings beside it, or with the crate's own.
    pub(crate) fn with_binding_beside(archive: PathBuf, version: &str) -> anyhow::Result<Self> {
        let beside = archive.with_file_name(BINDING);
        let binding = if beside.is_file() { beside } else { own_binding(version)? };
        Ok(Self { archive, binding })
    }

    /// Checks the format of the files. Whether they work is for [`super::check`] to see.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn are_whole(&self, version: &str) -> anyhow::Result<Verdict> {
        for path in [&self.archive, &self.binding] {
            if std::fs::metadata(path).with_context(|| format!("{} cannot be read", path.display()))?.len() == 0 {
                return Ok(Err(format!("{} is empty", path.display())));
            }
        }
        if self.archive.extension().is_some_and(|extension| extension == "gz") {
            let mut gzip = Command::new("gzip");
            gzip.arg("--test").arg(&self.archive).stdin(Stdio::null());
            let tested = gzip.output().context("gzip cannot be run; install it")?;
            if !tested.status.success() {
                let (archive, why) = (self.archive.display(), last_line(&tested.stderr));
                return Ok(Err(format!("{archive} is damaged, or only half there: {why}")));
            }
        }
        if std::fs::read(own_binding(version)?)? != std::fs::read(&self.binding)? {
            let binding = self.binding.display();
            return Ok(Err(format!("{binding} is not that of the crate v8 {version}: another version's")));
        }
        Ok(Ok(()))
    }
}

/// Returns the path of the bindings that are part of the crate.
fn own_binding(version: &str) -> anyhow::Result<PathBuf> {
    Ok(crates::source("v8", version)?.join("gen").join(BINDING))
}

/// Returns the last line of a program's output.
pub(crate) fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it did not say why").to_owned()
}
