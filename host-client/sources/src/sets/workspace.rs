//! `workspace`: lists, searches, reads and patches the files of one folder, and none outside of it.
//!
//! All access goes through a handle to the folder ([`cap_std`]), so that `..`, absolute paths and links that lead out
//! are refused by construction. Links within the folder are followed for reading, never for writing. Pipes, sockets and
//! devices are not opened. `.git` is not part of the workspace. `.gitignore` reduces noise and does not protect
//! secrets: `ls`, `glob` and `grep` skip what it names unless told otherwise; to hide files, use
//! [`WorkspaceSet::exclude`].

mod failure;
mod list;
mod patch;
mod path;
mod read;
mod root;
mod search;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod tool;
mod walk;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use globset::GlobSet;

use self::root::{Root, Writing};
use self::tool::WorkspaceTool;
use host_client_core::error::Error;
use host_client_core::tool::Effect;
use host_client_core::tool::Tool;
use host_client_core::tools::{Mount, Tools};

/// Folder whose files code may list, search and read. Nothing can be written unless [`writable`](Self::writable) allows
/// it.
///
/// ```no_run
/// use host_client_core::Tools;
/// use host_client_sources::sets::workspace::WorkspaceSet;
///
/// # fn example(tools: &Tools) -> Result<(), host_client_core::Error> {
/// let mount = WorkspaceSet::open("/srv/project")?
///     .exclude(["secrets", "*.pem"])?
///     .writable(["src/**"])?
///     .allow_create(true)
///     .mount(tools, "fs")?;
/// # drop(mount); Ok(()) }
/// ```
pub struct WorkspaceSet {
    path: PathBuf,
    root: Root,
}

impl fmt::Debug for WorkspaceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkspaceSet").field("path", &self.path).finish_non_exhaustive()
    }
}

impl WorkspaceSet {
    /// Opens the folder. The set keeps this folder even if it is renamed.
    ///
    /// # Errors
    /// [`Error::Source`] if it is not a folder, or cannot be opened.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, Error> {
        let path = root.as_ref().to_owned();
        let dir = Dir::open_ambient_dir(&path, ambient_authority());
        let dir = dir.map_err(|error| refuse(&path, error.to_string()))?;
        Ok(Self { path, root: Root { dir, excluded: GlobSet::empty(), included: None, writing: Writing::default() } })
    }

    /// Excludes the files and folders that the globs match, with all that is in them: they can be neither read nor
    /// written. A glob without a `/` matches names at any depth. Replaces the globs of an earlier call. Default: none.
    ///
    /// # Errors
    /// [`Error::Source`] if a glob is invalid.
    pub fn exclude<S: AsRef<str>>(mut self, globs: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        self.root.excluded = path::paths_or_names(globs).map_err(|error| refuse(&self.path, error.to_string()))?;
        Ok(self)
    }

    /// Includes only the files that the globs match, and those in folders that they match: others can be neither read
    /// nor written. The names of all folders stay visible. A glob without a `/` matches names at any depth. Replaces
    /// the globs of an earlier call. Default: all files.
    ///
    /// # Errors
    /// [`Error::Source`] if a glob is invalid.
    pub fn include<S: AsRef<str>>(mut self, globs: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let included = path::paths_or_names(globs).map_err(|error| refuse(&self.path, error.to_string()))?;
        self.root.included = Some(included);
        Ok(self)
    }

    /// Allows changes to existing files whose whole path a glob matches, such as `src/**`; `*` does not match a `/`.
    /// Replaces the globs of an earlier call. Default: no files.
    ///
    /// # Errors
    /// [`Error::Source`] if a glob is invalid.
    pub fn writable<S: AsRef<str>>(mut self, globs: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let globs: Vec<String> = globs.into_iter().map(|glob| glob.as_ref().to_owned()).collect();
        self.root.writing.writable =
            path::whole_paths(&globs).map_err(|error| refuse(&self.path, error.to_string()))?;
        self.root.writing.globs = globs;
        Ok(self)
    }

    /// Allows the creation of files that the globs of [`writable`](Self::writable) match, with the folders that they
    /// need. Default: `false`.
    #[must_use]
    pub fn allow_create(mut self, yes: bool) -> Self {
        self.root.writing.may_create = yes;
        self
    }

    /// Allows the deletion of files that the globs of [`writable`](Self::writable) match. Default: `false`. Renaming a
    /// file needs [`allow_create`](Self::allow_create), too.
    #[must_use]
    pub fn allow_delete(mut self, yes: bool) -> Self {
        self.root.writing.may_delete = yes;
        self
    }

    /// Registers the tools of the server `server`: `ls`, `glob`, `grep` and `read`, and `apply_patch` if anything is
    /// writable. Dropping the mount removes them.
    ///
    /// # Errors
    /// The error of [`Tools::mount`] if the name is taken or invalid.
    pub fn mount(self, tools: &Tools, server: &str) -> Result<Mount, Error> {
        let mount = tools.mount(server, format!("the workspace {}", self.path.display()))?;
        let is_writable = !self.root.writing.writable.is_empty();
        let root = Arc::new(self.root);
        let name = |tool: &str| format!("{server}.{tool}");
        let read_only = Effect::ReadOnly;
        let mut set: Vec<Arc<dyn Tool>> = vec![
            WorkspaceTool::new(name("ls"), "Lists a folder of the workspace.", read_only, &root, list::ls),
            WorkspaceTool::new(name("glob"), "Finds files of the workspace by a glob.", read_only, &root, list::glob),
            WorkspaceTool::new(
                name("grep"),
                "Finds lines in files of the workspace by a regular expression.",
                read_only,
                &root,
                search::grep,
            ),
            WorkspaceTool::new(name("read"), "Reads text files of the workspace.", read_only, &root, read::read),
        ];
        if is_writable {
            let (name, description) = (name("apply_patch"), patch::description(&root.writing));
            set.push(WorkspaceTool::new(name, &description, Effect::Mutating, &root, patch::apply_patch));
        }
        match mount.replace(set).into_iter().next() {
            Some(error) => Err(error),
            None => Ok(mount),
        }
    }
}

/// Normalizes a path as the workspace does, such as `./src//a` to `src/a`. Returns `None` if it is absolute, contains
/// `..`, or is otherwise invalid.
pub fn spelled(path: &str) -> Option<String> {
    path::RelPath::parse(path).ok().map(|path| path.as_str().to_owned())
}

fn refuse(path: &Path, reason: String) -> Error {
    Error::source(format!("the workspace {}", path.display()), reason)
}
