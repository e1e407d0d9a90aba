//! Reasons why a path cannot be used, worded for the author of the code, and the limits of a path.

/// Maximum length of a path, in bytes.
pub(in crate::sets::workspace) const MAX_PATH_BYTES: usize = 4096;
/// Maximum length of a name in a path, in bytes.
pub(in crate::sets::workspace) const MAX_NAME_BYTES: usize = 255;
/// Maximum number of names in a path.
pub(in crate::sets::workspace) const MAX_DEPTH: usize = 64;
/// Reason why a path cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::sets::workspace) enum PathFault {
    #[error(
        "it is longer than {MAX_PATH_BYTES} bytes, has a name longer than {MAX_NAME_BYTES}, or more than {MAX_DEPTH} \
         names"
    )]
    TooLong,
    #[error("it has a control character")]
    Control,
    #[error("it is absolute; write it from the workspace's root, such as src/main.rs")]
    Absolute,
    #[error("it climbs with `..`; write it from the workspace's root, such as src/main.rs")]
    Climbs,
    #[error("it names the root; name something in it")]
    Root,
    #[error("it has an invisible character, which nobody who approves it would see")]
    Invisible,
}
