//! What `sandbox_execute` takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use host_client_core::rules::policy::Phase;

/// An objective, and what it may cost and touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SandboxInput {
    /// What is to be found out or done, in words.
    pub objective: String,
    /// `discover` reads and proposes; `write` changes files.
    pub phase: Phase,
    /// What it may cost at most.
    #[serde(default)]
    pub limits: SandboxLimits,
    /// Which files it is about.
    #[serde(default)]
    pub workspace: SandboxWorkspace,
    /// What may be written, in the phase `write`.
    #[serde(default)]
    pub write_policy: Option<WritePolicy>,
    /// Whether a patch is wanted beside the summary.
    #[serde(default)]
    pub output_mode: OutputMode,
}

/// What a run may cost. What lies over the relay's own limits is lowered to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SandboxLimits {
    /// Calls of tools.
    pub max_tool_calls: u64,
    /// From the call to the answer, the model's time included, in milliseconds.
    pub max_duration_ms: u64,
    /// Bytes of results that tools give to the program.
    pub max_read_bytes: u64,
    /// Bytes of what the program returns, and of the patch.
    pub max_result_bytes: u64,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self { max_tool_calls: 40, max_duration_ms: 120_000, max_read_bytes: 2_000_000, max_result_bytes: 100_000 }
    }
}

/// Which files a run is about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SandboxWorkspace {
    /// The folder; the whole one that this tool works in if absent.
    pub root: Option<String>,
    /// Only files that one of these fits, such as `src/**`; all if empty.
    pub include_globs: Vec<String>,
    /// No files that one of these fits, such as `dist/**`.
    pub exclude_globs: Vec<String>,
}

/// What may be written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WritePolicy {
    /// Whether files may be created.
    pub allow_create: bool,
    /// Whether files may be deleted. To rename one is to create and to delete.
    pub allow_delete: bool,
    /// Globs of whole paths that may be written, such as `src/**`.
    pub allowed_paths: Vec<String>,
}

/// What a run gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// A summary.
    #[default]
    Summary,
    /// A summary, and the patches that were applied, or, in the phase `discover`, the proposed one.
    SummaryAndPatch,
}
