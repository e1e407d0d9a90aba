//! The two tools that the script has. Both see one folder and nothing outside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_client::{Effect, ToolError, Tools};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::packages::Packages;

/// The most text that one call of `files.read` gives, in bytes.
const MAX_READ_BYTES: usize = 512 << 10;
/// The deepest folder that `files.list` goes into.
const MAX_DEPTH: usize = 16;

/// The number of calls and bytes that went through the tools, which a model would have had to read.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) calls: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    /// A package's folder; without one, all packages are listed
    folder: Option<String>,
    /// How the names of the files end, such as ".rs"
    #[serde(default)]
    suffix: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Relative to the root
    path: String,
    bytes: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArgs {
    /// Relative to the root, as `files.list` gives them
    paths: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct File {
    path: String,
    /// Absent when the file is too large for what is left of one call
    text: Option<String>,
}

/// Creates the two tools over these packages.
pub(crate) fn tools(packages: &Packages, traffic: &Arc<Traffic>) -> anyhow::Result<Tools> {
    let root: Arc<Path> = packages.root.clone().into();
    let folders: Arc<[String]> = packages.folders.clone().into();
    let tools = Tools::new();
    let (list_root, list_traffic) = (Arc::clone(&root), Arc::clone(traffic));
    tools.add("files.list", "Lists packages, or the files of one", Effect::ReadOnly, move |args: ListArgs| {
        let (root, folders, traffic) = (Arc::clone(&list_root), Arc::clone(&folders), Arc::clone(&list_traffic));
        // Reading a disk blocks, so it has threads of its own.
        on_a_blocking_thread(traffic, move || list(&root, &folders, &args))
    })?;
    let traffic = Arc::clone(traffic);
    tools.add(
        "files.read",
        "Reads text files, together at most 512 KiB",
        Effect::ReadOnly,
        move |args: ReadArgs| {
            let root = Arc::clone(&root);
            on_a_blocking_thread(Arc::clone(&traffic), move || read(&root, args))
        },
    )?;
    Ok(tools)
}

async fn on_a_blocking_thread<T: Serialize + Send + 'static>(
    traffic: Arc<Traffic>,
    work: impl FnOnce() -> Result<(T, usize), ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let (result, bytes) = tokio::task::spawn_blocking(work).await??;
    traffic.calls.fetch_add(1, Ordering::Relaxed);
    traffic.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    Ok(result)
}

/// Resolves a path and its links; fails if it leads outside the root.
fn inside(root: &Path, path: &str) -> Result<PathBuf, ToolError> {
    let found = root.join(path).canonicalize().map_err(|error| ToolError::new(format!("{path}: {error}")))?;
    if found.starts_with(root) { Ok(found) } else { Err(ToolError::new(format!("{path} lies outside the folder"))) }
}

fn list(root: &Path, folders: &[String], args: &ListArgs) -> Result<(Vec<Entry>, usize), ToolError> {
    let mut entries = Vec::new();
    match &args.folder {
        None => entries.extend(folders.iter().map(|path| Entry { path: path.clone(), bytes: 0 })),
        Some(folder) => collect(root, &inside(root, folder)?, &args.suffix, MAX_DEPTH, &mut entries)?,
    }
    let bytes = entries.iter().map(|entry| entry.path.len() + 24).sum();
    Ok((entries, bytes))
}

fn collect(root: &Path, folder: &Path, suffix: &str, depth: usize, entries: &mut Vec<Entry>) -> Result<(), ToolError> {
    if depth == 0 {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // The type of a link is its own, so that none is followed.
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() {
            collect(root, &path, suffix, depth - 1, entries)?;
        } else if kind.is_file()
            && let Some(relative) = path.strip_prefix(root).ok().and_then(Path::to_str)
            && relative.ends_with(suffix)
        {
            entries.push(Entry { path: relative.to_owned(), bytes: entry.metadata()?.len() });
        }
    }
    Ok(())
}

fn read(root: &Path, args: ReadArgs) -> Result<(Vec<File>, usize), ToolError> {
    let mut files = Vec::new();
    let mut bytes = 0;
    for path in args.paths {
        let found = inside(root, &path)?;
        let length = usize::try_from(std::fs::metadata(&found)?.len()).unwrap_or(usize::MAX);
        let text = if length <= MAX_READ_BYTES - bytes {
            bytes += length;
            Some(String::from_utf8_lossy(&std::fs::read(&found)?).into_owned())
        } else {
            None
        };
        files.push(File { path, text });
    }
    Ok((files, bytes))
}
