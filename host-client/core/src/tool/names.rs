//! The names of servers that no source can take.

use relay_proto::{INTROSPECTION_SERVER, LOCAL_SERVER};

/// Checks that a server's name is not one of the two reserved names.
///
/// # Errors
/// The name is reserved; the text says for what.
pub(super) fn check_free(server: &str) -> Result<(), String> {
    let reason = match server {
        INTROSPECTION_SERVER => "what code asks about its tools is answered under it, such as mcp.search",
        LOCAL_SERVER => "functions that run inside the sandbox stand under it",
        _ => return Ok(()),
    };
    Err(format!("the server name {server:?} is reserved: {reason}; use another one"))
}

/// Returns the message that a server's name belongs to another origin.
pub(super) fn taken(server: &str, other: &str, origin: &str) -> String {
    format!("the server name {server:?} belongs to {other}; {origin} needs another one")
}
