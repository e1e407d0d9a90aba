//! Texts of others, made fit for errors and logs: bounded, and without the secrets that the host handed out.

use std::error::Error;
use std::fmt;

/// The shortest value that is taken for a secret: shorter ones would blot out ordinary words.
const SHORTEST_SECRET_BYTES: usize = 6;

/// At most so many bytes of a text.
pub(super) fn clip(text: &str, most_bytes: usize) -> String {
    match text.get(..text.floor_char_boundary(most_bytes)) {
        Some(start) if start.len() < text.len() => format!("{start}…"),
        _ => text.to_owned(),
    }
}

/// An error with its causes, as far as they say something new.
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

/// Values that were given to a server and that nobody else is to read.
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

    /// The text with each of the values blotted out.
    pub(super) fn hide_in(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| if text.contains(secret) { text.replace(secret, "***") } else { text })
    }
}
