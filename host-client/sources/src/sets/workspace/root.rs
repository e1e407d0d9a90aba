//! The root folder: which paths are a part of the workspace, and how one is opened without a link on the way.

use std::io;

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, FileType, Metadata, OpenOptions};
use globset::GlobSet;

use super::failure::Failure;
use super::path::RelPath;

/// The most entries of a folder that are looked through to see how a name is spelled on disk.
const MAX_SPELLINGS: usize = 1_000_000;

/// The folder that is worked in, and what may be done there.
pub(super) struct Root {
    pub(super) dir: Dir,
    /// What is neither seen nor written.
    pub(super) excluded: GlobSet,
    /// The files that are, with all in folders that it fits; all files where it is absent.
    pub(super) included: Option<GlobSet>,
    pub(super) writing: Writing,
}

/// What may be written.
#[derive(Default)]
pub(super) struct Writing {
    pub(super) writable: GlobSet,
    /// The same, for errors.
    pub(super) globs: Vec<String>,
    pub(super) may_create: bool,
    pub(super) may_delete: bool,
    /// Patches are applied one after the other.
    pub(super) turn: std::sync::Mutex<()>,
}

/// Something in the workspace: an open folder and a name in it. No link was followed from the root to the folder.
pub(super) struct Place {
    pub(super) folder: Dir,
    /// `.` for the root.
    pub(super) name: String,
    /// The real path.
    pub(super) path: RelPath,
}

/// Where something is to be written: as a [`Place`], in folders that may still have to be made.
pub(super) struct Spot {
    /// The last folder on the way that there is.
    pub(super) folder: Dir,
    /// Folders below it that there are not.
    pub(super) missing: Vec<String>,
    pub(super) name: String,
    pub(super) path: RelPath,
}

impl Root {
    /// Refuses what is not a part of the workspace, whether or not it exists.
    pub(super) fn check_visible(&self, path: &RelPath) -> Result<(), Failure> {
        if self.is_visible(path) { Ok(()) } else { Err(Failure::Excluded { path: path.as_str().to_owned() }) }
    }

    pub(super) fn is_visible(&self, path: &RelPath) -> bool {
        !path.is_of_git() && !path.and_parents().any(|path| self.excluded.is_match(path))
    }

    /// Whether a file is a part of the workspace. Folders are, so that one can get to what is in them.
    pub(super) fn has_file(&self, path: &RelPath) -> bool {
        let Some(included) = &self.included else { return self.is_visible(path) };
        self.is_visible(path) && path.and_parents().any(|path| included.is_match(path))
    }

    /// Refuses a file that is not a part of the workspace.
    pub(super) fn check_file(&self, path: &RelPath) -> Result<(), Failure> {
        if self.has_file(path) { Ok(()) } else { Err(Failure::Excluded { path: path.as_str().to_owned() }) }
    }

    /// Refuses what no glob lets one write.
    pub(super) fn check_writable(&self, path: &RelPath) -> Result<(), Failure> {
        self.check_file(path)?;
        if self.writing.writable.is_match(path.as_str()) {
            return Ok(());
        }
        Err(Failure::NotWritable { path: path.as_str().to_owned(), writable: self.writing.globs.join(", ") })
    }

    /// Finds what is to be read. Links that stay in the workspace are followed first, then the real path is checked and
    /// opened name by name, without links: one that is put there meanwhile fails.
    pub(super) fn find(&self, asked: &RelPath) -> Result<Place, Failure> {
        self.check_visible(asked)?;
        let failed = |error| Failure::io(asked.as_str(), "found", error);
        let real = self.dir.canonicalize(asked.as_str()).map_err(|error| match self.check_file(asked) {
            Ok(()) => failed(error),
            // What is not a part of the workspace is so whether or not it exists.
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

    /// Finds where something is to be written. Nothing on the way may be a link, and names are as on disk.
    pub(super) fn find_spot(&self, path: &RelPath) -> Result<Spot, Failure> {
        self.check_writable(path)?;
        let spot = self.descend(path)?;
        if spot.missing.is_empty() {
            check_spelling(&spot.folder, &spot.name, path)?;
        }
        Ok(spot)
    }

    /// Opens the folders on the way, one name at a time.
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
    /// Opens it as a file: a plain one, which reading cannot block on.
    pub(super) fn open_file(&self) -> Result<(File, Metadata), Failure> {
        open_file(&self.folder, &self.name, &self.path)
    }

    /// Opens it as a folder.
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

/// Opens a plain file in a folder; anything else, a link too, is refused before it is opened and once more after.
pub(super) fn open_file(folder: &Dir, name: &str, path: &RelPath) -> Result<(File, Metadata), Failure> {
    let failed = |error| Failure::io(path.as_str(), "opened", error);
    let check = |metadata: &Metadata| {
        let found = kind_of(metadata.file_type());
        let refused = Failure::Kind { path: path.as_str().to_owned(), found: found.article(), expected: "a file" };
        if metadata.is_file() { Ok(()) } else { Err(refused) }
    };
    check(&folder.symlink_metadata(name).map_err(failed)?)?;
    let mut options = OpenOptions::new();
    // Should a pipe be put there meanwhile, opening it must not wait for a writer.
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = folder.open_with(name, &options).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    check(&metadata)?;
    Ok((file, metadata))
}

/// What kind of thing an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A plain file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Special,
}

impl Kind {
    fn article(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
            Self::Special => "a pipe, socket or device",
        }
    }
}

pub(super) fn kind_of(found: FileType) -> Kind {
    match found {
        found if found.is_file() => Kind::File,
        found if found.is_dir() => Kind::Folder,
        found if found.is_symlink() => Kind::Link,
        _ => Kind::Special,
    }
}

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

/// Refuses a name that a file system takes for another one, by case or by how Unicode can be written: the globs were
/// asked about this spelling, and have to be asked about the real one. A name that is not there is fine.
fn check_spelling(folder: &Dir, name: &str, path: &RelPath) -> Result<(), Failure> {
    let Ok(found) = folder.symlink_metadata(name) else { return Ok(()) };
    if name.is_ascii() {
        // Where the other case is something else, or nothing, case matters; and so the spelling is right.
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

fn swap_case(char: char) -> char {
    if char.is_ascii_lowercase() { char.to_ascii_uppercase() } else { char.to_ascii_lowercase() }
}
