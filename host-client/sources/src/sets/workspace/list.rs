//! `ls` and `glob`: lists a folder, and finds files by a glob.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::path::{RelPath, paths_or_names};
use super::root::{Kind, Root};
use super::tool::Cancel;
use super::walk::Walk;

/// Default number of entries in a result.
const DEFAULT_LIMIT: usize = 1000;
/// Maximum number of entries in a result.
const MAX_LIMIT: usize = 10_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LsArguments {
    /// The folder, relative to the workspace's root. Default: the root.
    #[serde(default)]
    path: Option<String>,
    /// List files that .gitignore excludes, too. Default: false.
    #[serde(default)]
    ignored: bool,
    /// Maximum number of entries. Default: 1000; maximum: 10000.
    #[serde(default)]
    limit: Option<usize>,
}

/// The entries of a folder.
#[derive(Serialize, JsonSchema)]
pub(super) struct LsResult {
    /// The entries, sorted by name.
    entries: Vec<LsEntry>,
    /// `true`: there are more entries than are listed.
    truncated: bool,
    /// Number of entries that cannot be listed, such as those whose names are not UTF-8.
    skipped: u64,
}

#[derive(Serialize, JsonSchema)]
struct LsEntry {
    name: String,
    kind: Kind,
    /// Size of a file; absent for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GlobArguments {
    /// A glob such as `src/**/*.rs`, relative to `path`; `*` does not match a `/`. A glob without a `/` matches names
    /// at any depth.
    pattern: String,
    /// The folder to search, relative to the workspace's root. Default: the root.
    #[serde(default)]
    path: Option<String>,
    /// Find files that .gitignore excludes, too. Default: false.
    #[serde(default)]
    ignored: bool,
    /// Maximum number of paths. Default: 1000; maximum: 10000.
    #[serde(default)]
    limit: Option<usize>,
}

/// The files that a glob matches.
#[derive(Serialize, JsonSchema)]
pub(super) struct GlobResult {
    /// Paths relative to the workspace's root, sorted.
    paths: Vec<String>,
    /// `true`: there may be more files than are listed.
    truncated: bool,
    /// Number of files and folders that could not be read.
    skipped: u64,
}

/// Lists a folder.
pub(super) fn ls(root: &Root, arguments: LsArguments, cancel: &Cancel) -> Result<LsResult, Failure> {
    let place = root.find(&RelPath::parse(arguments.path.as_deref().unwrap_or("."))?)?;
    let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let mut walk = Walk::new(root, cancel, arguments.ignored);
    let mut found = walk.entries(&place)?;
    found.sort_by(|(left, _), (right, _)| left.cmp(right));
    let truncated = walk.cut || found.len() > limit;
    let folder = place.open_folder()?;
    let mut entries = Vec::new();
    for (name, kind) in found.into_iter().take(limit) {
        cancel.check()?;
        // The file may have been deleted meanwhile.
        let bytes = folder.symlink_metadata(&name).ok().filter(|_| kind == Kind::File).map(|metadata| metadata.len());
        entries.push(LsEntry { name, kind, bytes });
    }
    Ok(LsResult { entries, truncated, skipped: walk.skipped })
}

/// Finds files by a glob.
pub(super) fn glob(root: &Root, arguments: GlobArguments, cancel: &Cancel) -> Result<GlobResult, Failure> {
    let globs = paths_or_names([&arguments.pattern])?;
    let start = root.find(&RelPath::parse(arguments.path.as_deref().unwrap_or("."))?)?;
    let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let mut paths = Vec::new();
    let mut truncated = false;
    let mut walk = Walk::new(root, cancel, arguments.ignored);
    walk.files(&start, &mut |found| {
        if !globs.is_match(found.path.seen_from(&start.path)) {
            return Ok(ControlFlow::Continue(()));
        }
        if paths.len() == limit {
            truncated = true;
            return Ok(ControlFlow::Break(()));
        }
        paths.push(found.path.as_str().to_owned());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(GlobResult { paths, truncated: truncated || walk.cut, skipped: walk.skipped })
}
