//! Gives the author of the code, mostly a model, advice about an error.

use std::cell::{Cell, RefCell};

use relay_proto::spelling::{nearest, sanitize};
use relay_script::{References, Undeclared};

use super::channel::message;
use super::servers;

/// Maximum number of bytes of an error's text that are searched.
const MAX_TEXT_BYTES: usize = 1_000;
/// Maximum length in bytes of a name in it.
const MAX_NAME_BYTES: usize = 100;
/// Maximum number of bytes of code that are searched.
const MAX_SOURCE_BYTES: usize = 64 << 10;
/// Maximum number of tools that a hint names.
const MAX_NAMED: usize = 3;
/// Maximum number of servers that a hint names.
const MAX_SERVERS: usize = 20;

/// Code that calls a tool, for hints.
const HOW_TO_CALL: &str = "await mcp.call(\"server.tool\", args)";

/// Bindings of the execution on which hints depend.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Has {
    pub(super) console: bool,
    pub(super) timers: bool,
    pub(super) servers: bool,
    pub(super) introspection: bool,
}

thread_local! {
    static HAS: Cell<Has> = const { Cell::new(Has { console: false, timers: false, servers: false, introspection: false }) };
    /// Code of the execution, up to [`MAX_SOURCE_BYTES`].
    static SOURCE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Notes the bindings of the execution.
pub(super) fn set_bindings(start: &message::Start) {
    let message::Start { console, timers, servers, introspection, .. } = *start;
    HAS.set(Has { console, timers, servers, introspection });
}

/// Notes the code of the execution.
pub(super) fn begin(source: &str) {
    SOURCE.set(source[..source.floor_char_boundary(MAX_SOURCE_BYTES)].to_owned());
}

/// Returns advice about an uncaught error with this text; `None`: there is none.
pub(super) fn of_error(text: &str) -> Option<String> {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    let has = HAS.get();
    if text.contains("is not iterable") && SOURCE.with_borrow(|source| calls_a_server(source)) {
        return Some("a tool call gives a Promise: write await before it".into());
    }
    if let Some(member) = between(text, "Cannot read properties of undefined (reading '", "')") {
        return SOURCE.with_borrow(|source| of_missing_server(source, member));
    }
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
        return of_name(name, has).or_else(|| SOURCE.with_borrow(|source| of_unknown_server(name, source)));
    }
    let path = text.strip_suffix(" is not a function")?.strip_prefix("TypeError: ")?;
    of_call(path)
}

/// Returns whether the code calls something as `server.tool(…)`.
fn calls_a_server(source: &str) -> bool {
    servers::tools(|tools| tools.keys().any(|server| source.contains(&format!("{}.", sanitize(server)))))
        || source.contains("mcp.call(")
}

/// Returns advice about a called member of an undefined name, which may be a server that is not connected.
fn of_unknown_server(name: &str, source: &str) -> Option<String> {
    let has_member = members_of(source, name).next().is_some();
    has_member.then(|| format!("if {name} is to be a server, it is not connected; {}", connected()))
}

/// Returns advice about `servers.exaa.search`, `globalThis.exaa.search` or `mcp.exa.search`, whose server does not
/// exist.
fn of_missing_server(source: &str, member: &str) -> Option<String> {
    for base in ["mcp", "servers", "globalThis"] {
        for name in members_of(source, base) {
            if !members_of(source, name).any(|it| it == member) {
                continue;
            }
            let known = servers::tools(|tools| {
                let spelled: Vec<_> = tools.keys().map(|server| sanitize(server)).collect();
                if spelled.iter().any(|server| server == name) {
                    return Some(true);
                }
                nearest(name, spelled.iter().map(String::as_str)).map(|_| false)
            });
            return Some(match (base, known) {
                ("mcp", Some(true)) => format!("mcp has no {name}: write {}", written(name, member, HAS.get())),
                ("mcp", _) => format!("mcp has no {name}; {}", connected()),
                _ => format!("there is no server {name}; {}", connected()),
            });
        }
    }
    None
}

/// Lists the servers in words.
fn connected() -> String {
    servers::tools(|tools| {
        if tools.is_empty() {
            return "there are no servers".into();
        }
        let named: Vec<_> = tools.keys().take(MAX_SERVERS).map(|server| sanitize(server)).collect();
        let more = if tools.len() > MAX_SERVERS { ", …" } else { "" };
        format!("there are: {}{more}", named.join(", "))
    })
}

/// Returns the members that a text reads of a name, as `name.member`.
fn members_of<'t>(source: &'t str, name: &str) -> impl Iterator<Item = &'t str> + use<'t> {
    let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
    let before = name.to_owned();
    source.match_indices('.').filter_map(move |(at, _)| {
        let rest = source.get(..at)?.strip_suffix(before.as_str())?;
        let stands_alone = !rest.chars().next_back().is_some_and(is_part);
        let member = source.get(at + 1..)?;
        let member = &member[..member.find(|it| !is_part(it)).unwrap_or(member.len())];
        (stands_alone && !member.is_empty()).then_some(member)
    })
}

/// Returns whether code may catch an error and go on.
pub(super) fn may_catch(source: &str) -> bool {
    ["catch", "allSettled", ".then"]
        .iter()
        .any(|word| memchr::memmem::find(source.as_bytes(), word.as_bytes()).is_some())
}

/// Returns advice about names that do not exist, for code that caught the errors and went on.
pub(super) fn caught(references: &References, source: &str, mut is_there: impl FnMut(&str) -> bool) -> Vec<String> {
    let has = HAS.get();
    let mut hints = of_members(source, &references.declared);
    hints.extend(references.declared.iter().filter_map(|name| of_hidden_server(name, source)));
    for word in ["eval(", "Function("] {
        if source.contains(word) {
            hints.push(format!("{word}…) fails here: a text is never run as code; write the code itself"));
        }
    }
    hints.truncate(MAX_NAMED);
    for Undeclared { name, line, in_typeof, .. } in &references.undeclared {
        // Code that asks by `typeof` first can do without the name.
        if *in_typeof || hints.len() == MAX_NAMED || is_there(name) {
            continue;
        }
        if let Some(hint) = of_name(name, has) {
            hints.push(format!("{name} is not defined: line {line} fails where it runs; {hint}"));
        }
    }
    hints
}

/// Returns advice about a name that the code declares and calls as if it were a server.
fn of_hidden_server(name: &str, source: &str) -> Option<String> {
    let is_called = servers::tools(|tools| {
        let own = tools.iter().filter(|(server, _)| sanitize(server) == name);
        own.flat_map(|(_, tools)| tools).any(|tool| members_of(source, name).any(|member| member == sanitize(tool)))
    });
    is_called
        .then(|| format!("{name} is the name of a server: call your own variable something else, such as {name}Result"))
}

/// Returns advice about calls of tools that a server does not have.
fn of_members(source: &str, declared: &[String]) -> Vec<String> {
    let servers: Vec<_> = servers::tools(|tools| tools.keys().map(|server| sanitize(server)).collect());
    let missing = |server: &String| {
        let has = |member: &str| {
            servers::tools(|tools| {
                let own = tools.iter().filter(|(name, _)| sanitize(name) == *server);
                own.flat_map(|(_, tools)| tools).any(|tool| *tool == member || sanitize(tool) == member)
            })
        };
        let member = members_of(source, server)
            .find(|member| !has(member) && source.contains(&format!("{server}.{member}(")))?;
        of_call(&format!("{server}.{member}"))
    };
    let looked_at = servers.iter().filter(|server| HAS.get().servers && !declared.contains(server));
    looked_at.filter_map(missing).take(MAX_NAMED).collect()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    let (name, _) = rest.split_once(after)?;
    (!name.is_empty() && name.len() <= MAX_NAME_BYTES).then_some(name)
}

/// Returns advice on what to write in place of an unknown name; `None`: there is none.
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

/// Returns advice about a tool that the model has beside the one that runs code.
fn outside(name: &str, inside: &str, has: Has) -> String {
    let instead =
        if has.introspection && !inside.is_empty() { format!("; inside code, write {inside}") } else { String::new() };
    format!("{name} is a tool of its own, called outside of code and not in it{instead}")
}

/// Returns advice about a name that is, or resembles, that of a server or a tool.
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

/// Returns the code that calls a tool.
fn written(server: &str, tool: &str, has: Has) -> String {
    if has.servers {
        format!("{}.{}({{…}})", sanitize(server), sanitize(tool))
    } else {
        format!("mcp.call(\"{server}.{tool}\", {{…}})")
    }
}

/// Returns advice about a member that is no function, such as `exa.serch`.
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
        if spelled.iter().any(|it| it == tool) {
            let hidden = format!(
                "{server}.{tool} is a tool, but here {server} is something else: another thing of that name hides it"
            );
            return Some(hidden);
        }
        Some(match nearest(tool, spelled.iter().map(String::as_str)) {
            Some(meant) => format!("the server {server} has no tool {tool}; did you mean {server}.{meant}({{…}})?"),
            None => {
                let some = spelled.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
                format!("the server {server} has no tool {tool}; it has {some}")
            }
        })
    })
}
