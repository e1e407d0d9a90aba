//! Texts of servers for errors and logs: bounded, and without the secrets that the host passed to the server.

use std::error::Error;
use std::fmt;

/// Minimum length of a value that is hidden, in bytes: shorter ones would hide ordinary words.
const SHORTEST_SECRET_BYTES: usize = 6;

/// Returns at most `most_bytes` of a text, with `…` at its end if it was cut.
pub(super) fn clip(text: &str, most_bytes: usize) -> String {
    match text.get(..text.floor_char_boundary(most_bytes)) {
        Some(start) if start.len() < text.len() => format!("{start}…"),
        _ => text.to_owned(),
    }
}

/// Formats an error with those of its sources that add to its message.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Values that were passed to a server and must not appear in errors or logs.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

impl Secrets {
    pub(super) fn new(values: impl IntoIterator<Item = String>) -> Self {
        Self(values.into_iter().filter(|value| value.len() >= SHORTEST_SECRET_BYTES).collect())
    }

    /// Replaces each secret in the text by `***`.
    pub(super) fn hide_in(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| if text.contains(secret) { text.replace(secret, "***") } else { text })
    }
}
