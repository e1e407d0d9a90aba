//! Introspection: the calls of the reserved server `mcp`, with which code searches and describes its tools. The host
//! answers them itself, before it looks up any tool: they need no approval, and show only tools that the execution may
//! call.

use relay_proto::{ErrorCode, INTROSPECTION_SERVER, LimitName, ToolPatterns};
use serde_json::{Map, Value, json};

use crate::describe::Declarations;
use crate::describe::catalogue::first_line;
use crate::tool::Registered;
use crate::tools::Tools;

/// The default number of tools that a search returns.
pub const FOUND: usize = 10;
/// The most tools that a search returns.
pub const MAX_FOUND: usize = 50;
/// The most bytes of the declaration of each tool that a search returns, 2 KiB.
const MAX_FOUND_BYTES: usize = 2 << 10;

/// A call of the server `mcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// `mcp.search {query, limit?}` returns the tools that match the query, the best first.
    Search,
    /// `mcp.describe {name}` returns one tool, or an error that names similar ones.
    Describe,
    /// `mcp.interfaces {}` returns all tools by server and name.
    Interfaces,
    /// `mcp.interface {name}` returns one tool, or `null`.
    Interface,
}

/// Returns `true` if a tool's full name is that of a call of the server `mcp`, also if there is no such call.
pub(crate) fn is_question(tool: &str) -> bool {
    tool.split_once('.').is_some_and(|(server, _)| server == INTROSPECTION_SERVER)
}

impl Question {
    /// Returns the call with this full name; `None`: the server `mcp` has no such call.
    fn from_name(tool: &str) -> Option<Self> {
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

/// Answers a call of the server `mcp` from the tools that the patterns allow.
///
/// # Errors
/// An error code and a message for the code's author:
/// - `UNKNOWN_TOOL`: there is no such call, or no tool with the given name.
/// - `INVALID_ARGUMENTS`: the arguments do not fit the call.
/// - `TOOL_RESULT_LIMIT`: the answer is too large.
pub(crate) fn answer(
    tools: &Tools,
    patterns: &ToolPatterns,
    tool: &str,
    arguments: &Value,
) -> Result<Value, (ErrorCode, String)> {
    let question = Question::from_name(tool).ok_or_else(|| {
        let text = "the server \"mcp\" has only: search, describe, interfaces, interface";
        (ErrorCode::UnknownTool, text.to_owned())
    })?;
    let empty = Map::new();
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        Value::Null => &empty,
        _ => return Err(unfit(tool, "they are not an object")),
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

/// Returns the error that the arguments of a call do not fit.
fn unfit(tool: &str, reason: &str) -> (ErrorCode, String) {
    let text = format!("{tool} was called with arguments that do not fit: {reason}");
    (ErrorCode::InvalidArguments, text)
}

/// Returns the allowed tools that match a query, the best first, each as an object with its name, the first line of its
/// description, its TypeScript declaration and its effect. `limit` is raised to 1 and lowered to [`MAX_FOUND`].
pub fn search(tools: &Tools, patterns: &ToolPatterns, query: &str, limit: usize) -> Vec<Value> {
    let found = tools.catalogue().search(query, patterns, limit.clamp(1, MAX_FOUND));
    let entry = |tool: &Registered| {
        with_effect(
            tool,
            json!({
                "name": tool.name.as_str(),
                "description": first_line(&tool.spec.description),
                "typescript": tools.declarations().typescript(tool, MAX_FOUND_BYTES),
            }),
        )
    };
    found.iter().map(|tool| entry(tool)).collect()
}

/// Returns an allowed tool as an object with its name, description, schemas, TypeScript declaration and effect.
///
/// # Errors
/// `UNKNOWN_TOOL` and a message that names similar tools: no allowed tool has this name, or several have it.
/// `TOOL_DENIED` and the reason: the policy denies it.
pub fn describe(tools: &Tools, patterns: &ToolPatterns, name: &str) -> Result<Value, (ErrorCode, String)> {
    match tools.catalogue().describe(name, patterns) {
        Ok(tool) => Ok(interface(tools, &tool)),
        // The code is the same for an unknown server: the call was about a tool.
        Err(unknown) => Err(match tools.denial(name) {
            Some(reason) => (ErrorCode::ToolDenied, format!("{name} is denied: {reason}")),
            None => (ErrorCode::UnknownTool, unknown.to_string()),
        }),
    }
}

/// Returns an allowed tool as an object with its name, TypeScript declaration and effect. Its schemas are there only where
/// the declaration does not show all types: it has the description and the most of the schemas in half as many tokens.
///
/// # Errors
/// `UNKNOWN_TOOL` and a message that names similar tools: no allowed tool has this name, or several have it.
pub fn declare(tools: &Tools, patterns: &ToolPatterns, name: &str) -> Result<Value, (ErrorCode, String)> {
    let mut declared = describe(tools, patterns, name)?;
    if let Some(members) = declared.as_object_mut() {
        let is_whole = members.get("typescript").and_then(Value::as_str).is_some_and(Declarations::is_whole);
        members.retain(|member, _| member != "description" && (!is_whole || !member.ends_with("_schema")));
    }
    Ok(declared)
}

/// Returns a tool as an object with everything that code may know about it.
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

/// Adds a tool's effect to an object, if the effect is declared.
fn with_effect(tool: &Registered, mut entry: Value) -> Value {
    if let Some(effect) = tool.spec.manifest.effect {
        entry["effect"] = effect.as_str().into();
    }
    entry
}

/// Returns all allowed tools as an object of servers, each with its tools by name.
///
/// # Errors
/// `TOOL_RESULT_LIMIT`: the tools are too many for one answer.
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
