//! Failures of the workspace's tools, worded for the author of the code.

mod patch;
mod path;

use std::io;

use host_client_core::tool::ToolError;

pub(super) use self::patch::{HunkFault, MAX_PATCH_BYTES, PatchError};
pub(super) use self::path::{MAX_DEPTH, MAX_NAME_BYTES, MAX_PATH_BYTES, PathFault};

/// Failure of a tool of the workspace.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the path {path:?} cannot be used: {fault}")]
    Path { path: String, fault: PathFault },
    #[error("the glob {pattern:?} cannot be used: {reason}")]
    Glob { pattern: String, reason: String },
    #[error("the regular expression cannot be used: {0}")]
    Regex(String),
    #[error("there is no {path:?} in the workspace; list its folder with `ls`, or search with `glob`")]
    NotFound { path: String },
    #[error("{path:?} is {found}, not {expected}")]
    Kind { path: String, found: &'static str, expected: &'static str },
    #[error("{path:?} leads out of the workspace by a symbolic link, which is not followed")]
    Outside { path: String },
    #[error("{path:?} is not a part of the workspace")]
    Excluded { path: String },
    #[error("{path:?} is spelled differently on disk; write its name exactly as `ls` shows it")]
    Spelling { path: String },
    #[error("{path:?} is reached through a symbolic link; what is written has to be named by its own path")]
    Link { path: String },
    #[error("{path:?} may not be written; only these may: {writable}")]
    NotWritable { path: String, writable: String },
    #[error("{path:?} may not be {what}: this workspace does not allow it")]
    NotAllowed { path: String, what: &'static str },
    #[error("{path:?} could not be {what}")]
    Io { path: String, what: &'static str, source: io::Error },
    #[error("{path:?} has {bytes} bytes; at most {most} are taken")]
    TooLarge { path: String, bytes: u64, most: u64 },
    #[error("give either `path` or `paths` (at most {most} of them)")]
    PathOrPaths { most: usize },
    #[error("the patch was not applied, and nothing was changed: {0}")]
    Patch(PatchError),
    #[error(
        "{path:?} was changed by somebody else meanwhile; the patch was not applied. Read it again and make a new patch"
    )]
    Changed { path: String },
    #[error(
        "the patch failed ({cause}) and could not be undone wholly; look at these files and put them right: {left}"
    )]
    HalfApplied { cause: Box<Failure>, left: String },
    #[error("the call was cancelled")]
    Cancelled,
}

impl Failure {
    /// Converts an error of the operating system for the requested path. `what`: the operation, as a past participle.
    pub(super) fn io(path: &str, what: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            // A refusal of cap-std itself has no error number of the operating system.
            io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => Self::Outside { path },
            _ => Self::Io { path, what, source },
        }
    }
}

impl Failure {
    /// Converts the failure to the error that code receives: `TOOL_DENIED` for what the workspace never allows,
    /// `OUTCOME_UNKNOWN` for a patch that is half applied, else `TOOL_FAILED`.
    pub(super) fn into_tool_error(self) -> ToolError {
        match &self {
            Self::Path { .. }
            | Self::Outside { .. }
            | Self::Excluded { .. }
            | Self::Link { .. }
            | Self::NotWritable { .. }
            | Self::NotAllowed { .. } => ToolError::denied(self.to_string()),
            Self::HalfApplied { .. } => ToolError::outcome_unknown(self.to_string()),
            _ => self.into(),
        }
    }
}
