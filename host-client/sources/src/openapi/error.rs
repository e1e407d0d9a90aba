//! Errors of OpenAPI documents: why one cannot be used, and why an operation is left out.

use std::io;

use super::{MAX_DOCUMENT_BYTES, MAX_OPERATION_BYTES, MAX_OPERATIONS, MAX_TOTAL_BYTES};

/// Reason why an OpenAPI document cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    File(#[from] io::Error),
    /// The document's URL is malformed or not http or https.
    #[error("its address is none that can be asked; it begins with https://")]
    Address,
    /// The document cannot be fetched. Holds the reason.
    #[error("it cannot be fetched: {0}")]
    Fetch(String),
    /// The document is larger than 8 MiB.
    #[error("it is larger than {MAX_DOCUMENT_BYTES} bytes")]
    Size,
    /// The document is neither JSON nor YAML, or nests too deeply. Holds the message of the parser.
    #[error("it is neither JSON nor YAML within bounds: {0}")]
    Syntax(String),
    /// The document is not of version 3.0 or 3.1. Holds its version.
    #[error("its version {0:?} is not known; known are 3.0 and 3.1")]
    Version(String),
    /// The document names no server with an http or https URL.
    #[error("it names no server with an http or https address")]
    NoServer,
    /// The server of [`OpenApi::server`](super::OpenApi::server) is not one of the document's.
    #[error("{chosen} is no server of it; its servers are: {known}")]
    Server {
        /// The selected server.
        chosen: String,
        /// Those that the document has.
        known: String,
    },
    /// The document was fetched from one host and names a server on another: the credentials would go where the
    /// document's host says.
    #[error(
        "it came from {document} and names the server {server}; to send credentials there, choose it with .server(…)"
    )]
    ForeignServer {
        /// Origin of the document.
        document: String,
        /// Origin of the server that it names.
        server: String,
    },
    /// The document has no such security scheme.
    #[error("it has no security scheme {name:?}; it has: {known}")]
    Scheme {
        /// The name that a credential was given for.
        name: String,
        /// Those that the document has.
        known: String,
    },
    /// A credential is of another kind than its security scheme, or has characters that cannot be sent.
    #[error("the security scheme {name:?} takes no such credential: {reason}")]
    Credential {
        /// The name of the security scheme.
        name: String,
        /// The kind of credential that the scheme takes, or the reason why this one cannot be sent.
        reason: &'static str,
    },
    /// The HTTP client cannot be created, such as for authorities that are not PEM certificates. Holds the reason.
    #[error("the HTTP client cannot be made: {0}")]
    Client(String),
    /// The Tokio runtime is shutting down.
    #[error("this process is ending")]
    Ending,
}

/// Reason why one operation is left out. The others are mounted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// A reference has no target in the document, or there are too many in a row. Holds the reference.
    #[error("it refers to what is not in the document: {0:?}")]
    Reference(String),
    /// Its schema and description are larger than 256 KiB, or it has more than 200 parameters.
    #[error("with what it refers to, it has more than {MAX_OPERATION_BYTES} bytes")]
    Size,
    /// The operations before it have used up the 4 MiB of one document.
    #[error("the operations before it have {MAX_TOTAL_BYTES} bytes already")]
    TotalSize,
    /// The document has more than 1,000 operations; this is the first one left out.
    #[error("the document has more than {MAX_OPERATIONS} operations")]
    TooMany,
    /// The operation is not an object, or is malformed.
    #[error("it is not written as an operation is")]
    Shape,
    /// The method is `TRACE`, which is not called.
    #[error("its method is not called by tools")]
    Method,
    /// The path has dot segments, a query or a fragment, or its placeholders do not match the parameters.
    #[error("its path cannot be asked: it goes elsewhere, or names what is no parameter of it")]
    Path,
    /// A required parameter cannot be sent.
    #[error("its parameter {name:?} cannot be sent: {reason}")]
    Parameter {
        /// The name of the parameter.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// The body has no media type that can be sent. Holds those that it has.
    #[error("its body is {0}; sent are JSON and application/x-www-form-urlencoded")]
    Body(String),
    /// The operation requires a credential that was not given. Holds the names of the schemes.
    #[error("it needs a credential that was not given, for one of: {0}")]
    Credential(String),
    /// The operation is on a server of its own, not on the selected one.
    #[error("it is on a server of its own, not on the chosen one")]
    Server,
    /// The registry of tools refuses it. Holds the reason.
    #[error("{0}")]
    Refused(String),
}

/// An operation that is not mounted, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The method and path of the operation, or the name of its tool.
    pub operation: String,
    /// The reason why it is left out.
    pub reason: Flaw,
}
