//! TLS for connections to relays and other servers. Certificates are always verified; there is no way to turn this off.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Creates a connector for the server `host`, whose certificate must be issued by one of `authorities` (in PEM) or, if
/// that is `None`, by one of the public authorities that Mozilla trusts.
///
/// # Errors
/// `host` is not a DNS name or IP address, or `authorities` are not usable. The text says which.
pub(crate) fn connector(host: &str, authorities: Option<&[u8]>) -> Result<Connector, String> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| "its host is neither a DNS name nor an IP address".to_owned())?;
    Ok(Connector { connector: TlsConnector::from(Arc::new(client_config(authorities)?)), name })
}

/// Creates the TLS configuration of a client that trusts servers whose certificate is issued by one of `authorities`
/// (in PEM) or, if that is `None`, by one of the public authorities that Mozilla trusts. The client presents no
/// certificate.
///
/// # Errors
/// `authorities` hold no certificate, or one that is not usable. The text says why.
pub fn client_config(authorities: Option<&[u8]>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(pem) => {
            let unusable = |error: &dyn std::fmt::Display| format!("the authorities cannot be used: {error}");
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| unusable(&error))?;
                roots.add(certificate).map_err(|error| unusable(&error))?;
            }
            if roots.is_empty() {
                return Err(unusable(&"there is no certificate in PEM"));
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// A TLS connector with the name of the server that it connects to.
pub(crate) struct Connector {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Connector {
    /// Performs the TLS handshake on an open connection.
    ///
    /// # Errors
    /// The server's certificate is not trusted or is for another name, or the server does not speak TLS.
    pub(crate) async fn connect(self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name, stream).await
    }
}
