//! Reasons why a patch cannot be applied, worded for the author of the patch.

/// Maximum size of a patch, in bytes.
pub(in crate::sets::workspace) const MAX_PATCH_BYTES: usize = 2 << 20;

/// Reason why a patch cannot be applied. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::sets::workspace) enum PatchError {
    #[error("it has {bytes} bytes; at most {MAX_PATCH_BYTES} are taken")]
    TooLarge { bytes: usize },
    #[error("it has more than {most} {what}; make several patches of it")]
    TooMany { what: &'static str, most: usize },
    #[error("it is empty")]
    Empty,
    #[error("at line {line} of the patch, expected {expected}, found {found:?}")]
    Syntax { line: usize, expected: &'static str, found: String },
    #[error("at line {line} of the patch: {what} cannot be applied here; leave it out")]
    Unsupported { line: usize, what: &'static str },
    #[error(
        "the hunk at line {line} of the patch has {found_old} old and {found_new} new lines, where its header says \
         {old} and {new}; correct the numbers, or write `@@` alone"
    )]
    Counts { line: usize, old: usize, new: usize, found_old: usize, found_new: usize },
    #[error("the patch names {path:?} twice; put all changes of a file together")]
    Twice { path: String },
    #[error("{path:?} is there already, so it cannot be created; update it, or delete it in a patch before")]
    Exists { path: String },
    #[error("{path:?} is not UTF-8 text")]
    NotText { path: String },
    #[error("{path:?} does not hold exactly what the patch deletes")]
    OtherContent { path: String },
    #[error("{path:?} would have more than {most} bytes")]
    ResultTooLarge { path: String, most: usize },
    #[error("{path:?}, the hunk at line {line} of the patch: {fault}")]
    Hunk { path: String, line: usize, fault: HunkFault },
}

/// Reason why a hunk does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::sets::workspace) enum HunkFault {
    #[error(
        "its lines are not in the file{after}. The nearest place is line {at}: there, the patch expects {expected:?}, \
         and the file has {found:?}. Read the file again and copy its lines exactly"
    )]
    Mismatch { after: &'static str, at: usize, expected: String, found: String },
    #[error(
        "none of its lines is in the file{after} as {expected:?} is written. Read the file again and \
         copy its lines exactly"
    )]
    Nowhere { after: &'static str, expected: String },
    #[error("its lines are in the file more than once, such as at lines {first} and {second}; add lines around them")]
    Ambiguous { first: usize, second: usize },
    #[error("the line {anchor:?} after its `@@` is not in the file{after}")]
    NoAnchor { after: &'static str, anchor: String },
    #[error(
        "the line {anchor:?} after its `@@` is in the file more than once; put another `@@` line before \
         that is there once"
    )]
    AmbiguousAnchor { anchor: String },
    #[error("its lines are in the file, but not at its end, where it says they are")]
    NotAtEnd,
    #[error("it only adds lines and does not say where; add a line that stays")]
    NoPlace,
    #[error("it says that a line has no newline at its end, but that line is not the last one")]
    NotLast,
    #[error("finding its place takes too long; make a smaller patch of more distinct lines")]
    TooMuchWork,
}
