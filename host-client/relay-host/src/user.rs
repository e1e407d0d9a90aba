//! Name of the person who uses the program.

/// Returns the name of the user, as far as the environment tells.
pub(crate) fn user() -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| "relay-host".to_owned())
}
