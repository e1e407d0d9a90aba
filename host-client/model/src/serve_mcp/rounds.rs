//! Questions in rounds, as MCP asks from 2026-07-28 on: a result says which input is required, and the client sends its request
//! again with the input. The run goes on meanwhile, whichever request comes for it next.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ElicitRequest, ElicitResult, InputRequest, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion,
};
use rmcp::service::RequestContext;
use tempfile::NamedTempFile;

use super::elicit;
use super::owned::{answers_by, is_stateless};
use host_client_core::rules::approval::Approval;
use host_client_core::runs::RunState;
use host_client_core::{Run, RunId};

/// Number of rounds after which a run that has a handle gives it: the official clients give up after ten.
const MAX_ROUNDS: u32 = 9;
/// Maximum number of questions in one round.
const MAX_QUESTIONS: usize = 16;
/// Maximum number of open questions that have files.
const MAX_FORMS: usize = 256;
/// Time after the first question of a round for others: calls that are made together are asked about together.
const TOGETHER: Duration = Duration::from_millis(50);

/// The input of a request that is sent again.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Number of the round, from 0.
    number: u32,
    /// Id of the run; `None`: the request is a new one.
    pub(super) run: Option<String>,
    responses: InputResponses,
}

impl Round {
    /// Reads the input of a request.
    pub(super) fn new(state: Option<&str>, responses: Option<InputResponses>) -> Self {
        let Some(state) = state else { return Self::default() };
        let (run, number) = state.split_once('.').unwrap_or((state, "0"));
        Self {
            number: number.parse().unwrap_or(MAX_ROUNDS),
            run: Some(run.to_owned()),
            responses: responses.unwrap_or_default(),
        }
    }

    /// Hands the answers of a client to the run, and waits until it has them.
    pub(super) async fn answer(&mut self, run: &Run, context: &RequestContext<RoleServer>) {
        let answered = answer(run, std::mem::take(&mut self.responses), context);
        run.until(|_| run.questions().iter().all(|question| !answered.contains(&question.call))).await;
    }

    /// Returns whether the client can be asked once more.
    pub(super) fn may_ask(&self, has_handle: bool, context: &RequestContext<RoleServer>) -> bool {
        can_ask(context) && !(has_handle && self.number >= MAX_ROUNDS)
    }

    /// Leaves out the answers: others are asked than the client.
    pub(super) fn without_answers(self) -> Self {
        Self { responses: InputResponses::default(), ..self }
    }

    /// Waits until people are asked about calls of a run, or it has ended, or `fits` its state.
    pub(super) async fn until_asked(&self, run: &Run, fits: impl Fn(&RunState) -> bool) {
        run.until(|state| !run.questions().is_empty() || fits(state)).await;
        if !run.questions().is_empty() {
            let _ = tokio::time::timeout(TOGETHER, run.until(|_| false)).await;
        }
    }

    /// Makes the result that asks the client for input; `None`: nothing is asked.
    pub(super) async fn ask(
        &self,
        run: &Run,
        intent: Option<&str>,
        context: &RequestContext<RoleServer>,
    ) -> Option<InputRequiredResult> {
        let requests = questions(run, intent, !is_stateless(context)).await;
        let state = format!("{}.{}", run.id(), self.number.saturating_add(1));
        (!requests.is_empty()).then(|| InputRequiredResult::new(Some(requests), Some(state)))
    }
}

/// Returns whether the client speaks a revision that asks in rounds.
pub(super) fn speaks_rounds(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Returns whether the client asks its user in rounds.
pub(super) fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    // A client that names neither form has the one that was there first.
    speaks_rounds(context) && elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// The run and the call of a question, whether a tool can be allowed for a session, and whether the form has an intent.
type FormKey = (RunId, u64, bool, bool);

/// Forms that name a file with the whole question: one that is asked again names the same file.
static FORMS: LazyLock<Mutex<HashMap<FormKey, ElicitRequest>>> = LazyLock::new(Mutex::default);

fn kept_forms() -> MutexGuard<'static, HashMap<FormKey, ElicitRequest>> {
    FORMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a form and its file for as long as the question is there. Returns the form that is kept; `None`: there are too many.
fn keep(run: &Run, key: FormKey, form: ElicitRequest, file: NamedTempFile) -> Option<ElicitRequest> {
    let mut forms = kept_forms();
    let is_full = forms.len() >= MAX_FORMS;
    match forms.entry(key.clone()) {
        // Another request was faster.
        Entry::Occupied(kept) => return Some(kept.get().clone()),
        Entry::Vacant(_) if is_full => {
            tracing::warn!("{MAX_FORMS} long questions are open: people decide elsewhere on the others");
            return None;
        }
        Entry::Vacant(free) => drop(free.insert(form.clone())),
    }
    drop(forms);
    let run = run.clone();
    tokio::spawn(async move {
        run.until(|_| run.questions().iter().all(|it| it.call != key.1)).await;
        kept_forms().remove(&key);
        drop(file);
    });
    Some(form)
}

/// Returns the questions of a run as requests for input, by the numbers of their calls.
pub(super) async fn questions(run: &Run, intent: Option<&str>, has_session: bool) -> InputRequests {
    let mut requests = InputRequests::new();
    for question in run.questions().into_iter().take(MAX_QUESTIONS) {
        let call = question.call;
        let key = (run.id().clone(), call, has_session, intent.is_some());
        let known = kept_forms().get(&key).cloned();
        let form = match known {
            Some(form) => form,
            None => match elicit::form(&question, intent, has_session).await {
                Some((form, None)) => form,
                Some((form, Some(file))) => match keep(run, key, form, file) {
                    Some(form) => form,
                    None => continue,
                },
                None => continue,
            },
        };
        requests.insert(call.to_string(), InputRequest::Elicitation(form));
    }
    requests
}

/// Hands answers to a run. Returns the calls that they are about. Without a session, a tool is allowed until the code ends.
pub(super) fn answer(run: &Run, responses: InputResponses, context: &RequestContext<RoleServer>) -> Vec<u64> {
    let (mut answered, has_session, by) = (Vec::new(), !is_stateless(context), answers_by(context));
    for (key, response) in responses {
        let Ok(call) = key.parse() else { continue };
        let approval = match serde_json::from_value::<ElicitResult>(response) {
            Ok(reply) => elicit::read_answer(&reply),
            Err(_) => Approval::Deny { reason: Some("the client's answer cannot be read".to_owned()) },
        };
        let approval = match approval {
            Approval::Session if !has_session => Approval::Execution,
            approval => approval,
        };
        // Somebody else may have been faster.
        if run.answer(call, approval, &by).is_ok() {
            answered.push(call);
        }
    }
    answered
}
