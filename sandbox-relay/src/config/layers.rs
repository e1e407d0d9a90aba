//! Layers of settings: defaults, the file, and what flags and environment variables give.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use figment::providers::{Format as _, Serialized, Toml};
use figment::value::{Dict, Value};
use figment::{Figment, Profile, Provider as _};
use relay_proto::spelling::nearest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ConfigError, KeySettings, ServerSettings, WorkerSettings};

/// Names of the file's tables.
const TABLES: [&str; 2] = ["limits", "max_limits"];

/// Settings as the command line gives them. It knows which of them come from a flag or a variable; the rest are
/// defaults.
#[derive(Debug, Clone)]
pub struct Given<T> {
    values: T,
    /// Names of the values from flags and variables.
    explicit: BTreeSet<String>,
}

impl<T: Serialize + DeserializeOwned> Given<T> {
    /// Puts explicit values over the file's, and the file's over the defaults.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`]: a value of the file has the wrong type.
    pub(super) fn over(&self, file: &SettingsFile) -> Result<T, ConfigError> {
        let defaults = Value::serialize(&self.values).map_err(Box::new)?.into_dict().unwrap_or_default();
        let explicit: Dict = defaults
            .iter()
            .filter(|(name, _)| self.explicit.contains(*name))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let figment = Figment::from(Serialized::defaults(defaults)).merge(file.0.clone());
        figment.merge(Serialized::defaults(explicit)).extract().map_err(|error| Box::new(error).into())
    }

    /// Returns the values of flags, variables and defaults, without a file.
    pub(crate) fn values(&self) -> &T {
        &self.values
    }
}

/// Returns the names of the arguments that a flag or a variable gave a value.
fn explicit(matches: &ArgMatches) -> BTreeSet<String> {
    let is_explicit =
        |name: &str| matches!(matches.value_source(name), Some(ValueSource::CommandLine | ValueSource::EnvVariable));
    matches.ids().map(|id| id.as_str()).filter(|name| is_explicit(name)).map(str::to_owned).collect()
}

impl<T: FromArgMatches> FromArgMatches for Given<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { explicit: explicit(matches), values: T::from_arg_matches(matches)? })
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { explicit: explicit(matches), values: T::from_arg_matches_mut(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.explicit.extend(explicit(matches));
        self.values.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Given<T> {
    fn group_id() -> Option<clap::Id> {
        T::group_id()
    }

    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

/// Content of the file with settings; empty without a file.
pub(super) struct SettingsFile(Figment);

impl SettingsFile {
    /// Reads the file and checks its names.
    ///
    /// # Errors
    /// - [`ConfigError::Unreadable`]: the file is missing or no TOML
    /// - [`ConfigError::Unknown`]: a name is no setting
    pub(super) fn read(path: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = path else { return Ok(Self(Figment::new())) };
        let data = Toml::file_exact(path).data().map_err(Box::new)?;
        let values = data.get(&Profile::Default).cloned().unwrap_or_default();
        let command =
            ServerSettings::augment_args(WorkerSettings::augment_args(KeySettings::augment_args(Command::new(""))));
        let known: Vec<_> = command.get_arguments().map(|arg| arg.get_id().as_str()).chain(TABLES).collect();
        if let Some(name) = values.keys().find(|name| !known.contains(&name.as_str())) {
            let meant = nearest(name, known).map(|meant| format!("; did you mean {meant:?}?"));
            let (path, name) = (path.to_owned(), name.clone());
            return Err(ConfigError::Unknown { path, name, suggestion: meant.unwrap_or_default() });
        }
        Ok(Self(Figment::from(Toml::file_exact(path))))
    }

    /// Returns one of the file's tables; empty if it is absent.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`]: a value of the table has the wrong type.
    pub(super) fn table(&self, name: &str) -> Result<BTreeMap<String, u64>, ConfigError> {
        if !self.0.contains(name) {
            return Ok(BTreeMap::new());
        }
        self.0.extract_inner(name).map_err(|error| Box::new(error).into())
    }
}
