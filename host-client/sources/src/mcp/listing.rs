//! Lists the tools of a server, page by page and bounded, and receives notifications that they changed.

use std::collections::HashSet;
use std::sync::Arc;

use rmcp::handler::client::progress::ProgressDispatcher;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, CustomResult, Implementation, ListToolsRequest, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerResult, Tool,
};
use rmcp::service::{NotificationContext, Peer};
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio::sync::Notify;

use super::failure::ListFailure;
use super::text::clip;

/// Maximum number of pages of one listing.
const MAX_PAGES: usize = 100;
/// Maximum number of tools of one server.
const MAX_TOOLS: usize = 2_000;
/// Maximum size of all tools of a server as JSON, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Maximum length of the name of a tool that cannot be read, in bytes.
const MAX_NAME_BYTES: usize = 300;

/// Client side of an MCP connection. It offers no capability: the library declines requests of the server (sampling,
/// elicitation) and lists no roots.
#[derive(Debug, Default, Clone)]
pub(super) struct HostHandler {
    /// Notified when the server reports that its tools changed.
    pub(super) changed: Arc<Notify>,
    /// Hands the server's reports of progress to the calls that they belong to.
    pub(super) progress: ProgressDispatcher,
}

impl ClientHandler for HostHandler {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), name)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_progress(&self, report: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.handle_notification(report).await;
    }
}

/// Tools of a server, and those that cannot be read.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) tools: Vec<Tool>,
    pub(super) unreadable: Vec<Unreadable>,
    bytes: usize,
}

/// Tool that cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// Name of the tool without its server; `None` if it has none.
    pub(super) name: Option<String>,
    /// Place of the tool in the list and the problem, as a sentence.
    pub(super) reason: String,
}

/// Requests all pages.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<Listing, ListFailure> {
    let mut listing = Listing::default();
    let mut cursors = HashSet::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
        // Not `list_tools`, which caches pages as the server allows it, and would return old ones.
        let next = match peer.send_request(ClientRequest::ListToolsRequest(request)).await? {
            ServerResult::ListToolsResult(ListToolsResult { tools, next_cursor, .. }) => {
                tools.into_iter().try_for_each(|tool| listing.add(tool))?;
                next_cursor
            }
            ServerResult::CustomResult(CustomResult(page)) => listing.add_page(page)?,
            _ => return Err(ListFailure::NoList),
        };
        let Some(next) = next else { return Ok(listing) };
        if !cursors.insert(next.clone()) {
            return Err(ListFailure::SamePage);
        }
        cursor = Some(next);
    }
    Err(ListFailure::Pages(MAX_PAGES))
}

impl Listing {
    fn add(&mut self, tool: Tool) -> Result<(), ListFailure> {
        self.bytes += serde_json::to_vec(&tool).map_or(MAX_BYTES, |json| json.len());
        self.tools.push(tool);
        self.check()
    }

    /// Checks the number and the size of the tools so far.
    fn check(&self) -> Result<(), ListFailure> {
        if self.tools.len() + self.unreadable.len() > MAX_TOOLS {
            return Err(ListFailure::Tools(MAX_TOOLS));
        }
        if self.bytes > MAX_BYTES {
            return Err(ListFailure::Bytes(MAX_BYTES));
        }
        Ok(())
    }

    /// Adds a page that the library could not read as a whole, without the malformed tools. Returns the cursor of the
    /// next page.
    fn add_page(&mut self, mut page: Value) -> Result<Option<String>, ListFailure> {
        let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else { return Err(ListFailure::NoList) };
        for (index, tool) in tools.into_iter().enumerate() {
            let name = tool.get("name").and_then(Value::as_str).map(|name| clip(name, MAX_NAME_BYTES));
            match serde_json::from_value(tool) {
                Ok(tool) => self.add(tool)?,
                Err(error) => {
                    let shown = clip(name.as_deref().unwrap_or_default(), 100);
                    let reason = format!("tool {index} ({shown:?}) cannot be read: {error}");
                    self.unreadable.push(Unreadable { name, reason });
                    self.check()?;
                }
            }
        }
        Ok(page.get("nextCursor").and_then(Value::as_str).map(str::to_owned))
    }
}
