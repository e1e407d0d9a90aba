//! What `sandbox_execute` gives.

use std::collections::BTreeMap;

use relay_proto::{Code, ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arguments::{OutputMode, SandboxInput};
use crate::programmatic::{Failed, NotRepaired, ProgrammaticAnswer, ProgrammaticError};
use crate::report::{Report, listed};
use host_client_core::Outcome;
use host_client_core::rules::policy::Phase;

/// What came of an objective.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxOutput {
    /// The program came to its end. What it says of its objective is in the summary.
    pub success: bool,
    /// As it was asked for; nothing where the arguments could not be read.
    pub phase: Option<Phase>,
    /// In the program's words; or what went wrong.
    pub summary: String,
    /// Files whose text the program was given by `read`, sorted. `grep` shows lines of files, too; they are not here.
    pub files_read: Vec<String>,
    /// What the program did, as the host saw it.
    pub tool_usage: ToolUsage,
    /// The patches that were applied, or the one that is proposed; where it was asked for.
    pub patch: Option<String>,
    /// What the program proposes to change.
    pub proposed_edits: Option<Vec<ProposedEdit>>,
    /// Why it did not come to its end.
    pub error: Option<SandboxError>,
    /// What is missing to reach the objective: more may have to be allowed.
    pub needs_escalation: Option<String>,
}

/// What a program did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolUsage {
    /// Calls of tools that ran.
    pub total_calls: u64,
    /// The same by tool, such as `read`.
    pub by_tool: BTreeMap<String, u64>,
    /// From the call to the answer, in milliseconds.
    pub duration_ms: u64,
    /// Something is left out of this report, or was not given to the program: there was too much of it.
    pub truncated: bool,
}

/// A change that a program proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposedEdit {
    /// The file, from the workspace's root. It is the program's word.
    pub path: String,
    /// What is to be done to it.
    pub action: EditAction,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// What is to be done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditAction {
    /// It is new.
    Create,
    /// Its text changes.
    #[serde(alias = "update", alias = "edit")]
    Modify,
    /// It goes.
    Delete,
    /// It gets another name.
    #[serde(alias = "move")]
    Rename,
}

/// Why there is no success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxError {
    /// `INVALID_INPUT` where nothing was done, the code of the program's error, or `INTERNAL` where no program was run.
    pub code: String,
    /// What happened, and what to do about it.
    pub message: String,
}

/// What a program is asked to return.
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
    pub(super) fn outcome_unknown(message: &str) -> Self {
        Self { code: ErrorCode::OutcomeUnknown.as_str().to_owned(), message: message.to_owned() }
    }
}

impl SandboxOutput {
    /// Nothing was done.
    pub(super) fn refused(phase: Option<Phase>, reason: &str) -> Self {
        Self::failed(phase, ErrorCode::InvalidInput.into(), reason.to_owned())
    }

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

    pub(super) fn of(ended: Result<ProgrammaticAnswer, Box<Failed>>, input: &SandboxInput) -> Self {
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

    fn returned(outcome: &Outcome, input: &SandboxInput) -> Self {
        let json = &outcome.json;
        let Returned { summary, proposed_edits, needs_escalation, patch } = serde_json::from_slice(json)
            .unwrap_or_else(|_| {
                // Anything else is the summary.
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
        // Strings, numbers and lists of them always are JSON.
        let structured = serde_json::to_value(&output).unwrap_or_default();
        Self { is_error: !output.success, ..listed(structured) }
    }
}
