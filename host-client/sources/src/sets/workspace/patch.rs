//! `apply_patch`: applies a patch to all its files, or to none.

mod commit;
mod parse;
mod plan;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::{Failure, HunkFault, MAX_PATCH_BYTES, PatchError};
use super::root::{Root, Writing};
use super::tool::Cancel;

/// Describes the tool for models: only what it may do here.
pub(super) fn description(writing: &Writing) -> String {
    let (may_create, may_delete) = (writing.may_create, writing.may_delete);
    let does = match (may_create, may_delete) {
        (true, true) => "Changes, creates, deletes and renames files",
        (true, false) => "Changes and creates files, and neither deletes nor renames them",
        (false, true) => "Changes and deletes files, and neither creates nor renames them",
        (false, false) => "Changes files that exist, and neither creates, deletes nor renames them",
    };
    let paths = match (may_create, may_delete) {
        (true, true) => ", `/dev/null` for what is not there, `rename from` and `rename to` for renames",
        (true, false) => ", `/dev/null` as the old path of a new file",
        (false, true) => ", `/dev/null` as the new path of a file that goes",
        (false, false) => "",
    };
    let moves = may_create && may_delete;
    let move_line = if moves { "*** Move to: src/b.rs\n" } else { "" };
    let add_lines = if may_create { "*** Add File: src/new.rs\n+its only line\n" } else { "" };
    let delete_line = if may_delete { "*** Delete File: src/old.rs\n" } else { "" };
    let absent = if moves {
        "`Move to` and what follows `@@` may be absent; the"
    } else {
        "What follows `@@` may be absent; the"
    };
    format!(
        "{does}, all as the patch says or none. The files that may be written: {globs}. Two formats are taken.\n\n\
         1. A unified diff, as of `git diff` (paths from the workspace's root{paths}). Numbers in `@@ -1,3 +1,4 @@` have \
         to be right; where you are not sure of them, write `@@` alone, and the hunk is found by its lines.\n\n\
         2. An envelope:\n*** Begin Patch\n*** Update File: src/a.rs\n{move_line}@@ fn main() {{\n a line that stays\n\
         -a line that goes\n+a line that comes\n{add_lines}{delete_line}*** End Patch\n\
         ({absent} text after `@@` is a whole line of the file, from which on the hunk is searched.)\n\n\
         Lines that stay and that go have to be in the file exactly so, and in one place only: give enough of them.",
        globs = cut(&writing.globs.join(", ")),
    )
}

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

/// Returns a line for a message, cut after 200 bytes.
fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(200);
    if end == text.len() { text.to_owned() } else { format!("{}…", &text[..end]) }
}
