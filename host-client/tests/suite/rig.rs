//! Models of rig's own providers, pointed at servers on this machine that speak their APIs.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures_util::StreamExt;
use host_client::programmatic::{
    Message, Model, ModelError, ModelRequest, ModelUsage, Programmatic, ProgrammaticRequest, RigModel,
};
use host_client::{Client, Effect, ExecuteCode, LocalRelay, ToolError, Tools};
use relay_test_support::within;
use rig_core::providers::anthropic::{Anthropic, AnthropicConfig};
use rig_core::providers::openai::{OpenAI, OpenAIConfig};
use rig_core::tool::{PortableTool, Tool, ToolContext, tool_definition};
use serde_json::{Value, json};

use crate::support::{Server, json as json_response, response};

const SSE: &[(&str, &str)] = &[("content-type", "text/event-stream")];

fn openai(server: &Server) -> OpenAI {
    let mut config = OpenAIConfig::new("the key");
    config.base_url = server.url("/v1");
    config.client()
}

fn anthropic(server: &Server) -> Anthropic {
    let mut config = AnthropicConfig::new("the key");
    config.base_url = server.url("");
    config.client()
}

/// A streamed chat completion of OpenAI.
fn chat(pieces: &[&str], finish: &str) -> Response {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let mut events: Vec<_> =
        pieces.iter().map(|text| chunk(json!({"role": "assistant", "content": text}), Value::Null)).collect();
    events.push(chunk(json!({}), json!(finish)));
    events.push(json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
        "usage": {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57}}));
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    response(200, SSE, body + "data: [DONE]\n\n")
}

/// A streamed message of Anthropic.
fn message(text: &str) -> Response {
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 50, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ];
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    response(200, SSE, events.iter().map(event).collect::<String>())
}

fn request() -> ModelRequest {
    let messages = vec![Message::user("a"), Message::assistant("b"), Message::user("c")];
    ModelRequest { system: "be brief".into(), messages, reply_bytes: 1_000 }
}

async fn scene() -> (LocalRelay, Client) {
    let tools = Tools::new();
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Add {
        a: f64,
        b: f64,
    }
    let add = |args: Add| async move { Ok::<_, ToolError>(args.a + args.b) };
    tools.add("math.add", "Adds two numbers", Effect::ReadOnly, add).unwrap();
    let relay = LocalRelay::start().await.unwrap();
    let client = Client::connect(relay.client_config().await.unwrap(), tools).await.unwrap();
    (relay, client)
}

#[tokio::test]
async fn openai_writes_a_program_and_mends_it() {
    let server = Server::start(|seen| match seen.body.contains("SYNTAX_ERROR") {
        false => chat(&["```js\nreturn await mcp.call('math.add', {a: 1,", "\n```"], "stop"),
        true => chat(&["```js\nreturn await mcp.call(", "'math.add', {a: 1, b: 2})\n```"], "stop"),
    })
    .await;
    let (_relay, client) = scene().await;
    let programmatic = Programmatic::new(RigModel::new(openai(&server).chat("m")), client);
    let answer = within(programmatic.run(ProgrammaticRequest::new("add").system("You are Ada."))).await.unwrap();
    assert_eq!((answer.outcome.value().unwrap(), answer.attempts.len()), (json!(3), 2));
    assert_eq!(answer.usage.model, ModelUsage { input_tokens: Some(100), output_tokens: Some(14) });
    let asked = server.seen();
    let sent: Value = serde_json::from_str(&asked[1].body).unwrap();
    let roles: Vec<_> = sent["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert!(sent["messages"][0].to_string().contains("You are Ada."), "{sent:#}");
    assert_eq!((asked[1].header("authorization"), &*asked[1].target), (Some("Bearer the key"), "/v1/chat/completions"));
}

#[tokio::test]
async fn anthropic_gets_the_conversation_and_gives_its_reply_and_usage() {
    let server = Server::start(|_| message("return 1")).await;
    let model = RigModel::new(anthropic(&server).completion("m")).max_tokens(99).temperature(0.5);
    let reply = within(model.complete(request())).await.unwrap();
    assert_eq!((&*reply.text, reply.is_cut), ("return 1", false));
    assert_eq!(reply.usage, ModelUsage { input_tokens: Some(50), output_tokens: Some(7) });
    let seen = server.one();
    let sent: Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(
        (seen.header("x-api-key"), &sent["max_tokens"], &sent["temperature"]),
        (Some("the key"), &json!(99), &json!(0.5))
    );
    assert!(sent["system"].to_string().contains("be brief"), "{sent:#}");
    let roles: Vec<_> = sent["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

#[tokio::test]
async fn a_reply_that_was_cut_says_so() {
    let server = Server::start(|_| chat(&["return ["], "length")).await;
    let reply = within(RigModel::new(openai(&server).chat("m")).complete(request())).await.unwrap();
    assert_eq!((&*reply.text, reply.is_cut), ("return [", true));
}

#[tokio::test]
async fn a_reply_that_does_not_end_is_broken_off() {
    let server = Server::start(|_| {
        let text = json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": {"content": "x".repeat(400)}, "finish_reason": null}]});
        let chunk = bytes::Bytes::from(format!("data: {text}\n\n"));
        let chunks = futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
        response(200, SSE, Body::from_stream(chunks.boxed()))
    })
    .await;
    let error = within(RigModel::new(openai(&server).chat("m")).complete(request())).await.unwrap_err();
    assert!(matches!(error, ModelError::TooLarge { most: 1_000 }), "{error}");
}

#[tokio::test]
async fn a_provider_that_refuses_breaks_off_or_is_not_there_is_told_apart() {
    let body = |text: &str| json!({"error": {"message": text, "type": "t"}});
    for (status, kind) in [(401, "does not accept the key"), (429, "try again later"), (400, "refused")] {
        let server = Server::start(move |_| json_response(status, &body("no"))).await;
        let error = within(RigModel::new(openai(&server).chat("m")).complete(request())).await.unwrap_err();
        assert!(error.to_string().contains(kind), "{status}: {error}");
    }
    let server = Server::start(|_| response(200, SSE, "data: {\"choi")).await;
    let error = within(RigModel::new(openai(&server).chat("m")).complete(request())).await.unwrap_err();
    assert!(!matches!(error, ModelError::TooLarge { .. }), "{error}");
    let model = RigModel::new(openai(&server).chat("m"));
    drop(server);
    let gone = tokio::time::timeout(Duration::from_secs(30), model.complete(request())).await.unwrap();
    assert!(gone.is_err());
}

#[tokio::test]
async fn an_agent_of_rig_has_execute_code_as_its_tool() {
    let (_relay, client) = scene().await;
    let tool = ExecuteCode::new(client);
    let definition = tool_definition(&tool);
    assert_eq!((&*definition.name, &definition.parameters), ("execute_code", &tool.definition().parameters));
    let code = json!({"code": "console.log('hi'); return await mcp.call('math.add', {a: 1, b: 2})"});
    let output = Tool::call(&tool, &mut ToolContext::default(), code).await.unwrap();
    assert_eq!(output.as_text(), Some("3\n\nOutput:\nhi"));
    let failed = PortableTool::call(&tool, json!({"code": "return missing"})).await.unwrap_err();
    let told = PortableTool::map_error(&tool, failed);
    assert!(told.model_feedback().unwrap().starts_with("EVAL_ERROR: "), "{told:?}");
}

#[tokio::test]
async fn an_agent_of_rig_has_all_four_tools_and_images_are_images() {
    let (_relay, client) = scene().await;
    let tools = ExecuteCode::new(client).rig_tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.name().as_str()).collect();
    assert_eq!(names, ["execute_code", "search_tools", "describe_tools", "read_output"]);
    let long = json!({"code": "return Array.from({length: 3000}, (_, id) => ({id, name: 'the item ' + id}))"});
    let shown = tools[0].execute(long).await.unwrap().render();
    let handle = shown.split("{\"handle\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let read = tools[3].execute(json!({"handle": handle, "path": "[2999].name"})).await.unwrap();
    assert_eq!(read.as_text(), Some("the item 2999"));
    let code = "return [{type: 'image', mimeType: 'image/png', data: 'QUJD'}, 'data:application/pdf;base64,QUJD']";
    let output = tools[0].execute(json!({"code": code})).await.unwrap();
    let [text, image] = output.as_content() else { panic!("{output:?}") };
    assert!(text.as_text().unwrap().contains("attachment 2]"), "{output:?}");
    let sent = serde_json::to_string(image).unwrap();
    assert!(sent.contains("QUJD") && sent.contains("png"), "{sent}");
    let failed = tools[3].execute(json!({"handle": "out_"})).await.unwrap_err();
    assert!(failed.model_feedback().unwrap().starts_with("INVALID_INPUT: there is no output"), "{failed:?}");
}
