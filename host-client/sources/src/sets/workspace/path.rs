//! Paths as code writes them, and globs that match them.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::failure::{Failure, MAX_DEPTH, MAX_NAME_BYTES, MAX_PATH_BYTES, PathFault};

/// Maximum length of a glob, in bytes.
const MAX_GLOB_BYTES: usize = 1000;
/// Maximum number of globs in one set.
const MAX_GLOBS: usize = 1000;

/// Path relative to the root: names separated by `/`, without `.` and `..`; empty for the root itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RelPath(String);

impl RelPath {
    /// Parses and normalizes a path as code writes it.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let fault = |fault| Failure::Path { path: text.chars().take(200).collect(), fault };
        if text.len() > MAX_PATH_BYTES {
            return Err(fault(PathFault::TooLong));
        }
        if text.chars().any(char::is_control) {
            return Err(fault(PathFault::Control));
        }
        if text.starts_with('/') {
            return Err(fault(PathFault::Absolute));
        }
        let names: Vec<&str> = text.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        if names.contains(&"..") {
            return Err(fault(PathFault::Climbs));
        }
        if names.len() > MAX_DEPTH || names.iter().any(|name| name.len() > MAX_NAME_BYTES) {
            return Err(fault(PathFault::TooLong));
        }
        Ok(Self(names.join("/")))
    }

    /// Parses the path of a file that is to be written: not the root, and without invisible characters.
    pub(super) fn parse_for_writing(text: &str) -> Result<Self, Failure> {
        let path = Self::parse(text)?;
        let fault = |fault| Failure::Path { path: text.to_owned(), fault };
        if path.0.is_empty() {
            return Err(fault(PathFault::Root));
        }
        if path.0.contains(is_invisible) {
            return Err(fault(PathFault::Invisible));
        }
        Ok(path)
    }

    /// Returns the path for the operating system and for messages: `.` for the root.
    pub(super) fn as_str(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    /// Returns the names of the path, the outermost first.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// Splits the path into its folder and its name; `None` for the root.
    pub(super) fn split(&self) -> Option<(Self, &str)> {
        match self.0.rsplit_once('/') {
            Some((folder, name)) => Some((Self(folder.to_owned()), name)),
            None if self.0.is_empty() => None,
            None => Some((Self(String::new()), &self.0)),
        }
    }

    /// Appends a name to the path.
    pub(super) fn join(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}/{name}", self.0)) }
    }

    /// Returns the path relative to `folder`, if it is within; else the whole path.
    pub(super) fn seen_from(&self, folder: &Self) -> &str {
        let rest = self.0.strip_prefix(&folder.0).unwrap_or(&self.0);
        rest.strip_prefix('/').unwrap_or(rest)
    }

    /// Returns the paths of all folders above, and the path itself, without the root.
    pub(super) fn and_parents(&self) -> impl Iterator<Item = &str> {
        let ends = self.0.match_indices('/').map(|(at, _)| at).chain([self.0.len()]);
        ends.filter(|end| *end > 0).map(|end| &self.0[..end])
    }

    /// Returns `true` if the path is `.git` or within it, in any spelling that some file system treats as that name.
    pub(super) fn is_of_git(&self) -> bool {
        self.names().any(is_git)
    }
}

/// Returns `true` if the name is `.git`, in any spelling that some file system treats as that name.
pub(super) fn is_git(name: &str) -> bool {
    name.chars().filter(|char| !is_invisible(*char)).collect::<String>().eq_ignore_ascii_case(".git")
}

/// Returns `true` for invisible characters: some file systems ignore them, and they mislead a person who reads the
/// path.
fn is_invisible(char: char) -> bool {
    matches!(char, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Compiles globs that match whole paths: `*` and `?` do not match a `/`, `**` does.
pub(super) fn whole_paths<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<GlobSet, Failure> {
    set(patterns, str::to_owned)
}

/// Compiles globs that match whole paths; those without a `/` match names at any depth.
pub(super) fn paths_or_names<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<GlobSet, Failure> {
    set(patterns, |pattern| if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") })
}

fn set<S: AsRef<str>>(
    patterns: impl IntoIterator<Item = S>,
    whole: impl Fn(&str) -> String,
) -> Result<GlobSet, Failure> {
    let mut builder = GlobSetBuilder::new();
    for (count, pattern) in patterns.into_iter().enumerate() {
        let pattern = pattern.as_ref();
        let refuse = |reason: String| Failure::Glob { pattern: pattern.chars().take(200).collect(), reason };
        if pattern.len() > MAX_GLOB_BYTES {
            return Err(refuse(format!("it is longer than {MAX_GLOB_BYTES} bytes")));
        }
        if count == MAX_GLOBS {
            return Err(refuse(format!("there are more than {MAX_GLOBS} globs")));
        }
        let plain = whole(pattern.trim_start_matches("./").trim_end_matches('/'));
        let glob = GlobBuilder::new(&plain).literal_separator(true).backslash_escape(true).build();
        builder.add(glob.map_err(|error| refuse(error.kind().to_string()))?);
    }
    let refuse = |error: globset::Error| Failure::Glob {
        pattern: error.glob().unwrap_or_default().to_owned(),
        reason: error.kind().to_string(),
    };
    builder.build().map_err(refuse)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn paths_are_names_below_the_root() {
        for (text, path) in [(".", "."), ("", "."), ("a//b/./c/", "a/b/c"), ("./a", "a"), ("…/x y", "…/x y")] {
            assert_eq!(RelPath::parse(text).unwrap().as_str(), path, "{text:?}");
        }
        for (text, fault) in [
            ("..", PathFault::Climbs),
            ("a/../b", PathFault::Climbs),
            ("/etc/passwd", PathFault::Absolute),
            ("a\0b", PathFault::Control),
            ("a\nb", PathFault::Control),
            (&"x/".repeat(65), PathFault::TooLong),
            (&"x".repeat(256), PathFault::TooLong),
        ] {
            let found = RelPath::parse(text).unwrap_err();
            assert!(matches!(found, Failure::Path { fault: found, .. } if found == fault), "{text:?}");
        }
        assert!(RelPath::parse_for_writing(".").is_err());
        assert!(RelPath::parse_for_writing("a\u{202e}b").is_err());
    }

    #[test]
    fn git_is_known_in_every_spelling() {
        for (path, expected) in [(".git", true), ("a/.GIT/config", true), (".g\u{200c}it", true), (".gitignore", false)]
        {
            assert_eq!(RelPath::parse(path).unwrap().is_of_git(), expected, "{path}");
        }
    }

    #[test]
    fn parents_and_parts() {
        let path = RelPath::parse("a/b/c").unwrap();
        assert_eq!(path.and_parents().collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
        assert_eq!(RelPath::parse("").unwrap().and_parents().count(), 0);
        let (folder, name) = path.split().unwrap();
        assert_eq!((folder.as_str(), name), ("a/b", "c"));
        assert_eq!(path.seen_from(&folder), "c");
        assert_eq!(folder.join("x").as_str(), "a/b/x");
    }

    #[test]
    fn names_match_at_any_depth_and_whole_paths_only_there() {
        let names = paths_or_names(["*.key", "a/*.rs"]).unwrap();
        for (path, expected) in [("x.key", true), ("d/x.key", true), ("a/x.rs", true), ("a/b/x.rs", false)] {
            assert_eq!(names.is_match(path), expected, "{path}");
        }
        let whole = whole_paths(["*.md", "src/**"]).unwrap();
        for (path, expected) in [("x.md", true), ("d/x.md", false), ("src/a/b", true), ("Src/a", false)] {
            assert_eq!(whole.is_match(path), expected, "{path}");
        }
        assert!(whole_paths(["[".to_owned()]).is_err());
        assert!(whole_paths(["x".repeat(2000)]).is_err());
    }
}
