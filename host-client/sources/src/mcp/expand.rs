//! Replaces `${NAME}`, `${env:NAME}` and `${NAME:-default}` in a configuration by environment variables.

/// Error of a string with variables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// The variable is not set and has no default. Holds its name.
    #[error("the environment variable {0} is not set; set it, or write ${{{0}:-default}}")]
    Unset(String),
    /// The text between the braces is not the name of a variable. Holds the text.
    #[error("${{{0}}} is no variable; there are ${{NAME}}, ${{env:NAME}} and ${{NAME:-default}}")]
    NoName(String),
    /// A `${` has no closing `}`.
    #[error("a \"${{\" is not closed by a \"}}\"")]
    Open,
}

/// Replaces each variable by what `lookup` returns. Variables within inserted text are not replaced.
pub(super) fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, ExpandError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, remainder) = after.split_once('}').ok_or(ExpandError::Open)?;
        // VS Code marks a variable of the environment so, because it has others.
        let variable = inside.strip_prefix("env:").unwrap_or(inside);
        let (name, default) = match variable.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (variable, None),
        };
        if !is_name(name) {
            return Err(ExpandError::NoName(inside.to_owned()));
        }
        expanded.push_str(before);
        // As in a shell, the default after `:-` also replaces an empty variable.
        match (lookup(name), default) {
            (Some(value), None) => expanded.push_str(&value),
            (Some(value), Some(_)) if !value.is_empty() => expanded.push_str(&value),
            (_, Some(default)) => expanded.push_str(default),
            (None, None) => return Err(ExpandError::Unset(name.to_owned())),
        }
        rest = remainder;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    text.bytes().next().is_some_and(is_letter) && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}
