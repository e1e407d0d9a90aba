//! `workspace`: look at, search and patch the files of one folder, and nothing outside of it.
//!
//! All access goes through a handle to the folder ([`cap_std`]), so that `..`, absolute paths and links that lead out
//! are refused by construction. Links that stay inside are read through, never written through. Pipes, sockets and
//! devices are not opened. `.git` is not a part of the workspace. `.gitignore` is about noise, not about secrets: `ls`,
//! `glob` and `grep` pass over what it names unless asked for it; what nobody may see belongs in
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

/// A folder that code may work in. Nothing can be called before it is mounted, and nothing written unless
/// [`writable`](Self::writable) says what.
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
    /// Opens the folder. It stays the same one, should it be renamed.
    ///
    /// # Errors
    /// It is no folder, or cannot be opened.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, Error> {
        let path = root.as_ref().to_owned();
        let dir = Dir::open_ambient_dir(&path, ambient_authority());
        let dir = dir.map_err(|error| refuse(&path, error.to_string()))?;
        Ok(Self { path, root: Root { dir, excluded: GlobSet::empty(), included: None, writing: Writing::default() } })
    }

    /// Takes out what the globs fit, with all that is in it: it is neither seen nor written. A glob without a `/` is
    /// about a name at any depth. Replaces an earlier call's globs.
    ///
    /// # Errors
    /// A glob is none.
    pub fn exclude<S: AsRef<str>>(mut self, globs: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        self.root.excluded = path::paths_or_names(globs).map_err(|error| refuse(&self.path, error.to_string()))?;
        Ok(self)
    }

    /// Leaves only the files that the globs fit, with all in folders that they fit: no others are seen or written. The names
    /// of folders are seen all the same. A glob without a `/` is about a name at any depth. Replaces an earlier call's globs.
    ///
    /// # Errors
    /// A glob is none.
    pub fn include<S: AsRef<str>>(mut self, globs: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let included = path::paths_or_names(globs).map_err(|error| refuse(&self.path, error.to_string()))?;
        self.root.included = Some(included);
        Ok(self)
    }

    /// Lets existing files be changed whose whole paths a glob fits, such as `src/**`: `*` stays within a name.
    /// Replaces an earlier call's globs.
    ///
    /// # Errors
    /// A glob is none.
    pub fn writable<S: AsRef<str>>(mut self, globs: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let globs: Vec<String> = globs.into_iter().map(|glob| glob.as_ref().to_owned()).collect();
        self.root.writing.writable =
            path::whole_paths(&globs).map_err(|error| refuse(&self.path, error.to_string()))?;
        self.root.writing.globs = globs;
        Ok(self)
    }

    /// Whether files may be created where the globs of [`writable`](Self::writable) fit; no, unless said. The folders
    /// that they need are made.
    #[must_use]
    pub fn allow_create(mut self, yes: bool) -> Self {
        self.root.writing.may_create = yes;
        self
    }

    /// Whether files may be deleted where the globs of [`writable`](Self::writable) fit; no, unless said. To rename one
    /// is to create and to delete.
    #[must_use]
    pub fn allow_delete(mut self, yes: bool) -> Self {
        self.root.writing.may_delete = yes;
        self
    }

    /// Registers the tools under a server's name: `ls`, `glob`, `grep` and `read`, and, if something is writable,
    /// `apply_patch`. They are there as long as the mount is.
    ///
    /// # Errors
    /// The name cannot be a server's, or is taken.
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
            let name = name("apply_patch");
            set.push(WorkspaceTool::new(name, patch::DESCRIPTION, Effect::Mutating, &root, patch::apply_patch));
        }
        match mount.replace(set).into_iter().next() {
            Some(error) => Err(error),
            None => Ok(mount),
        }
    }
}

/// A path as the workspace spells it, such as `src/a` for `./src//a`; nothing if it is none.
pub fn spelled(path: &str) -> Option<String> {
    path::RelPath::parse(path).ok().map(|path| path.as_str().to_owned())
}

fn refuse(path: &Path, reason: String) -> Error {
    Error::source(format!("the workspace {}", path.display()), reason)
}
