//! Output of `sandbox_execute`.

use std::collections::BTreeMap;

use relay_proto::{Code, ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arguments::{OutputMode, SandboxInput};
use crate::programmatic::{Failed, NotRepaired, ProgrammaticAnswer, ProgrammaticError};
use crate::report::{Report, listed};
use host_client_core::Outcome;
use host_client_core::rules::policy::Phase;

/// Result of an objective.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxOutput {
    /// `true`: the program ended without an error. The summary says what became of the objective.
    pub success: bool,
    /// Phase of the call; `None` if the arguments could not be read.
    pub phase: Option<Phase>,
    /// Summary in the program's words, or the error.
    pub summary: String,
    /// Files that the program read with `read`, sorted. Files of which `grep` showed lines are not included.
    pub files_read: Vec<String>,
    /// Tool calls of the program, as the host saw them.
    pub tool_usage: ToolUsage,
    /// Patches that were applied, or the one that is proposed; `None` if not requested.
    pub patch: Option<String>,
    /// Changes that the program proposes.
    pub proposed_edits: Option<Vec<ProposedEdit>>,
    /// Reason of the failure; `None` on success.
    pub error: Option<SandboxError>,
    /// Permission that is missing to reach the objective, in words; `None` if none is.
    pub needs_escalation: Option<String>,
}

/// Tool calls of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolUsage {
    /// Number of calls that were run.
    pub total_calls: u64,
    /// Number of calls by tool, such as `read`.
    pub by_tool: BTreeMap<String, u64>,
    /// Time from the call to the answer, in milliseconds.
    pub duration_ms: u64,
    /// `true`: something over a limit was left out of this output, or withheld from the program.
    pub truncated: bool,
}

/// Change that a program proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposedEdit {
    /// Path relative to the workspace's root, as the program says; it is not checked.
    pub path: String,
    /// Kind of the change.
    pub action: EditAction,
    /// Reason for the change.
    #[serde(default)]
    pub reason: String,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditAction {
    /// Create the file.
    Create,
    /// Change the text of the file.
    #[serde(alias = "update", alias = "edit")]
    Modify,
    /// Delete the file.
    Delete,
    /// Rename the file.
    #[serde(alias = "move")]
    Rename,
}

/// Reason of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxError {
    /// `INVALID_INPUT` if the call was refused, the code of the program's error, `TIMEOUT` or `OUTCOME_UNKNOWN`, or
    /// `INTERNAL` if no program was run.
    pub code: String,
    /// Description of the error, with advice.
    pub message: String,
}

/// Value that a program is asked to return.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Returned {
    summary: String,
    #[serde(default)]
    proposed_edits: Option<Vec<ProposedEdit>>,
    #[serde(default)]
    needs_escalation: Option<Value>,
    #[serde(default)]
    patch: Option<String>,
}

impl SandboxError {
    /// Makes the error of a patch that may have been applied.
    pub(super) fn outcome_unknown(message: &str) -> Self {
        Self { code: ErrorCode::OutcomeUnknown.as_str().to_owned(), message: message.to_owned() }
    }
}

impl SandboxOutput {
    /// Makes the output of a call that was refused before anything was done.
    pub(super) fn refused(phase: Option<Phase>, reason: &str) -> Self {
        Self::failed(phase, ErrorCode::InvalidInput.into(), reason.to_owned())
    }

    /// Makes the output of a failure.
    pub(super) fn failed(phase: Option<Phase>, code: Code, message: String) -> Self {
        Self {
            success: false,
            phase,
            summary: format!("It failed: {message}"),
            files_read: Vec::new(),
            tool_usage: ToolUsage::default(),
            patch: None,
            proposed_edits: None,
            error: Some(SandboxError { code: code.as_str().to_owned(), message }),
            needs_escalation: None,
        }
    }

    /// Makes the output of a request to the model.
    pub(super) fn from_result(ended: Result<ProgrammaticAnswer, Box<Failed>>, input: &SandboxInput) -> Self {
        match ended {
            Ok(answer) => Self::returned(&answer.outcome, input),
            Err(failed) => {
                let code = match &failed.error {
                    ProgrammaticError::Execution(error) => error.code.clone(),
                    ProgrammaticError::ModelTimeout(_) => ErrorCode::Timeout.into(),
                    _ => ErrorCode::Internal.into(),
                };
                let mut message = failed.error.to_string();
                if let changed @ NotRepaired::Changed(_) = &failed.not_repaired {
                    message = format!("{message}\n{changed}");
                }
                Self::failed(Some(input.phase), code, message)
            }
        }
    }

    /// Makes the output of a program that ended without an error.
    fn returned(outcome: &Outcome, input: &SandboxInput) -> Self {
        let json = &outcome.json;
        let Returned { summary, proposed_edits, needs_escalation, patch } = serde_json::from_slice(json)
            .unwrap_or_else(|_| {
                // Any other value becomes the summary.
                let summary = serde_json::from_slice::<String>(json);
                let summary = summary.unwrap_or_else(|_| String::from_utf8_lossy(json).into_owned());
                Returned { summary, proposed_edits: None, needs_escalation: None, patch: None }
            });
        let is_wanted = input.output_mode == OutputMode::SummaryAndPatch && input.phase == Phase::Discover;
        Self {
            success: true,
            phase: Some(input.phase),
            summary,
            files_read: Vec::new(),
            tool_usage: ToolUsage::default(),
            patch: patch.filter(|_| is_wanted),
            proposed_edits,
            error: None,
            needs_escalation: needs_escalation.and_then(|needs| match needs {
                Value::Null | Value::Bool(false) => None,
                Value::Bool(true) => Some("the program asks for it, and does not say why".into()),
                Value::String(reason) => Some(reason),
                other => Some(other.to_string()),
            }),
        }
    }
}

impl From<SandboxOutput> for Report {
    fn from(output: SandboxOutput) -> Self {
        // The output consists of strings, numbers and lists, so that serialization cannot fail.
        let structured = serde_json::to_value(&output).unwrap_or_default();
        Self { is_error: !output.success, ..listed(structured) }
    }
}
