//! `ls` and `glob`: what there is.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::path::{RelPath, paths_or_names};
use super::root::{Kind, Root};
use super::tool::Cancel;
use super::walk::Walk;

const DEFAULT_LIMIT: usize = 1000;
const MAX_LIMIT: usize = 10_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LsArguments {
    /// The folder, from the workspace's root; the root if absent.
    #[serde(default)]
    path: Option<String>,
    /// Whether to show what .gitignore leaves out, too.
    #[serde(default)]
    ignored: bool,
    /// How many entries at most: 1000 if absent, 10000 at most.
    #[serde(default)]
    limit: Option<usize>,
}

/// What is in a folder.
#[derive(Serialize, JsonSchema)]
pub(super) struct LsResult {
    /// Sorted by name.
    entries: Vec<LsEntry>,
    /// There are more than are shown.
    truncated: bool,
    /// How many could not be shown, such as those whose names are not UTF-8.
    skipped: u64,
}

#[derive(Serialize, JsonSchema)]
struct LsEntry {
    name: String,
    kind: Kind,
    /// The size of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GlobArguments {
    /// Such as `src/**/*.rs`, seen from `path`; `*` stays within a name. Without a `/` it is about names at any depth.
    pattern: String,
    /// The folder to search, from the workspace's root; the root if absent.
    #[serde(default)]
    path: Option<String>,
    /// Whether to find what .gitignore leaves out, too.
    #[serde(default)]
    ignored: bool,
    /// How many paths at most: 1000 if absent, 10000 at most.
    #[serde(default)]
    limit: Option<usize>,
}

/// The files that a glob fits.
#[derive(Serialize, JsonSchema)]
pub(super) struct GlobResult {
    /// From the workspace's root, sorted.
    paths: Vec<String>,
    /// There may be more than are shown.
    truncated: bool,
    /// How many files and folders could not be looked at.
    skipped: u64,
}

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
        // It may be gone by now.
        let bytes = folder.symlink_metadata(&name).ok().filter(|_| kind == Kind::File).map(|metadata| metadata.len());
        entries.push(LsEntry { name, kind, bytes });
    }
    Ok(LsResult { entries, truncated, skipped: walk.skipped })
}

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
