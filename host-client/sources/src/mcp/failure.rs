//! Failures of MCP servers, worded for the host's owner and for the code that calls a tool.

use std::error::Error;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::text::{Secrets, clip, with_causes};

/// Maximum length of a reason, in bytes. Servers write parts of it.
const MAX_REASON_BYTES: usize = 1_000;
/// Maximum length of one error's text within a reason, in bytes.
const MAX_TEXT_BYTES: usize = 400;

/// Failure of the connection to a server.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{command:?} cannot be run: {error}")]
    Spawn { command: String, error: io::Error },
    #[error("no HTTP client can be made: {0}")]
    Client(reqwest::Error),
    #[error("it did not answer {what} within {} s", .within.as_secs_f32())]
    Silent { what: &'static str, within: Duration },
    #[error("it could not be greeted: {0}")]
    Initialize(#[from] Box<ClientInitializeError>),
    #[error("its tools cannot be listed: {0}")]
    List(#[from] ListFailure),
    #[error("its connection ended")]
    Ended,
    #[error("its session ended")]
    SessionEnded,
    #[error("nothing answers at its address")]
    Unreachable,
    #[error("it does not read what is sent to it")]
    NotReading,
}

/// Failure to list the tools of a connected server.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListFailure {
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("it answers with what is no list of tools")]
    NoList,
    #[error("it gives more than {0} pages")]
    Pages(usize),
    #[error("it gives the same page again and again")]
    SamePage,
    #[error("it has more than {0} tools")]
    Tools(usize),
    #[error("they have more than {} MiB", .0 >> 20)]
    Bytes(usize),
}

/// Further facts about a connection that ended.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Fault seen in the server's standard output.
    pub(super) output: Option<String>,
    /// Exit status of the process; `None` if it did not end by itself.
    pub(super) status: Option<ExitStatus>,
    /// Last lines of the process's standard error.
    pub(super) stderr: Vec<String>,
}

impl Failure {
    /// Formats the failure and its evidence in one line, without secrets.
    pub(super) fn explain(&self, evidence: Evidence, secrets: &Secrets) -> String {
        let Evidence { output, status, stderr } = evidence;
        let mut reasons = Vec::new();
        match status {
            // The exit status says more than that the connection ended.
            Some(status) if self.is_end() => reasons.push(format!("it ended ({status})")),
            None if self.is_end() && output.is_some() => {}
            // Secrets are hidden before the text is cut, because half a secret would not be found.
            _ => reasons.push(clip(&secrets.hide_in(self.message()), MAX_TEXT_BYTES)),
        }
        reasons.extend(output);
        if !stderr.is_empty() {
            reasons.push(format!("the last of its standard error: {}", stderr.join(" | ")));
        }
        clip(&reasons.join("; "), MAX_REASON_BYTES)
    }

    /// Returns `true` if the failure says no more than that the connection ended.
    pub(super) fn is_end(&self) -> bool {
        match self {
            Self::Ended => true,
            Self::Initialize(error) => match &**error {
                ClientInitializeError::ConnectionClosed(_) => true,
                // An I/O error is a write to a process that had already ended.
                ClientInitializeError::TransportError { error, .. } => error.error.is::<io::Error>(),
                _ => false,
            },
            _ => false,
        }
    }

    fn message(&self) -> String {
        if self.is_end() {
            return Self::Ended.to_string();
        }
        let Self::Initialize(error) = self else { return with_causes(self) };
        match &**error {
            ClientInitializeError::JsonRpcError(error) => {
                format!("it refused to be initialized: {}", error.message)
            }
            ClientInitializeError::TransportError { error, .. } => describe(error.error.as_ref()),
            _ => with_causes(self),
        }
    }
}

/// Outcome of a request that could not be sent, or that got no answer.
pub(super) enum Fate {
    /// The server refused the request. Holds its reason.
    Refused(String),
    /// The request did not reach the server, and the connection is broken.
    Lost(Failure),
    /// The server may have carried out the request.
    Unknown(String),
}

/// Returns the outcome of a request after an error of the transport.
pub(super) fn fate(error: &(dyn Error + 'static), secrets: &Secrets) -> Fate {
    match http_error(error) {
        Some(StreamableHttpError::SessionExpired) => Fate::Lost(Failure::SessionEnded),
        Some(StreamableHttpError::Client(client)) if client.is_connect() => Fate::Lost(Failure::Unreachable),
        Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) => {
            Fate::Refused("it wants other credentials than its headers in the configuration give".into())
        }
        Some(StreamableHttpError::HttpStatus(status)) if status.status == 429 => {
            Fate::Refused("it asks to be called less often (HTTP 429)".into())
        }
        // The library reports a refusal as this text only. Should that change, the outcome becomes unknown, which is
        // safe.
        Some(StreamableHttpError::UnexpectedServerResponse(text)) if text.starts_with("HTTP 4") => {
            Fate::Refused(clip(&secrets.hide_in(text.to_string()), MAX_TEXT_BYTES))
        }
        _ => Fate::Unknown(clip(&secrets.hide_in(describe(error)), MAX_TEXT_BYTES)),
    }
}

/// Finds an error of the HTTP transport in the chain of sources.
fn http_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a StreamableHttpError<reqwest::Error>> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Describes an error of the transport without the text of the HTTP library, which contains the whole URL.
fn describe(error: &(dyn Error + 'static)) -> String {
    match http_error(error) {
        Some(StreamableHttpError::Client(client)) if client.is_connect() => Failure::Unreachable.to_string(),
        Some(StreamableHttpError::Client(client)) if client.is_redirect() || client.status().is_some() => {
            client.status().map_or_else(|| "it redirects".to_owned(), |status| format!("it answers {status}"))
        }
        Some(StreamableHttpError::HttpStatus(status)) => format!("it answers HTTP {}", status.status),
        Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) => {
            "it wants other credentials than its headers in the configuration give".to_owned()
        }
        _ => with_causes(error),
    }
}
