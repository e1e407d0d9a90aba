//! Arguments of `sandbox_execute`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use host_client_core::rules::policy::Phase;

/// Arguments of a call: an objective, with its limits and files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SandboxInput {
    /// The objective: what to find out or to do, in words.
    pub objective: String,
    /// `discover` reads and proposes; `write` changes files.
    pub phase: Phase,
    /// Limits of the run.
    #[serde(default)]
    pub limits: SandboxLimits,
    /// Files that the objective is about.
    #[serde(default)]
    pub workspace: SandboxWorkspace,
    /// Files that may be written. Needed in the phase `write`.
    #[serde(default)]
    pub write_policy: Option<WritePolicy>,
    /// Form of the output: a summary, or a summary and a patch. Default: `summary`.
    #[serde(default)]
    pub output_mode: OutputMode,
}

/// Limits of a run. Those over the relay's own are lowered to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SandboxLimits {
    /// Maximum number of tool calls. Default: 40.
    pub max_tool_calls: u64,
    /// Maximum duration from the call to the answer, the model's time included, in milliseconds. Default: 120000.
    pub max_duration_ms: u64,
    /// Maximum size of all tool results that the program gets, in bytes. Default: 2000000.
    pub max_read_bytes: u64,
    /// Maximum size of the program's result, and of the patch, in bytes. Default: 100000.
    pub max_result_bytes: u64,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self { max_tool_calls: 40, max_duration_ms: 120_000, max_read_bytes: 2_000_000, max_result_bytes: 100_000 }
    }
}

/// Files that a run is about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SandboxWorkspace {
    /// Folder, relative to the one that this tool works in. Default: that folder.
    pub root: Option<String>,
    /// Include only files that one of these globs matches, such as `src/**`. Default: all files.
    pub include_globs: Vec<String>,
    /// Exclude files that one of these globs matches, such as `dist/**`. Default: none.
    pub exclude_globs: Vec<String>,
}

/// Files that may be written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WritePolicy {
    /// Allow the creation of files. Default: false.
    pub allow_create: bool,
    /// Allow the deletion of files. Renaming a file needs both. Default: false.
    pub allow_delete: bool,
    /// Globs of the whole paths that may be written, such as `src/**`.
    pub allowed_paths: Vec<String>,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// A summary alone.
    #[default]
    Summary,
    /// A summary, and the patches that were applied, or, in the phase `discover`, the proposed patch.
    SummaryAndPatch,
}
