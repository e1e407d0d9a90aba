//! The errors of the handshakes that begin a connection: TLS, WebSocket, hello and welcome.

use std::io;
use std::time::Duration;

use http::{Response, StatusCode, header};
use rustls::{CertificateError, InvalidMessage};
use tokio_tungstenite::tungstenite::Error as WebSocketError;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use crate::error::{CertificateFault, ConnectStep, Error};
use crate::text::{clipped, visible};

/// The maximum length of a reason that comes from the other side, in bytes.
const MAX_REASON_BYTES: usize = 300;

/// Makes the error of a TLS handshake with the server at `url`: [`Error::Certificate`], [`Error::NoRelay`] or
/// [`Error::Cut`].
pub(in crate::session) fn tls_failure(url: &str, error: io::Error) -> Error {
    let Some(fault) = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) else {
        return Error::Cut { url: url.to_owned(), step: ConnectStep::Tls, error };
    };
    match fault {
        rustls::Error::InvalidCertificate(fault) => Error::Certificate {
            url: url.to_owned(),
            fault: certificate_fault(fault),
            reason: bounded(&fault.to_string()),
        },
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            no_relay(url, "it does not speak TLS; an address without TLS begins with ws://")
        }
        fault => no_relay(url, &format!("the TLS handshake failed: {fault}")),
    }
}

fn certificate_fault(error: &CertificateError) -> CertificateFault {
    match error {
        // A wrong signature is what an authority of the same name with another key looks like.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => CertificateFault::UntrustedIssuer,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            CertificateFault::WrongName
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => CertificateFault::NotYetValid,
        _ => CertificateFault::Invalid,
    }
}

/// Makes the error of a WebSocket with the server at `url` that ended or broke the protocol in this step:
/// [`Error::Unauthenticated`], [`Error::Status`], [`Error::Cut`] or [`Error::NoRelay`].
pub(in crate::session) fn websocket_failure(url: &str, step: ConnectStep, error: WebSocketError) -> Error {
    match error {
        // A redirect is refused like everything else: the token is for this address alone.
        WebSocketError::Http(response) => refused(&response),
        WebSocketError::Io(error) => Error::Cut { url: url.to_owned(), step, error },
        WebSocketError::ConnectionClosed
        | WebSocketError::AlreadyClosed
        | WebSocketError::Protocol(ProtocolError::HandshakeIncomplete | ProtocolError::ResetWithoutClosingHandshake) => {
            cut(url, step)
        }
        error => no_relay(url, &error.to_string()),
    }
}

fn refused<T>(response: &Response<T>) -> Error {
    if response.status() == StatusCode::UNAUTHORIZED {
        return Error::Unauthenticated;
    }
    let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|it| it.to_str().ok()?.parse().ok());
    Error::Status { status: response.status(), retry_after: retry_after.map(Duration::from_secs) }
}

/// Makes the error of a connection that the other side ended in this step without a word.
pub(in crate::session) fn cut(url: &str, step: ConnectStep) -> Error {
    let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the other side closed it without a reason");
    Error::Cut { url: url.to_owned(), step, error }
}

/// Makes the error of a server that does not answer as a relay does.
pub(in crate::session) fn no_relay(url: &str, reason: &str) -> Error {
    Error::NoRelay { url: url.to_owned(), reason: bounded(reason) }
}

/// Returns the start of a text of the other side, with hidden characters as escapes.
fn bounded(text: &str) -> String {
    clipped(&visible(text), MAX_REASON_BYTES)
}
