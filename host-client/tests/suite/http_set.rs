//! The tool set `http`, called as code calls it, against real servers: what it fetches, and everything that it refuses.

use std::sync::Arc;
use std::time::Duration;

use host_client::sets::http::HttpSet;
use host_client::{Effect, Mode, Mount, RemoteAccess, Tools};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Caller, Server, endless, megabytes, redirect, response};

/// Access to these addresses, and to 127.0.0.1.
fn access(hosts: &[&str]) -> RemoteAccess {
    RemoteAccess::to(hosts).unwrap().allow_private("127.0.0.1/32").unwrap()
}

async fn caller(set: HttpSet) -> (Caller, Mount) {
    let tools = Tools::new();
    let mount = set.mount(&tools, "http").unwrap();
    (Caller::new(&tools).await, mount)
}

#[tokio::test]
async fn fetches_text_bytes_and_nothing() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/text?q=1" => {
            response(200, &[("content-type", "text/plain"), ("set-cookie", "a=b"), ("x-a", "1"), ("x-a", "2")], "hällo")
        }
        "/latin" => response(200, &[("content-type", "text/plain; charset=latin1")], vec![b'h', 0xe4]),
        "/bytes" => response(200, &[("content-type", "image/png")], vec![0x89, 0xff, 0x00]),
        _ => response(404, &[], ""),
    })
    .await;
    let (mut caller, _mount) = caller(HttpSet::new(access(&[&server.url("")]))).await;
    let fetched =
        caller.call("http.fetch", json!({"url": server.url("/text?q=1#f"), "headers": {"X-Mine": "yes"}})).await;
    let fetched = fetched.unwrap();
    assert_eq!(fetched["status"], 200);
    assert_eq!(fetched["body"], "hällo");
    assert_eq!(fetched["headers"]["x-a"], "1, 2");
    assert!(fetched["headers"].get("set-cookie").is_none() && fetched.get("truncated").is_none());
    let seen = server.one();
    assert_eq!(
        (seen.method.clone(), seen.target.as_str(), seen.header("x-mine")),
        (Method::GET, "/text?q=1", Some("yes"))
    );
    assert_eq!(seen.header("accept-encoding"), None);

    let fetched = caller.call("http.fetch", json!({"url": server.url("/latin")})).await.unwrap();
    assert_eq!(fetched["body"], "h\u{fffd}");
    let fetched = caller.call("http.fetch", json!({"url": server.url("/bytes")})).await.unwrap();
    assert_eq!((&fetched["body_base64"], fetched.get("body")), (&json!("if8A"), None));
    let fetched = caller.call("http.fetch", json!({"url": server.url("/none"), "method": "HEAD"})).await.unwrap();
    assert_eq!((&fetched["status"], &fetched["body"]), (&json!(404), &json!("")));
}

#[tokio::test]
async fn only_reads_unless_methods_are_allowed() {
    let server = Server::start(|seen| response(200, &[], seen.body.clone())).await;
    let set = HttpSet::new(access(&[&server.url("")]));
    let tools = Tools::new();
    let mount = set.clone().mount(&tools, "http").unwrap();
    let spec = tools.spec("http.fetch").unwrap();
    assert_eq!((spec.manifest.effect, spec.manifest.mode), (Some(Effect::ReadOnly), Mode::RestrictedRemote));
    let mut reader = Caller::new(&tools).await;
    for method in ["POST", "DELETE", "get", "TRACE", ""] {
        reader.refused("http.fetch", json!({"url": server.url("/"), "method": method}), "INVALID_ARGUMENTS").await;
    }
    reader.refused("http.fetch", json!({"url": server.url("/"), "body": "x"}), "TOOL_FAILED").await;
    assert!(server.seen().is_empty());
    drop(mount);

    let _mount = set.clone().methods([Method::POST]).mount(&tools, "http").unwrap();
    assert_eq!(tools.spec("http.fetch").unwrap().manifest.effect, Some(Effect::Mutating));
    let mut writer = Caller::new(&tools).await;
    let arguments = json!({"url": server.url("/"), "method": "POST", "body": "sent"});
    assert_eq!(writer.call("http.fetch", arguments).await.unwrap()["body"], "sent");
    writer.refused("http.fetch", json!({"url": server.url("/"), "method": "DELETE"}), "INVALID_ARGUMENTS").await;
    for method in [Method::CONNECT, Method::TRACE] {
        assert!(set.clone().methods([method]).mount(&Tools::new(), "http").is_err());
    }
}

#[tokio::test]
async fn headers_that_are_not_for_code_are_refused() {
    let server = Server::start(|_| response(200, &[], "")).await;
    let set = HttpSet::new(access(&[&server.url("")]));
    let (mut strict, _mount) = caller(set.clone()).await;
    for name in [
        "Host",
        "Cookie",
        "Authorization",
        "Proxy-Authorization",
        "Connection",
        "Transfer-Encoding",
        "Content-Length",
        "TE",
        "Upgrade",
        "Expect",
        "X-Forwarded-For",
        "Forwarded",
        "X-HTTP-Method-Override",
    ] {
        let arguments = json!({"url": server.url("/"), "headers": {name: "x"}});
        let message = strict.refused("http.fetch", arguments, "TOOL_DENIED").await;
        assert!(message.contains(&name.to_lowercase()), "{message}");
    }
    for (name, value) in [("a b", "x"), ("", "x"), ("x", "a\r\nHost: b"), ("x", "\u{0}")] {
        strict.refused("http.fetch", json!({"url": server.url("/"), "headers": {name: value}}), "TOOL_FAILED").await;
    }
    let large = json!({"url": server.url("/"), "headers": {"x": "y".repeat(20_000)}});
    strict.refused("http.fetch", large, "TOOL_DENIED").await;
    assert!(server.seen().is_empty());

    let (mut lenient, _mount) = caller(set.allow_authorization()).await;
    lenient
        .call("http.fetch", json!({"url": server.url("/"), "headers": {"Authorization": "Bearer x"}}))
        .await
        .unwrap();
    assert_eq!(server.one().header("authorization"), Some("Bearer x"));
}

#[tokio::test]
async fn hosts_that_are_not_listed_are_refused_and_those_that_are_get_named() {
    let (listed, other) =
        (Server::start(|_| response(200, &[], "")).await, Server::start(|_| response(200, &[], "")).await);
    let (mut caller, _mount) = caller(HttpSet::new(access(&[&listed.url(""), "*.example.com"]))).await;
    for url in [
        other.url("/"),
        format!("https://{}/", listed.address),
        "http://localhost/".to_owned(),
        "https://example.com/".to_owned(),
        "ftp://example.com/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let message = caller.refused("http.fetch", json!({"url": url}), "TOOL_DENIED").await;
        assert!(message.contains(&listed.url("")) && message.contains("https://*.example.com"), "{message}");
    }
    let with_user = format!("http://me:secret@{}/", listed.address);
    let message = caller.refused("http.fetch", json!({"url": with_user}), "TOOL_DENIED").await;
    assert!(!message.contains("secret"), "{message}");
    caller.refused("http.fetch", json!({"url": "no address"}), "TOOL_FAILED").await;
    let long = listed.url(&format!("/{}", "x".repeat(8_200)));
    caller.refused("http.fetch", json!({"url": long}), "INVALID_ARGUMENTS").await;
    assert!(listed.seen().is_empty() && other.seen().is_empty());
}

#[tokio::test]
async fn private_addresses_are_refused_however_they_are_spelled_and_named() {
    let server = Server::start_on("0.0.0.0:0", |_| response(200, &[], "secret")).await;
    let port = server.address.port();
    let hosts = ["127.0.0.1", "0.0.0.0", "127.1.2.3", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"];
    let hosts = hosts.map(|host| format!("http://{host}:{port}"));
    // All of these are listed, and none of their networks is allowed.
    let (mut caller, _mount) = caller(HttpSet::new(RemoteAccess::to(&hosts).unwrap())).await;
    let spelled = ["2130706433", "0x7f000001", "017700000001", "127.1", "0x7f.1", "0", "LOCALHOST", "127.0.0.1"];
    let spelled = spelled.map(|host| format!("http://{host}:{port}"));
    for url in hosts.iter().chain(&spelled) {
        let message = caller.refused("http.fetch", json!({"url": url}), "TOOL_DENIED").await;
        assert!(message.contains("private, local or reserved"), "{url}: {message}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn redirects_lead_nowhere_that_could_not_be_asked() {
    // The first lies at an address that is allowed; what it leads to does not.
    let hidden = Server::start(|_| response(200, &[], "secret")).await;
    let port = hidden.address.port();
    let first = Server::start_on("127.0.0.2:0", move |seen| match seen.target.as_str() {
        "/metadata" => redirect(302, "http://169.254.169.254/latest/meta-data/"),
        "/literal" => redirect(307, &format!("http://127.0.0.1:{port}/")),
        "/name" => redirect(301, &format!("http://localhost:{port}/")),
        "/decimal" => redirect(308, &format!("http://2130706433:{port}/")),
        "/other" => redirect(303, "https://example.com/"),
        "/file" => redirect(302, "file:///etc/passwd"),
        "/user" => redirect(302, "http://me:you@127.0.0.2/"),
        "/nonsense" => redirect(302, "http://["),
        _ => redirect(302, "/loop"),
    })
    .await;
    let hosts = ["http://169.254.169.254", &first.url(""), &hidden.url(""), &format!("http://localhost:{port}")];
    let access = RemoteAccess::to(hosts).unwrap().allow_private("127.0.0.2/32").unwrap();
    let (mut caller, _mount) = caller(HttpSet::new(access)).await;
    for (path, code, says) in [
        ("/metadata", "TOOL_DENIED", "private, local or reserved"),
        ("/literal", "TOOL_DENIED", "private, local or reserved"),
        ("/name", "TOOL_DENIED", "private, local or reserved"),
        ("/decimal", "TOOL_DENIED", "private, local or reserved"),
        ("/other", "TOOL_DENIED", "https://example.com is not allowed"),
        ("/file", "TOOL_DENIED", "is not allowed"),
        ("/user", "TOOL_DENIED", "user name"),
        ("/nonsense", "TOOL_FAILED", "no address"),
    ] {
        let message = caller.refused("http.fetch", json!({"url": first.url(path)}), code).await;
        assert!(message.contains(says), "{path}: {message}");
    }
    assert!(hidden.seen().is_empty());
    first.seen();
    let message = caller.refused("http.fetch", json!({"url": first.url("/loop")}), "TOOL_FAILED").await;
    assert!(message.contains("more than 5 redirects"), "{message}");
    assert_eq!(first.seen().len(), 6);
}

/// A server with a certificate for `localhost`, and the certificate.
async fn tls_server() -> (String, String) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust it ends the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4 << 10];
            let read = stream.read(&mut request).await.unwrap();
            assert!(request[..read].ends_with(b"\r\n\r\n"));
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nsafe").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    (url, certified.cert.pem())
}

#[tokio::test]
async fn a_server_proves_who_it_is() {
    let (url, certificate) = tls_server().await;
    let (mut trusting, _mount) = caller(HttpSet::new(access(&[&url]).authorities(certificate.clone()))).await;
    assert_eq!(trusting.call("http.fetch", json!({"url": url})).await.unwrap()["body"], "safe");
    let (_, other) = tls_server().await;
    for access in [access(&[&url]), access(&[&url]).authorities(other)] {
        let (mut caller, _mount) = caller(HttpSet::new(access)).await;
        let message = caller.refused("http.fetch", json!({"url": url}), "TOOL_FAILED").await;
        assert!(message.contains("certificate"), "{message}");
    }
    let nonsense = HttpSet::new(access(&[&url]).authorities("nonsense"));
    assert!(nonsense.mount(&Tools::new(), "http").unwrap_err().to_string().contains("PEM"));
}

#[tokio::test]
async fn headers_stay_with_the_origin_they_were_given_for() {
    let other = Server::start(|_| response(200, &[], "other")).await;
    let to = other.url("/there");
    let first = Server::start(move |seen| match seen.target.as_str() {
        "/near" => redirect(302, "/here"),
        "/far" => redirect(302, &to),
        _ => response(200, &[], "first"),
    })
    .await;
    let set = HttpSet::new(access(&[&first.url(""), &other.url("")])).allow_authorization().methods([Method::POST]);
    let (mut caller, _mount) = caller(set).await;
    let headers = json!({"authorization": "Bearer secret", "x-api-key": "secret", "accept-language": "de"});
    let near = caller.call("http.fetch", json!({"url": first.url("/near"), "headers": headers})).await.unwrap();
    assert_eq!(near["body"], "first");
    assert!(first.seen().iter().all(|seen| seen.header("x-api-key") == Some("secret")));
    let far = caller.call("http.fetch", json!({"url": first.url("/far"), "headers": headers})).await.unwrap();
    assert_eq!(far["body"], "other");
    let seen = other.one();
    assert!(!format!("{seen:?}").contains("secret"), "{seen:?}");
    assert_eq!(seen.header("accept-language"), Some("de"));

    // What changes something is sent once: where it leads is for the code to see.
    first.seen();
    let posted = json!({"url": first.url("/far"), "method": "POST", "body": "secret"});
    let posted = caller.call("http.fetch", posted).await.unwrap();
    assert_eq!((&posted["status"], &posted["headers"]["location"]), (&json!(302), &json!(other.url("/there"))));
    assert!(first.seen().len() == 1 && other.seen().is_empty());
}

#[tokio::test]
async fn a_large_body_is_cut_and_says_so() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/umlauts" => response(200, &[], "ä".repeat(1_000)),
        _ => response(200, &[("content-type", "text/plain")], megabytes(50)),
    })
    .await;
    let (mut caller, _mount) = caller(HttpSet::new(access(&[&server.url("")])).body_bytes(1_001)).await;
    let fetched = caller.call("http.fetch", json!({"url": server.url("/")})).await.unwrap();
    assert_eq!((&fetched["truncated"], fetched["body"].as_str().unwrap().len()), (&json!(true), 1_001));
    let fetched = caller.call("http.fetch", json!({"url": server.url("/umlauts")})).await.unwrap();
    assert_eq!(fetched["body"], Value::String(format!("{}\u{fffd}", "ä".repeat(500))));
}

#[tokio::test]
async fn a_slow_body_ends_with_the_calls_time() {
    let server = Server::start(|_| response(200, &[], endless())).await;
    let set = HttpSet::new(access(&[&server.url("")])).methods([Method::POST]);
    let (mut caller, _mount) = caller(set).await;
    for (method, code) in [("GET", "TOOL_TIMEOUT"), ("POST", "OUTCOME_UNKNOWN")] {
        let arguments = json!({"url": server.url("/"), "method": method});
        let failed = caller.call_within(Duration::from_millis(300), "http.fetch", arguments).await.unwrap_err();
        assert_eq!(failed.code, code, "{failed:?}");
    }
}

#[tokio::test]
async fn a_flood_of_headers_is_no_answer_and_a_closed_port_is_said() {
    let server = Server::start(|seen| {
        let count = if seen.target.starts_with("/many") { 200 } else { 60 };
        let names: Vec<String> = (0..count).map(|number| format!("x-{number}")).collect();
        let value = "v".repeat(1_000);
        let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), value.as_str())).collect();
        response(200, &headers, "")
    })
    .await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let closed = format!("http://{closed}");
    let (mut caller, _mount) = caller(HttpSet::new(access(&[&server.url(""), &closed]))).await;
    let message = caller.refused("http.fetch", json!({"url": server.url("/many?secret")}), "TOOL_FAILED").await;
    assert!(message.contains(&server.url("")) && !message.contains("secret"), "{message}");
    let fetched = caller.call("http.fetch", json!({"url": server.url("/some")})).await.unwrap();
    assert!(fetched["headers"].to_string().len() < 20_000);
    let message = caller.refused("http.fetch", json!({"url": format!("{closed}/?secret")}), "TOOL_FAILED").await;
    assert!(message.contains("refused") && !message.contains("secret"), "{message}");
}
