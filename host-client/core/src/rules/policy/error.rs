//! Why a policy cannot be used.

use std::path::PathBuf;

use relay_proto::InvalidToolPattern;

/// Why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("the policy {} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is no policy. The text names the line and what could stand there.
    #[error("{origin} is no policy: {reason}")]
    Invalid {
        /// Where it comes from.
        origin: String,
        /// What is wrong, and where.
        reason: String,
    },
    /// A pattern in a policy that was built can fit no tool.
    #[error("{place}: {error}")]
    Pattern {
        /// The rule, budget or manifest that names it.
        place: String,
        /// What is wrong with it.
        #[source]
        error: InvalidToolPattern,
    },
}
