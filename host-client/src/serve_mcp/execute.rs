//! `execute_code`: one execution as one MCP request.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use relay_proto::{LimitName, LimitOverrides};
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;

use super::CodeServer;
use super::arguments::ExecuteArguments;
use super::elicit;
use super::progress::Progress;
use super::report::{refused, report};
use crate::client::{ExecuteRequest, Outcome};
use crate::error::Error;

/// The most bytes of JSON that code may return unless it asks for more: what it returns goes into a model's context.
const RESULT_BYTES: u64 = 100_000;
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
        if request.limits.get(LimitName::ResultBytes).is_none() {
            request = request.limit(LimitName::ResultBytes, RESULT_BYTES);
        }
        let (approver, questions) = elicit::approver();
        let running = self.run(request.approver(approver), Progress::new(&context));
        // Whoever cancels the request drops the execution, which cancels it. This task, which is the request's own, asks: so
        // the client knows what the question belongs to.
        let running = context.ct.run_until_cancelled(running);
        match beside(running, questions.put_to(context.peer.clone(), intent)).await {
            Some(outcome) => report(outcome),
            // Nobody reads it.
            None => refused("CANCELLED: the request was cancelled"),
        }
    }

    async fn run(&self, request: ExecuteRequest, progress: Progress) -> Result<Outcome, Error> {
        let mut execution = self.client.get().await?.execute(request).await?;
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
