//! `execute_code`: one execution as one MCP request, and its report as a result of MCP.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use rmcp::service::RequestContext;

use super::CodeServer;
use super::elicit;
use super::progress::Progress;
use crate::arguments::ExecuteArguments;
use crate::output::Attachment;
use crate::report::{Report, is_image, refused};
use host_client_core::client::{ExecuteRequest, Outcome};
use host_client_core::error::Error;

/// How long the last progress, or the withdrawal of a question, may hold up the answer.
const LINGER: Duration = Duration::from_secs(1);

impl CodeServer {
    pub(super) async fn execute(&self, arguments: ExecuteArguments, context: RequestContext<RoleServer>) -> Report {
        let (request, intent) = match arguments.into_request() {
            Ok(request) => request,
            Err(wrong) => return refused(wrong),
        };
        let (approver, questions) = elicit::approver();
        let running = self.run(request.approver(approver), Progress::new(&context));
        // Whoever cancels the request drops the execution, which cancels it. This task, which is the request's own, asks: so
        // the client knows what the question belongs to.
        let running = context.ct.run_until_cancelled(running);
        match beside(running, questions.put_to(context.peer.clone(), intent.clone())).await {
            Some(outcome) => self.tools.report(outcome, intent).await,
            // Nobody reads it.
            None => refused("CANCELLED: the request was cancelled"),
        }
    }

    async fn run(&self, request: ExecuteRequest, progress: Progress) -> Result<Outcome, Error> {
        let mut execution = self.tools.client().get().await?.execute(request).await?;
        match execution.events() {
            Some(events) => beside(execution, progress.follow(events)).await,
            None => execution.await,
        }
    }
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

/// Binary data in the kind of block that clients take it in.
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

/// Runs both at once, and gives the outcome of the first. The second may take a little longer.
async fn beside<T>(main: impl Future<Output = T>, side: impl Future<Output = ()>) -> T {
    match select(pin!(main), pin!(side)).await {
        Either::Left((outcome, side)) => {
            // What is left of it is not worth waiting for.
            let _ = tokio::time::timeout(LINGER, side).await;
            outcome
        }
        Either::Right(((), main)) => main.await,
    }
}
