//! What cargo is told about V8: by the user, by `.cargo/config.toml`, and by us.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::archive::Files;
use super::lookup::{Found, Place};
use crate::run;

const ARCHIVE: &str = "RUSTY_V8_ARCHIVE";
const BINDING: &str = "RUSTY_V8_SRC_BINDING_PATH";
const MIRROR: &str = "RUSTY_V8_MIRROR";

/// Part of cargo's configuration, outside git: what was found, so that a cargo that is typed without us uses it, too.
pub(crate) const FOUND: &str = ".cargo/v8-found.toml";

/// What the user named, in variables of the crate `v8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Archive(String),
    Mirror(String),
}

/// What stands in the environment and in cargo's configuration.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) named: Option<Named>,
    /// The folder of `.cargo/config.toml`.
    pub(crate) mirror: Option<PathBuf>,
    /// Whether the user wants the crate to build V8 its own way.
    pub(crate) from_source: bool,
    names_binding: bool,
}

impl Configuration {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mirror = entry(Path::new(".cargo/config.toml"), MIRROR)?;
        // The cargo that runs us hands its configuration over as variables, which look like the user's own.
        let is_ours = |name: &str, value: &String| {
            let of_mirror = |value: &str| mirror.as_deref().is_some_and(|mirror| is_same_folder(value, mirror));
            match name {
                MIRROR => of_mirror(value),
                _ => entry(Path::new(FOUND), name).is_ok_and(|found| found.as_ref() == Some(value)),
            }
        };
        let own = |name: &str| variable(name).filter(|value| !is_ours(name, value));
        let named = own(ARCHIVE).map(Named::Archive).or_else(|| own(MIRROR).map(Named::Mirror));
        let names_binding = own(BINDING).is_some();
        let from_source =
            variable("V8_FROM_SOURCE").is_some_and(|value| ["1", "true", "yes"].contains(&value.as_str()));
        Ok(Self { named, mirror: mirror.map(PathBuf::from), from_source, names_binding })
    }

    /// The variables that let the crate `v8` take what was found, for cargo to be started with.
    pub(crate) fn environment(&self, found: &Found) -> run::Environment {
        let Files { archive, binding } = &found.files;
        let set = |path: &Path| Some(OsString::from(path));
        // The crate finds these by itself; saying it in other words would make it build everything again.
        let finds_archive = match (found.place, &self.named) {
            (Place::Mirror, _) => true,
            (Place::Named, Some(Named::Archive(value) | Named::Mirror(value))) => !value.contains("://"),
            _ => false,
        };
        if !finds_archive {
            return vec![(ARCHIVE, set(archive)), (BINDING, set(binding))];
        }
        let mut environment = Vec::new();
        // Ours of an earlier run, which would stand before the mirror.
        if !matches!(self.named, Some(Named::Archive(_))) {
            environment.push((ARCHIVE, None));
        }
        if !self.names_binding {
            let is_mirror = !matches!(self.named, Some(Named::Archive(_)));
            let beside = is_mirror && archive.parent() == binding.parent();
            environment.push((BINDING, if beside { None } else { set(binding) }));
        }
        environment
    }

    /// Lets every cargo use what was found: those that we start, and those that are typed later.
    pub(crate) fn use_found(&self, found: &Found) -> anyhow::Result<()> {
        let is_kept = !matches!(found.place, Place::Named | Place::Mirror);
        let text = is_kept.then(|| {
            let entry = |name: &str, path: &Path| format!("{name} = {:?}\n", path.display().to_string());
            let entries = entry(ARCHIVE, &found.files.archive) + &entry(BINDING, &found.files.binding);
            format!("# Written by `cargo xtask v8`, which removes it when it finds V8 elsewhere.\n[env]\n{entries}")
        });
        match text {
            Some(text) if std::fs::read_to_string(FOUND).is_ok_and(|now| now == text) => {}
            Some(text) => std::fs::write(FOUND, text).with_context(|| format!("{FOUND} cannot be written"))?,
            None if Path::new(FOUND).exists() => std::fs::remove_file(FOUND)?,
            None => {}
        }
        run::set_environment(self.environment(found));
        Ok(())
    }
}

/// A variable that a configuration file of cargo's sets.
fn entry(path: &Path, name: &str) -> anyhow::Result<Option<String>> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    let table: toml::Table = text.parse().with_context(|| format!("{} is no TOML", path.display()))?;
    let Some(entry) = table.get("env").and_then(|env| env.get(name)) else { return Ok(None) };
    let value = entry.as_str().or_else(|| entry.get("value")?.as_str());
    Ok(value.map(str::to_owned))
}

/// Whether cargo gives this value for a relative folder in our configuration.
fn is_same_folder(value: &str, folder: &str) -> bool {
    let resolved = |path: &Path| std::fs::canonicalize(path).ok();
    // Where it does not exist, its name has to do.
    value == folder
        || Path::new(value).ends_with(folder)
        || resolved(Path::new(value)).is_some_and(|value| Some(value) == resolved(Path::new(folder)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn variables(named: Option<Named>, place: Place, archive: &str, binding: &str) -> Vec<(String, Option<String>)> {
        let configuration = Configuration { named, mirror: None, from_source: false, names_binding: false };
        let files = Files { archive: archive.into(), binding: binding.into() };
        let text = |value: Option<OsString>| value.map(|value| value.to_str().unwrap().to_owned());
        let environment = configuration.environment(&Found { place, files });
        environment.into_iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
    }

    fn set(name: &str, value: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(value.to_owned()))
    }

    fn unset(name: &str) -> (String, Option<String>) {
        (name.to_owned(), None)
    }

    #[test]
    fn what_the_crate_finds_itself_is_not_said_again() {
        assert_eq!(variables(None, Place::Mirror, "/m/a.gz", "/m/b.rs"), [unset(ARCHIVE), unset(BINDING)]);
        let named = Some(Named::Archive("/own/a.gz".to_owned()));
        assert_eq!(variables(named, Place::Named, "/own/a.gz", "/own/b.rs"), [set(BINDING, "/own/b.rs")]);
        let named = Some(Named::Mirror("/own".to_owned()));
        assert_eq!(variables(named, Place::Named, "/own/a.gz", "/own/b.rs"), [unset(ARCHIVE), unset(BINDING)]);
    }

    #[test]
    fn what_lies_in_the_cache_is_named() {
        let both = [set(ARCHIVE, "/c/a.gz"), set(BINDING, "/c/b.rs")];
        for place in [Place::Cache, Place::Upstream, Place::Source] {
            assert_eq!(variables(None, place, "/c/a.gz", "/c/b.rs"), both);
        }
        // What came from an address lies there, too.
        let named = Some(Named::Mirror("https://mirror.example".to_owned()));
        assert_eq!(variables(named, Place::Named, "/c/a.gz", "/c/b.rs"), both);
    }

    #[test]
    fn a_mirror_without_bindings_goes_with_those_of_the_crate() {
        assert_eq!(
            variables(None, Place::Mirror, "/m/a.gz", "/crate/b.rs"),
            [unset(ARCHIVE), set(BINDING, "/crate/b.rs")]
        );
    }

    #[test]
    fn what_cargo_hands_over_is_told_from_what_the_user_set() {
        assert!(is_same_folder("/work/project/../shared/v8", "../shared/v8"));
        assert!(!is_same_folder("/work/other/v8", "../shared/v8"));
        assert!(!is_same_folder("https://mirror.example/v8", "../shared/v8"));
    }
}
