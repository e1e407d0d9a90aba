//! Advice about calls of tools: that are not there, that are not awaited, that a variable hides.

use std::collections::HashSet;

use relay_script::{Chain, ChainUse, Member, Place, PromiseUse, References, Used};

use super::is_at;
use super::known::{self, HOW_TO_CALL};
use super::names::is_call_of_tool;

/// Advice about a tool call whose Promise is used as its value.
const AWAIT: &str = "a tool call gives a Promise: write await before it";
/// Functions of `mcp`.
const OF_MCP: [&str; 3] = ["call", "describe", "search"];

/// Returns advice about a value that is not iterable, or is no JSON.
pub(super) fn of_promise(references: &References, place: Place, is_such: impl Fn(&ChainUse) -> bool) -> Option<String> {
    let mut uses = references.promises.iter().filter(|it| is_such(&it.used) && it.start <= place && place <= it.end);
    uses.any(is_of_tool).then(|| AWAIT.into())
}

/// Returns advice about a member that is called and is no function.
pub(super) fn of_call(references: &References, place: Place) -> Option<String> {
    let is_here = |chain: &&Chain| {
        let is_last = |last: &Member| last.start <= place && place <= last.end;
        chain.used == Used::Called && chain.members.last().is_some_and(is_last)
    };
    if let Some(chain) = references.chains.iter().find(is_here) {
        let path = path(chain);
        return match (chain.is_declared, path.as_slice()) {
            (true, [server, tool]) if known::is_tool(server, tool) => Some(format!(
                "{server}.{tool} is a tool, but here {server} is something else: another thing of that name hides it"
            )),
            (false, path) => of_path(path),
            (true, _) => of_member_of_promise(references, place),
        };
    }
    of_member_of_promise(references, place)
}

/// Returns advice about a member that is read of what is not there.
pub(super) fn of_read(references: &References, name: &str, place: Place) -> Option<String> {
    let of_chain = references.chains.iter().filter(|chain| !chain.is_declared).find_map(|chain| {
        let index = chain.members.iter().position(|member| member.name == name && is_at(member, place))?;
        of_missing(references, chain, index)
    });
    of_chain.or_else(|| of_member_of_promise(references, place))
}

/// Returns advice about `chain`, whose members before `index` have no value.
fn of_missing(references: &References, chain: &Chain, index: usize) -> Option<String> {
    let names: Vec<&str> = chain.members.iter().map(|member| member.name.as_str()).collect();
    let (before, member) = (names.get(..index)?, *names.get(index)?);
    match (chain.root.as_str(), before) {
        ("mcp", [name]) if OF_MCP.contains(name) => None,
        ("mcp", [name]) if known::is_server(name) => {
            Some(format!("mcp has no {name}: write {}", known::written(name, member)))
        }
        ("mcp", [name]) => Some(format!("mcp has no {name}; {}", known::connected())),
        ("servers", [name]) if !known::is_server(name) => {
            Some(format!("there is no server {name}; {}", known::connected()))
        }
        ("globalThis", [name]) if !known::is_server(name) => {
            let is_own =
                |it: &Chain| it.root == "globalThis" && it.used == Used::Assigned && it.members[0].name == *name;
            let seems_server = is_call_of_tool(chain) && !references.chains.iter().any(is_own);
            seems_server.then(|| format!("there is no server {name}; {}", known::connected()))
        }
        ("servers" | "globalThis", [server, tool]) => missing_tool(server, tool),
        (server, [tool]) if known::has().servers => missing_tool(server, tool),
        _ => None,
    }
}

fn missing_tool(server: &str, tool: &str) -> Option<String> {
    if known::is_tool(server, tool) { None } else { known::missing_tool(server, tool) }
}

/// Returns advice about a path of names that is called and is no function.
fn of_path(path: &[&str]) -> Option<String> {
    match path {
        ["mcp", name, ..] if OF_MCP.contains(name) => None,
        ["mcp", name] => Some(format!("mcp has no {name}; tools are called by {HOW_TO_CALL}")),
        ["globalThis" | "servers", server, tool] | [server, tool] => missing_tool(server, tool),
        _ => None,
    }
}

/// Returns advice about a member of a tool call's Promise.
fn of_member_of_promise(references: &References, place: Place) -> Option<String> {
    let is_here = |it: &&PromiseUse| match &it.used {
        ChainUse::Members { members, .. } => members.iter().any(|member| is_at(member, place) || member.end == place),
        ChainUse::Iterated | ChainUse::Parsed => false,
    };
    references.promises.iter().filter(is_here).any(is_of_tool).then(|| AWAIT.into())
}

/// Returns whether the call gives a Promise, because it is that of a tool.
fn is_of_tool(used: &PromiseUse) -> bool {
    match (used.root.as_str(), used.members.as_slice()) {
        ("mcp", [call]) => call == "call",
        ("servers", [server, tool]) => known::is_tool(server, tool),
        ("globalThis", [server, tool]) => known::has().servers && known::is_tool(server, tool),
        (server, [tool]) => known::has().servers && known::is_tool(server, tool),
        _ => false,
    }
}

/// Returns advice about a variable that has a server's name, and calls it before it has its value.
pub(super) fn of_hidden_server(references: &References, name: &str) -> Option<String> {
    let calls_server = |chain: &Chain| {
        let is_own = chain.in_own_initializer && chain.root == name && chain.used == Used::Called;
        is_own && matches!(chain.members.as_slice(), [tool] if known::is_tool(name, &tool.name))
    };
    references
        .chains
        .iter()
        .any(calls_server)
        .then(|| format!("{name} is the name of a server: call your own variable something else, such as {name}Result"))
}

/// Returns advice about all calls that fail wherever they run. What the code asks for before is left out.
pub(super) fn all(references: &References) -> Vec<String> {
    let mut hints = Vec::new();
    let is_asked = |chain: &&Chain| !chain.is_declared && chain.used != Used::Called;
    let asked: HashSet<Vec<&str>> = references.chains.iter().filter(is_asked).map(path).collect();
    for chain in &references.chains {
        if chain.is_declared {
            let own = if chain.in_own_initializer { of_hidden_server(references, &chain.root) } else { None };
            hints.extend(own);
            continue;
        }
        if chain.used != Used::Called || asked.contains(&path(chain)) || hints.len() == known::MAX_NAMED {
            continue;
        }
        let is_global = !matches!(chain.root.as_str(), "servers" | "mcp");
        let hint = match path(chain).as_slice() {
            _ if is_global && !known::has().servers => None,
            path @ (["mcp", _] | [_, _] | ["globalThis" | "servers", _, _]) if is_known(path) => of_path(path),
            ["mcp" | "servers", _, _] => of_missing(references, chain, 1),
            _ => None,
        };
        hints.extend(hint);
    }
    let fails = |it: &&PromiseUse| match &it.used {
        ChainUse::Iterated | ChainUse::Parsed => true,
        ChainUse::Members { members, called } => *called || members.len() > 1,
    };
    if references.promises.iter().filter(fails).any(is_of_tool) {
        hints.push(AWAIT.into());
    }
    hints
}

/// Returns whether the object whose member is called is there.
fn is_known(path: &[&str]) -> bool {
    match path {
        ["mcp", _] => true,
        [server, _] | [_, server, _] => known::is_server(server),
        _ => false,
    }
}

fn path(chain: &Chain) -> Vec<&str> {
    std::iter::once(chain.root.as_str()).chain(chain.members.iter().map(|member| member.name.as_str())).collect()
}
