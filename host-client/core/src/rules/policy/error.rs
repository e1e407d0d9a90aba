//! Why a policy cannot be used.

use std::path::PathBuf;

/// Why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
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
}
