//! TLS: whom a relay or another server is trusted by. No certificate is ever taken unchecked.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How to connect to `host`, whose certificate has to be from one of `authorities` (PEM), or of those of the web.
///
/// # Errors
/// `host` is no name or address, or the authorities are no certificates; the text says which.
pub(crate) fn connector(host: &str, authorities: Option<&[u8]>) -> Result<Connector, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| "it names no host".to_owned())?;
    Ok(Connector { connector: TlsConnector::from(Arc::new(client_config(authorities)?)), name })
}

/// What to expect of servers: certificates from one of `authorities` (PEM), or of those of the web.
///
/// # Errors
/// The authorities are no certificates.
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

/// Knows whom to expect.
pub(crate) struct Connector {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Connector {
    /// Shakes hands.
    ///
    /// # Errors
    /// The other side is not who it should be, or speaks no TLS.
    pub(crate) async fn connect(self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name, stream).await
    }
}
