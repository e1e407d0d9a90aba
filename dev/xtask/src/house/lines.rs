//! Checks the length of source files.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// Maximum number of lines of a source file.
const MOST_LINES: usize = 400;

/// Files that may be longer, with the reason. A file that is no longer too long must be removed from this list.
pub(super) const LONGER: [(&str, &str); 1] = [("proto/src/generated/relay.rs", "generated from relay.proto")];

/// Lists the files that are too long, of these paths relative to `root`.
///
/// # Errors
/// A file cannot be read.
pub(super) fn faults(root: &Path, files: &[String], longer: &[(&str, &str)]) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut excused = Vec::new();
    for file in files.iter().filter(|file| !is_test(file)) {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("{file} cannot be read"))?;
        let lines = text.lines().count();
        if lines <= MOST_LINES {
            continue;
        }
        match longer.iter().find(|(name, _)| name == file) {
            Some((name, _)) => excused.push(*name),
            None => faults.push(format!("{file} has {lines} lines, and {MOST_LINES} are the most: split it")),
        }
    }
    let idle = longer.iter().filter(|(name, _)| !excused.contains(name));
    faults.extend(
        idle.map(|(name, _)| format!("{name} needs no exception from {MOST_LINES} lines: take it off the list")),
    );
    Ok(faults)
}

/// Returns whether a file holds only tests, by its folder or its name.
fn is_test(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    file.split('/').any(|folder| folder == "tests") || name == "tests.rs" || name.ends_with("_tests.rs")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_long_and_an_idle_exception_are_faults() {
        let root = tempfile::tempdir().unwrap();
        let files: Vec<_> = ["a.rs", "b.rs", "c.rs", "tests/d.rs", "e_tests.rs"].map(str::to_owned).into();
        fs::create_dir(root.path().join("tests")).unwrap();
        for file in &files {
            let lines = if file == "a.rs" { MOST_LINES } else { MOST_LINES + 1 };
            fs::write(root.path().join(file), "line\n".repeat(lines)).unwrap();
        }
        let found = faults(root.path(), &files, &[("a.rs", "short"), ("b.rs", "a table")]).unwrap();
        assert_eq!(
            found,
            [
                "c.rs has 401 lines, and 400 are the most: split it",
                "a.rs needs no exception from 400 lines: take it off the list"
            ]
        );
    }
}
