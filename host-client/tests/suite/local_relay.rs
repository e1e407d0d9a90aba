//! A relay of one's own with options.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_client::{Client, ClientConfig, Effect, Error, ExecuteRequest, LimitName, LocalRelay, TokenRequest, Tools};
use serde_json::json;

use relay_test_support::within;

fn tools() -> Tools {
    let tools = Tools::new();
    for name in ["a.one", "b.two"] {
        tools.tool(name).effect(Effect::ReadOnly).run(|(): ()| async { Ok(1) }).unwrap();
    }
    tools
}

#[tokio::test]
async fn its_options_hold_for_the_relay_and_for_its_tokens() {
    let builder = LocalRelay::builder()
        .limit(LimitName::ToolCalls, 2)
        .max_limit(LimitName::ToolCalls, 3)
        .env("RELAY_JWT_AUDIENCE", "a test")
        .argument("--worker-stock=1");
    let mut relay = within(builder.start()).await.unwrap();
    assert!(relay.is_running() && relay.process_id().is_some());
    let calls = |count: usize| {
        let code = format!("for (let i = 0; i < {count}; i++) await mcp.call('a.one'); return {count}");
        ExecuteRequest::new(code).always_in_sandbox()
    };
    let client = within(Client::connect(relay.client_config().await.unwrap(), tools())).await.unwrap();
    assert_eq!(within(client.run(calls(2))).await.unwrap().value().unwrap(), json!(2));
    let error = within(client.run(calls(3))).await.unwrap_err().to_string();
    assert!(error.contains("tool_calls 2 of 2"), "{error}");

    let request = TokenRequest::new("guest").ttl(Duration::from_secs(60)).tools(["a.*"]);
    let token = relay.token_for(&request.limit(LimitName::ToolCalls, 99)).await.unwrap();
    let client = within(Client::connect(ClientConfig::new(relay.url(), token), tools())).await.unwrap();
    assert_eq!(within(client.run(calls(3))).await.unwrap().value().unwrap(), json!(3));
    let error = within(client.run(calls(4))).await.unwrap_err().to_string();
    assert!(error.contains("tool_calls 3 of 3"), "{error}");
    let code = "try { await mcp.call('b.two') } catch (e) { return e.code }";
    let outcome = within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!("UNKNOWN_TOOL"), "the token has only a.*");

    let wrong = relay.token(&["--nonsense"]).await.unwrap_err();
    assert!(matches!(&wrong, Error::Local(text) if text.contains("--nonsense")), "{wrong}");
    relay.kill().await.unwrap();
    assert!(!relay.is_running());
}

#[tokio::test]
async fn machine_code_is_for_tokens_that_ask_for_it() {
    let relay = within(LocalRelay::builder().jit(true).start()).await.unwrap();
    let allows = |token: &str| {
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        serde_json::from_slice::<serde_json::Value>(&claims).unwrap()["jit"] == true
    };
    assert!(allows(&relay.client_config().await.unwrap().token));
    assert!(allows(&relay.token_for(&TokenRequest::new("me").jit(true)).await.unwrap()));
    assert!(!allows(&relay.token_for(&TokenRequest::new("me")).await.unwrap()));
}

#[tokio::test]
async fn a_relay_that_does_not_start_says_so() {
    let error = within(LocalRelay::builder().argument("--no-such-option").start()).await.unwrap_err().to_string();
    assert!(error.contains("did not say that it listens"), "{error}");
}
