//! Tokens beyond the first check: renewed, used twice, signed with keys that come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use host_client::{Client, ClientConfig, Error, ErrorCode, ExecuteRequest, LimitName, Tools};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use crate::hostile::arena::Arena;
use crate::hostile::tls::Authority;
use crate::support::{binary, within};

fn config(arena: &Arena, token: &str) -> ClientConfig {
    ClientConfig::new(format!("ws://{}/ws", arena.address), token)
}

#[tokio::test]
async fn a_renewed_session_goes_on_and_one_that_is_not_ends() {
    let arena = Arena::start(&[]).await;
    let short = arena.token(&["--subject", "renew", "--ttl", "1s"]).await;
    let renewed = within(Client::connect(config(&arena, &short), Tools::new())).await.unwrap();
    let ends = within(Client::connect(config(&arena, &short), Tools::new())).await.unwrap();
    let running = tokio::spawn({
        let ends = ends.clone();
        async move { ends.run(ExecuteRequest::new("for(;;){}").limit(LimitName::CpuMs, 60_000)).await }
    });
    // Of another subject, or of nobody: the session goes on as before.
    let other = arena.token(&["--subject", "other"]).await;
    assert!(matches!(within(renewed.renew(&other)).await, Err(Error::Refused(_))));
    for bad in ["", "x", &format!("{short}x")] {
        assert!(matches!(within(renewed.renew(bad)).await, Err(Error::Unauthenticated)), "{bad}");
    }
    // The rights of the new token hold from now on.
    let longer =
        arena.token(&["--subject", "renew", "--ttl", "10m", "--limit", "wall_ms=1234", "--tools", "a.*"]).await;
    let good_for = within(renewed.renew(&longer)).await.unwrap();
    assert!(good_for > Duration::from_secs(500), "{good_for:?}");
    assert_eq!(renewed.limits().get(LimitName::WallMs), Some(1_234));
    let error = within(renewed.run(ExecuteRequest::new("await new Promise(() => mcp.call('a.b'))"))).await.unwrap_err();
    assert!(error.code().is_some(), "{error}");

    // A second and the leeway later.
    let error = within(running).await.unwrap().unwrap_err();
    assert!(error.code().is_some_and(|code| *code == ErrorCode::SessionLost), "{error}");
    assert!(error.to_string().contains("expired"), "{error}");
    let outcome = within(renewed.run(ExecuteRequest::new("return 'on'"))).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!("on"));
    drop((renewed, ends));
    arena.unharmed().await;
}

#[tokio::test]
async fn a_one_time_token_is_good_once_and_only_when_it_is_taken() {
    let arena = Arena::start(&["--one-time-tokens", "--subject-connections", "1"]).await;
    let token = arena.token(&["--subject", "once"]).await;
    // A connection that is refused for another reason has not used the token.
    let first = within(Client::connect(config(&arena, &token), Tools::new())).await.unwrap();
    let second = arena.token(&["--subject", "once"]).await;
    let error = within(Client::connect(config(&arena, &second), Tools::new())).await.unwrap_err();
    assert!(matches!(&error, Error::Status { status, .. } if status.as_u16() == 429), "{error}");
    assert!(error.is_retryable() && error.retry_after().is_some(), "{error:?}");
    assert!(matches!(within(first.renew(&token)).await, Err(Error::Unauthenticated)), "renewing uses it too");
    drop(first);
    // Until the relay has seen the end of the connection before, there is no room for another.
    let connect = async |token: &str| {
        loop {
            match Client::connect(config(&arena, token), Tools::new()).await {
                Err(Error::Status { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
                other => return other,
            }
        }
    };
    drop(within(connect(&second)).await.unwrap());
    for used in [&token, &second] {
        let error = within(connect(used)).await.unwrap_err();
        assert!(matches!(error, Error::Unauthenticated), "{error}");
    }
}

/// A key with its id, as its owner has it.
struct Key {
    id: &'static str,
    key: EncodingKey,
}

impl Key {
    fn new(id: &'static str) -> Self {
        let pem = KeyPair::generate().unwrap().serialize_pem();
        Self { id, key: EncodingKey::from_ec_pem(pem.as_bytes()).unwrap() }
    }

    fn jwk(&self) -> Jwk {
        let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(self.id.into());
        jwk
    }

    fn token(&self) -> String {
        let expires = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 600;
        let claims = json!({"sub": "s", "exp": expires, "aud": "sandbox-relay", "iss": "sandbox-relay"});
        let header = Header { kid: Some(self.id.into()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
    }
}

/// Serves a key set over HTTPS; counts how often it is asked.
async fn serve_keys(authority: &Authority, body: Vec<u8>, asked: Arc<AtomicUsize>) -> String {
    let (certificate, key) = authority.certificate("localhost");
    let certificates = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let server = server.with_no_client_auth().with_single_cert(certificates, key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/keys", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            asked.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]).await;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

/// A relay that fetches its keys; what it says instead, if it does not start.
async fn start(url: &str, authority: &Authority) -> Result<(tokio::process::Child, String), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let mut command = tokio::process::Command::new(binary());
    command.args(["serve", "--listen", "127.0.0.1:0", "--jwks-url", url, "--jwks-ca-file"]).arg(&file);
    command.env_remove("RELAY_JWT_SECRET").kill_on_drop(true);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    within(BufReader::new(child.stdout.take().unwrap()).read_line(&mut line)).await.unwrap();
    match line.trim().strip_prefix("listening on ") {
        Some(address) => Ok((child, format!("ws://{address}/ws"))),
        None => {
            let mut said = String::new();
            within(child.stderr.take().unwrap().read_to_string(&mut said)).await.unwrap();
            Err(said)
        }
    }
}

#[tokio::test]
async fn keys_of_an_address_are_fetched_once_and_not_for_every_stranger() {
    let (authority, asked) = (Authority::new(), Arc::new(AtomicUsize::new(0)));
    let (known, unknown) = (Key::new("known"), Key::new("unknown"));
    // A key for something else stands beside it, as identity providers publish them.
    let mut other = Key::new("other").jwk();
    other.common.public_key_use = Some(jsonwebtoken::jwk::PublicKeyUse::Encryption);
    let set = serde_json::to_vec(&JwkSet { keys: vec![other, known.jwk()] }).unwrap();
    let url = serve_keys(&authority, set, Arc::clone(&asked)).await;
    let (_relay, address) = start(&url, &authority).await.unwrap();
    let connect = async |token: String| within(Client::connect(ClientConfig::new(&address, token), Tools::new())).await;
    assert!(connect(known.token()).await.is_ok());
    for _ in 0..20 {
        assert!(matches!(connect(unknown.token()).await, Err(Error::Unauthenticated)));
    }
    assert!(
        matches!(connect(Key::new("known").token()).await, Err(Error::Unauthenticated)),
        "another key of that name"
    );
    assert_eq!(asked.load(Ordering::SeqCst), 1, "within the floor it is not asked again");
}

#[tokio::test]
async fn keys_come_only_from_who_is_trusted_and_over_https() {
    let (authority, stranger, asked) = (Authority::new(), Authority::new(), Arc::new(AtomicUsize::new(0)));
    let set = serde_json::to_vec(&JwkSet { keys: vec![Key::new("k").jwk()] }).unwrap();
    let url = serve_keys(&authority, set, Arc::clone(&asked)).await;
    let said = start(&url, &stranger).await.unwrap_err();
    assert!(said.contains("certificate"), "{said}");
    let said = start(&url.replace("https", "http"), &authority).await.unwrap_err();
    assert!(said.contains("https://"), "{said}");
    for body in [b"{}".to_vec(), b"{\"keys\":[]}".to_vec(), vec![b' '; 1 << 20], b"<html>".to_vec()] {
        let url = serve_keys(&authority, body, Arc::clone(&asked)).await;
        let said = start(&url, &authority).await.unwrap_err();
        assert!(said.contains("key set"), "{said}");
    }
}
