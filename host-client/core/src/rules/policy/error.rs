//! The errors of policies.

use std::path::PathBuf;

use relay_proto::InvalidToolPattern;

/// The reason why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("the policy {} cannot be read: {error}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The text is no policy. The reason names the line and what could stand there.
    #[error("{origin} is no policy: {reason}")]
    Invalid {
        /// The origin of the text, such as the path of its file.
        origin: String,
        /// The mistake and its place, for people.
        reason: String,
    },
    /// A pattern in a policy that was built can fit no tool.
    #[error("{place}: {error}")]
    Pattern {
        /// The rule, budget or manifest that names it.
        place: String,
        /// The pattern, and the reason why it can fit no tool.
        #[source]
        error: InvalidToolPattern,
    },
}
