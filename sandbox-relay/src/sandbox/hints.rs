//! What to do about an error, where that can be told: for whoever wrote the code, most often a model.

use relay_proto::spelling::{nearest, sanitize};
use relay_script::{References, Undeclared};

use super::servers;

/// The most bytes of an error's text that are looked at, and of a name in it.
const MAX_TEXT_BYTES: usize = 1_000;
const MAX_NAME_BYTES: usize = 100;
/// How many tools a hint names.
const MAX_NAMED: usize = 3;

const HOW_TO_CALL: &str = "await mcp.call(\"server.tool\", args)";

/// What an execution has, as far as a hint depends on it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Has {
    pub(super) console: bool,
    pub(super) timers: bool,
    pub(super) servers: bool,
    pub(super) introspection: bool,
}

/// What to do about an uncaught error with this text; nothing where nobody knows.
pub(super) fn of_error(text: &str, has: Has) -> Option<String> {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    if text.contains("Code generation from strings disallowed") {
        return Some("a text is never run as code here, by eval, Function or a timer: write the code itself".into());
    }
    if let Some(name) = between(text, "Cannot access '", "' before initialization") {
        let is_server = servers::tools(|tools| tools.keys().any(|server| sanitize(server) == name));
        return is_server.then(|| {
            format!("{name} is the name of a server: call your own variable something else, such as {name}Result")
        });
    }
    if let Some(name) = between(text, "ReferenceError: ", " is not defined") {
        return of_name(name, has);
    }
    if let Some(path) = between(text, "TypeError: ", " is not a function") {
        return of_call(path);
    }
    None
}

/// Whether code may catch an error and go on.
pub(super) fn may_catch(source: &str) -> bool {
    ["catch", "allSettled", ".then"]
        .iter()
        .any(|word| memchr::memmem::find(source.as_bytes(), word.as_bytes()).is_some())
}

/// What to do about names that are not there, of code that went on without them.
pub(super) fn caught(references: &References, mut is_there: impl FnMut(&str) -> bool, has: Has) -> Vec<String> {
    let mut hints = Vec::new();
    for Undeclared { name, line, in_typeof, .. } in &references.undeclared {
        // Who asks by typeof first knows what to do without.
        if *in_typeof || hints.len() == MAX_NAMED || is_there(name) {
            continue;
        }
        if let Some(hint) = of_name(name, has) {
            hints.push(format!("{name} is not defined (line {line}), and the code went on: {hint}"));
        }
    }
    hints
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    let (name, _) = rest.split_once(after)?;
    (!name.is_empty() && name.len() <= MAX_NAME_BYTES).then_some(name)
}

/// What to write in the place of a name that is not there.
pub(super) fn of_name(name: &str, has: Has) -> Option<String> {
    let hint = match name {
        "require" | "module" | "exports" | "importScripts" => {
            format!("nothing can be imported here; everything from outside is a tool: {HOW_TO_CALL}")
        }
        "fetch" | "XMLHttpRequest" | "WebSocket" | "axios" | "URL" | "URLSearchParams" => {
            format!("there is no network here; look for a tool that gets it: {HOW_TO_CALL}")
        }
        "fs" | "path" | "os" | "child_process" | "Deno" | "Bun" => {
            format!("there are no files and no system here; look for a tool that does it: {HOW_TO_CALL}")
        }
        "process" | "__dirname" | "__filename" => {
            "there is no process, environment or argument here; what the code needs stands in the code, or a tool gives it".into()
        }
        "Buffer" | "TextEncoder" | "TextDecoder" | "atob" | "btoa" | "crypto" => {
            "only ECMAScript is here: use strings, Uint8Array (toBase64, fromBase64) and Math.random".into()
        }
        "structuredClone" => "copy with JSON.parse(JSON.stringify(value)), or with {...value}".into(),
        "window" | "document" | "global" | "self" | "localStorage" | "alert" => {
            "there is no page here; global names are on globalThis".into()
        }
        "console" if !has.console => "there is no console here: return what you want to say".into(),
        "setTimeout" | "setInterval" | "clearTimeout" | "clearInterval" | "setImmediate" if !has.timers => {
            "there are no timers here; await the tool calls themselves".into()
        }
        "setImmediate" | "queueMicrotask" => "use setTimeout(f, 0), or await null".into(),
        "search_tools" | "list_tools" | "list_tools_meta" => outside(name, "mcp.search(query)", has),
        "describe_tools" | "describe_tool" | "tool_info" | "get_tool" => outside(name, "mcp.describe(name)", has),
        "execute_code" | "read_output" | "call_tool_chain" | "sandbox_execute" => outside(name, "", has),
        _ => return of_tools(name, has),
    };
    Some(hint)
}

/// A tool that the model has beside the one that runs code.
fn outside(name: &str, inside: &str, has: Has) -> String {
    let instead =
        if has.introspection && !inside.is_empty() { format!("; inside code, write {inside}") } else { String::new() };
    format!("{name} is a tool of its own, called outside of code and not in it{instead}")
}

/// A name that is a server's or a tool's, or nearly.
fn of_tools(name: &str, has: Has) -> Option<String> {
    servers::tools(|tools| {
        if let Some((server, _)) = tools.iter().find(|(server, _)| **server == name || sanitize(server) == name) {
            return Some(format!("{name} is a server: call its tools by await mcp.call(\"{server}.tool\", args)"));
        }
        let of_name = |(server, tools): (&String, &Vec<String>)| {
            let tool = tools.iter().find(|tool| **tool == name || sanitize(tool) == name)?;
            Some(written(server, tool, has))
        };
        let named: Vec<_> = tools.iter().filter_map(of_name).take(MAX_NAMED).collect();
        if !named.is_empty() {
            return Some(format!("{name} is a tool of a server: write {}", named.join(" or ")));
        }
        let spelled: Vec<_> = tools.keys().map(|server| sanitize(server)).collect();
        if let Some(server) = nearest(name, spelled.iter().map(String::as_str)) {
            return Some(format!("there is a server {server}: did you mean that?"));
        }
        let all: Vec<_> =
            tools.iter().flat_map(|(server, tools)| tools.iter().map(move |tool| (server, tool))).collect();
        let meant = nearest(name, all.iter().map(|(_, tool)| tool.as_str()))?;
        let (server, tool) = all.into_iter().find(|(_, tool)| *tool == meant)?;
        Some(format!("did you mean {}?", written(server, tool, has)))
    })
}

/// How a tool is called.
fn written(server: &str, tool: &str, has: Has) -> String {
    if has.servers {
        format!("{}.{}({{…}})", sanitize(server), sanitize(tool))
    } else {
        format!("mcp.call(\"{server}.{tool}\", {{…}})")
    }
}

/// `exa.serch`, which is no function.
fn of_call(path: &str) -> Option<String> {
    let path = path.strip_prefix("globalThis.").or_else(|| path.strip_prefix("servers.")).unwrap_or(path);
    if let Some(rest) = path.strip_prefix("mcp.") {
        let name = rest.split('.').next().unwrap_or(rest);
        return Some(format!("mcp has no {name}; tools are called by {HOW_TO_CALL}"));
    }
    let (server, tool) = path.split_once('.')?;
    servers::tools(|tools| {
        let (server, tools) = tools.iter().find(|(name, _)| **name == server || sanitize(name) == server)?;
        let spelled: Vec<_> = tools.iter().map(|tool| sanitize(tool)).collect();
        let server = sanitize(server);
        Some(match nearest(tool, spelled.iter().map(String::as_str)) {
            Some(meant) => format!("the server {server} has no tool {tool}; did you mean {server}.{meant}({{…}})?"),
            None => {
                let some = spelled.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
                format!("the server {server} has no tool {tool}; it has {some}")
            }
        })
    })
}
