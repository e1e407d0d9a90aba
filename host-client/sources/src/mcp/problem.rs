//! Problems with the entry of one MCP server in a configuration.

use super::expand::ExpandError;

/// Problem with the entry of one MCP server in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerProblem {
    /// The name of the server is empty, too long, or has characters that no name has.
    #[error("a server's name is not empty and is short; give it another name")]
    Name,
    /// The name is one of those that are reserved: `mcp` and `local`.
    #[error("its name is reserved for what code asks the host; give it another name")]
    Reserved,
    /// The entry, or a member of it, has the wrong JSON type.
    #[error("{key} has to be {expected}")]
    WrongType {
        /// The key of the member.
        key: String,
        /// The type that it needs, in words.
        expected: &'static str,
    },
    /// The entry has this key twice.
    #[error("{0} stands there twice")]
    Twice(String),
    /// The entry has neither `command` nor `url`.
    #[error("it needs \"command\" (a program) or \"url\" (streamable HTTP)")]
    NeitherCommandNorUrl,
    /// The entry has both `command` and `url`.
    #[error("it has both \"command\" and \"url\"; remove one of them")]
    BothCommandAndUrl,
    /// The type is `sse`, a transport that MCP has withdrawn.
    #[error("type \"sse\" is not supported; use the server's streamable HTTP address with type \"http\"")]
    Sse,
    /// The type is unknown, or does not fit `command` or `url`. Holds the type.
    #[error("type {0:?} does not fit; it is \"stdio\" beside \"command\", or \"http\" beside \"url\"")]
    Type(String),
    /// A variable in a string cannot be replaced.
    #[error("{key}: {error}")]
    Expand {
        /// The key of the string.
        key: String,
        /// The problem with the variable.
        error: ExpandError,
    },
    /// The URL is malformed, has a user or a password, or has another scheme than http and https.
    #[error("url has to be an address such as https://host/mcp, without a user or password in it")]
    Url,
    /// Headers are configured for a plain http URL of another machine, where others could read them.
    #[error("url has to begin with https://, because headers are sent to it; http:// is for addresses of this machine")]
    HeadersInTheClear,
    /// The name or value of this header is not allowed in HTTP.
    #[error("headers.{0} cannot be sent: its name or value is none that HTTP allows")]
    Header(String),
}
