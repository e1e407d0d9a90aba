//! Walks folders in the order of their paths. It opens each folder from the one above, follows no links, and respects
//! `.gitignore` files.

use std::io::Read;
use std::ops::ControlFlow;

use cap_fs_ext::DirExt;
use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::failure::{Failure, MAX_DEPTH};
use super::path::RelPath;
use super::root::{Kind, Place, Root, kind_of, open_file};
use super::tool::Cancel;

/// Maximum number of entries that one walk reads.
const MAX_VISITED: usize = 200_000;
/// Maximum size of a `.gitignore` that is respected, in bytes.
const MAX_GITIGNORE_BYTES: u64 = 64 << 10;

/// State of one walk.
pub(super) struct Walk<'a> {
    root: &'a Root,
    cancel: &'a Cancel,
    with_ignored: bool,
    /// The rules of the folders above, each with its folder.
    rules: Vec<(RelPath, Gitignore)>,
    left: usize,
    /// Number of entries that could not be read: no permission, too deep, or a name that is not UTF-8 or has control
    /// characters.
    pub(super) skipped: u64,
    /// `true`: the walk ended at its maximum of entries.
    pub(super) cut: bool,
}

/// Regular file that a walk found.
pub(super) struct Found<'a> {
    pub(super) folder: &'a Dir,
    pub(super) name: &'a str,
    pub(super) path: RelPath,
}

/// Function that a walk calls for each file. `Break` ends the walk.
type Visit<'v> = &'v mut dyn FnMut(&Found<'_>) -> Result<ControlFlow<()>, Failure>;

impl<'a> Walk<'a> {
    pub(super) fn new(root: &'a Root, cancel: &'a Cancel, with_ignored: bool) -> Self {
        Self { root, cancel, with_ignored, rules: Vec::new(), left: MAX_VISITED, skipped: 0, cut: false }
    }

    /// Visits every regular file below a folder, in the order of their paths; or the start itself if it is a file.
    pub(super) fn files(&mut self, start: &Place, visit: Visit<'_>) -> Result<(), Failure> {
        if start.is_file()? {
            let found = Found { folder: &start.folder, name: &start.name, path: start.path.clone() };
            return visit(&found).map(drop);
        }
        let folder = start.open_folder()?;
        self.rules_above(&start.path)?;
        self.folder(&folder, &start.path, 0, visit).map(drop)
    }

    /// Returns the entries of one folder, in the order of their paths.
    pub(super) fn entries(&mut self, start: &Place) -> Result<Vec<(String, Kind)>, Failure> {
        let folder = start.open_folder()?;
        self.rules_above(&start.path)?;
        self.read_rules(&folder, &start.path);
        self.list(&folder, &start.path)
    }

    fn folder(
        &mut self,
        folder: &Dir,
        path: &RelPath,
        depth: usize,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, Failure> {
        let rules = self.rules.len();
        self.read_rules(folder, path);
        for (name, kind) in self.list(folder, path)? {
            self.cancel.check()?;
            let path = path.join(&name);
            let flow = match kind {
                Kind::File => visit(&Found { folder, name: &name, path })?,
                Kind::Folder if depth < MAX_DEPTH => match folder.open_dir_nofollow(&name) {
                    Ok(below) => self.folder(&below, &path, depth + 1, visit)?,
                    Err(_) => self.skip(),
                },
                Kind::Folder => self.skip(),
                Kind::Link | Kind::Special => ControlFlow::Continue(()),
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        self.rules.truncate(rules);
        Ok(ControlFlow::Continue(()))
    }

    /// Counts an entry that cannot be read, and continues.
    fn skip(&mut self) -> ControlFlow<()> {
        self.skipped += 1;
        ControlFlow::Continue(())
    }

    /// Returns the visible entries of a folder that are not ignored, sorted so that a walk visits whole paths in order.
    fn list(&mut self, folder: &Dir, path: &RelPath) -> Result<Vec<(String, Kind)>, Failure> {
        let Ok(entries) = folder.entries() else {
            self.skipped += 1;
            return Ok(Vec::new());
        };
        let mut listed = Vec::new();
        for entry in entries {
            self.cancel.check()?;
            let Some(left) = self.left.checked_sub(1) else {
                self.cut = true;
                break;
            };
            self.left = left;
            let named = entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?)));
            let Some((name, kind)) =
                named.ok().and_then(|(name, kind)| Some((name.into_string().ok()?, kind_of(kind))))
            else {
                self.skipped += 1;
                continue;
            };
            if name.contains(char::is_control) {
                self.skipped += 1;
                continue;
            }
            let path = path.join(&name);
            let is_part = if kind == Kind::Folder { self.root.is_visible(&path) } else { self.root.has_file(&path) };
            if is_part && (self.with_ignored || !self.is_ignored(&path, kind)) {
                listed.push((name, kind));
            }
        }
        let key = |(name, kind): &(String, Kind)| {
            let slash = if *kind == Kind::Folder { "/" } else { "" };
            format!("{name}{slash}")
        };
        listed.sort_by_cached_key(key);
        Ok(listed)
    }

    /// Returns `true` if the rules ignore the path. The last rule that matches decides, beginning with the nearest
    /// folder.
    fn is_ignored(&self, path: &RelPath, kind: Kind) -> bool {
        let is_folder = kind == Kind::Folder;
        let mut decisions =
            self.rules.iter().rev().map(|(folder, rules)| rules.matched(path.seen_from(folder), is_folder));
        decisions.find(|decision| !decision.is_none()).is_some_and(|decision| decision.is_ignore())
    }

    /// Reads the rules of the folders above `path`.
    fn rules_above(&mut self, path: &RelPath) -> Result<(), Failure> {
        let mut above = RelPath::parse(".")?;
        let mut folder = self.root.dir.try_clone().map_err(|error| Failure::io(".", "opened", error))?;
        for name in path.names() {
            self.read_rules(&folder, &above);
            above = above.join(name);
            folder = folder.open_dir_nofollow(name).map_err(|error| Failure::io(above.as_str(), "opened", error))?;
        }
        Ok(())
    }

    /// Adds the rules of a folder's `.gitignore`, if there is one. Invalid lines are skipped, as Git does.
    fn read_rules(&mut self, folder: &Dir, path: &RelPath) {
        let file = path.join(".gitignore");
        if self.with_ignored || !folder.symlink_metadata(".gitignore").is_ok_and(|found| found.is_file()) {
            return;
        }
        let text = open_file(folder, ".gitignore", &file).ok().and_then(|(file, _)| {
            let mut text = Vec::new();
            let read = file.take(MAX_GITIGNORE_BYTES + 1).read_to_end(&mut text).ok()?;
            (read as u64 <= MAX_GITIGNORE_BYTES).then_some(text)
        });
        let mut builder = GitignoreBuilder::new("");
        for line in String::from_utf8_lossy(&text.unwrap_or_default()).lines() {
            // An invalid line ignores nothing.
            let _ = builder.add_line(None, line);
        }
        match builder.build() {
            Ok(rules) if !rules.is_empty() => self.rules.push((path.clone(), rules)),
            Ok(_) => {}
            Err(_) => self.skipped += 1,
        }
    }
}
