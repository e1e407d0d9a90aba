//! Writes a planned patch: all of it or nothing.
//!
//! New contents are first written to temporary files beside their targets (`.….patch-tmp`). Then each is exchanged with
//! its target by one rename; the file that comes out is checked, and is put back if it is not the one that the patch
//! was planned for. If anything fails, all steps are undone, newest first. If the machine stops in between, some files
//! are new and others old, each complete, and `.….patch-tmp` files hold the other versions. A file's mode is kept, and
//! its owner where this process is allowed to; other attributes, and hard links to the file, are not.

use std::io::{self, Write};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::plan::{Identity, Like, New, Old, Step};
use crate::sets::workspace::failure::Failure;
use crate::sets::workspace::path::RelPath;
use crate::sets::workspace::root::Spot;
use crate::sets::workspace::tool::Cancel;

/// Steps that were done so far, and how to undo them.
#[derive(Default)]
struct Transaction {
    undo: Vec<(Undo, RelPath)>,
}

/// Undo record of one step in one folder.
enum Undo {
    /// A folder was created.
    Made { folder: Dir, name: String },
    /// A temporary or new file was written. `identity` prevents the removal of another file.
    Written { folder: Dir, name: String, identity: Identity },
    /// A file was renamed to `aside`.
    Taken { folder: Dir, name: String, aside: String },
    /// Two files were exchanged. `identity`: the one that is now at `name`.
    Exchanged { folder: Dir, name: String, aside: String, identity: Identity },
}

/// New content in a temporary file beside its target.
struct Staged {
    folder: Dir,
    temporary: String,
    name: String,
    path: RelPath,
    identity: Identity,
}

/// Carries out the steps. It can be cancelled until the first target is changed.
pub(super) fn commit(steps: Vec<Step>, cancel: &Cancel) -> Result<(), Failure> {
    let mut transaction = Transaction::default();
    match transaction.run(steps, cancel) {
        Ok(()) => {
            transaction.finish();
            Ok(())
        }
        Err(failure) => Err(transaction.roll_back(failure)),
    }
}

impl Transaction {
    fn run(&mut self, steps: Vec<Step>, cancel: &Cancel) -> Result<(), Failure> {
        let mut ready = Vec::with_capacity(steps.len());
        for Step { old, new, .. } in steps {
            cancel.check()?;
            let staged = new.map(|new| self.stage(new, old.as_ref())).transpose()?;
            ready.push((old, staged));
        }
        cancel.check()?;
        for (old, staged) in ready {
            match (old, staged) {
                (Some(old), Some(staged)) if old.spot.path == staged.path => self.replace(&old, &staged)?,
                (old, staged) => {
                    if let Some(staged) = staged {
                        self.move_in(&staged)?;
                    }
                    if let Some(old) = old {
                        self.move_out(&old)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes new content to a temporary file beside its target.
    fn stage(&mut self, new: New, old: Option<&Old>) -> Result<Staged, Failure> {
        let New { spot, text, like } = new;
        let Some(spot) = spot.as_ref().or(old.map(|old| &old.spot)) else { return Err(Failure::Cancelled) };
        let path = spot.path.clone();
        let failed = |error| Failure::io(path.as_str(), "written", error);
        let folder = self.make_folders(spot)?;
        let temporary = random_name().map_err(failed)?;
        let mode = if matches!(like, Like::Fresh { is_executable: true }) { 0o777 } else { 0o666 };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No).mode(mode);
        let mut file = folder.open_with(&temporary, &options).map_err(failed)?;
        let made = Identity::new(&file.metadata().map_err(failed)?);
        let undo =
            Undo::Written { folder: folder.try_clone().map_err(failed)?, name: temporary.clone(), identity: made };
        self.undo.push((undo, path.clone()));
        file.write_all(text.as_bytes()).map_err(failed)?;
        if let Like::Before(before) = &like {
            keep_mode(&file, before).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        let identity = Identity::new(&file.metadata().map_err(failed)?);
        Ok(Staged { folder, temporary, name: spot.name.clone(), path, identity })
    }

    /// Creates the missing folders of a target.
    fn make_folders(&mut self, spot: &Spot) -> Result<Dir, Failure> {
        let failed = |error| Failure::io(spot.path.as_str(), "created", error);
        let mut folder = spot.folder.try_clone().map_err(failed)?;
        for name in &spot.missing {
            match folder.create_dir(name) {
                Ok(()) => {
                    let undo = Undo::Made { folder: folder.try_clone().map_err(failed)?, name: name.clone() };
                    self.undo.push((undo, spot.path.clone()));
                }
                // Created for another file of the same patch.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
            folder = folder.open_dir_nofollow(name).map_err(failed)?;
        }
        Ok(folder)
    }

    /// Moves new content to a path where no file exists.
    fn move_in(&mut self, staged: &Staged) -> Result<(), Failure> {
        let failed = |error| Failure::io(staged.path.as_str(), "created", error);
        let folder = staged.folder.try_clone().map_err(failed)?;
        match move_new(&staged.folder, &staged.temporary, &staged.name) {
            Ok(()) => {
                let undo = Undo::Written { folder, name: staged.name.clone(), identity: staged.identity };
                self.undo.push((undo, staged.path.clone()));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(changed(&staged.path)),
            Err(error) => Err(failed(error)),
        }
    }

    /// Moves a file aside, and checks that it is the planned one.
    fn move_out(&mut self, old: &Old) -> Result<(), Failure> {
        let Spot { folder, name, path, .. } = &old.spot;
        let failed = |error| Failure::io(path.as_str(), "deleted", error);
        let aside = random_name().map_err(failed)?;
        let undo =
            Undo::Taken { folder: folder.try_clone().map_err(failed)?, name: name.clone(), aside: aside.clone() };
        move_new(folder, name, &aside).map_err(failed)?;
        self.undo.push((undo, path.clone()));
        check_taken(folder, &aside, old)
    }

    /// Exchanges a file with its new content, atomically if the file system can.
    fn replace(&mut self, old: &Old, staged: &Staged) -> Result<(), Failure> {
        let Staged { folder, temporary, name, path, identity } = staged;
        let failed = |error| Failure::io(path.as_str(), "written", error);
        let undo_folder = folder.try_clone().map_err(failed)?;
        match rustix::fs::renameat_with(folder, temporary.as_str(), folder, name.as_str(), RenameFlags::EXCHANGE) {
            Ok(()) => {
                let (name, aside, identity) = (name.clone(), temporary.clone(), *identity);
                let undo = Undo::Exchanged { folder: undo_folder, name, aside, identity };
                self.undo.push((undo, path.clone()));
                check_taken(folder, temporary, old)
            }
            Err(errno) if is_unsupported(errno) => {
                self.move_out(old)?;
                self.move_in(staged)
            }
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// Removes the old contents. A failure is logged only, because the patch is applied.
    fn finish(self) {
        for (undo, path) in self.undo {
            if let Undo::Taken { folder, aside, .. } | Undo::Exchanged { folder, aside, .. } = undo
                && let Err(error) = folder.remove_file(&aside)
            {
                tracing::warn!(path = path.as_str(), %error, "the old content of a patched file could not be removed");
            }
        }
    }

    /// Undoes all steps, newest first. Returns `cause`, or [`Failure::HalfApplied`] if a step cannot be undone.
    fn roll_back(self, cause: Failure) -> Failure {
        let mut left = Vec::new();
        for (undo, path) in self.undo.into_iter().rev() {
            if let Err(error) = undo.undo() {
                left.push(format!("{} ({error})", path.as_str()));
            }
        }
        if left.is_empty() { cause } else { Failure::HalfApplied { cause: Box::new(cause), left: left.join(", ") } }
    }
}

impl Undo {
    fn undo(self) -> io::Result<()> {
        match self {
            // The folder stays if another process has put something into it.
            Self::Made { folder, name } => match folder.remove_dir(&name) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                done => done,
            },
            Self::Written { folder, name, identity } => match folder.symlink_metadata(&name) {
                Ok(found) if identity.is_same_file(Identity::new(&found)) => folder.remove_file(&name),
                // A later step moved the file, and its own undo removes it.
                _ => Ok(()),
            },
            Self::Taken { folder, name, aside } => move_new(&folder, &aside, &name),
            Self::Exchanged { folder, name, aside, identity } => {
                if !identity.is_same_file(Identity::new(&folder.symlink_metadata(&name)?)) {
                    return Err(io::Error::other(format!("somebody else replaced it; its old content is in {aside}")));
                }
                Ok(rustix::fs::renameat_with(&folder, aside.as_str(), &folder, name.as_str(), RenameFlags::EXCHANGE)?)
            }
        }
    }
}

/// Checks that the file that was moved aside is the one that the patch was planned for.
fn check_taken(folder: &Dir, aside: &str, old: &Old) -> Result<(), Failure> {
    let taken =
        folder.symlink_metadata(aside).map_err(|error| Failure::io(old.spot.path.as_str(), "looked at", error))?;
    if Identity::new(&taken) == old.identity { Ok(()) } else { Err(changed(&old.spot.path)) }
}

/// Makes the failure of a file that changed after it was planned.
fn changed(path: &RelPath) -> Failure {
    Failure::Changed { path: path.as_str().to_owned() }
}

/// Renames a file within a folder, never over an existing one.
fn move_new(folder: &Dir, from: &str, to: &str) -> io::Result<()> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        Err(errno) if is_unsupported(errno) => {
            folder.hard_link(from, folder, to)?;
            // If the old name cannot be removed, the new one is, so that there is one file.
            folder.remove_file(from).inspect_err(|_| drop(folder.remove_file(to)))
        }
        done => Ok(done?),
    }
}

/// Returns `true` if the file system does not support the flags of a rename.
fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// Copies the mode and, if allowed, the owner of the old file. Setuid and setgid are dropped.
fn keep_mode(file: &File, before: &cap_std::fs::Metadata) -> io::Result<()> {
    use cap_std::fs::MetadataExt;
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        let (uid, gid) = (rustix::fs::Uid::from_raw(before.uid()), rustix::fs::Gid::from_raw(before.gid()));
        // Only root may change the owner; else the file belongs to this user, as after any editor.
        let _ = rustix::fs::fchown(file, Some(uid), Some(gid));
    }
    file.set_permissions(Permissions::from_mode(before.mode() & 0o777))
}

/// Returns a random name for a temporary file.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!(".{:016x}.patch-tmp", u64::from_ne_bytes(bytes)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::{parse, plan};
    use super::*;
    use crate::sets::workspace::WorkspaceSet;

    const PATCH: &str = "*** Begin Patch\n*** Add File: new/a\n+a\n*** Update File: b\n@@\n-b\n+B\n*** Delete File: c\n\
                         *** Update File: d\n@@\n-d\n+D\n*** End Patch";

    /// Plans a patch, lets somebody else do something, and commits it. Gives what there is then.
    fn commit_after(meanwhile: impl FnOnce(&Path)) -> (Result<(), Failure>, Vec<(String, String)>) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b", "c", "d"] {
            fs::write(folder.path().join(name), format!("{name}\n")).unwrap();
        }
        let set = WorkspaceSet::open(folder.path()).unwrap().writable(["**"]).unwrap();
        let root = set.allow_create(true).allow_delete(true).root;
        let cancel = Cancel::default();
        let steps = plan::plan(&root, &parse::parse(PATCH).unwrap(), &cancel).unwrap();
        meanwhile(folder.path());
        let done = commit(steps, &cancel);
        let mut found: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let text = if path.is_dir() { "a folder".into() } else { fs::read_to_string(&path).unwrap() };
                (path.file_name().unwrap().to_str().unwrap().to_owned(), text)
            })
            .collect();
        found.sort();
        (done, found)
    }

    fn files<const N: usize>(files: [(&str, &str); N]) -> Vec<(String, String)> {
        files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec()
    }

    #[test]
    fn what_was_planned_is_done_and_leaves_nothing_else() {
        let (done, found) = commit_after(|_| {});
        done.unwrap();
        assert_eq!(found, files([("b", "B\n"), ("d", "D\n"), ("new", "a folder")]));
    }

    #[test]
    fn what_somebody_else_did_meanwhile_stays_and_nothing_is_patched() {
        let (done, found) = commit_after(|folder| fs::write(folder.join("d"), "theirs\n").unwrap());
        assert!(matches!(done, Err(Failure::Changed { path }) if path == "d"));
        assert_eq!(found, files([("b", "b\n"), ("c", "c\n"), ("d", "theirs\n")]));

        let (done, found) = commit_after(|folder| fs::write(folder.join("c"), "theirs\n").unwrap());
        assert!(matches!(done, Err(Failure::Changed { path }) if path == "c"));
        assert_eq!(found, files([("b", "b\n"), ("c", "theirs\n"), ("d", "d\n")]));

        let (done, found) = commit_after(|folder| fs::remove_file(folder.join("d")).unwrap());
        assert!(matches!(done, Err(Failure::NotFound { path }) if path == "d"));
        assert_eq!(found, files([("b", "b\n"), ("c", "c\n")]));

        let (done, found) = commit_after(|folder| {
            fs::create_dir(folder.join("new")).unwrap();
            fs::write(folder.join("new/a"), "theirs\n").unwrap();
        });
        assert!(matches!(done, Err(Failure::Changed { path }) if path == "new/a"));
        assert_eq!(found, files([("b", "b\n"), ("c", "c\n"), ("d", "d\n"), ("new", "a folder")]));
    }

    #[test]
    fn a_link_that_takes_the_place_of_a_file_is_put_back_and_not_written_through() {
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        for place in ["b", "c", "d"] {
            fs::write(&secret, "outside\n").unwrap();
            let (done, found) = commit_after(|folder| {
                fs::remove_file(folder.join(place)).unwrap();
                std::os::unix::fs::symlink(&secret, folder.join(place)).unwrap();
            });
            assert!(matches!(done, Err(Failure::Changed { path }) if path == place));
            let text = |name| if name == place { "outside\n".to_owned() } else { format!("{name}\n") };
            assert_eq!(found, files([("b", &text("b")), ("c", &text("c")), ("d", &text("d"))]));
            assert_eq!(fs::read_to_string(&secret).unwrap(), "outside\n");
        }
        let (done, _) = commit_after(|folder| std::os::unix::fs::symlink(outside.path(), folder.join("new")).unwrap());
        assert!(done.is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
