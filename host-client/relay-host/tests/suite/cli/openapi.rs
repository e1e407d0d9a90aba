//! `--openapi`: documents with a configuration, called against a server on this machine.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::PATIENCE;
use super::folder::Folder;

/// A server that answers every request with `{"ok": true}`, and hands over their heads.
fn server() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, seen) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap() == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let answer =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\nconnection: close\r\n\r\n";
            stream.write_all(format!("{answer}{{\"ok\":true}}").as_bytes()).unwrap();
            if requests.send(String::from_utf8(head).unwrap()).is_err() {
                return;
            }
        }
    });
    (address, seen)
}

/// A document whose operations need credentials of three kinds, on a server with a variable.
fn document(address: SocketAddr) -> String {
    let operation =
        |id: &str, scheme: &str, tag: &str| json!({"operationId": id, "tags": [tag], "security": [{scheme: []}]});
    let document = json!({
        "openapi": "3.0.3",
        "servers": [
            {"url": "https://far.example"},
            {"url": format!("http://{address}/{{stage}}"), "variables": {"stage": {"default": "live"}}},
        ],
        "paths": {
            "/key": {"get": operation("byKey", "key", "a"), "post": operation("change", "key", "b")},
            "/token": {"get": operation("byToken", "token", "a")},
            "/login": {"get": operation("byLogin", "login", "a")},
            "/other": {"get": operation("other", "unknown", "a")},
        },
        "components": {"securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "x-key"},
            "token": {"type": "http", "scheme": "bearer"},
            "login": {"type": "http", "scheme": "basic"},
            "unknown": {"type": "http", "scheme": "bearer"},
        }},
    });
    document.to_string()
}

const CONFIG: &str = r#"
document = "api.json"
server = "SERVER/test"
server_variables = { stage = "test" }
networks = ["loopback"]
tags = ["a"]
operations = ["GET /k*"]
document_bytes = 100_000
max_operations = 10

[credentials]
key = { env = "SHOP_KEY" }
token = { file = "token.txt" }
login = { user = "me", file = "word.txt" }
"#;

#[tokio::test]
async fn a_configuration_gives_credentials_server_networks_and_operations() {
    let (address, seen) = server();
    let folder = Folder::new();
    folder
        .file("api.json", document(address))
        .file("shop.toml", CONFIG.replace("SERVER", &format!("http://{address}")))
        .file("token.txt", "tok-secret\n")
        .file("word.txt", "word");
    let run = async |arguments: &[&str]| {
        let mut command = folder.command(&[arguments, &["--openapi", "shop=shop.toml"]].concat());
        command.env("SHOP_KEY", "key-secret");
        super::folder::finish(command, "").await
    };
    let listed = run(&["tools"]).await;
    let names: Vec<_> = listed.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["shop.byKey", "shop.byLogin", "shop.byToken"], "{listed:?}");
    assert!(listed.err.contains("left out: GET /other: it needs a credential"), "{listed:?}");
    assert!(!listed.err.contains("change"), "what is not chosen is not reported: {listed:?}");
    for (tool, path, header) in [
        ("shop.byKey", "/test/key", "x-key: key-secret"),
        ("shop.byToken", "/test/token", "authorization: Bearer tok-secret"),
        ("shop.byLogin", "/test/login", "authorization: Basic bWU6d29yZA=="),
    ] {
        let called = run(&["call", tool]).await;
        assert_eq!((called.status, called.out.trim()), (Some(0), "{\"ok\":true}"), "{called:?}");
        let head = seen.recv_timeout(PATIENCE).unwrap();
        assert!(head.starts_with(&format!("GET {path} HTTP/1.1\r\n")) && head.contains(header), "{head}");
    }
    run(&["call", "shop.change"]).await.says(1, &["not among the operations"]);
    let one: Value = serde_json::from_str(&run(&["tools", "shop.byKey"]).await.out).unwrap();
    assert_eq!(one["effect_from"], "the method GET");
}

#[tokio::test]
async fn a_configuration_that_is_wrong_says_what_to_do() {
    let (address, _seen) = server();
    let folder = Folder::new();
    folder.file("api.json", document(address)).file("empty", "");
    for (config, expected) in [
        ("", "missing field `document`"),
        ("document = \"api.json\"\nsever = \"x\"", "unknown field `sever`"),
        ("document = \"gone.json\"", "cannot be read"),
        ("document = \"api.json\"\nserver = \"https://x.example\"", "its servers are: https://far.example"),
        ("document = \"api.json\"\nserver_variables = { stge = \"x\" }", "no server of it has a variable \"stge\""),
        ("document = \"api.json\"\nbase_url = \"x\"", "x is no address of a server"),
        ("document = \"api.json\"\nnetworks = [\"10.0.0.0\"]", "is no network"),
        ("document = \"api.json\"\noperations = [\"nope*\"]", "no operation that \"nope*\" chooses"),
        ("document = \"api.json\"\ndocument_bytes = 10", "raise its limit document_bytes"),
        (
            "document = \"api.json\"\ncredentials.key = { env = \"SURELY_NOT_SET\" }",
            "credentials.key: the environment variable",
        ),
        ("document = \"api.json\"\ncredentials.key = {}", "it needs either \"env\""),
        ("document = \"api.json\"\ncredentials.key = { file = \"gone\" }", "gone cannot be read"),
        ("document = \"api.json\"\ncredentials.kee = { file = \"empty\" }", "it has no security scheme \"kee\""),
    ] {
        let ended = folder.file("shop.toml", config).run(&["tools", "--openapi", "shop=shop.toml"]).await;
        ended.says(2, &[expected]);
    }
}
