//! `execute_code`: one execution as one MCP request; `read_output`: more of its result.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use relay_proto::LimitOverrides;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::service::RequestContext;

use super::CodeServer;
use super::arguments::{ExecuteArguments, ReadArguments};
use super::elicit;
use super::progress::Progress;
use super::report::{failed, refused, succeeded};
use crate::client::{ExecuteRequest, Outcome};
use crate::error::Error;

/// How long the last progress, or the withdrawal of a question, may hold up the answer.
const LINGER: Duration = Duration::from_secs(1);

impl CodeServer {
    pub(super) async fn execute(
        &self,
        arguments: ExecuteArguments,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let ExecuteArguments { code, limits, intent } = arguments;
        let mut request = ExecuteRequest::new(code);
        request.limits = match LimitOverrides::try_from(&limits) {
            Ok(limits) => limits,
            Err(error) => return refused(format!("INVALID_INPUT: {error}")),
        };
        let (approver, questions) = elicit::approver();
        let running = self.run(request.approver(approver), Progress::new(&context));
        // Whoever cancels the request drops the execution, which cancels it. This task, which is the request's own, asks: so
        // the client knows what the question belongs to.
        let running = context.ct.run_until_cancelled(running);
        match beside(running, questions.put_to(context.peer.clone(), intent.clone())).await {
            Some(Ok(outcome)) => {
                let (json, output, store) = (outcome.json.clone(), self.output, self.store.clone());
                let shown = move || output.show(&json, intent.as_deref(), Some(&store));
                match tokio::task::spawn_blocking(shown).await {
                    Ok(shown) => succeeded(&outcome, shown),
                    Err(_) => refused("INTERNAL: the code ran, and its result could not be shown"),
                }
            }
            Some(Err(error)) => failed(&error),
            // Nobody reads it.
            None => refused("CANCELLED: the request was cancelled"),
        }
    }

    pub(super) async fn read(&self, arguments: ReadArguments) -> CallToolResult {
        let ReadArguments { handle, path, offset, limit } = arguments;
        let store = self.store.clone();
        let read = move || store.read(&handle, &path, offset, limit);
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(page)) => CallToolResult::success(vec![ContentBlock::text(page.text)]),
            Ok(Err(error)) => refused(format!("INVALID_INPUT: {error}")),
            Err(_) => refused("INTERNAL: the output could not be read"),
        }
    }

    async fn run(&self, request: ExecuteRequest, progress: Progress) -> Result<Outcome, Error> {
        let mut execution = self.client().await?.execute(request).await?;
        match execution.events() {
            Some(events) => beside(execution, progress.follow(events)).await,
            None => execution.await,
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
