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
            return Place { tools, runs, has_handles: true, context }.execute(arguments, round).await;
        }
        if !rounds::can_ask(context) {
            return CallToolResult::from(self.execute(arguments, context).await).into();
        }
        if round.run.is_none() && self.kept.active().len() >= MAX_KEPT {
            let text = format!("OVERLOADED: {MAX_KEPT} programs run or wait for people; try again later");
            return CallToolResult::from(refused(text)).into();
        }
        Place { tools, runs: &owned.kept, has_handles: false, context }.execute(arguments, round).await
    }
}
