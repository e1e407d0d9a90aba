//! Prints each part of the comparison, shortened, on standard error as soon as it is known, and writes the whole to a
//! file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Number of lines of a part that are printed; the file has all.
const SHOWN_LINES: usize = 24;

/// Names, each with a text that is compared.
pub(super) type Named = BTreeMap<String, String>;

/// Names that are in one list only, or have different texts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) new: Vec<String>,
    pub(super) gone: Vec<String>,
    pub(super) changed: Vec<String>,
}

/// Results so far.
pub(super) struct Report {
    path: PathBuf,
    text: String,
}

impl Difference {
    pub(super) fn between(old: &Named, new: &Named) -> Self {
        let only = |one: &Named, other: &Named| one.keys().filter(|name| !other.contains_key(*name)).cloned().collect();
        let changed = |(name, text): &(&String, &String)| old.get(*name).is_some_and(|old| old != *text);
        Self {
            new: only(new, old),
            gone: only(old, new),
            changed: new.iter().filter(changed).map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Compares plain lists, whose lines are names.
    pub(super) fn of_lists(old: &str, new: &str) -> Self {
        let names = |list: &str| list.lines().map(|line| (line.to_owned(), String::new())).collect();
        Self::between(&names(old), &names(new))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.gone.is_empty() && self.changed.is_empty()
    }

    /// Returns a line with the counts, then a line for each name.
    pub(super) fn lines(&self, what: &str) -> Vec<String> {
        if self.is_empty() {
            return vec![format!("{what}: the same")];
        }
        let (new, gone, changed) = (self.new.len(), self.gone.len(), self.changed.len());
        let count = format!("{what}: {new} new, {gone} gone, {changed} changed");
        let marked = |mark: &'static str, names: &[String]| -> Vec<String> {
            names.iter().map(|name| format!("  {mark:<8}{name}")).collect()
        };
        // Removed and changed names come first: they may break this project, new ones do not.
        [vec![count], marked("gone", &self.gone), marked("changed", &self.changed), marked("new", &self.new)].concat()
    }
}

impl Report {
    pub(super) fn new(path: PathBuf, old: &str, new: &str) -> Self {
        Self { path, text: format!("# The crate v8 from {old} to {new}\n") }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the part that was added first, for a short message.
    pub(super) fn first_part(&self) -> &str {
        self.text.split("\n## ").nth(1).unwrap_or_default().trim_end()
    }

    /// Prints a part, and writes all parts to the file, so that they remain if a later step fails.
    pub(super) fn add(&mut self, title: &str, lines: &[String]) -> anyhow::Result<()> {
        eprintln!("\n{title}");
        for line in lines.iter().take(SHOWN_LINES) {
            eprintln!("    {line}");
        }
        if let more @ 1.. = lines.len().saturating_sub(SHOWN_LINES) {
            eprintln!("    and {more} more lines in {}", self.path.display());
        }
        self.text.push_str(&format!("\n## {title}\n\n"));
        for line in lines {
            self.text.push_str(&format!("    {line}\n"));
        }
        std::fs::write(&self.path, &self.text).with_context(|| format!("{} cannot be written", self.path.display()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn named(pairs: &[(&str, &str)]) -> Named {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_difference_tells_new_gone_and_changed_apart() {
        let difference = Difference::between(
            &named(&[("a", "1"), ("b", "1"), ("c", "1")]),
            &named(&[("b", "2"), ("c", "1"), ("d", "1")]),
        );
        let lines = difference.lines("types");
        assert_eq!(lines, ["types: 1 new, 1 gone, 1 changed", "  gone    a", "  changed b", "  new     d"]);
        assert_eq!(Difference::of_lists("x\ny\n", "x\ny").lines("globals"), ["globals: the same"]);
    }

    #[test]
    fn the_file_has_what_the_screen_leaves_out() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report::new(folder.path().join("report.md"), "1.0.0", "2.0.0");
        let lines: Vec<_> = (0..100).map(|number| format!("line {number}")).collect();
        report.add("Many", &lines).unwrap();
        report.add("Few", &["one".into()]).unwrap();
        let text = std::fs::read_to_string(report.path()).unwrap();
        assert!(text.starts_with("# The crate v8 from 1.0.0 to 2.0.0\n\n## Many\n\n    line 0\n"), "{text}");
        assert!(report.first_part().starts_with("Many\n\n    line 0\n") && report.first_part().ends_with("line 99"));
        assert!(text.ends_with("    line 99\n\n## Few\n\n    one\n"), "{text}");
    }
}
