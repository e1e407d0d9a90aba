//! TLS: who is trusted, what is refused, and a certificate that changes.

use std::time::Duration;

use host_client::error::CertificateFault;
use host_client::{Client, ClientConfig, Error, ExecuteRequest, Tools};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::hostile::arena::Arena;
use crate::support::{until, within};

/// An authority of our own.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name, and its key.
    pub(crate) fn certificate(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write(&self, (certificate, key): (String, String)) {
        std::fs::write(self.path("key"), key).unwrap();
        std::fs::write(self.path("certificate"), certificate).unwrap();
    }
}

async fn connect(arena: &Arena, authority: Option<&Authority>) -> Result<Client, Error> {
    let token = arena.token(&["--subject", "tls"]).await;
    let mut config = ClientConfig::new(format!("wss://{}/ws", arena.address), token);
    config.authorities = authority.map(|it| it.pem().into_bytes());
    within(Client::connect(config, Tools::new())).await
}

#[tokio::test]
async fn only_a_relay_of_a_trusted_authority_gets_the_token() {
    let (ours, theirs, files) = (Authority::new(), Authority::new(), Files::new());
    files.write(ours.certificate("127.0.0.1"));
    let (certificate, key) = (files.path("certificate"), files.path("key"));
    let arguments = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--handshake-ms", "500"];
    // The warm-up of an arena speaks no TLS: a relay of its own.
    let arena = Arena::start_silent(&arguments).await;
    let client = connect(&arena, Some(&ours)).await.unwrap();
    let outcome = within(client.run(ExecuteRequest::new("return 'over TLS'"))).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!("over TLS"));
    for wrong in [Some(&theirs), None] {
        let error = connect(&arena, wrong).await.unwrap_err();
        assert!(
            matches!(&error, Error::Certificate { fault: CertificateFault::UntrustedIssuer, .. })
                && error.to_string().contains("--ca-file")
                && error.is_connect()
                && !error.is_retryable(),
            "{error}"
        );
    }
    // Without TLS nothing is served, and half a handshake is closed.
    let token = arena.token(&["--subject", "tls"]).await;
    let plain = ClientConfig::new(format!("ws://{}/ws", arena.address), token);
    assert!(within(Client::connect(plain, Tools::new())).await.is_err());
    for sent in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00", b"GET /ws HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(&arena.address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let _ = within(stream.read_to_end(&mut Vec::new())).await;
    }

    // The health check expects the relay's own certificate, by whatever name and issuer.
    let check = |file: String| {
        let mut command = std::process::Command::new(crate::support::binary());
        command.args(["healthcheck", "--listen", &arena.address, "--tls-cert-file", &file]);
        command.output().unwrap().status.success()
    };
    assert!(check(certificate.clone()));
    std::fs::write(files.path("other"), theirs.certificate("127.0.0.1").0).unwrap();
    assert!(!check(files.path("other")));

    // A new certificate is shown to who comes next; who is there stays. One that fits no key changes nothing.
    std::fs::write(&certificate, "no certificate").unwrap();
    until(|| arena.log().contains("the certificate has changed and cannot be used")).await;
    assert!(connect(&arena, Some(&ours)).await.is_ok(), "the old one stays");
    files.write(theirs.certificate("127.0.0.1"));
    within(async {
        while connect(&arena, Some(&theirs)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
    .await;
    assert!(connect(&arena, Some(&ours)).await.is_err());
    assert!(within(client.run(ExecuteRequest::new("return 1"))).await.is_ok());
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (ours, files) = (Authority::new(), Files::new());
    files.write(ours.certificate("relay.example"));
    let (certificate, key) = (files.path("certificate"), files.path("key"));
    let arena = Arena::start_silent(&["--tls-cert-file", &certificate, "--tls-key-file", &key]).await;
    let error = connect(&arena, Some(&ours)).await.unwrap_err();
    assert!(matches!(&error, Error::Certificate { fault: CertificateFault::WrongName, .. }), "{error}");
    assert!(error.to_string().contains("relay.example"), "{error}");
    let mut config = ClientConfig::new(format!("wss://{}/ws", arena.address), "t");
    config.authorities = Some(b"nothing".to_vec());
    let error = within(Client::connect(config, Tools::new())).await.unwrap_err();
    assert!(matches!(&error, Error::Address { .. }), "{error}");
}
