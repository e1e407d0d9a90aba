//! `execute_code` over MCP: whether code ends with its request, or outlives it.

use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, CallToolResult};
use rmcp::service::RequestContext;
use serde_json::Value;

use super::CodeServer;
use super::durable::Place;
use super::owned::Owned;
use super::rounds::{self, Round};
use crate::agent::ExecuteCode;
use crate::arguments::parse;
use crate::report::refused;
use host_client_core::Runs;

/// Maximum number of runs without a journal that run or wait for people.
const MAX_KEPT: usize = 256;

impl CodeServer {
    /// Runs a call of `execute_code`.
    pub(super) async fn run_code(
        &self,
        owned: &Owned,
        arguments: Value,
        round: Round,
        context: RequestContext<RoleServer>,
    ) -> CallToolResponse {
        let arguments = match parse(ExecuteCode::NAME, arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return CallToolResult::from(refused(wrong)).into(),
        };
        let (tools, context) = (&owned.tools, &context);
        if let Some(runs) = tools.runs() {
            return self.place(tools, runs, context).execute(arguments, round).await;
        }
        if !self.asks_clients || !rounds::can_ask(context) {
            return CallToolResult::from(self.execute(arguments, context).await).into();
        }
        if round.run.is_none() && self.kept.active().len().max(self.lingering.number()) >= MAX_KEPT {
            let text = format!("OVERLOADED: {MAX_KEPT} programs run or wait for people; try again later");
            return CallToolResult::from(refused(text)).into();
        }
        let lingering = Some((&self.lingering, self.answers_within));
        Place { lingering, ..self.place(tools, &owned.kept, context) }.execute(arguments, round).await
    }

    /// Returns the place of a request for a run that has a handle.
    pub(super) fn place<'a>(
        &self,
        tools: &'a ExecuteCode,
        runs: &'a Runs,
        context: &'a RequestContext<RoleServer>,
    ) -> Place<'a> {
        Place { tools, runs, lingering: None, asks_clients: self.asks_clients, context }
    }
}
