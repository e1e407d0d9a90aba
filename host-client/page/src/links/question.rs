//! A question as its page shows it, whether it waits in this process or in the journal.

use host_client_core::durable::{Journal, JournalError};
use host_client_core::runs::{self, CallSummary, QuestionState, RunSummary, RunVerdict};
use host_client_core::{Approval, ApprovalRequest, RunError, RunId};

use super::token::{Place, Token};
use super::{ApprovalLinks, digest_of};
use crate::open::{Decided, sha256};
use crate::shown::{Shown, Text};

/// The name for journal and audit of whoever decides by a link.
const BY: &str = "approval link";

/// A question as its page shows it.
pub(super) struct Question {
    pub(super) code: Text,
    pub(super) line: Option<usize>,
    pub(super) tool: Shown,
    pub(super) description: Text,
    pub(super) rule: Shown,
    pub(super) arguments: Text,
    /// The run and the number of the call; `None`: the run is not durable.
    pub(super) run: Option<(RunId, u64)>,
}

impl Question {
    fn of_request(request: &ApprovalRequest) -> Self {
        Self {
            code: Text::code(&request.code, request.line.map(|line| (line, request.call))),
            line: request.line,
            tool: Shown::line(request.tool.as_str()),
            description: Text::new(&request.description),
            rule: Shown::line(&request.rule),
            arguments: Text::json(&request.arguments),
            run: None,
        }
    }

    fn of_run(run: RunSummary, call: CallSummary) -> Self {
        Self {
            code: Text::code(&run.code, call.line.map(|line| (line, call.call))),
            line: call.line,
            tool: Shown::line(&call.tool),
            description: Text::new(&call.description.unwrap_or_default()),
            rule: Shown::line(&call.rule.unwrap_or_default()),
            arguments: Text::json(&call.arguments.unwrap_or_default()).shortened(call.is_shortened),
            run: Some((run.head.id, call.call)),
        }
    }

    /// Returns `true` if something that the decision depends on is not shown whole.
    pub(super) fn is_shortened(&self) -> bool {
        self.code.is_shortened || self.arguments.is_shortened || self.description.is_shortened
    }
}

impl ApprovalLinks {
    /// Returns the question of a link; `None`: it does not wait any more, or is another one.
    ///
    /// # Errors
    /// [`RunError`]: the journal cannot be read.
    pub(super) async fn question(&self, token: &Token) -> Result<Option<Question>, RunError> {
        match &token.place {
            Place::Open(id) => {
                let request = self.0.open.get(id).filter(|request| sha256(request) == token.question);
                Ok(request.map(|request| Question::of_request(&request)))
            }
            Place::Run { run, call } => {
                let Some(journal) = &self.0.journal else { return Ok(None) };
                let Some((mut found, index)) = waiting(&**journal, run, *call).await? else { return Ok(None) };
                let asked = found.calls.swap_remove(index);
                let hash = asked.question_sha256.map(digest_of);
                Ok((hash == Some(token.question)).then(|| Question::of_run(found, asked)))
            }
        }
    }

    /// Decides. The first decision counts.
    ///
    /// # Errors
    /// [`RunError`]: the journal cannot be used.
    pub(super) async fn decide(&self, token: &Token, verdict: RunVerdict) -> Result<Decided, RunError> {
        let (run, call) = match &token.place {
            Place::Open(id) => {
                let approval = match verdict {
                    RunVerdict::Approve => Approval::Once,
                    RunVerdict::Deny { reason } => Approval::Deny { reason },
                };
                return Ok(self.0.open.decide(id, approval));
            }
            Place::Run { run, call } => (run, *call),
        };
        let Some(journal) = &self.0.journal else { return Ok(Decided::Over) };
        let found = match waiting(&**journal, run, call).await? {
            Some((found, index)) => found.calls.into_iter().nth(index).and_then(|call| call.question_sha256),
            None => return Ok(Decided::Before),
        };
        let Some(hash) = found.filter(|hash| digest_of(*hash) == token.question) else {
            return Ok(Decided::Over);
        };
        match runs::decide_on(&**journal, (run, call), hash, verdict, BY).await {
            Ok(()) => Ok(Decided::Now),
            Err(RunError::Journal(JournalError::Instructed { .. }) | RunError::NotAsked { .. }) => Ok(Decided::Before),
            Err(
                RunError::Journal(JournalError::Unknown(_))
                | RunError::OtherQuestion { .. }
                | RunError::TooLate { .. }
                | RunError::Over(_),
            ) => Ok(Decided::Over),
            Err(error) => Err(error),
        }
    }
}

/// Returns a run with the index of a call that a person can decide on; `None`: there is none.
async fn waiting(journal: &dyn Journal, run: &RunId, call: u64) -> Result<Option<(RunSummary, usize)>, RunError> {
    let found = match runs::show(journal, run).await {
        Ok(found) => found,
        Err(RunError::Journal(JournalError::Unknown(_))) => return Ok(None),
        Err(error) => return Err(error),
    };
    let open = |it: &CallSummary| it.call == call && found.question(it) == Some(QuestionState::Open);
    let index = found.calls.iter().position(open);
    Ok(index.map(|index| (found, index)))
}
