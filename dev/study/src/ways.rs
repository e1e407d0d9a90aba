//! The two ways of giving a model the same tools: all of them as they are, or one that runs programs.
//!
//! A model sees the scene's folder as [`ROOT`], wherever it really is, so that paths count the same in every run.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use host_client::serve_mcp::CodeServer;
use host_client::{Client, ClientConfig, Host, ToolSpec};
use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock};
use rmcp::service::{RoleClient, RunningService};
use serde_json::Value;

use crate::agent::{Call, Definition, Observation, RunEnd, Toolbox};

/// The folder of the scene, as models see it.
pub const ROOT: &str = "/data";
/// Size in bytes of the pipe between our own MCP server and its client.
const PIPE_BYTES: usize = 64 << 10;

/// All tools of all servers, with all their schemas.
#[derive(Debug)]
pub struct ToolByTool {
    host: Arc<Host>,
    root: String,
    definitions: Vec<Definition>,
}

/// `execute_code`, `search_tools`, `describe_tools` and `read_output`: what `relay-host serve-mcp` gives every MCP client,
/// from such a client.
#[derive(Debug)]
pub struct ByProgram {
    client: RunningService<RoleClient, ()>,
    root: String,
    definitions: Vec<Definition>,
}

impl ToolByTool {
    /// The tools of a host.
    pub fn new(host: Arc<Host>, root: &Path) -> Self {
        let definition = |spec: ToolSpec| Definition::new(spec.name, spec.description, spec.input_schema);
        let definitions = host.tools().specs().into_iter().map(definition).collect();
        Self { host, root: root.display().to_string(), definitions }
    }

    /// The same with the definitions of these servers only, as if somebody knew before which ones a task needs.
    #[must_use]
    pub fn only(&self, servers: &[&str]) -> Self {
        let is_one = |name: &str| name.split_once('.').is_some_and(|(server, _)| servers.contains(&server));
        let definitions = self.definitions.iter().filter(|definition| is_one(&definition.name)).cloned().collect();
        Self { host: Arc::clone(&self.host), root: self.root.clone(), definitions }
    }
}

#[async_trait]
impl Toolbox for ToolByTool {
    fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    async fn call(&self, call: &Call) -> Observation {
        let text = match call_on(&self.host, &call.name, &call.arguments, &self.root).await {
            Ok(value) => as_clients_show(value),
            Err(failure) => failure,
        };
        Observation { text, server_calls: 1, run: None }
    }
}

/// The text of a result that a model reads of a tool that it calls itself.
pub fn as_clients_show(result: Value) -> String {
    match result {
        Value::String(text) => text,
        // The server of files gives each text twice, and clients show the plain one.
        Value::Object(members) if members.len() == 1 && members.get("content").is_some_and(Value::is_string) => {
            members["content"].as_str().unwrap_or_default().to_owned()
        }
        value => value.to_string(),
    }
}

impl ByProgram {
    /// Programs that call the tools of a host, on the relay that `config` is for.
    ///
    /// # Errors
    /// The server and its client do not come together.
    pub async fn new(host: Arc<Host>, config: ClientConfig, root: &Path) -> anyhow::Result<Self> {
        let server = CodeServer::new(host, move |host| {
            let config = config.clone();
            async move { Client::connect(config, host).await }
        });
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        // It ends with its client.
        tokio::spawn(async move {
            if let Ok(serving) = server.serve(theirs).await {
                // Nobody asks how it ended.
                let _ = serving.waiting().await;
            }
        });
        let client = ().serve(ours).await?;
        let tools = client.list_all_tools().await?;
        let definition = |tool: rmcp::model::Tool| {
            Definition::new(
                tool.name,
                tool.description.unwrap_or_default(),
                Value::Object((*tool.input_schema).clone()),
            )
        };
        let definitions = tools.into_iter().map(definition).collect();
        Ok(Self { client, root: root.display().to_string(), definitions })
    }

    async fn request(&self, call: &Call) -> anyhow::Result<CallToolResult> {
        let arguments = serde_json::from_str(&call.arguments.to_string().replace(ROOT, &self.root))?;
        let params = CallToolRequestParams::new(call.name.clone()).with_arguments(arguments);
        Ok(self.client.call_tool(params).await?)
    }
}

#[async_trait]
impl Toolbox for ByProgram {
    fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    async fn call(&self, call: &Call) -> Observation {
        match self.request(call).await {
            Ok(result) => observation(result, &self.root),
            Err(error) => Observation { text: format!("{error:#}"), server_calls: 0, run: None },
        }
    }
}

/// Returns the text that MCP clients show a model: the content. The number of calls and the error are in the structured
/// content beside it.
fn observation(result: CallToolResult, root: &str) -> Observation {
    let texts = result.content.into_iter().map(|block| match block {
        ContentBlock::Text(text) => text.text,
        other => serde_json::to_string(&other).unwrap_or_default(),
    });
    let text = texts.collect::<Vec<_>>().join("\n").replace(root, ROOT);
    let Some(content) = result.structured_content else { return Observation { text, server_calls: 0, run: None } };
    // Other tools than `execute_code` use nothing.
    let usage = content["usage"]["tool_calls"].as_u64();
    let run = usage.map(|_| match content["error"]["code"].as_str() {
        None => RunEnd::Done,
        Some("CHECK_FAILED") => RunEnd::Refused,
        Some(_) => RunEnd::Failed,
    });
    Observation { text, server_calls: usage.unwrap_or(0), run }
}

/// Calls a tool with what the model wrote, and gives what the model may see of the result, or of the failure.
async fn call_on(host: &Host, name: &str, arguments: &Value, root: &str) -> Result<Value, String> {
    let arguments = serde_json::from_str(&arguments.to_string().replace(ROOT, root));
    let arguments: Value = arguments.map_err(|error| error.to_string())?;
    let json = host.call(name, &arguments).await.map_err(|error| error.to_string().replace(root, ROOT))?;
    let text = String::from_utf8_lossy(&json).replace(root, ROOT);
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
