//! `execute_code` over MCP as code that ends with its request. Reports as MCP results.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use rmcp::service::RequestContext;

use super::CodeServer;
use super::elicit;
use super::life::SessionLife;
use super::owned::answers_by;
use super::progress::Progress;
use crate::arguments::ExecuteArguments;
use crate::output::Attachment;
use crate::report::{Report, is_image, refused};
use host_client_core::client::{ExecuteRequest, Execution, Outcome};
use host_client_core::error::Error;

/// Maximum time that the last progress, or the withdrawal of a question, may delay the answer.
const SIDE_WITHIN: Duration = Duration::from_secs(1);

/// Waits for `running` until its request is cancelled or its session ends: then this drops it and returns `None`.
pub(super) async fn until_given_up<T>(
    context: &RequestContext<RoleServer>,
    running: impl Future<Output = T>,
) -> Option<T> {
    let running = context.ct.run_until_cancelled(running);
    match context.extensions.get::<SessionLife>() {
        Some(life) => life.over().run_until_cancelled(running).await.flatten(),
        None => running.await,
    }
}

impl CodeServer {
    /// Runs code for a request, with progress and approvals.
    pub(super) async fn execute(&self, arguments: ExecuteArguments, context: &RequestContext<RoleServer>) -> Report {
        let (request, intent) = match self.tools.request(arguments) {
            Ok(request) => request,
            Err(wrong) => return refused(wrong),
        };
        if !self.asks_clients {
            return match until_given_up(context, self.run(request, Progress::new(context))).await {
                Some(outcome) => self.tools.report(outcome, intent).await,
                None => given_up(),
            };
        }
        let (approver, questions) = elicit::approver(answers_by(context));
        // Dropping the execution cancels it. The questions are asked in the task of the request, so that the client knows
        // what they belong to.
        let running = until_given_up(context, self.run(request.approver(approver), Progress::new(context)));
        match beside(running, questions.ask_all(context.peer.clone(), intent.clone())).await {
            Some(outcome) => self.tools.report(outcome, intent).await,
            None => given_up(),
        }
    }

    /// Runs code, and reports its progress.
    async fn run(&self, request: ExecuteRequest, progress: Progress) -> Result<Outcome, Error> {
        let follow = |mut execution: Execution| {
            let progress = &progress;
            async move {
                match execution.events() {
                    Some(events) => beside(execution, progress.follow(events)).await,
                    None => execution.await,
                }
            }
        };
        self.tools.client().run_with(request, follow).await
    }
}

/// Makes the report of a request that was cancelled. The client seldom reads it.
fn given_up() -> Report {
    refused("CANCELLED: the request was cancelled, or its session ended, before the code had ended")
}

impl From<Report> for CallToolResult {
    fn from(report: Report) -> Self {
        let texts = [Some(report.text), report.notes].into_iter().flatten().map(ContentBlock::text);
        let attachments = (1..).zip(report.attachments).map(|(number, attachment)| block(number, attachment));
        let content = texts.chain(attachments).collect();
        let mut result = if report.is_error { Self::error(content) } else { Self::success(content) };
        result.structured_content = report.structured;
        result
    }
}

/// Converts binary data to the block that clients expect for its type.
fn block(number: usize, attachment: Attachment) -> ContentBlock {
    let is_image = is_image(&attachment);
    let Attachment { mime, base64, .. } = attachment;
    match &*mime {
        _ if is_image => ContentBlock::image(base64, mime),
        sound if sound.starts_with("audio/") => ContentBlock::audio(base64, mime),
        _ => {
            let contents = ResourceContents::blob(base64, format!("attachment:{number}"));
            ContentBlock::resource(contents.with_mime_type(mime))
        }
    }
}

/// Runs two futures at once, and returns the output of `main`. `side` gets a second more to end.
pub(super) async fn beside<T>(main: impl Future<Output = T>, side: impl Future<Output = ()>) -> T {
    match select(pin!(main), pin!(side)).await {
        Either::Left((outcome, side)) => {
            // After this time it is dropped.
            let _ = tokio::time::timeout(SIDE_WITHIN, side).await;
            outcome
        }
        Either::Right(((), main)) => main.await,
    }
}
