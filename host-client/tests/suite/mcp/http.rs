//! Servers over streamable HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::{Json, Router};
use host_client::{Effect, McpServers, Tools};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::relay::Relay;
use super::service::Weather;
use super::{PATIENCE, config, eventually, is_connected, options, reason, started};

async fn only_with_a_token(request: Request, next: Next) -> Response {
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if token == Some("Bearer correct-horse") { next.run(request).await } else { StatusCode::FORBIDDEN.into_response() }
}

/// A server of the weather, which ends with the handle.
async fn serve(listener: TcpListener) -> JoinHandle<()> {
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(Weather), sessions, StreamableHttpServerConfig::default());
    let router = Router::new().nest_service("/mcp", service).layer(from_fn(only_with_a_token));
    let moved = axum::routing::any(|| async { Redirect::temporary("/mcp") });
    let router = router.merge(Router::new().route("/moved", moved));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() })
}

#[tokio::test]
async fn a_server_over_http_gets_its_headers_and_nobody_else_does() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _server = serve(listener).await;
    let good = json!({"Authorization": "Bearer correct-horse"});
    let (tools, servers) = started(json!({
        "good": {"url": format!("http://{address}/mcp"), "headers": good},
        "trusted": {"url": format!("http://{address}/mcp"), "headers": good, "trust_annotations": true},
        "bad": {"url": format!("http://{address}/mcp"), "headers": {"Authorization": "Bearer wrong-horse"}},
        "moved": {"url": format!("http://{address}/moved"), "headers": good},
        "nobody": {"url": "http://127.0.0.1:1/mcp?key=secret-thing"},
    }))
    .await;
    assert!(is_connected(&servers, "good"));
    // Its annotation that it only reads is believed where the file says so, and else not.
    let effect = |name: &str| tools.spec(name).unwrap().manifest.effect;
    assert_eq!((effect("good.forecast"), effect("trusted.forecast")), (None, Some(Effect::ReadOnly)));
    assert!(tools.effect_origin("good.forecast").unwrap().contains("trust_annotations"));
    let mut relay = Relay::start(&tools).await;
    let forecast = relay.call("good.forecast", json!({"city": "Bonn"})).await.unwrap();
    assert_eq!(forecast, json!({"city": "Bonn", "degrees": 21.5}));
    for (name, expected) in [("bad", "403"), ("moved", "307"), ("nobody", "nothing answers at its address")] {
        let reason = reason(&servers, name);
        assert!(reason.contains(expected) && !reason.contains("horse") && !reason.contains("secret"), "{reason}");
    }
}

#[tokio::test]
async fn a_server_over_http_that_goes_and_comes_back_is_connected_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = serve(listener).await;
    let tools = Tools::new();
    let servers = McpServers::with_options(&tools, options());
    let headers = json!({"Authorization": "Bearer correct-horse"});
    servers.start(config(json!({"weather": {"url": format!("http://{address}/mcp"), "headers": headers}}))).unwrap();
    servers.ready(PATIENCE).await;
    let mut relay = Relay::start(&tools).await;
    relay.call("weather.forecast", json!({"city": "Bonn"})).await.unwrap();
    server.abort();
    assert!(server.await.unwrap_err().is_cancelled());

    // Another server at the same address, which knows nothing of the session.
    let mut listener = TcpListener::bind(address).await;
    while listener.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
        listener = TcpListener::bind(address).await;
    }
    let _server = serve(listener.unwrap()).await;
    let mut failures = 0;
    let forecast = loop {
        match relay.call("weather.forecast", json!({"city": "Bonn"})).await {
            Ok(forecast) => break forecast,
            Err((code, message)) => {
                failures += 1;
                assert!(["TOOL_FAILED", "OUTCOME_UNKNOWN"].contains(&code.as_str()), "{code}: {message}");
                assert!(failures < 1_000, "{message}");
                eventually("it is connected", || is_connected(&servers, "weather")).await;
            }
        }
    };
    assert!(failures > 0);
    assert_eq!(forecast["city"], json!("Bonn"));
}

/// A server whose answers to calls are events that cannot be read.
async fn unreadable(body: Json<Value>) -> Response {
    let Json(message) = body;
    let (id, method) = (&message["id"], message["method"].as_str().unwrap_or_default());
    let result = match method {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            let has_id = message["params"]["arguments"]["without_id"] != true;
            let id = if has_id { format!("\"id\": {id}, ") } else { String::new() };
            let event = format!("data: {{\"jsonrpc\": \"2.0\", {id}\"result\": {{\"n\": NaN}}}}\n\n");
            return ([("content-type", "text/event-stream")], event).into_response();
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_told_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new().route("/mcp", axum::routing::post(unreadable));
    let _server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let (tools, _servers) = started(json!({"web": {"url": url}})).await;
    let mut relay = Relay::start(&tools).await;
    for arguments in [json!({}), json!({"without_id": true})] {
        let (code, message) = relay.fail("web.t", arguments).await;
        assert!(
            code == "OUTCOME_UNKNOWN" && message.contains("cannot be read") && message.contains("NaN"),
            "{message}"
        );
    }
}
