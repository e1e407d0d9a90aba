//! Problems with the entry of one MCP server in a configuration.

use super::expand::ExpandError;

/// What is wrong with the entry of one server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerProblem {
    /// No tool could be called under this name.
    #[error("a server's name is not empty, is short, and has no dot: its tools are called \"name.tool\"")]
    Name,
    /// The entry, or a part of it, is of the wrong JSON type.
    #[error("{key} has to be {expected}")]
    WrongType {
        /// Which part.
        key: String,
        /// What it has to be.
        expected: &'static str,
    },
    /// A key stands there twice.
    #[error("{0} stands there twice")]
    Twice(String),
    /// There is no way to reach it.
    #[error("it needs \"command\" (a program) or \"url\" (streamable HTTP)")]
    NeitherCommandNorUrl,
    /// There are two ways to reach it.
    #[error("it has both \"command\" and \"url\"; remove one of them")]
    BothCommandAndUrl,
    /// A transport that there is no more.
    #[error("type \"sse\" is not supported; use the server's streamable HTTP address with type \"http\"")]
    Sse,
    /// A transport that does not exist, or that does not fit the other keys.
    #[error("type {0:?} does not fit; it is \"stdio\" beside \"command\", or \"http\" beside \"url\"")]
    Type(String),
    /// A variable in a text cannot be replaced.
    #[error("{key}: {error}")]
    Expand {
        /// Where it stands.
        key: String,
        /// What is wrong with it.
        error: ExpandError,
    },
    /// The address is none.
    #[error("url has to be an address such as https://host/mcp, without a user or password in it")]
    Url,
    /// Headers would be readable on the way.
    #[error("url has to begin with https://, because headers are sent to it; http:// is for addresses of this machine")]
    HeadersInTheClear,
    /// A header that HTTP does not have, or that MCP sets itself.
    #[error("headers.{0} cannot be sent: its name or value is none that HTTP allows")]
    Header(String),
}
