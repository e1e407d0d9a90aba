//! Why a server is not available, in words for the host's owner and for code that calls it.

use std::error::Error;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::words::{Secrets, clip, with_causes};

/// The longest reason, in bytes: what servers say goes into it.
const MAX_REASON_BYTES: usize = 1_000;
/// The longest text of a single error in it, in bytes.
const MAX_TEXT_BYTES: usize = 400;

/// What went wrong with a connection.
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
    Deaf,
}

/// Why the tools of a server that is connected cannot be listed.
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

/// What else is known when a connection has ended.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// What was seen in its output.
    pub(super) output: Option<String>,
    /// How its process ended, if it ended by itself.
    pub(super) status: Option<ExitStatus>,
    /// The last lines of its standard error.
    pub(super) stderr: Vec<String>,
}

impl Failure {
    /// The failure with what else is known, in one line and without secrets.
    pub(super) fn explain(&self, evidence: Evidence, secrets: &Secrets) -> String {
        let Evidence { output, status, stderr } = evidence;
        let mut reasons = Vec::new();
        match status {
            // That the connection ended says less.
            Some(status) if self.is_end() => reasons.push(format!("it ended ({status})")),
            None if self.is_end() && output.is_some() => {}
            // A secret that is cut could not be found any more.
            _ => reasons.push(clip(&secrets.hide_in(self.in_words()), MAX_TEXT_BYTES)),
        }
        reasons.extend(output);
        if !stderr.is_empty() {
            reasons.push(format!("the last of its standard error: {}", stderr.join(" | ")));
        }
        clip(&reasons.join("; "), MAX_REASON_BYTES)
    }

    /// Whether all that is known is that the connection ended.
    pub(super) fn is_end(&self) -> bool {
        match self {
            Self::Ended => true,
            Self::Initialize(error) => match &**error {
                ClientInitializeError::ConnectionClosed(_) => true,
                // What was written to a process that had ended already.
                ClientInitializeError::TransportError { error, .. } => error.error.is::<io::Error>(),
                _ => false,
            },
            _ => false,
        }
    }

    fn in_words(&self) -> String {
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

/// What became of a request that could not be sent, or whose answer did not come.
pub(super) enum Fate {
    /// The server did not take it, and says why.
    Refused(String),
    /// It did not reach the server, whose connection is of no use any more.
    Lost(Failure),
    /// It may have been done.
    Unknown(String),
}

/// What an error of the transport says about the request.
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
        // The library has no other word for a refusal. If it finds one, the outcome is called unknown, which is safe.
        Some(StreamableHttpError::UnexpectedServerResponse(text)) if text.starts_with("HTTP 4") => {
            Fate::Refused(clip(&secrets.hide_in(text.to_string()), MAX_TEXT_BYTES))
        }
        _ => Fate::Unknown(clip(&secrets.hide_in(describe(error)), MAX_TEXT_BYTES)),
    }
}

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
