//! Gives blocks of JSON and TOML to their real readers: the library, the relay, cargo. Parses blocks of JavaScript and
//! TypeScript as the relay does.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use host_client::{Client, ClientConfig, ExecuteRequest, LocalRelay, McpConfig, Policy, SqliteJournal, Tools};
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};

use crate::pages::{Block, page, pages, root};
use crate::programs::program;

const SECRET: &str = "a secret of the tests of the pages, which is long enough";

/// Number of hexadecimal digits of a SHA-256 digest.
const SHA256_DIGITS: usize = 64;

/// Lists the languages of blocks. Blocks of `text` show output of programs. Those of `ts` are code for the sandbox; those of
/// `typescript` are programs that use the npm package, whose tests run them.
const LANGUAGES: [&str; 11] = ["js", "json", "py", "rust", "sh", "sql", "text", "toml", "ts", "typescript", "yaml"];

/// Finds the blocks of some languages, with file and line.
fn blocks(languages: &[&str]) -> Vec<(String, Block)> {
    let of = |page: crate::pages::Page| {
        let name = page.name;
        page.blocks.into_iter().map(move |block| (format!("{name}:{}", block.line), block))
    };
    let found: Vec<_> = pages().into_iter().flat_map(of).filter(|(_, it)| languages.contains(&it.language())).collect();
    assert!(found.len() > 1, "there are blocks of {languages:?}");
    found
}

#[test]
fn every_block_is_of_a_language_that_is_tried() {
    for page in pages() {
        for block in &page.blocks {
            // Without a language, rustdoc takes it for Rust.
            assert!(LANGUAGES.contains(&block.language()), "{}:{}: {:?}", page.name, block.line, block.info);
            let is_whole = block.language() == "rust" || !block.info.contains(',');
            assert!(is_whole && !block.info.contains("ignore"), "{}:{}: {:?}", page.name, block.line, block.info);
        }
    }
}

#[test]
fn every_page_with_rust_is_compiled() {
    let modules = fs::read_to_string(root().join("dev/docs/src/lib.rs")).unwrap();
    for page in pages() {
        let has_rust = page.blocks.iter().any(|block| block.language() == "rust");
        assert_eq!(modules.contains(&format!("\"{}\"", page.name)), has_rust, "{} in dev/docs/src/lib.rs", page.name);
    }
}

#[tokio::test]
async fn json_is_read_by_its_reader() {
    for (place, block) in blocks(&["json"]) {
        let value: Value = serde_json::from_str(&block.text).unwrap_or_else(|error| panic!("{place}: {error}"));
        let has = |key: &str| value.get(key).is_some();
        if has("mcpServers") {
            mcp_servers(&place, &block.text);
        } else if has("sub") && has("exp") {
            claims(&place, &value).await;
        } else if has("keys") {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("jwks.json");
            fs::write(&file, &block.text).unwrap();
            starts(&place, &["--jwks-file", file.to_str().unwrap()]);
        } else if has("tool") && has("arguments") {
            call(&place, &block.text, &value).await;
        } else {
            panic!("{place}: nothing here reads such JSON");
        }
    }
}

/// The one block of YAML is a job of GitHub Actions: each step uses an action or runs a command, and the image that it loads is a
/// file of a release.
#[test]
fn the_job_in_yaml_has_steps_and_loads_a_file_of_a_release() {
    let all: Vec<_> = pages().into_iter().flat_map(|page| page.blocks).filter(|it| it.language() == "yaml").collect();
    let [block] = &all[..] else { panic!("{} blocks of YAML", all.len()) };
    let workflow: Value = serde_saphyr::from_str(&block.text).unwrap();
    let steps = workflow["jobs"]["tests"]["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["uses"].is_string() != step["run"].is_string()), "{steps:?}");
    let commands: Vec<_> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
    let loaded = commands.iter().find_map(|command| command.strip_prefix("docker load --input ")).unwrap();
    let file = loaded.rsplit('/').next().unwrap();
    assert!(page("docs/releases.md").text.contains(&format!("`{file}`")), "a release has no {file}");
    assert_eq!(commands.last(), Some(&"cargo test"));
}

/// Queries are for the journal of durable runs: a new one has their tables and columns.
#[tokio::test]
async fn every_query_is_one_of_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.sqlite");
    let journal = SqliteJournal::open(&path).await.unwrap();
    let reader = rusqlite::Connection::open(&path).unwrap();
    let all: Vec<_> = pages().into_iter().flat_map(|page| page.blocks).filter(|it| it.language() == "sql").collect();
    assert!(!all.is_empty());
    for query in all.iter().flat_map(|block| block.text.lines()) {
        assert!(query.starts_with("SELECT"), "{query}");
        reader.prepare(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    }
    journal.close().await;
}

/// Reads a file of MCP servers, as if the variables that it names were set.
fn mcp_servers(place: &str, text: &str) {
    let mut set = text.to_owned();
    while let Some((before, (name, after))) =
        set.split_once("${").and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        assert!(name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_'), "{place}: {name}");
        set = format!("{before}the-{name}{after}");
    }
    let config = McpConfig::from_json(&set, place).unwrap_or_else(|error| panic!("{error}"));
    assert!(config.names().count() > 0, "{place}");
    if text.contains("${") {
        let unset = McpConfig::from_json(text, place).unwrap_or_else(|error| panic!("{error}"));
        assert!(unset.problems().count() > 0, "{place}: its variables are set, or mean nothing");
    }
}

/// Connects with a token of these claims, and compares the session with them.
async fn claims(place: &str, claims: &Value) {
    let relay =
        LocalRelay::start_with(program("sandbox-relay"), &["--one-time-tokens"], &[("RELAY_JWT_SECRET", SECRET)]);
    let relay = relay.await.unwrap();
    let connect = async |claims: &Value| {
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        let token = jsonwebtoken::encode(&Header::default(), claims, &key).unwrap();
        Client::connect(ClientConfig::new(format!("ws://{}/ws", relay.address()), token), Tools::new()).await
    };
    let client = connect(claims).await.unwrap_or_else(|error| panic!("{place}: {error}"));
    let limits = client.limits().to_wire();
    for (name, value) in claims["limits"].as_object().unwrap() {
        assert_eq!(limits.get(name), value.as_u64().as_ref(), "{place}: {name}");
    }
    assert!(client.warnings().is_empty(), "{place}: {:?}", client.warnings());
    // Each claim matters: other tools are accepted, another value of any other claim is refused.
    for (number, (name, other)) in
        [("tools", json!(["*"])), ("sub", json!("")), ("exp", json!(1)), ("iss", json!("x")), ("aud", json!("x"))]
            .into_iter()
            .enumerate()
    {
        let mut changed = claims.clone();
        changed["jti"] = json!(format!("another {number}"));
        changed[name] = other;
        assert_eq!(connect(&changed).await.is_ok(), name == "tools", "{place}: another {name}");
    }
    // The token was used before, and is accepted only once.
    assert!(connect(claims).await.is_err(), "{place}: it was good twice");
}

/// Runs a call that is written as JSON, which no worker must see.
async fn call(place: &str, text: &str, value: &Value) {
    let relay = LocalRelay::start_with(program("sandbox-relay"), &[], &[]).await.unwrap();
    let tools = Tools::new();
    let spec = host_client::ToolSpec::new(value["tool"].as_str().unwrap(), "", json!({"type": "object"}));
    let echo = |arguments: Value, _| async move { Ok(arguments.to_string().into()) };
    tools.add_with(spec.effect(host_client::Effect::ReadOnly), echo).unwrap();
    let client = Client::connect(relay.client_config().await.unwrap(), tools).await.unwrap();
    let outcome = client.run(ExecuteRequest::new(text)).await.unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(outcome.value().unwrap(), value["arguments"], "{place}");
    assert_eq!(outcome.usage.memory_bytes, 0, "{place}: no worker ran it");
}

#[test]
fn toml_is_read_by_its_reader() {
    let mut kinds = [0; 6];
    for (place, block) in blocks(&["toml"]) {
        let table: toml::Table = toml::from_str(&block.text).unwrap_or_else(|error| panic!("{place}: {error}"));
        let has_one_of = |keys: &[&str]| keys.iter().any(|key| table.contains_key(*key));
        if has_one_of(&["package"]) {
            package(&place, &block.text);
            kinds[0] += 1;
        } else if has_one_of(&["rule", "default", "budget", "manifest", "phase"]) {
            Policy::parse(&block.text, &place).unwrap_or_else(|error| panic!("{error}"));
            kinds[1] += 1;
        } else if has_one_of(&["document"]) {
            openapi(&place, &block.text);
            kinds[3] += 1;
        } else if table.values().any(|value| value.get("program").is_some()) {
            commands(&place, &block.text);
            kinds[4] += 1;
        } else if table.values().all(|value| value.as_str().is_some_and(|text| text.len() == SHA256_DIGITS)) {
            users(&place, &block.text);
            kinds[5] += 1;
        } else {
            settings(&place, &block.text);
            kinds[2] += 1;
        }
    }
    assert!(kinds.iter().all(|kind| *kind > 0), "{kinds:?}");
}

/// Lists the tools of a document that has all that this configuration of `--openapi` names.
fn openapi(place: &str, config: &str) {
    const DOCUMENT: &str = r#"
openapi: 3.0.3
servers: [{url: "https://{region}.shop.example/v2", variables: {region: {default: us, enum: [us, eu]}}}]
paths:
  /orders: {post: {operationId: order, tags: [orders], security: [{api_key: []}]}}
  /carts: {get: {operationId: listCarts, security: [{oauth: []}]}}
  /users/{id}: {get: {parameters: [{name: id, in: path, required: true, schema: {}}], security: [{login: []}]}}
components:
  securitySchemes:
    api_key: {type: apiKey, in: header, name: x-key}
    oauth: {type: oauth2}
    login: {type: http, scheme: basic}
"#;
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("api.yaml", DOCUMENT), ("token.txt", "token\n"), ("shop.toml", config)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let mut command = Command::new(program("relay-host"));
    command.args(["tools", "--openapi", "shop=shop.toml"]).envs([("SHOP_KEY", "key"), ("PASSWORD", "word")]);
    let output = command.current_dir(folder.path()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{place}: {err}");
    assert_eq!(out.lines().count(), 3, "{place}: {out}");
}

/// Lists the tools of the programs that a file of `--commands` names.
fn commands(place: &str, config: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("commands.toml"), config).unwrap();
    let mut command = Command::new(program("relay-host"));
    command.args(["tools", "--commands", "commands.toml"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && err.is_empty() && out.lines().count() == 1, "{place}: {out}\n{err}");
}

/// Has cargo resolve a package beside a clone of this repository, with the versions that are locked here.
fn package(place: &str, manifest: &str) {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("package");
    fs::create_dir_all(package.join("src")).unwrap();
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    fs::write(package.join("src/main.rs"), "fn main() {}\n").unwrap();
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    std::os::unix::fs::symlink(root(), folder.path().join("sandbox-relay")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo.args(["metadata", "--offline", "--format-version", "1"]).current_dir(&package).output().unwrap();
    assert!(output.status.success(), "{place}: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = metadata["packages"].as_array().unwrap().iter().map(|it| it["name"].as_str()).collect();
    assert!(names.contains(&Some("host-client")), "{place}: {names:?}");
}

/// Has `relay-host` read the users of an MCP server. The address is taken, so that it ends when it has read them.
fn users(place: &str, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.toml");
    fs::write(&file, text).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new(program("relay-host"));
    command.args(["serve-mcp", "--http", &taken.local_addr().unwrap().to_string(), "--http-users"]).arg(file);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("Address already in use"), "{place}: {said}");
}

/// Starts a relay with these settings and with the files that they name.
fn settings(place: &str, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let moved = text.replace("\"/run/", &format!("\"{}/run/", folder.path().display()));
    for name in ["run/secrets", "run/tls"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("run/secrets/relay-jwt"), SECRET).unwrap();
    certificate(&folder.path().join("run/tls"));
    let file = folder.path().join("relay.toml");
    fs::write(&file, moved).unwrap();
    starts(place, &["--config", file.to_str().unwrap()]);
}

/// Makes `cert.pem` and `key.pem`.
fn certificate(folder: &Path) {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]);
    openssl.args(["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"]).current_dir(folder);
    let made = openssl.output().expect("openssl is needed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Starts a relay with these arguments and stops it once it listens.
fn starts(place: &str, arguments: &[&str]) {
    let mut command = Command::new(program("sandbox-relay"));
    command.arg("serve").args(arguments).args(["--listen", "127.0.0.1:0", "--exit-with-stdin"]);
    let spawned =
        command.env_remove("RELAY_JWT_SECRET").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawned.spawn().unwrap();
    // It listens until its input is closed, which it is here; and it says that it listens before.
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let (out, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.starts_with("listening on 127.0.0.1:"), "{place}: {out}\n{log}");
}

#[test]
fn javascript_and_typescript_are_code() {
    for (place, block) in blocks(&["js", "ts"]) {
        relay_script::prepare(&block.text).unwrap_or_else(|error| panic!("{place}: {error}"));
    }
}
