//! Finds out that a checkout was moved or renamed, and has cargo build again what holds paths into the old place. Cargo
//! itself does not notice: it takes what was built before the move for fresh, though `env!("CARGO_MANIFEST_DIR")` and
//! `env!("CARGO_BIN_EXE_…")` were compiled in. The same happens where two checkouts share a target folder, and where
//! the target folder alone was moved.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context as _;

use crate::run::target_folder;

/// Name of the note in the target folder, which holds the paths of the checkout and of the target folder at the last
/// build.
const NOTE: &str = "checkout.note";
/// Text by which a source file takes a path from cargo when it is compiled: `env!` of one of these variables.
const BAKED: [&str; 4] = [
    "env!(\"CARGO_BIN_EXE_",
    "env!(\"CARGO_MANIFEST_DIR\"",
    "env!(\"CARGO_MANIFEST_PATH\"",
    "env!(\"CARGO_TARGET_TMPDIR\"",
];
/// Folders that hold no sources of this project.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

/// Marks as changed the sources that were compiled with a path into another place than the present one.
pub(crate) fn notice_a_move() -> anyhow::Result<()> {
    let target = target_folder()?;
    let root = fs::canonicalize(".").context("the workspace cannot be found")?;
    let built_for = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let touched = follow(&root, &target, &built_for)?;
    if touched > 0 {
        eprintln!(
            "This checkout or its target folder was moved: {touched} source files that name its place are built anew"
        );
    }
    Ok(())
}

/// Compares the present place with the note and writes the note anew. After a move, marks the sources that take paths
/// from cargo as changed. Without a note, `built_for` tells where the checkout was. Returns the number of files that
/// were marked.
fn follow(root: &Path, target: &Path, built_for: &Path) -> anyhow::Result<usize> {
    let note = target.join(NOTE);
    let place = format!("{}\n{}\n", root.display(), target.display());
    let is_moved = match fs::read_to_string(&note) {
        Ok(noted) => noted != place,
        Err(error) if error.kind() == ErrorKind::NotFound => built_for.canonicalize().ok().as_deref() != Some(root),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", note.display())),
    };
    let touched = if is_moved { touch_sources(root, target)? } else { 0 };
    fs::write(&note, place).with_context(|| format!("{} cannot be written", note.display()))?;
    Ok(touched)
}

fn touch_sources(root: &Path, target: &Path) -> anyhow::Result<usize> {
    let now = SystemTime::now();
    let mut touched = 0;
    for file in sources(root, target)? {
        let text = fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        let text = String::from_utf8_lossy(&text);
        if BAKED.iter().any(|baked| text.contains(baked)) {
            let open = File::options().append(true).open(&file);
            let set = open.and_then(|file| file.set_modified(now));
            set.with_context(|| format!("{} cannot be marked as changed", file.display()))?;
            touched += 1;
        }
    }
    Ok(touched)
}

/// Lists the `.rs` files below a folder, without build output and other people's code.
pub(crate) fn sources(root: &Path, target: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            // Links are not followed.
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let is_skipped = SKIPPED.iter().any(|name| path.ends_with(name)) || path == target;
                folders.extend((!is_skipped).then_some(path));
            } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Makes a checkout with one file that takes a path from cargo and one that does not, both changed yesterday.
    fn checkout(root: &Path) -> SystemTime {
        let yesterday = SystemTime::now() - Duration::from_secs(86_400);
        fs::create_dir_all(root.join("src/target")).unwrap();
        for (name, text) in [
            ("src/baked.rs", "const ROOT: &str = env!(\"CARGO_MANIFEST_DIR\");"),
            ("src/plain.rs", "const VERSION: &str = env!(\"CARGO_PKG_VERSION\");"),
            ("src/target/built.rs", "env!(\"CARGO_MANIFEST_DIR\")"),
        ] {
            fs::write(root.join(name), text).unwrap();
            File::options().append(true).open(root.join(name)).unwrap().set_modified(yesterday).unwrap();
        }
        yesterday
    }

    fn is_touched(file: &Path, before: SystemTime) -> bool {
        fs::metadata(file).unwrap().modified().unwrap() > before + Duration::from_secs(60)
    }

    #[test]
    fn only_after_a_move_are_sources_marked_and_only_those_that_name_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new, target) = (folder.path().join("old"), folder.path().join("new"), folder.path().join("built"));
        fs::create_dir(&target).unwrap();
        let before = checkout(&old);
        assert_eq!(follow(&old, &target, &old).unwrap(), 0, "it is where it was built");
        assert_eq!(follow(&old, &target, Path::new("/elsewhere")).unwrap(), 0, "the note counts");
        assert!(!is_touched(&old.join("src/baked.rs"), before));

        fs::rename(&old, &new).unwrap();
        assert_eq!(follow(&new, &target, &old).unwrap(), 1);
        assert!(is_touched(&new.join("src/baked.rs"), before));
        assert!(!is_touched(&new.join("src/plain.rs"), before));
        assert!(!is_touched(&new.join("src/target/built.rs"), before));
        assert_eq!(follow(&new, &target, &old).unwrap(), 0, "once is enough");

        let moved = folder.path().join("moved");
        fs::rename(&target, &moved).unwrap();
        assert_eq!(follow(&new, &moved, &new).unwrap(), 1, "the target folder counts, too");
    }

    #[test]
    fn without_a_note_the_place_of_the_build_decides() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("here");
        checkout(&root);
        let target = folder.path().join("built");
        fs::create_dir(&target).unwrap();
        assert_eq!(follow(&root, &target, &folder.path().join("gone")).unwrap(), 1);
    }
}
