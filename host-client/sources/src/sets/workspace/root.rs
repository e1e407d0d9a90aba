//! Root folder of a workspace: decides which paths belong to it, and opens them without following a link.

use std::io;

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, FileType, Metadata, OpenOptions};
use globset::GlobSet;

use super::failure::Failure;
use super::path::RelPath;

/// Maximum number of entries that are read to check the spelling of a name on disk.
const MAX_SPELLINGS: usize = 1_000_000;

/// Root folder with its rules.
pub(super) struct Root {
    pub(super) dir: Dir,
    /// Files and folders that can be neither read nor written.
    pub(super) excluded: GlobSet,
    /// Files, and folders of files, that can be read and written; `None`: all of them.
    pub(super) included: Option<GlobSet>,
    pub(super) writing: Writing,
}

/// Rules for writing.
#[derive(Default)]
pub(super) struct Writing {
    pub(super) writable: GlobSet,
    /// The globs of `writable` as written, for errors.
    pub(super) globs: Vec<String>,
    pub(super) may_create: bool,
    pub(super) may_delete: bool,
    /// Held while a patch is applied: one at a time.
    pub(super) turn: std::sync::Mutex<()>,
}

/// Existing file or folder: an open folder and a name in it. No link was followed from the root to the folder.
pub(super) struct Place {
    pub(super) folder: Dir,
    /// Name in the folder; `.` for the root.
    pub(super) name: String,
    /// Path with all links resolved.
    pub(super) path: RelPath,
}

/// Target of a write: as a [`Place`], in folders that may not exist yet.
pub(super) struct Spot {
    /// Last folder of the path that exists.
    pub(super) folder: Dir,
    /// Names of the folders below it that do not exist.
    pub(super) missing: Vec<String>,
    pub(super) name: String,
    pub(super) path: RelPath,
}

impl Root {
    /// Refuses a path that is not part of the workspace, even if nothing exists there.
    pub(super) fn check_visible(&self, path: &RelPath) -> Result<(), Failure> {
        if self.is_visible(path) { Ok(()) } else { Err(Failure::Excluded { path: path.as_str().to_owned() }) }
    }

    /// Returns `true` if the path is neither excluded nor within `.git`.
    pub(super) fn is_visible(&self, path: &RelPath) -> bool {
        !path.is_of_git() && !path.and_parents().any(|path| self.excluded.is_match(path))
    }

    /// Returns `true` if a file is part of the workspace. For folders, [`is_visible`](Self::is_visible) decides alone.
    pub(super) fn has_file(&self, path: &RelPath) -> bool {
        let Some(included) = &self.included else { return self.is_visible(path) };
        self.is_visible(path) && path.and_parents().any(|path| included.is_match(path))
    }

    /// Refuses a file that is not part of the workspace.
    pub(super) fn check_file(&self, path: &RelPath) -> Result<(), Failure> {
        if self.has_file(path) { Ok(()) } else { Err(Failure::Excluded { path: path.as_str().to_owned() }) }
    }

    /// Refuses a file that no glob of `writable` matches.
    pub(super) fn check_writable(&self, path: &RelPath) -> Result<(), Failure> {
        self.check_file(path)?;
        if self.writing.writable.is_match(path.as_str()) {
            return Ok(());
        }
        Err(Failure::NotWritable { path: path.as_str().to_owned(), writable: self.writing.globs.join(", ") })
    }

    /// Finds a file or folder to read. Links within the workspace are resolved first; then the real path is checked and
    /// opened name by name without following links, so that a link that appears in between fails.
    pub(super) fn find(&self, asked: &RelPath) -> Result<Place, Failure> {
        self.check_visible(asked)?;
        let failed = |error| Failure::io(asked.as_str(), "found", error);
        let real = self.dir.canonicalize(asked.as_str()).map_err(|error| match self.check_file(asked) {
            Ok(()) => failed(error),
            // The error must not tell if an excluded path exists.
            Err(not_a_part) => not_a_part,
        })?;
        let Some(real) = real.to_str() else { return Err(Failure::Excluded { path: asked.as_str().to_owned() }) };
        let path = RelPath::parse(real)?;
        self.check_visible(&path)?;
        let Some((_, name)) = path.split() else {
            let folder = self.dir.try_clone().map_err(failed)?;
            return Ok(Place { folder, name: ".".to_owned(), path });
        };
        let name = name.to_owned();
        let spot = self.descend(&path)?;
        if !spot.missing.is_empty() {
            return Err(Failure::NotFound { path: path.as_str().to_owned() });
        }
        check_spelling(&spot.folder, &name, &path)?;
        if !spot.folder.symlink_metadata(&name).is_ok_and(|found| found.is_dir()) {
            self.check_file(&path)?;
        }
        Ok(Place { folder: spot.folder, name, path })
    }

    /// Finds the target of a write. No part of the path may be a link, and existing names must be spelled as on disk.
    pub(super) fn find_spot(&self, path: &RelPath) -> Result<Spot, Failure> {
        self.check_writable(path)?;
        let spot = self.descend(path)?;
        if spot.missing.is_empty() {
            check_spelling(&spot.folder, &spot.name, path)?;
        }
        Ok(spot)
    }

    /// Opens the folders of the path, one name at a time.
    fn descend(&self, path: &RelPath) -> Result<Spot, Failure> {
        let failed = |error| Failure::io(path.as_str(), "found", error);
        let (_, name) = path.split().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let mut folder = self.dir.try_clone().map_err(failed)?;
        let mut missing = Vec::new();
        let depth = path.names().count();
        for parent in path.names().take(depth.saturating_sub(1)) {
            if !missing.is_empty() {
                missing.push(parent.to_owned());
                continue;
            }
            check_spelling(&folder, parent, path)?;
            match folder.open_dir_nofollow(parent) {
                Ok(next) => folder = next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(parent.to_owned()),
                Err(error) => return Err(not_a_folder(&folder, parent, path, error)),
            }
        }
        Ok(Spot { folder, missing, name: name.to_owned(), path: path.clone() })
    }
}

impl Place {
    /// Opens a regular file, so that reading cannot block.
    pub(super) fn open_file(&self) -> Result<(File, Metadata), Failure> {
        open_file(&self.folder, &self.name, &self.path)
    }

    /// Opens a folder.
    pub(super) fn open_folder(&self) -> Result<Dir, Failure> {
        if self.name == "." {
            return self.folder.try_clone().map_err(|error| Failure::io(".", "opened", error));
        }
        self.folder
            .open_dir_nofollow(&self.name)
            .map_err(|error| not_a_folder(&self.folder, &self.name, &self.path, error))
    }

    pub(super) fn is_file(&self) -> Result<bool, Failure> {
        let metadata = self.folder.symlink_metadata(&self.name);
        Ok(metadata.map_err(|error| Failure::io(self.path.as_str(), "looked at", error))?.is_file())
    }
}

/// Opens a regular file in a folder. Other kinds, links included, are refused before the file is opened, and again
/// after.
pub(super) fn open_file(folder: &Dir, name: &str, path: &RelPath) -> Result<(File, Metadata), Failure> {
    let failed = |error| Failure::io(path.as_str(), "opened", error);
    let check = |metadata: &Metadata| {
        let found = kind_of(metadata.file_type());
        let refused = Failure::Kind { path: path.as_str().to_owned(), found: found.article(), expected: "a file" };
        if metadata.is_file() { Ok(()) } else { Err(refused) }
    };
    check(&folder.symlink_metadata(name).map_err(failed)?)?;
    let mut options = OpenOptions::new();
    // A pipe that replaces the file in between must not block until it has a writer.
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = folder.open_with(name, &options).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    check(&metadata)?;
    Ok((file, metadata))
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Special,
}

impl Kind {
    /// Returns the kind with its article, for messages.
    fn article(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
            Self::Special => "a pipe, socket or device",
        }
    }
}

/// Returns the kind of a file type.
pub(super) fn kind_of(found: FileType) -> Kind {
    match found {
        found if found.is_file() => Kind::File,
        found if found.is_dir() => Kind::Folder,
        found if found.is_symlink() => Kind::Link,
        _ => Kind::Special,
    }
}

/// Returns the failure of a name that cannot be opened as a folder.
fn not_a_folder(folder: &Dir, name: &str, path: &RelPath, error: io::Error) -> Failure {
    let owned = path.as_str().to_owned();
    match folder.symlink_metadata(name).map(|metadata| kind_of(metadata.file_type())) {
        Ok(Kind::Link) => Failure::Link { path: owned },
        Ok(found) if found != Kind::Folder => {
            Failure::Kind { path: owned, found: found.article(), expected: "a folder" }
        }
        _ => Failure::io(path.as_str(), "opened", error),
    }
}

/// Refuses a name that is spelled differently on disk, by case or Unicode normalization, because the globs were matched
/// against this spelling. A name that does not exist passes.
fn check_spelling(folder: &Dir, name: &str, path: &RelPath) -> Result<(), Failure> {
    let Ok(found) = folder.symlink_metadata(name) else { return Ok(()) };
    if name.is_ascii() {
        // If the name in the other case is another file or none, the file system is case-sensitive, and the spelling is
        // right.
        let other: String = name.chars().map(swap_case).collect();
        let is_same = |other: Metadata| (other.dev(), other.ino()) == (found.dev(), found.ino());
        if other == name || !folder.symlink_metadata(&other).is_ok_and(is_same) {
            return Ok(());
        }
    }
    let entries = folder.entries().map_err(|error| Failure::io(path.as_str(), "looked at", error))?;
    let mut names = entries.take(MAX_SPELLINGS).filter_map(|entry| Some(entry.ok()?.file_name()));
    let is_there = names.any(|entry| entry == name);
    if is_there { Ok(()) } else { Err(Failure::Spelling { path: path.as_str().to_owned() }) }
}

/// Swaps the case of an ASCII letter.
fn swap_case(char: char) -> char {
    if char.is_ascii_lowercase() { char.to_ascii_uppercase() } else { char.to_ascii_lowercase() }
}
