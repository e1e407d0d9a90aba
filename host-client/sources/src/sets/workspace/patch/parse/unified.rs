//! Parses unified diffs, with and without Git's own headers.

use super::super::PatchError;
use super::super::text::{Hunk, Mark};
use super::{Change, Reader, check_files};

/// Path that stands for a file that does not exist.
const NOTHING: &str = "/dev/null";

/// Headers of Git before the `---` line.
#[derive(Default)]
struct Extended<'a> {
    /// Path of `diff --git`; `None` if its two sides differ.
    path: Option<&'a str>,
    rename_from: Option<&'a str>,
    rename_to: Option<&'a str>,
    /// `Some` for a new file: `true` if it is executable.
    creates: Option<bool>,
    deletes: bool,
}

/// Parses all changes.
pub(super) fn parse<'a>(reader: &mut Reader<'a>) -> Result<Vec<Change<'a>>, PatchError> {
    let mut changes = Vec::new();
    loop {
        reader.skip_blank();
        if reader.peek().is_none() {
            return Ok(changes);
        }
        changes.push(file(reader)?);
        check_files(&changes)?;
    }
}

/// Parses the change of one file.
fn file<'a>(reader: &mut Reader<'a>) -> Result<Change<'a>, PatchError> {
    let line = reader.line();
    let extended = match reader.take_after("diff --git ") {
        Some(paths) => extended(reader, paths)?,
        None => Extended::default(),
    };
    if !reader.is_at_file() {
        return without_hunks(reader, line, &extended);
    }
    let old = header_path(reader, "--- ")?;
    let new = header_path(reader, "+++ ")?;
    let (old, new) = without_prefixes(old, new);
    let hunks = reader.hunks(true)?;
    if hunks.is_empty() {
        return reader.expected("`@@`");
    }
    match (old, new) {
        (None, None) => Err(PatchError::Unsupported { line, what: "a change of /dev/null" }),
        (None, Some(path)) => {
            let (text, added) = one_sided(reader, &hunks, Mark::Comes)?;
            Ok(Change::Create { path, text, added, is_executable: extended.creates == Some(true) })
        }
        (Some(path), None) => {
            let (text, _) = one_sided(reader, &hunks, Mark::Goes)?;
            Ok(Change::Delete { path, text: Some(text) })
        }
        (Some(path), Some(new)) => {
            let renames = extended.rename_from.is_some() || extended.rename_to.is_some();
            let agrees = extended.rename_from == Some(path) && extended.rename_to == Some(new);
            if path == new && !renames {
                Ok(Change::Update { path, new_path: None, hunks })
            } else if agrees {
                Ok(Change::Update { path, new_path: Some(new), hunks })
            } else {
                let what =
                    "a change of two files; for a rename, write `diff --git`, `rename from` and `rename to` first: it";
                Err(PatchError::Unsupported { line, what })
            }
        }
    }
}

/// Makes the change of a file without hunks: a rename, or an empty file.
fn without_hunks<'a>(reader: &Reader<'a>, line: usize, extended: &Extended<'a>) -> Result<Change<'a>, PatchError> {
    match (extended.rename_from, extended.rename_to, extended.path) {
        (Some(from), Some(to), _) => Ok(Change::Update { path: from, new_path: Some(to), hunks: Vec::new() }),
        (None, None, Some(path)) if extended.deletes => Ok(Change::Delete { path, text: Some(String::new()) }),
        (None, None, Some(path)) if extended.creates.is_some() => {
            let is_executable = extended.creates == Some(true);
            Ok(Change::Create { path, text: String::new(), added: 0, is_executable })
        }
        _ if reader.line() == line => reader.expected("`diff --git `, `--- ` and `+++ `, or `*** Begin Patch`"),
        _ => reader.expected("`--- ` and `+++ `"),
    }
}

/// Reads the headers of Git.
fn extended<'a>(reader: &mut Reader<'a>, paths: &'a str) -> Result<Extended<'a>, PatchError> {
    let mut extended = Extended { path: same_path(paths), ..Extended::default() };
    loop {
        let line = reader.line();
        let refuse = |what| Err(PatchError::Unsupported { line, what });
        if let Some(path) = reader.take_after("rename from ") {
            extended.rename_from = Some(path);
        } else if let Some(path) = reader.take_after("rename to ") {
            extended.rename_to = Some(path);
        } else if let Some(mode) = reader.take_after("new file mode ") {
            extended.creates = match mode {
                "100644" => Some(false),
                "100755" => Some(true),
                _ => return refuse("what is no plain file"),
            };
        } else if let Some(mode) = reader.take_after("deleted file mode ") {
            if !mode.starts_with("100") {
                return refuse("what is no plain file");
            }
            extended.deletes = true;
        } else if reader.take_after("old mode ").is_some() || reader.take_after("new mode ").is_some() {
            return refuse("a change of a file's mode");
        } else if reader.take_after("copy from ").is_some() || reader.take_after("copy to ").is_some() {
            return refuse("a copy");
        } else if reader.take_after("GIT binary patch").is_some() || reader.take_after("Binary files ").is_some() {
            return refuse("a change of a file that is no text");
        } else if ["index ", "similarity index ", "dissimilarity index "]
            .iter()
            .all(|prefix| reader.take_after(prefix).is_none())
        {
            return Ok(extended);
        }
    }
}

/// Returns the path `x` of `a/x b/x`, which may contain spaces; `None` if the sides differ.
fn same_path(paths: &str) -> Option<&str> {
    let half = paths.len().checked_sub(1)? / 2;
    let (old, new) = (paths.get(..half)?, paths.get(half..)?.strip_prefix(' ')?);
    let (old, new) = (old.strip_prefix("a/")?, new.strip_prefix("b/")?);
    (old == new).then_some(old)
}

/// Reads the path of a `---` or `+++` line, without the time that some programs write after it.
fn header_path<'a>(reader: &mut Reader<'a>, prefix: &str) -> Result<&'a str, PatchError> {
    if reader.peek().is_some_and(|line| line[prefix.len()..].starts_with('"')) {
        return reader.expected("a path without quotes around it");
    }
    let path = reader.take_after(prefix).unwrap_or_default();
    Ok(path.split_once('\t').map_or(path, |(path, _)| path).trim_end())
}

/// Removes Git's prefixes `a/` and `b/` if both are present. `None` stands for `/dev/null`.
fn without_prefixes<'a>(old: &'a str, new: &'a str) -> (Option<&'a str>, Option<&'a str>) {
    let is_git = |path: &str, prefix| path == NOTHING || path.starts_with(prefix);
    let (from_old, from_new) = if is_git(old, "a/") && is_git(new, "b/") { ("a/", "b/") } else { ("", "") };
    let path = |path: &'a str, prefix| (path != NOTHING).then(|| path.strip_prefix(prefix).unwrap_or(path));
    (path(old, from_old), path(new, from_new))
}

/// Returns the text of the one hunk of a created or deleted file, and its number of lines.
fn one_sided(reader: &Reader<'_>, hunks: &[Hunk<'_>], side: Mark) -> Result<(String, usize), PatchError> {
    let [hunk] = hunks else { return reader.expected("one hunk alone, for a file that is created or deleted") };
    let mut text = String::new();
    for (mark, line) in &hunk.lines {
        if *mark != side {
            let line = hunk.line;
            return Err(PatchError::Unsupported {
                line,
                what: "a hunk with other lines than a new or deleted file has",
            });
        }
        line.write_to(&mut text);
    }
    Ok((text, hunk.lines.len()))
}
