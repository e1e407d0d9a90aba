//! The tools as MCP clients are offered them.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value};

use crate::agent::{CANCEL_TOOL, DESCRIBE_TOOL, Definition, ExecuteCode, SEARCH_TOOL, WAIT_TOOL};
use crate::report;

/// Converts a definition for the MCP client.
pub(super) fn offered(definition: Definition) -> Tool {
    let object = |value| match value {
        Value::Object(members) => Arc::new(members),
        _ => Arc::new(Map::new()),
    };
    let Definition { name, description, parameters, .. } = definition;
    let title = match &*name {
        ExecuteCode::NAME => {
            let annotations = ToolAnnotations::with_title("Run code that calls tools").read_only(false);
            return Tool::new(name, description, object(parameters))
                .with_raw_output_schema(object(report::schema()))
                .with_annotations(annotations);
        }
        SEARCH_TOOL => "Find tools",
        DESCRIBE_TOOL => "Describe tools",
        WAIT_TOOL => "Wait for a run",
        CANCEL_TOOL => {
            let annotations = ToolAnnotations::with_title("Cancel a run").read_only(false).idempotent(true);
            return Tool::new(name, description, object(parameters)).with_annotations(annotations);
        }
        _ => "Read more of a result",
    };
    let annotations = ToolAnnotations::with_title(title).read_only(true).open_world(false);
    Tool::new(name, description, object(parameters)).with_annotations(annotations)
}
