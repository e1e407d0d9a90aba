//! What code asks about its tools, as calls of the server `mcp`. The host answers them itself, before any tool is looked up:
//! they read, need no approval, and tell only of tools that the asking execution may call.

use relay_proto::{ErrorCode, INTROSPECTION_SERVER, LimitName, ToolPatterns};
use serde_json::{Map, Value, json};

use crate::describe::catalogue::first_line;
use crate::tool::Registered;
use crate::tools::Tools;

/// How many tools a search gives unless told otherwise.
pub const FOUND: usize = 10;
/// The most tools that a search gives.
pub const MAX_FOUND: usize = 50;
/// The most bytes of a declaration among many that were found.
const FOUND_BYTES: usize = 2 << 10;

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// `mcp.search {query, limit?}`: the tools that words fit, the best first.
    Search,
    /// `mcp.describe {name}`: one tool, or which may have been meant.
    Describe,
    /// `mcp.interfaces {}`: all tools by server and name.
    Interfaces,
    /// `mcp.interface {name}`: one tool, or null.
    Interface,
}

/// Whether a tool's name belongs to the server that answers questions.
pub(crate) fn is_question(tool: &str) -> bool {
    tool.split_once('.').is_some_and(|(server, _)| server == INTROSPECTION_SERVER)
}

impl Question {
    fn of(tool: &str) -> Option<Self> {
        let (_, question) = tool.split_once('.').filter(|_| is_question(tool))?;
        Some(match question {
            "search" => Self::Search,
            "describe" => Self::Describe,
            "interfaces" => Self::Interfaces,
            "interface" => Self::Interface,
            _ => return None,
        })
    }
}

/// Answers a call of the server `mcp`, of the tools that the patterns allow.
///
/// # Errors
/// There is no such question, its arguments do not fit, the tool that is to be described is not there, or the answer is too
/// large; the text is for the code's author.
pub(crate) fn answer(
    tools: &Tools,
    patterns: &ToolPatterns,
    tool: &str,
    arguments: &Value,
) -> Result<Value, (ErrorCode, String)> {
    let question = Question::of(tool).ok_or_else(|| {
        let text = "the server \"mcp\" has only: search, describe, interfaces, interface";
        (ErrorCode::UnknownTool, text.to_owned())
    })?;
    let empty = Map::new();
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        Value::Null => &empty,
        _ => return Err(unfit(tool, "they are no object")),
    };
    let text = |field: &str| match arguments.get(field) {
        Some(Value::String(text)) => Ok(text.as_str()),
        _ => Err(unfit(tool, &format!("{field:?} has to be a string"))),
    };
    match question {
        Question::Search => {
            let limit = match arguments.get("limit") {
                None | Some(Value::Null) => FOUND,
                Some(limit) => limit
                    .as_u64()
                    .map(|limit| usize::try_from(limit).unwrap_or(MAX_FOUND))
                    .ok_or_else(|| unfit(tool, &format!("\"limit\" has to be a whole number, at most {MAX_FOUND}")))?,
            };
            Ok(search(tools, patterns, text("query")?, limit).into())
        }
        Question::Describe => describe(tools, patterns, text("name")?),
        Question::Interface => Ok(describe(tools, patterns, text("name")?).unwrap_or(Value::Null)),
        Question::Interfaces => interfaces(tools, patterns),
    }
}

fn unfit(tool: &str, reason: &str) -> (ErrorCode, String) {
    let text = format!("{tool} was called with arguments that do not fit: {reason}");
    (ErrorCode::InvalidArguments, text)
}

/// The tools that words fit, the best first: at least one place, at most [`MAX_FOUND`].
pub fn search(tools: &Tools, patterns: &ToolPatterns, query: &str, limit: usize) -> Vec<Value> {
    let found = tools.catalogue().search(query, patterns, limit.clamp(1, MAX_FOUND));
    let entry = |tool: &Registered| {
        with_effect(
            tool,
            json!({
                "name": tool.name.as_str(),
                "description": first_line(&tool.spec.description),
                "typescript": tools.declarations().typescript(tool, FOUND_BYTES),
            }),
        )
    };
    found.iter().map(|tool| entry(tool)).collect()
}

/// All that code may know of one tool.
///
/// # Errors
/// No tool has this name, or several have; the text names those that may have been meant.
pub fn describe(tools: &Tools, patterns: &ToolPatterns, name: &str) -> Result<Value, (ErrorCode, String)> {
    match tools.catalogue().describe(name, patterns) {
        Ok(tool) => Ok(interface(tools, &tool)),
        // What was asked of is the tool, not the server.
        Err(unknown) => Err((ErrorCode::UnknownTool, unknown.to_string())),
    }
}

fn interface(tools: &Tools, tool: &Registered) -> Value {
    let mut interface = json!({
        "name": tool.name.as_str(),
        "description": tool.spec.description,
        "input_schema": tool.spec.input_schema,
        "typescript": tools.declarations().typescript(tool, crate::describe::declare::MAX_BYTES),
    });
    if let Some(schema) = &tool.spec.output_schema {
        interface["output_schema"] = schema.clone();
    }
    with_effect(tool, interface)
}

/// What calling it does, where somebody said.
fn with_effect(tool: &Registered, mut entry: Value) -> Value {
    if let Some(effect) = tool.spec.manifest.effect {
        entry["effect"] = effect.as_str().into();
    }
    entry
}

fn interfaces(tools: &Tools, patterns: &ToolPatterns) -> Result<Value, (ErrorCode, String)> {
    let most = usize::try_from(LimitName::ToolResultBytes.maximum()).unwrap_or(usize::MAX);
    let (mut servers, mut bytes) = (Map::new(), 0);
    for tool in tools.catalogue().allowed(patterns) {
        let interface = interface(tools, tool);
        bytes += interface.to_string().len();
        if bytes > most {
            let text =
                format!("the interfaces of all tools have more than {most} bytes; use mcp.search(query) instead");
            return Err((ErrorCode::ToolResultLimit, text));
        }
        let server = servers.entry(tool.name.server()).or_insert_with(|| Map::new().into());
        server[tool.name.tool()] = interface;
    }
    Ok(servers.into())
}
