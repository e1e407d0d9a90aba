//! Names of the tools that the execution can call, sorted by server.

use std::cell::RefCell;
use std::collections::BTreeMap;

use relay_proto::ToolName;
use relay_proto::spelling::{nearest, sanitize};

/// Maximum number of tools that are named for one name.
const MAX_NAMED: usize = 3;

/// Servers with the names of their tools, all as they are.
type ByServer = BTreeMap<String, Vec<String>>;

thread_local! {
    static TOOLS: RefCell<ByServer> = const { RefCell::new(BTreeMap::new()) };
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    TOOLS.take();
}

/// Sets the tools that can be called, by their full names.
pub(super) fn begin(tools: Vec<String>) {
    let mut by_server = ByServer::new();
    for name in tools.into_iter().filter_map(|name| ToolName::try_from(name).ok()) {
        by_server.entry(name.server().to_owned()).or_default().push(name.tool().to_owned());
    }
    TOOLS.set(by_server);
}

/// Runs `look` on the servers and their tools, by their original names.
pub(super) fn with<R>(look: impl FnOnce(&ByServer) -> R) -> R {
    TOOLS.with_borrow(look)
}

/// Returns the words that suggest full names for a name without its server: those of the tools that have this name, or
/// the nearest to it. Empty: none is near.
pub(super) fn suggest(name: &str) -> String {
    let found = with(|tools| {
        let all = || tools.iter().flat_map(|(server, tools)| tools.iter().map(move |tool| (server, tool)));
        let named = |name: &str| {
            let named = all().filter(|(_, tool)| *tool == name || sanitize(tool) == name);
            named.take(MAX_NAMED).map(|(server, tool)| format!("\"{server}.{tool}\"")).collect::<Vec<_>>()
        };
        let mut found = named(name);
        if found.is_empty() {
            found = nearest(name, all().map(|(_, tool)| tool.as_str())).map(named).unwrap_or_default();
        }
        found.join(" or ")
    });
    if found.is_empty() { found } else { format!("; did you mean {found}?") }
}
