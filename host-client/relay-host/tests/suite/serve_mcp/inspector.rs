//! The inspector in its command-line mode as a client.

use std::process::Stdio;

use host_client::local::{BINARY_VARIABLE, find_binary};
use serde_json::Value;
use tokio::process::Command;

use super::setup::{RELAY_HOST, Setup};
use super::within;
use crate::servers::program;

const CODE: &str = "code=return await mcp.call('everything.echo', {message: 'hi'})";

async fn inspect(arguments: &[&str]) -> Value {
    let mut command = Command::new(program("mcp-inspector"));
    command.arg("--cli").args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = within(command.output()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn the_inspector_lists_and_calls_over_stdio_and_http() {
    let setup = Setup::with_everything().allowing_all();
    let with_token = Setup::with_everything().allowing_all().option("--http-token", "correct horse battery staple");
    let server = with_token.serve_http().await;
    let header = "Authorization: Bearer correct horse battery staple";
    let arguments = setup.arguments();
    // The inspector passes nothing else on.
    let relay = format!("{BINARY_VARIABLE}={}", find_binary().display());
    let stdio = [vec!["-e", &relay, RELAY_HOST], arguments.iter().map(String::as_str).collect()].concat();
    let http = vec![&*server.url, "--transport", "http", "--header", header];
    for place in [stdio, http] {
        let listed = inspect(&[&place[..], &["--method", "tools/list"]].concat()).await;
        assert_eq!(listed["tools"][0]["name"], "execute_code", "{listed}");
        let call = ["--method", "tools/call", "--tool-name", "execute_code", "--tool-arg", CODE];
        let called = inspect(&[&place[..], &call].concat()).await;
        assert_eq!(called["structuredContent"]["result"], "Echo: hi", "{called}");
        assert_eq!(called["content"][0]["text"], "Echo: hi", "{called}");
    }
}
