//! TLS: the certificate that the relay shows, which is read again when its files change, and whom the relay trusts as a
//! client.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

/// Interval between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Files with the certificate and its key.
#[derive(Debug, Clone)]
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Reports a certificate, a key or authorities that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing or holds no PEM of its kind.
    #[error("{path} cannot be used: {reason}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Message for people.
        reason: String,
    },
    /// The certificate and the key do not fit each other, or cannot serve TLS.
    #[error("the certificate cannot be used: {0}")]
    Certificate(#[from] rustls::Error),
    /// The authorities are no certificates in PEM.
    #[error("the authorities cannot be used: {0}")]
    Authorities(String),
}

/// Makes the configuration of a client that trusts these authorities, in PEM; `None`: those of the web.
///
/// # Errors
/// [`TlsError::Authorities`], [`TlsError::Certificate`]: the authorities cannot be used.
pub(crate) fn client_config(authorities: Option<&[u8]>) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| TlsError::Authorities(error.to_string()))?;
                roots.add(certificate)?;
            }
            if roots.is_empty() {
                return Err(TlsError::Authorities("there is no certificate in it".into()));
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    Ok(config.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth())
}

/// Makes the configuration of a client that trusts the certificate in this file alone, whatever its name and issuer.
///
/// # Errors
/// [`TlsError::File`]: the file is missing or holds no certificate.
pub(crate) fn only_this_certificate(file: &Path) -> Result<ClientConfig, TlsError> {
    let wrong = |error: rustls::pki_types::pem::Error| TlsError::File { path: file.into(), reason: error.to_string() };
    let expected = CertificateDer::from_pem_file(file).map_err(wrong)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(OnlyThis { expected, algorithms: provider.signature_verification_algorithms });
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Accepts one certificate, compared byte by byte. The handshake proves as usual that the server has its key.
#[derive(Debug)]
struct OnlyThis {
    expected: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for OnlyThis {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *shown == self.expected {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Certificate that the relay shows; a newer one may replace it.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: CertificateFiles,
    current: RwLock<Arc<CertifiedKey>>,
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError::File`], [`TlsError::Certificate`]: a file is missing, or they do not fit each other.
    pub(crate) fn read(files: CertificateFiles) -> Result<Arc<Self>, TlsError> {
        let current = RwLock::new(Arc::new(certified_key(&files)?));
        Ok(Arc::new(Self { files, current }))
    }

    /// Makes the configuration that serves connections with the certificate.
    ///
    /// # Errors
    /// [`TlsError::Certificate`]: the library offers no version of TLS.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, TlsError> {
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions()?.with_no_client_auth();
        let mut config = config.with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Reads the files again whenever they change. A certificate that cannot be used is logged, and the old one stays.
    /// Never completes.
    pub(crate) async fn keep_fresh(self: Arc<Self>) {
        let mut known = self.changed();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = self.changed();
            if now == known {
                continue;
            }
            match certified_key(&self.files) {
                Ok(key) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                    known = now;
                    tracing::info!("the certificate was read again");
                }
                // One file may be newer than the other for a moment: the next look tries again.
                Err(error) => {
                    tracing::error!(%error, "the certificate has changed and cannot be used; the old one stays")
                }
            }
        }
    }

    fn changed(&self) -> [Option<SystemTime>; 2] {
        [&self.files.certificate, &self.files.key].map(|path| std::fs::metadata(path).ok()?.modified().ok())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn certified_key(files: &CertificateFiles) -> Result<CertifiedKey, TlsError> {
    let wrong = |path: &PathBuf, reason: String| TlsError::File { path: path.clone(), reason };
    let read = |error: rustls::pki_types::pem::Error| wrong(&files.certificate, error.to_string());
    let chain = CertificateDer::pem_file_iter(&files.certificate).map_err(read)?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(read)?;
    if chain.is_empty() {
        return Err(wrong(&files.certificate, "there is no certificate in it".into()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, error.to_string()))?;
    Ok(CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())?)
}
