//! Advice about names that neither the program nor the sandbox has.

use relay_proto::spelling::nearest;
use relay_script::{Arguments, Chain, References, Undeclared, Used};

use super::known::{self, HOW_TO_CALL};

/// Methods of built-in values that are called with nothing. A name with one of them is hardly a server.
const METHODS: [&str; 19] = [
    "clear",
    "entries",
    "flat",
    "getTime",
    "json",
    "keys",
    "next",
    "pop",
    "reverse",
    "shift",
    "sort",
    "text",
    "toISOString",
    "toLowerCase",
    "toString",
    "toUpperCase",
    "trim",
    "valueOf",
    "values",
];

/// Returns advice on what to write in place of an undeclared name; `None`: there is none.
pub(super) fn of_name(name: &Undeclared, references: &References) -> Option<String> {
    let Undeclared { name, called, assigned, .. } = name;
    let name = name.as_str();
    if *assigned {
        return Some(format!("declare the variable first: let {name}"));
    }
    let chains: Vec<&Chain> = references.chains.iter().filter(|it| !it.is_declared && it.root == name).collect();
    let has_member = |known: &[&str]| chains.iter().any(|it| known.contains(&it.members[0].name.as_str()));
    let is_used = *called || !chains.is_empty();
    let hint = match name {
        "require" | "importScripts" if *called => {
            format!("nothing can be imported here; everything from outside is a tool: {HOW_TO_CALL}")
        }
        "module" | "exports" if chains.iter().any(|it| it.used == Used::Assigned) => {
            "nothing is exported this way: return the value, or write export default".into()
        }
        "fetch" | "XMLHttpRequest" | "WebSocket" | "EventSource" | "axios" if is_used => {
            format!("there is no network here; look for a tool that gets it: {HOW_TO_CALL}")
        }
        "URL" | "URLSearchParams" if is_used => format!(
            "{name} is not there: only ECMAScript is here; take the text apart with split or a regular expression, and use encodeURIComponent"
        ),
        "fs" | "child_process" | "Deno" | "Bun" if !chains.is_empty() => no_files(),
        "os" if has_member(&["cpus", "homedir", "hostname", "platform", "tmpdir", "type", "userInfo"]) => no_files(),
        "path"
            if has_member(&["basename", "dirname", "extname", "join", "normalize", "relative", "resolve", "sep"]) =>
        {
            "there are no modules of Node here: join and split paths as strings".into()
        }
        "process"
            if has_member(&[
                "argv",
                "cwd",
                "env",
                "exit",
                "hrtime",
                "memoryUsage",
                "nextTick",
                "on",
                "pid",
                "platform",
                "stderr",
                "stdin",
                "stdout",
                "uptime",
                "version",
                "versions",
            ]) =>
        {
            no_process()
        }
        "__dirname" | "__filename" => no_process(),
        "crypto" if has_member(&["createHash", "getRandomValues", "randomBytes", "randomUUID", "subtle"]) => {
            only_ecmascript()
        }
        "Buffer" | "TextEncoder" | "TextDecoder" | "atob" | "btoa" if is_used => only_ecmascript(),
        "structuredClone" if *called => "copy with JSON.parse(JSON.stringify(value)), or with {...value}".into(),
        "window" | "document" | "localStorage" | "global" | "self" if !chains.is_empty() => no_page(),
        "alert" if *called => no_page(),
        "console" if !known::has().console => "there is no console here: return what you want to say".into(),
        "setTimeout" | "setInterval" | "clearTimeout" | "clearInterval" | "setImmediate"
            if *called && !known::has().timers =>
        {
            "there are no timers here; await the tool calls themselves".into()
        }
        "setImmediate" | "queueMicrotask" if *called => "use setTimeout(f, 0), or await null".into(),
        "search_tools" | "list_tools" | "list_tools_meta" if *called => outside(name, "mcp.search(query)"),
        "describe_tools" | "describe_tool" | "tool_info" | "get_tool" if *called => outside(name, "mcp.describe(name)"),
        "execute_code" | "read_output" | "call_tool_chain" | "sandbox_execute" if *called => outside(name, ""),
        _ => return of_tools(name, *called, &chains, references),
    };
    Some(hint)
}

fn no_files() -> String {
    format!("there are no files and no system here; look for a tool that does it: {HOW_TO_CALL}")
}

fn no_process() -> String {
    "there is no process, environment or argument here; what the code needs stands in the code, or a tool gives it"
        .into()
}

fn only_ecmascript() -> String {
    "only ECMAScript is here: use strings, Uint8Array (toBase64, fromBase64) and Math.random".into()
}

fn no_page() -> String {
    "there is no page here; global names are on globalThis".into()
}

/// Returns advice about a tool that the model has beside the one that runs code.
fn outside(name: &str, inside: &str) -> String {
    let instead = if known::has().introspection && !inside.is_empty() {
        format!("; inside code, write {inside}")
    } else {
        String::new()
    };
    format!("{name} is a tool of its own, called outside of code and not in it{instead}")
}

/// Returns advice about a name that is, resembles or seems to be that of a server or a tool.
fn of_tools(name: &str, called: bool, chains: &[&Chain], references: &References) -> Option<String> {
    let calls: Vec<&&Chain> = chains.iter().filter(|it| it.used == Used::Called).collect();
    if !calls.is_empty() && known::is_server(name) {
        return Some(format!("{name} is a server: call its tools by await mcp.call(\"{name}.tool\", args)"));
    }
    if called && let Some(written) = known::tools_named(name) {
        return Some(format!("{name} is a tool of a server: write {written}"));
    }
    // It may be a variable of the author's, misspelled.
    if nearest(name, references.declared.iter().map(String::as_str)).is_some() {
        return None;
    }
    if called {
        return known::nearest_tool(name).map(|meant| format!("did you mean {meant}?"));
    }
    let call = calls.first()?;
    if let Some(server) = known::nearest_server(name)
        && (is_call_of_tool(call) || known::is_tool(&server, &call.members[0].name))
    {
        return Some(format!("there is a server {server}: did you mean that?"));
    }
    let seems_server = call.members.len() == 1 && is_call_of_tool(call);
    seems_server.then(|| format!("if {name} is to be a server, it is not connected; {}", known::connected()))
}

/// Returns whether a call looks like that of a tool rather than of a method of some value.
pub(super) fn is_call_of_tool(chain: &Chain) -> bool {
    let method = chain.members.last().map_or("", |last| last.name.as_str());
    match chain.arguments {
        Arguments::Object => true,
        Arguments::None => chain.used == Used::Called && !METHODS.contains(&method),
        Arguments::Other => false,
    }
}
