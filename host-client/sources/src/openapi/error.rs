//! Errors of OpenAPI documents: why one cannot be used, and why an operation is left out.

use std::io;

use super::{MAX_OPERATION_BYTES, MAX_TOTAL_BYTES};

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
    /// The document is larger than [`OpenApi::document_bytes`](super::OpenApi::document_bytes). Holds that limit.
    #[error("it is larger than {0} bytes; raise its limit document_bytes")]
    Size(usize),
    /// The document is neither JSON nor YAML, or nests too deeply. Holds the message of the parser.
    #[error("it is neither JSON nor YAML within bounds: {0}")]
    Syntax(String),
    /// The document is not of version 3.0 or 3.1. Holds its version.
    #[error("its version {0:?} is not known; known are 3.0 and 3.1")]
    Version(String),
    /// The document names no server with an http or https URL.
    #[error("it names no server with an http or https address; give one as its base_url")]
    NoServer,
    /// The server of [`OpenApi::server`](super::OpenApi::server) is not one of the document's.
    #[error("{chosen} is no server of it; its servers are: {known}")]
    Server {
        /// The selected server.
        chosen: String,
        /// Those that the document has.
        known: String,
    },
    /// The address of [`OpenApi::base_url`](super::OpenApi::base_url) is malformed or not http or https. Holds it.
    #[error("{0} is no address of a server; it begins with https:// or http:// and has no user, query or fragment")]
    BaseUrl(String),
    /// No server of the document has this variable, or it does not take this value.
    #[error("no server of it has a variable {name:?} that takes the value {value:?}")]
    Variable {
        /// The name of the variable.
        name: String,
        /// The value that was given for it.
        value: String,
    },
    /// No operation has this tag, or fits this pattern. Holds the tag or the pattern.
    #[error("it has no operation that {0:?} chooses; tags are written as in the document, patterns as in get*")]
    Choice(String),
    /// The document was fetched from one host and names a server on another: the credentials would go where the
    /// document's host says.
    #[error(
        "it came from {document} and names the server {server}; to send credentials there, choose it as its server"
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
    /// The document has more operations than [`OpenApi::max_operations`](super::OpenApi::max_operations), which is held.
    /// Of those that are left out for this reason, the first is reported.
    #[error("the document has more than {0} operations; choose those that are needed, or raise max_operations")]
    TooMany(usize),
    /// The operation is not among those of [`OpenApi::tags`](super::OpenApi::tags) and
    /// [`OpenApi::operations`](super::OpenApi::operations).
    #[error("it is not among the operations that the configuration chooses")]
    NotChosen,
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
    #[error("its body is {0}, which cannot be sent")]
    Body(String),
    /// The operation requires a credential that was not given. Holds the names of the schemes.
    #[error("it needs a credential that was not given, for one of its security schemes: {0}")]
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
    /// The full name that its tool would have; `None` if the operation cannot be read at all.
    pub tool: Option<String>,
    /// The reason why it is left out.
    pub reason: Flaw,
}

/// Error of an argument that cannot be sent in its place.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("the argument {0:?} is missing")]
    Missing(String),
    #[error(
        "the argument {0:?} goes into the path: neither it nor a part between slashes can be empty, \".\" or \"..\", \
         and it holds no backslash or control character"
    )]
    Path(String),
    #[error(
        "the argument {0:?} nests too deeply to be written in a query, a form, a path or a header; pass plain values"
    )]
    Nested(String),
    #[error("the argument {0:?} cannot be sent as a header: it holds a control character")]
    Header(String),
    #[error("the argument {0:?} would set a parameter that holds a credential")]
    Credential(String),
    #[error("the body is sent as a form: pass an object")]
    Form,
    #[error("{0:?} is a file: pass a text, or an object with its bytes as base64 in the member \"data\"")]
    File(String),
}
