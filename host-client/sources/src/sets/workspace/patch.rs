//! `apply_patch`: changes files as a patch says, all of them or none.

mod commit;
mod parse;
mod plan;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::root::Root;
use super::tool::Cancel;

/// The longest patch, in bytes.
const MAX_PATCH_BYTES: usize = 2 << 20;

/// What the model is told of the tool.
pub(super) const DESCRIPTION: &str = "\
Changes, creates, deletes and renames files, all as the patch says or none. Two formats are taken.

1. A unified diff, as of `git diff` (paths from the workspace's root, `/dev/null` for what is not there, `rename from` \
and `rename to` for renames). Numbers in `@@ -1,3 +1,4 @@` have to be right; where you are not sure of them, write \
`@@` alone, and the hunk is found by its lines.

2. An envelope:
*** Begin Patch
*** Update File: src/a.rs
*** Move to: src/b.rs
@@ fn main() {
 a line that stays
-a line that goes
+a line that comes
*** Add File: src/new.rs
+its only line
*** Delete File: src/old.rs
*** End Patch
(`Move to` and what follows `@@` may be absent; the text after `@@` is a whole line of the file, from which on the \
hunk is searched.)

Lines that stay and that go have to be in the file exactly so, and in one place only: give enough of them.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PatchArguments {
    /// A unified diff, or a text from `*** Begin Patch` to `*** End Patch`.
    patch: String,
    /// Whether only to say what would be done.
    #[serde(default)]
    dry_run: bool,
}

/// What was done, or would be.
#[derive(Serialize, JsonSchema)]
pub(super) struct PatchResult {
    files: Vec<PatchedFile>,
    /// Nothing was written, because nobody wanted it.
    dry_run: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct PatchedFile {
    /// From the workspace's root.
    path: String,
    /// Where a renamed file was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    action: Action,
    /// Lines that came.
    added: usize,
    /// Lines that went.
    removed: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Created,
    Modified,
    Deleted,
    Renamed,
}

/// Why a patch cannot be applied. Lines of the patch and of files count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatchError {
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

/// Why a hunk does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum HunkFault {
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

pub(super) fn apply_patch(root: &Root, arguments: PatchArguments, cancel: &Cancel) -> Result<PatchResult, Failure> {
    let bytes = arguments.patch.len();
    if bytes > MAX_PATCH_BYTES {
        return Err(Failure::Patch(PatchError::TooLarge { bytes }));
    }
    let changes = parse::parse(&arguments.patch).map_err(Failure::Patch)?;
    let _turn = root.writing.turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    cancel.check()?;
    let steps = plan::plan(root, &changes, cancel)?;
    let files = steps.iter().map(|step| step.report.clone()).collect();
    if !arguments.dry_run {
        commit::commit(steps, cancel)?;
    }
    Ok(PatchResult { files, dry_run: arguments.dry_run })
}

/// A line as an error shows it.
fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(200);
    if end == text.len() { text.to_owned() } else { format!("{}…", &text[..end]) }
}
