//! `apply_patch`: applies a patch to all its files, or to none.

mod commit;
mod parse;
mod plan;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::{Failure, HunkFault, MAX_PATCH_BYTES, PatchError};
use super::root::Root;
use super::tool::Cancel;

/// Description of the tool for models.
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
    /// Report the changes without writing them. Default: false.
    #[serde(default)]
    dry_run: bool,
}

/// The changes that were made, or with `dry_run` would be made.
#[derive(Serialize, JsonSchema)]
pub(super) struct PatchResult {
    files: Vec<PatchedFile>,
    /// `true`: nothing was written, because `dry_run` was set.
    dry_run: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct PatchedFile {
    /// Path relative to the workspace's root.
    path: String,
    /// Path of a renamed file before the patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    action: Action,
    /// Number of added lines.
    added: usize,
    /// Number of removed lines.
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

/// Applies a patch, one call at a time.
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

/// Returns a line for an error message, cut after 200 bytes.
fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(200);
    if end == text.len() { text.to_owned() } else { format!("{}…", &text[..end]) }
}
