//! Why a document cannot be used, and why an operation is left out.

use std::io;

use super::{MAX_DOCUMENT_BYTES, MAX_OPERATION_BYTES, MAX_OPERATIONS, MAX_TOTAL_BYTES};

/// Why an OpenAPI document cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    File(#[from] io::Error),
    /// The document's address is none.
    #[error("its address is none that can be asked; it begins with https://")]
    Address,
    /// The document cannot be fetched.
    #[error("it cannot be fetched: {0}")]
    Fetch(String),
    /// The document is too large.
    #[error("it is larger than {MAX_DOCUMENT_BYTES} bytes")]
    Size,
    /// The document is neither JSON nor YAML.
    #[error("it is neither JSON nor YAML within bounds: {0}")]
    Syntax(String),
    /// The document is not of a version that is known.
    #[error("its version {0:?} is not known; known are 3.0 and 3.1")]
    Version(String),
    /// The document names no server that can be asked.
    #[error("it names no server with an http or https address")]
    NoServer,
    /// The server that was chosen is none of the document's.
    #[error("{chosen} is no server of it; its servers are: {known}")]
    Server {
        /// What was chosen.
        chosen: String,
        /// What there is.
        known: String,
    },
    /// The credentials would go to a server that the document's own host chose.
    #[error(
        "it came from {document} and names the server {server}; to send credentials there, choose it with .server(…)"
    )]
    ForeignServer {
        /// Where the document came from.
        document: String,
        /// What it names.
        server: String,
    },
    /// The document has no such security scheme.
    #[error("it has no security scheme {name:?}; it has: {known}")]
    Scheme {
        /// What a credential was given for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A credential is of another kind than its security scheme, or holds what cannot be sent.
    #[error("the security scheme {name:?} takes no such credential: {reason}")]
    Credential {
        /// The security scheme.
        name: String,
        /// What it takes.
        reason: &'static str,
    },
    /// The certificates' authorities cannot be used, or the like.
    #[error("the HTTP client cannot be made: {0}")]
    Client(String),
    /// This process is ending.
    #[error("this process is ending")]
    Ending,
}

/// Why an operation is left out. The others are mounted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It refers to what is not there, or not in the document.
    #[error("it refers to what is not in the document: {0:?}")]
    Reference(String),
    /// It is too large.
    #[error("with what it refers to, it has more than {MAX_OPERATION_BYTES} bytes")]
    Size,
    /// Those before it have used up what one document may take.
    #[error("the operations before it have {MAX_TOTAL_BYTES} bytes already")]
    TotalSize,
    /// There are too many before it.
    #[error("the document has more than {MAX_OPERATIONS} operations")]
    TooMany,
    /// It is no operation.
    #[error("it is not written as an operation is")]
    Shape,
    /// It is one of a method that is not called.
    #[error("its method is not called by tools")]
    Method,
    /// Its path cannot be asked.
    #[error("its path cannot be asked: it goes elsewhere, or names what is no parameter of it")]
    Path,
    /// One of its parameters cannot be sent.
    #[error("its parameter {name:?} cannot be sent: {reason}")]
    Parameter {
        /// The parameter.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// Its body is of no media type that can be sent.
    #[error("its body is {0}; sent are JSON and application/x-www-form-urlencoded")]
    Body(String),
    /// It needs credentials that were not given.
    #[error("it needs a credential that was not given, for one of: {0}")]
    Credential(String),
    /// It is on another server.
    #[error("it is on a server of its own, not on the chosen one")]
    Server,
    /// The registry does not take it.
    #[error("{0}")]
    Refused(String),
}

/// An operation that is not there, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its method and path, or its id.
    pub operation: String,
    /// Why it is left out.
    pub reason: Flaw,
}
