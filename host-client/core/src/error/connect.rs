//! Parts of the errors of connecting to a relay.

use std::fmt;

/// The fault for which a relay's certificate is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFault {
    /// None of the trusted authorities issued it, or one of the same name with another key.
    UntrustedIssuer,
    /// It is for other names than the one in the address.
    WrongName,
    /// It has expired.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It has another fault, such as a purpose for which relays have no use.
    Invalid,
}

impl CertificateFault {
    /// Returns what to do about it, as a clause.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::UntrustedIssuer => {
                "name the authority that issued it, with `ClientConfig::authorities` or --ca-file of relay-host"
            }
            Self::WrongName => {
                "use a name of the certificate in the address, or give the relay a certificate for this name"
            }
            Self::Expired => "give the relay a new certificate, or set the clock of this machine",
            Self::NotYetValid => "set the clocks of this machine and of the relay",
            Self::Invalid => "give the relay another certificate",
        }
    }
}

/// A step of connecting that needs the other side's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectStep {
    /// The TLS handshake.
    Tls,
    /// The HTTP request that becomes a WebSocket.
    WebSocket,
    /// The exchange of `hello` and `welcome`.
    Welcome,
}

impl fmt::Display for ConnectStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "in the TLS handshake",
            Self::WebSocket => "in the WebSocket handshake",
            Self::Welcome => "before the relay's welcome",
        })
    }
}
