//! The tools `search_tools`, `describe_tools` and `read_output`.

use std::time::Duration;

use relay_proto::ToolPatterns;
use serde_json::{Value, json};

use super::ExecuteCode;
use crate::arguments::{DescribeArguments, ReadArguments, SearchArguments};
use crate::report::{Report, listed, refused, text_report};
use host_client_core::introspect;
use host_client_core::text::short_name;

/// Maximum number of tools that one call describes.
const MAX_DESCRIBED: usize = 20;
/// Maximum size of the descriptions in one answer as JSON, in bytes. A tool with larger schemas is described without
/// them.
const MAX_DESCRIPTION_BYTES: usize = 100_000;

impl ExecuteCode {
    /// Runs `search_tools`.
    pub(super) fn search(&self, arguments: SearchArguments) -> Report {
        let limit = arguments.limit.unwrap_or(introspect::FOUND);
        let tools = self.client.host().tools();
        let found = introspect::search(tools, &ToolPatterns::default(), &arguments.query, limit);
        let mut answer = json!({"tools": found});
        if found.is_empty() {
            let servers = tools.servers();
            let names: Vec<_> = servers.iter().take(introspect::MAX_FOUND).map(|(name, _)| name.as_str()).collect();
            answer["hint"] = match &*names {
                [] => "there are no tools".into(),
                _ => {
                    format!("no tool has such words; try others, or the names of servers: {}", names.join(", ")).into()
                }
            };
        }
        let starting = tools.starting();
        if !starting.is_empty() {
            let of = |(server, since): &(String, Duration)| format!("{server} (since {} s)", since.as_secs());
            let some: Vec<_> = starting.iter().take(introspect::MAX_FOUND).map(of).collect();
            answer["still_starting"] = json!(some);
        }
        listed(answer)
    }

    /// Runs `describe_tools`.
    pub(super) fn describe(&self, arguments: &DescribeArguments) -> Report {
        let (mut described, mut bytes) = (Vec::new(), 0);
        for name in arguments.names.iter().take(MAX_DESCRIBED) {
            let tool = self.describe_one(name);
            bytes += tool.to_string().len();
            if bytes > MAX_DESCRIPTION_BYTES && !described.is_empty() {
                break;
            }
            described.push(tool);
        }
        let left_out = arguments.names.len() - described.len();
        let mut answer = json!({"tools": described});
        if left_out > 0 {
            answer["hint"] = format!("the last {left_out} are left out; ask for them by themselves").into();
        }
        listed(answer)
    }

    /// Describes one tool, without schemas that are too large.
    fn describe_one(&self, name: &str) -> Value {
        let described = introspect::declare(self.client.host().tools(), &ToolPatterns::default(), name);
        let mut tool = described.unwrap_or_else(|(_, error)| json!({"name": short_name(name), "error": error}));
        if let Some(members) = tool.as_object_mut()
            && Value::from(members.clone()).to_string().len() > MAX_DESCRIPTION_BYTES
        {
            for schema in ["input_schema", "output_schema"] {
                if members.remove(schema).is_some() {
                    members.insert(
                        format!("{schema}_left_out"),
                        "it is too long; the TypeScript says the most of it".into(),
                    );
                }
            }
        }
        tool
    }

    /// Runs `read_output`.
    pub(super) async fn read(&self, arguments: ReadArguments) -> Report {
        let ReadArguments { handle, path, offset, limit } = arguments;
        let store = self.store.clone();
        let read = move || store.read(&handle, &path, offset, limit);
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(page)) => text_report(page.text),
            Ok(Err(error)) => refused(format!("INVALID_INPUT: {error}")),
            Err(_) => refused("INTERNAL: the output could not be read"),
        }
    }
}
