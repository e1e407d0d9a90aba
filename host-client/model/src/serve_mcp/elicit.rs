//! Requests approvals by elicitation, from the client whose request runs the code.

use std::io::{self, Write as _};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, EnumSchema,
    ServerRequest,
};
use rmcp::service::{ElicitationMode, Peer, PeerRequestOptions, RequestHandle};
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::sync::{mpsc, oneshot};

use host_client_core::rules::approval::{Approval, ApprovalRequest, Approver, CallbackApprover};
use host_client_core::rules::prompt;
use host_client_core::text::visible;

/// Maximum length of the intent that a person is shown, in bytes.
const MAX_INTENT_BYTES: usize = 500;
/// Length of the lines of the intent, in characters.
const INTENT_COLUMNS: usize = 100;

/// Question with the channel for its answer.
struct Question {
    request: ApprovalRequest,
    answer: oneshot::Sender<Approval>,
}

/// Questions of one execution.
pub(super) struct Questions(mpsc::Receiver<Question>);

/// Makes an approver of this name, and the queue of its questions. One question at a time is open.
pub(super) fn approver(by: String) -> (impl Approver, Questions) {
    let (questions, asked) = mpsc::channel(1);
    let approver = CallbackApprover::new(by, move |request| {
        let questions = questions.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            match questions.send(Question { request, answer }).await {
                Ok(()) => answered.await.unwrap_or_else(|_| Approval::deny()),
                Err(_) => Approval::deny(),
            }
        }
    });
    (approver, Questions(asked))
}

impl Questions {
    /// Asks the user of the client, one question after another, until the approver is dropped. Withdraws a question
    /// whose call no longer waits.
    pub(super) async fn ask_all(mut self, peer: Peer<RoleServer>, intent: Option<String>) {
        while let Some(Question { request, mut answer }) = self.0.recv().await {
            let (mut asked, _file) = match ask(&peer, &request, intent.as_deref()).await {
                Ok(asked) => asked,
                Err(reason) => {
                    // The call may have ended.
                    let _ = answer.send(Approval::Deny { reason: Some(reason.to_owned()) });
                    continue;
                }
            };
            tokio::select! {
                reply = &mut asked.rx => {
                    let _ = answer.send(match reply {
                        Ok(Ok(ClientResult::ElicitResult(reply))) => read_answer(&reply),
                        reply => {
                            tracing::warn!(?reply, "an approval could not be asked for");
                            Approval::Deny { reason: Some("the client failed to ask".to_owned()) }
                        }
                    });
                }
                () = answer.closed() => {
                    let reason = "the call no longer waits for an answer";
                    // Without a client there is no question to withdraw.
                    let _ = asked.cancel(Some(reason.to_owned())).await;
                }
            }
        }
    }
}

/// Sends a question. Returns it with the file that holds all of it, if it is too long for a message.
///
/// # Errors
/// The reason why it cannot be asked, worded for the model.
pub(super) async fn ask(
    peer: &Peer<RoleServer>,
    request: &ApprovalRequest,
    intent: Option<&str>,
) -> Result<(RequestHandle<RoleServer>, Option<NamedTempFile>), &'static str> {
    if !peer.supported_elicitation_modes().contains(&ElicitationMode::Form) {
        return Err(
            "this MCP client cannot ask its user (it offers no elicitation); start the server with a policy that \
             allows the tool, or use another client",
        );
    }
    let (form, file) = form(request, intent, true).await.ok_or("the question could not be made")?;
    // No timeout: the deadline of the call ends the wait.
    let sent =
        peer.send_cancellable_request(ServerRequest::ElicitRequest(form), PeerRequestOptions::no_options()).await;
    sent.map(|sent| (sent, file)).map_err(|_| "the MCP client is gone")
}

/// Makes the form of a question, and the file that holds all of it, if it is too long for a message; `None`: that is not
/// possible. `has_session`: a tool can be allowed for a session.
pub(super) async fn form(
    request: &ApprovalRequest,
    intent: Option<&str>,
    has_session: bool,
) -> Option<(ElicitRequest, Option<NamedTempFile>)> {
    let mut scopes = vec!["once".to_owned(), "execution".to_owned()];
    let mut description = "once: this call. execution: this tool, with any arguments, until the code ends.".to_owned();
    if has_session {
        scopes.push("session".to_owned());
        description.push_str(" session: this tool, with any arguments, until the connection ends.");
    }
    // The choices have no titles, which older clients do not support.
    let scopes = EnumSchema::builder(scopes).title("Allow").description(description).build();
    let requested_schema = ElicitationSchema::builder().required_enum_schema("allow", scopes).build().ok()?;
    let (message, file) = question(request, intent).await;
    Some((
        ElicitRequest::new(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }),
        file,
    ))
}

/// Formats the question. Every line that the code or a server wrote is indented, so that a client that renders Markdown
/// shows it literally. What does not fit is written to a file, which is removed when the returned handle is dropped.
async fn question(request: &ApprovalRequest, intent: Option<&str>) -> (String, Option<NamedTempFile>) {
    let question = asked(request);
    let mut described = prompt::describe(&question, space(), "");
    let mut file = None;
    if !described.is_whole {
        let rest = match write_whole(request.clone()).await {
            Ok(written) => {
                let path = written.path().display().to_string();
                file = Some(written);
                format!("until it is answered, the whole question is in {path} on the machine of this MCP server")
            }
            Err(error) => {
                tracing::warn!(%error, "the whole question of an approval could not be written to a file");
                "it is too long, and could not be written to a file".to_owned()
            }
        };
        described = prompt::describe(&question, space(), &rest);
    }
    let mut shown = described.text;
    if let Some(intent) = intent {
        shown.push_str("The author of the code says what it is for:\n");
        let intent = visible(&intent[..intent.floor_char_boundary(MAX_INTENT_BYTES)]).into_owned();
        let characters: Vec<char> = intent.chars().collect();
        for line in characters.chunks(INTENT_COLUMNS) {
            shown.push_str("  | ");
            shown.extend(line);
            shown.push('\n');
        }
    }
    let mut text = "A program that a model wrote wants to call a tool that needs your approval.\n\n".to_owned();
    for line in shown.lines() {
        text.push_str("    ");
        text.push_str(line);
        text.push('\n');
    }
    (text, file)
}

/// Returns the space for a question: clients show it in a window that scrolls.
fn space() -> prompt::Space {
    prompt::Space::new(100, 150)
}

/// Returns the content of the question.
fn asked(request: &ApprovalRequest) -> prompt::Question<'_> {
    prompt::Question {
        tool: request.tool.as_str(),
        effect: request.manifest.effect,
        rule: &request.rule,
        arguments: &request.arguments,
        script: Some((&request.code, request.line)),
        remaining: Duration::ZERO,
    }
}

/// Writes the whole question to a new file that only the user of this process can read.
async fn write_whole(request: ApprovalRequest) -> io::Result<NamedTempFile> {
    let write = move || {
        let question = asked(&request);
        let mut file = tempfile::Builder::new().prefix("approval-").suffix(".txt").tempfile()?;
        file.write_all(prompt::whole(&question, space().columns()).as_bytes())?;
        Ok(file)
    };
    tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
}

/// Reads the answer. Anything but one of the three choices denies the call.
pub(super) fn read_answer(reply: &ElicitResult) -> Approval {
    let deny = |reason: &str| Approval::Deny { reason: Some(reason.to_owned()) };
    let allowed = reply.content.as_ref().and_then(|content| content.get("allow")).and_then(Value::as_str);
    match (&reply.action, allowed) {
        (ElicitationAction::Accept, Some("once")) => Approval::Once,
        (ElicitationAction::Accept, Some("execution")) => Approval::Execution,
        (ElicitationAction::Accept, Some("session")) => Approval::Session,
        (ElicitationAction::Decline, _) => deny("the user said no"),
        (ElicitationAction::Cancel, _) => deny("the user gave no answer"),
        (_, _) => deny("the client's answer was not one of once, execution and session"),
    }
}
