//! A service written with rmcp's own macros, in this process.

use host_client::{McpServers, Tools};
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::{schemars, tool, tool_router};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::relay::Relay;
use super::{PATIENCE, is_connected, options, within};

#[derive(Clone)]
pub(crate) struct Weather;

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Place {
    city: String,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Forecast {
    city: String,
    degrees: f64,
}

#[tool_router(server_handler)]
impl Weather {
    #[tool(description = "Tomorrow's weather", annotations(read_only_hint = true))]
    async fn forecast(&self, Parameters(Place { city }): Parameters<Place>) -> Json<Forecast> {
        Json(Forecast { city, degrees: 21.5 })
    }

    #[tool(description = "A picture of so many bytes of base64")]
    async fn picture(&self, Parameters(size): Parameters<Size>) -> CallToolResult {
        CallToolResult::success(vec![ContentBlock::image("A".repeat(size.bytes), "image/png")])
    }

    #[tool(description = "Panics")]
    async fn panic(&self) -> String {
        panic!("out of umbrellas")
    }
}

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Size {
    bytes: usize,
}

#[tokio::test]
async fn a_service_of_this_process_is_a_server_like_any_other() {
    let tools = Tools::new();
    let servers = McpServers::with_options(&tools, options());
    servers.add_service("weather", Weather).unwrap();
    let error = servers.add_service("weather", Weather).unwrap_err().to_string();
    assert!(error.contains("the MCP service \"weather\" of the application"), "{error}");
    servers.ready(PATIENCE).await;
    assert!(is_connected(&servers, "weather"));
    let mut relay = Relay::start(&tools).await;
    let forecast = relay.call("weather.forecast", json!({"city": "Bonn"})).await.unwrap();
    assert_eq!(forecast, json!({"city": "Bonn", "degrees": 21.5}));
    assert_eq!(relay.fail("weather.forecast", json!({"town": "Bonn"})).await.0, "INVALID_ARGUMENTS");
    let picture = relay.call("weather.picture", json!({"bytes": 1 << 20})).await.unwrap();
    assert_eq!((&picture["type"], &picture["mimeType"]), (&json!("image"), &json!("image/png")));
    let (code, message) = relay.fail("weather.picture", json!({"bytes": (4 << 20) + 4})).await;
    assert_eq!(code, "TOOL_RESULT_LIMIT");
    assert!(message.contains("the base64 of image/png has 4194308 bytes; at most 4194304 are taken"), "{message}");
    let (code, message) = relay.fail("weather.panic", json!({})).await;
    assert_eq!((code.as_str(), message.as_str()), ("TOOL_FAILED", "the tool failed inside (it panicked)"));
    within(servers.close()).await;
    assert!(tools.specs().is_empty());
}
