//! Reads and writes what cargo is told about V8: by the user, by `.cargo/config.toml`, and by this program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::archive::Files;
use crate::run;

const ARCHIVE: &str = "RUSTY_V8_ARCHIVE";
const BINDING: &str = "RUSTY_V8_SRC_BINDING_PATH";
const MIRROR: &str = "RUSTY_V8_MIRROR";

/// Part of cargo's configuration that git ignores. It names the archive that was found, for a cargo that the user
/// types.
const FOUND: &str = ".cargo/v8-found.toml";

const HEAD: &str =
    "# What `cargo xtask v8` found last. Without this file cargo looks by itself; the command writes it anew.\n";

/// Archive or mirror that the user named, in variables of the crate `v8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Archive(String),
    Mirror(String),
}

/// Settings from the environment and from cargo's configuration.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) named: Option<Named>,
    /// Folder that `.cargo/config.toml` names as a mirror.
    pub(crate) mirror: Option<PathBuf>,
    /// `true`: the user wants the `v8` crate to build V8 with its own build script.
    pub(crate) from_source: bool,
}

impl Configuration {
    /// Reads the settings for a user who typed the command in a folder and has this cache.
    pub(crate) fn read(typed_in: &Path, cache: &Path) -> anyhow::Result<Self> {
        let own = |name: &str| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
            let is_ours = is_ours(name, &value, cache).unwrap_or(false);
            (!is_ours).then_some(value)
        };
        // The user means a relative path from where the command was typed; the crate would take it from another folder.
        let absolute = |value: String| match is_address(&value) {
            true => value,
            false => typed_in.join(value).display().to_string(),
        };
        let archive = own(ARCHIVE).map(|value| Named::Archive(absolute(value)));
        let named = archive.or_else(|| own(MIRROR).map(|value| Named::Mirror(absolute(value))));
        let from_source = own("V8_FROM_SOURCE").is_some_and(|value| ["1", "true", "yes"].contains(&value.as_str()));
        // The crate is built in another folder, where a relative path would be wrong.
        let here = std::env::current_dir()?;
        let mirror = entry(Path::new(".cargo/config.toml"), MIRROR)?.map(|mirror| here.join(mirror));
        Ok(Self { named, mirror, from_source })
    }
}

/// Returns whether the user has named an archive or a mirror.
pub(crate) fn is_users(name: &str, cache: &Path) -> anyhow::Result<bool> {
    let Some(value) = std::env::var(name).ok().filter(|value| !value.is_empty()) else { return Ok(false) };
    Ok(!is_ours(name, &value, cache)?)
}

/// Returns whether this program has set a variable to this value. The cargo that runs this program passes its
/// configuration on as variables, which look like the user's own. The configuration may also be that of a clone around
/// this one.
fn is_ours(name: &str, value: &str, cache: &Path) -> anyhow::Result<bool> {
    let mirror = entry(Path::new(".cargo/config.toml"), MIRROR)?;
    if name == MIRROR {
        return Ok(mirror.is_some_and(|mirror| is_same_folder(value, &mirror)));
    }
    let is_noted = entry(Path::new(FOUND), name)?.is_some_and(|noted| noted == value);
    let lies_in = |folder: &Path| {
        let [value, folder] = [Path::new(value), folder].map(std::fs::canonicalize);
        matches!((value, folder), (Ok(value), Ok(folder)) if value.starts_with(&folder))
    };
    Ok(is_noted || Path::new(value).starts_with(cache) || mirror.is_some_and(|mirror| lies_in(Path::new(&mirror))))
}

/// Returns whether the crate takes a value for an address.
pub(crate) fn is_address(value: &str) -> bool {
    value.starts_with("http:") || value.starts_with("https:")
}

/// Returns the variables that make the crate `v8` use exactly these files.
pub(crate) fn environment(files: &Files) -> run::Environment {
    vec![(ARCHIVE, OsString::from(&files.archive)), (BINDING, OsString::from(&files.binding))]
}

/// Makes every cargo use these files, started by this program or typed by the user.
pub(crate) fn use_found(files: &Files) -> anyhow::Result<()> {
    let mut entries = toml::Table::new();
    for (name, path) in [(ARCHIVE, &files.archive), (BINDING, &files.binding)] {
        let path = path.to_str().with_context(|| format!("{} is no UTF-8, as cargo wants it", path.display()))?;
        entries.insert(name.to_owned(), path.into());
    }
    let table = toml::Table::from_iter([("env".to_owned(), toml::Value::from(entries))]);
    let text = format!("{HEAD}{table}");
    if !std::fs::read_to_string(FOUND).is_ok_and(|now| now == text) {
        // Write another file and rename it: a cargo may be reading.
        let new = format!("{FOUND}.{}", std::process::id());
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, FOUND));
        written.with_context(|| format!("{FOUND} cannot be written"))?;
    }
    run::add_environment(environment(files));
    Ok(())
}

/// Returns the value of a variable in a configuration file of cargo's.
fn entry(path: &Path, name: &str) -> anyhow::Result<Option<String>> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    let table: toml::Table = text.parse().with_context(|| format!("{} is no TOML", path.display()))?;
    let Some(entry) = table.get("env").and_then(|env| env.get(name)) else { return Ok(None) };
    let value = entry.as_str().or_else(|| entry.get("value")?.as_str());
    Ok(value.map(str::to_owned))
}

/// Returns whether cargo would make this value of a relative folder in this configuration.
fn is_same_folder(value: &str, folder: &str) -> bool {
    let resolved = |path: &Path| std::fs::canonicalize(path).ok();
    // If the folder does not exist, compare the names.
    value == folder
        || Path::new(value).ends_with(folder)
        || resolved(Path::new(value)).is_some_and(|value| Some(value) == resolved(Path::new(folder)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_hands_over_is_told_from_what_the_user_set() {
        assert!(is_same_folder("/work/project/../shared/v8", "../shared/v8"));
        assert!(!is_same_folder("/work/other/v8", "../shared/v8"));
        assert!(!is_same_folder("https://mirror.example/v8", "../shared/v8"));
        let cache = Path::new("/home/somebody/.cache/sandbox-relay/v8");
        assert!(is_ours(ARCHIVE, "/home/somebody/.cache/sandbox-relay/v8/1.2.3/a.gz", cache).unwrap());
        assert!(!is_ours(ARCHIVE, "/home/somebody/a.gz", cache).unwrap());
        assert!(!is_ours(ARCHIVE, "https://mirror.example/a.gz", cache).unwrap());
    }

    #[test]
    fn entries_are_read_in_both_of_cargos_forms() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, "[env]\nA = \"plain\"\nB = { value = \"in a table\", relative = true }").unwrap();
        assert_eq!(entry(&path, "A").unwrap().as_deref(), Some("plain"));
        assert_eq!(entry(&path, "B").unwrap().as_deref(), Some("in a table"));
        assert_eq!(entry(&path, "C").unwrap(), None);
        assert_eq!(entry(&folder.path().join("none.toml"), "A").unwrap(), None);
        std::fs::write(&path, "[env").unwrap();
        let error = entry(&path, "A").unwrap_err().to_string();
        assert_eq!(error, format!("{} is no TOML", path.display()));
    }
}
