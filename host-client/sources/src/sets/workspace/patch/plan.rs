//! Plans a patch: computes every new content and checks every path, without writing.

use std::collections::HashSet;
use std::io::Read;
use std::time::SystemTime;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;

use super::parse::Change;
use super::text::{self, Changed, Hunk, Work};
use super::{Action, PatchError, PatchedFile};
use crate::sets::workspace::failure::Failure;
use crate::sets::workspace::path::RelPath;
use crate::sets::workspace::root::{Root, Spot, open_file};
use crate::sets::workspace::tool::Cancel;

/// Maximum size of a patched file, before and after, in bytes.
const MAX_FILE_BYTES: usize = 4 << 20;
/// Maximum number of bytes that one patch writes.
const MAX_WRITTEN_BYTES: usize = 64 << 20;

/// Planned change of one file.
pub(super) struct Step {
    pub(super) report: PatchedFile,
    /// The file before the patch; `None` if it is created.
    pub(super) old: Option<Old>,
    /// The new content; `None` if the file is deleted.
    pub(super) new: Option<New>,
}

/// File before the patch.
pub(super) struct Old {
    pub(super) spot: Spot,
    pub(super) identity: Identity,
}

/// New content of a file.
pub(super) struct New {
    /// Target of a new or renamed file; `None`: the old file is replaced.
    pub(super) spot: Option<Spot>,
    pub(super) text: String,
    pub(super) like: Like,
}

/// Source of the mode and owner of a written file.
pub(super) enum Like {
    /// Those of the old file.
    Before(Metadata),
    /// Those of any new file.
    Fresh { is_executable: bool },
}

/// Identity of a file's content: which file it is, its size and its time of modification.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Identity {
    pub(super) fn new(metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
        Self { device: metadata.dev(), inode: metadata.ino(), bytes: metadata.len(), modified }
    }

    /// Returns `true` if both are the same file, even if it was written to.
    pub(super) fn is_same_file(self, other: Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Plans a whole patch.
pub(super) fn plan(root: &Root, changes: &[Change<'_>], cancel: &Cancel) -> Result<Vec<Step>, Failure> {
    let mut named = HashSet::new();
    for path in changes.iter().flat_map(Change::paths) {
        let path = RelPath::parse_for_writing(path)?;
        root.check_writable(&path)?;
        if !named.insert(path.clone()) {
            return Err(Failure::Patch(PatchError::Twice { path: path.as_str().to_owned() }));
        }
    }
    let mut work = Work::default();
    let mut written = 0;
    let mut steps = Vec::with_capacity(changes.len());
    for change in changes {
        cancel.check()?;
        let step = step(root, change, &mut work)?;
        let path = &step.report.path;
        let bytes = step.new.as_ref().map_or(0, |new| new.text.len());
        written += bytes;
        for (bytes, most) in [(bytes, MAX_FILE_BYTES), (written, MAX_WRITTEN_BYTES)] {
            if bytes > most {
                return Err(Failure::Patch(PatchError::ResultTooLarge { path: path.clone(), most }));
            }
        }
        steps.push(step);
    }
    Ok(steps)
}

fn step(root: &Root, change: &Change<'_>, work: &mut Work) -> Result<Step, Failure> {
    match change {
        Change::Create { path, text, added, is_executable } => {
            let spot = vacant(root, path)?;
            let report = report(&spot.path, Action::Created, *added, 0);
            let like = Like::Fresh { is_executable: *is_executable };
            Ok(Step { report, old: None, new: Some(New { spot: Some(spot), text: text.clone(), like }) })
        }
        Change::Delete { path, text: expected } => {
            let (spot, metadata, text) = read(root, path)?;
            let owned = spot.path.as_str();
            if !root.writing.may_delete {
                return Err(Failure::NotAllowed { path: owned.to_owned(), what: "deleted" });
            }
            if expected.as_ref().is_some_and(|expected| *expected != text) {
                return Err(Failure::Patch(PatchError::OtherContent { path: owned.to_owned() }));
            }
            let report = report(&spot.path, Action::Deleted, 0, text::lines(&text).len());
            Ok(Step { report, old: Some(Old { identity: Identity::new(&metadata), spot }), new: None })
        }
        Change::Update { path, new_path, hunks } => {
            let (spot, metadata, text) = read(root, path)?;
            let Changed { text, added, removed } = changed(&spot.path, hunks, &text, work)?;
            let identity = Identity::new(&metadata);
            let Some(new_path) = new_path else {
                let report = report(&spot.path, Action::Modified, added, removed);
                let new = New { spot: None, text, like: Like::Before(metadata) };
                return Ok(Step { report, old: Some(Old { spot, identity }), new: Some(new) });
            };
            if !root.writing.may_delete {
                return Err(Failure::NotAllowed { path: spot.path.as_str().to_owned(), what: "renamed" });
            }
            let new_spot = vacant(root, new_path)?;
            let mut report = report(&new_spot.path, Action::Renamed, added, removed);
            report.from = Some(spot.path.as_str().to_owned());
            let new = New { spot: Some(new_spot), text, like: Like::Before(metadata) };
            Ok(Step { report, old: Some(Old { spot, identity }), new: Some(new) })
        }
    }
}

fn report(path: &RelPath, action: Action, added: usize, removed: usize) -> PatchedFile {
    PatchedFile { path: path.as_str().to_owned(), from: None, action, added, removed }
}

/// Finds the target of a file that does not exist yet and may be created.
fn vacant(root: &Root, path: &str) -> Result<Spot, Failure> {
    let path = RelPath::parse_for_writing(path)?;
    if !root.writing.may_create {
        return Err(Failure::NotAllowed { path: path.as_str().to_owned(), what: "created" });
    }
    let spot = root.find_spot(&path)?;
    if spot.missing.is_empty() && spot.folder.symlink_metadata(&spot.name).is_ok() {
        return Err(Failure::Patch(PatchError::Exists { path: path.as_str().to_owned() }));
    }
    Ok(spot)
}

/// Reads a file that is to be changed.
fn read(root: &Root, path: &str) -> Result<(Spot, Metadata, String), Failure> {
    let path = RelPath::parse_for_writing(path)?;
    let spot = root.find_spot(&path)?;
    let owned = || path.as_str().to_owned();
    if !spot.missing.is_empty() {
        return Err(Failure::NotFound { path: owned() });
    }
    if spot.folder.symlink_metadata(&spot.name).is_ok_and(|found| found.is_symlink()) {
        return Err(Failure::Link { path: owned() });
    }
    let (file, metadata) = open_file(&spot.folder, &spot.name, &path)?;
    let most = MAX_FILE_BYTES as u64;
    if metadata.len() > most {
        return Err(Failure::TooLarge { path: owned(), bytes: metadata.len(), most });
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(|error| Failure::io(path.as_str(), "read", error))?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::Patch(PatchError::NotText { path: owned() }))?;
    Ok((spot, metadata, text))
}

/// Applies hunks to a text.
fn changed(path: &RelPath, hunks: &[Hunk<'_>], text: &str, work: &mut Work) -> Result<Changed, Failure> {
    text::apply(hunks, text, work)
        .map_err(|(line, fault)| Failure::Patch(PatchError::Hunk { path: path.as_str().to_owned(), line, fault }))
}
