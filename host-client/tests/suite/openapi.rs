//! OpenAPI documents as tools, called as code calls them, against real servers: what is asked, and what never is.

use std::time::Duration;

use crate::support::{Caller, Server, endless, json as answer, megabytes, redirect, response};
use host_client::openapi::{Credential, OpenApi, OpenApiMount};
use host_client::{Effect, Mode, Tools};
use http::Method;
use serde_json::{Value, json};

/// A document with these paths, on this server.
fn document(server: &Server, paths: &Value) -> String {
    let schemes = json!({
        "bearer": {"type": "http", "scheme": "bearer"},
        "basic": {"type": "http", "scheme": "basic"},
        "header": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
        "query": {"type": "apiKey", "in": "query", "name": "api key"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "session"},
    });
    let servers = json!([{"url": server.url("/v1/")}, {"url": "https://example.com/v1"}]);
    let document = json!({
        "openapi": "3.1.0", "servers": servers, "paths": paths, "components": {"securitySchemes": schemes},
    });
    document.to_string()
}

async fn mounted(api: OpenApi) -> (Caller, Tools, OpenApiMount) {
    let tools = Tools::new();
    let mount = api.allow_private("127.0.0.1/32").unwrap().mount(&tools, "api").await.unwrap();
    (Caller::new(&tools).await, tools, mount)
}

#[tokio::test]
async fn every_argument_goes_where_the_document_says() {
    let server = Server::start(|_| answer(200, &json!({"ok": true}))).await;
    let parameter = |name: &str, place: &str, more: Value| {
        let mut parameter = json!({"name": name, "in": place, "schema": {}});
        parameter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parameter
    };
    let parameters = json!([
        parameter("id", "path", json!({"required": true})),
        parameter("id", "query", json!({})),
        parameter("tags", "query", json!({"explode": false})),
        parameter("deep", "query", json!({"style": "deepObject"})),
        parameter("piped", "query", json!({"style": "pipeDelimited"})),
        parameter("spaced", "query", json!({"style": "spaceDelimited"})),
        parameter("filter", "query", json!({"content": {"application/json": {"schema": {"type": "object"}}}})),
        parameter("X-Trace", "header", json!({})),
        parameter("Authorization", "header", json!({})),
        parameter("Host", "header", json!({})),
        parameter("crumb", "cookie", json!({})),
        parameter("a=b", "cookie", json!({})),
        parameter("body", "query", json!({})),
    ]);
    let body =
        json!({"required": true, "content": {"application/merge-patch+json; x=y": {"schema": {"type": "object"}}}});
    let paths = json!({"/pets/{id}.json": {"patch": {"parameters": parameters, "requestBody": body}}});
    let (mut caller, tools, mount) = mounted(OpenApi::from_text(document(&server, &paths))).await;
    assert_eq!(mount.left_out, []);
    let spec = tools.spec("api.patch_pets_id_json").unwrap();
    assert_eq!((spec.manifest.effect, spec.manifest.mode), (Some(Effect::Mutating), Mode::RestrictedRemote));
    let names: Vec<&String> = spec.input_schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["X-Trace", "body", "body_2", "crumb", "deep", "filter", "id", "id_2", "piped", "spaced", "tags"]
    );
    assert_eq!(spec.input_schema["required"], json!(["id", "body"]));

    let arguments = json!({
        "id": "a b?#%2e", "id_2": 7, "tags": ["x,y", "z"], "deep": {"a": {"b": "&"}}, "piped": [1, 2], "spaced": [1, 2],
        "filter": {"k": "v"}, "X-Trace": "t", "body_2": "q", "body": {"name": "Ö"}, "crumb": ["x; y=z", 1],
    });
    assert_eq!(caller.call("api.patch_pets_id_json", arguments).await.unwrap(), json!({"ok": true}));
    let seen = server.one();
    assert_eq!(seen.method, Method::PATCH);
    let query = "id=7&tags=x%2Cy,z&deep[a][b]=%26&piped=1%7C2&spaced=1%202&filter=%7B%22k%22%3A%22v%22%7D&body=q";
    assert_eq!(seen.target, format!("/v1/pets/a%20b%3F%23%252e.json?{query}"));
    assert_eq!(
        (seen.header("x-trace"), seen.header("content-type")),
        (Some("t"), Some("application/merge-patch+json"))
    );
    assert_eq!(seen.header("cookie"), Some("crumb=x%3B%20y%3Dz,1"));
    assert_eq!((seen.body.as_str(), seen.header("traceparent")), ("{\"name\":\"Ö\"}", None));

    caller.refused("api.patch_pets_id_json", json!({"id": "1"}), "INVALID_ARGUMENTS").await;
    caller.refused("api.patch_pets_id_json", json!({"id": 1, "body": {}, "host": "x"}), "INVALID_ARGUMENTS").await;
    let split = json!({"id": 1, "body": {}, "X-Trace": "a\r\nHost: b"});
    caller.refused("api.patch_pets_id_json", split, "TOOL_FAILED").await;
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_path_argument_never_changes_the_path() {
    let server = Server::start(|_| answer(200, &json!(1))).await;
    let id = |place: &str| json!({"name": place, "in": "path", "required": true, "schema": {}});
    let paths = json!({
        "/users/{a}/posts": {"get": {"operationId": "one", "parameters": [id("a")]}},
        "/x/{a}{b}": {"get": {"operationId": "two", "parameters": [id("a"), id("b")]}},
    });
    let (mut caller, _tools, _mount) = mounted(OpenApi::from_text(document(&server, &paths))).await;
    for value in [
        json!(""),
        json!("."),
        json!(".."),
        json!("a//b"),
        json!("a/../b"),
        json!("/a"),
        json!("../admin"),
        json!("..\\admin"),
        json!("a\nb"),
        json!("/"),
        json!([]),
        json!(["a", "/"]),
        json!({"..": "/"}),
        json!(null),
        json!([["a"]]),
    ] {
        caller.refused("api.one", json!({"a": value}), "TOOL_FAILED").await;
    }
    // Together they would be dot segments.
    caller.refused("api.two", json!({"a": ".", "b": "."}), "TOOL_FAILED").await;
    assert!(server.seen().is_empty());
    for (value, path) in [
        ("%2e%2e", "/v1/users/%252e%252e/posts"),
        ("%2F", "/v1/users/%252F/posts"),
        ("a?b#c;d=e&f", "/v1/users/a%3Fb%23c%3Bd%3De%26f/posts"),
        ("...", "/v1/users/.../posts"),
        ("src/main.rs", "/v1/users/src%2Fmain.rs/posts"),
        ("@evil.example", "/v1/users/%40evil.example/posts"),
    ] {
        caller.call("api.one", json!({"a": value})).await.unwrap();
        assert_eq!(server.one().target, path);
    }
}

#[tokio::test]
async fn credentials_go_where_the_document_says_and_nowhere_else() {
    let server = Server::start(|seen| match seen.target.split('?').next().unwrap() {
        "/v1/fails" => response(401, &[], format!("no: {:?}", seen.headers)),
        _ => answer(200, &json!(format!("{} {:?}", seen.target, seen.headers))),
    })
    .await;
    let needs = |schemes: Value| json!({"security": schemes});
    let paths = json!({
        "/bearer": {"get": needs(json!([{"bearer": []}]))},
        "/basic": {"get": needs(json!([{"unknown": []}, {"basic": []}]))},
        "/keys": {"get": {
            "security": [{"header": [], "query": [], "cookie": []}],
            "parameters": [
                {"name": "session", "in": "cookie", "schema": {}}, {"name": "crumb", "in": "cookie", "schema": {}},
                {"name": "api key", "in": "query", "schema": {}}, {"name": "x-api-key", "in": "header", "schema": {}},
                {"name": "other", "in": "query", "schema": {}},
            ],
        }},
        "/optional": {"get": needs(json!([{}, {"bearer": []}]))},
        "/none": {"get": needs(json!([]))},
        "/fails": {"get": needs(json!([{"bearer": []}]))},
        "/unknown": {"get": needs(json!([{"unknown": []}, {"bearer": [], "unknown": []}]))},
    });
    let api = OpenApi::from_text(document(&server, &paths))
        .credentials("bearer", Credential::Bearer("tok-secret".into()))
        .credentials("basic", Credential::Basic { user: "me".into(), password: "pass-secret".into() })
        .credentials("header", Credential::ApiKey("header-secret".into()))
        .credentials("query", Credential::ApiKey("query secret/&".into()))
        .credentials("cookie", Credential::ApiKey("cookie-secret".into()));
    assert!(!format!("{api:?}").contains("secret"), "{api:?}");
    let (mut caller, tools, mount) = mounted(api).await;
    let left_out: Vec<String> = mount.left_out.iter().map(|it| format!("{}: {}", it.operation, it.reason)).collect();
    assert_eq!(
        left_out,
        [
            "GET /unknown: it needs a credential that was not given, for one of its security schemes: unknown, bearer, unknown"
        ]
    );
    let properties = &tools.spec("api.get_keys").unwrap().input_schema["properties"];
    assert_eq!(properties.as_object().unwrap().keys().collect::<Vec<_>>(), ["crumb", "other"]);

    let (bearer, basic) = (Some("Bearer tok-secret"), Some("Basic bWU6cGFzcy1zZWNyZXQ="));
    for (tool, authorization) in
        [("get_bearer", bearer), ("get_basic", basic), ("get_optional", bearer), ("get_none", None), ("get_keys", None)]
    {
        let arguments = if tool == "get_keys" { json!({"crumb": "c"}) } else { json!({}) };
        let echoed = caller.call(&format!("api.{tool}"), arguments).await.unwrap();
        let echoed = echoed.as_str().unwrap();
        assert!(!echoed.contains("secret") && !echoed.contains("bWU6"), "{tool}: {echoed}");
        let seen = server.one();
        assert_eq!(seen.header("authorization"), authorization, "{tool}");
        if tool == "get_keys" {
            assert_eq!(seen.target, "/v1/keys?api%20key=query%20secret%2F%26");
            assert_eq!(
                (seen.header("x-api-key"), seen.header("cookie")),
                (Some("header-secret"), Some("crumb=c; session=cookie-secret"))
            );
        }
    }
    // An exploded object would name parameters of its own.
    let smuggled = json!({"other": {"api key": "mine"}});
    caller.refused("api.get_keys", smuggled, "TOOL_FAILED").await;
    let message = caller.refused("api.get_fails", json!({}), "TOOL_FAILED").await;
    assert!(message.starts_with("GET /fails was answered with 401 Unauthorized: no:"), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect() {
    let other = Server::start(|_| answer(200, &json!("other"))).await;
    let to = other.url("/");
    let server = Server::start(move |seen| match seen.target.split('?').next().unwrap() {
        "/v1/near" => redirect(302, "/v1/here"),
        "/v1/far" => redirect(302, &to),
        "/v1/metadata" => redirect(302, "http://169.254.169.254/"),
        _ => answer(200, &json!("here")),
    })
    .await;
    let operation = json!({"get": {"security": [{"bearer": []}]}, "post": {"security": [{"bearer": []}]}});
    let paths = json!({"/near": operation, "/far": operation, "/metadata": operation});
    let api = OpenApi::from_text(document(&server, &paths)).credentials("bearer", Credential::Bearer("secret".into()));
    let (mut caller, _tools, _mount) = mounted(api).await;
    assert_eq!(caller.call("api.get_near", json!({})).await.unwrap(), "here");
    for tool in ["api.get_far", "api.get_metadata"] {
        let message = caller.refused(tool, json!({}), "TOOL_DENIED").await;
        assert!(message.contains("is not allowed") && !message.contains("secret"), "{message}");
    }
    server.seen();
    let message = caller.refused("api.post_far", json!({}), "TOOL_FAILED").await;
    assert!(message.contains("302 Found"), "{message}");
    assert!(server.seen().len() == 1 && other.seen().is_empty());
}

#[tokio::test]
async fn answers_become_values_and_failures_become_errors() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/v1/json" => response(200, &[("content-type", "application/vnd.api+json; charset=utf-8")], "{\"a\":1}"),
        "/v1/broken" => response(200, &[("content-type", "application/json")], "{\"a\":"),
        "/v1/text" => response(200, &[("content-type", "text/plain")], "{\"a\":1}"),
        "/v1/bytes" => response(200, &[("content-type", "application/json")], vec![b'"', 0xff, b'"']),
        "/v1/image" => response(200, &[("content-type", "image/png")], vec![0x89, b'P', b'N']),
        "/v1/untyped" => response(200, &[], vec![0, 0xff]),
        "/v1/nothing" => response(204, &[], ""),
        "/v1/huge" => response(200, &[("content-type", "application/json")], megabytes(50)),
        "/v1/slow" => response(200, &[], endless()),
        _ => response(500, &[], "x".repeat(10_000)),
    })
    .await;
    let both = json!({"get": {}, "post": {}});
    let names = ["json", "broken", "text", "bytes", "image", "untyped", "nothing", "huge", "slow", "error"];
    let paths: Value = names.iter().map(|name| (format!("/{name}"), both.clone())).collect();
    let (mut caller, _tools, _mount) = mounted(OpenApi::from_text(document(&server, &paths))).await;
    for (tool, value) in [
        ("api.get_json", json!({"a": 1})),
        ("api.get_broken", json!("{\"a\":")),
        ("api.get_text", json!("{\"a\":1}")),
        ("api.get_bytes", json!({"type": "binary", "data": "Iv8i", "mimeType": "application/json"})),
        ("api.get_image", json!({"type": "image", "data": "iVBO", "mimeType": "image/png"})),
        ("api.get_untyped", json!({"type": "binary", "data": "AP8=", "mimeType": "application/octet-stream"})),
        ("api.get_nothing", Value::Null),
    ] {
        assert_eq!(caller.call(tool, json!({})).await.unwrap(), value, "{tool}");
    }
    let message = caller.refused("api.get_error", json!({}), "TOOL_FAILED").await;
    assert_eq!(message, format!("GET /error was answered with 500 Internal Server Error: {}", "x".repeat(500)));
    caller.refused("api.get_huge", json!({}), "TOOL_RESULT_LIMIT").await;
    caller.refused("api.post_huge", json!({}), "OUTCOME_UNKNOWN").await;
    for (tool, code) in [("api.get_slow", "TOOL_TIMEOUT"), ("api.post_slow", "OUTCOME_UNKNOWN")] {
        let failed = caller.call_within(Duration::from_millis(300), tool, json!({})).await.unwrap_err();
        assert_eq!(failed.code, code, "{failed:?}");
    }
}

#[tokio::test]
async fn a_trace_is_passed_on_only_if_asked() {
    let server = Server::start(|_| answer(200, &json!(1))).await;
    let text = document(&server, &json!({"/": {"get": {"operationId": "get"}}}));
    for asked in [false, true] {
        let (mut caller, _tools, _mount) = mounted(OpenApi::from_text(text.clone()).propagate_trace(asked)).await;
        caller.call("api.get", json!({})).await.unwrap();
        assert_eq!(server.one().header("traceparent").is_some(), asked);
    }
}

#[tokio::test]
async fn idempotency_keys_are_sent_where_the_document_or_the_application_says_so() {
    let server = Server::start(|_| answer(200, &json!(1))).await;
    let key = json!({"name": "Idempotency-Key", "in": "header", "required": true, "schema": {"type": "string"}});
    let paths = json!({
        "/a": {"post": {"operationId": "pay", "parameters": [key]}, "get": {"operationId": "read", "parameters": [key]}},
        "/b": {"post": {"operationId": "other"}},
    });
    let text = document(&server, &paths);
    let sent = async |api: OpenApi, header: &str| {
        let (mut caller, tools, _mount) = mounted(api).await;
        let mut sent = Vec::new();
        for tool in ["api.pay", "api.read", "api.other"] {
            caller.call(tool, json!({})).await.unwrap();
            let key = server.one().header(header).map(str::to_owned);
            assert_eq!(key.is_some(), tools.spec(tool).unwrap().manifest.idempotent, "{tool}");
            sent.push(key);
        }
        sent
    };
    let by_document = sent(OpenApi::from_text(text.clone()), "idempotency-key").await;
    assert!(matches!(&by_document[..], [Some(key), None, None] if key.len() > 10), "{by_document:?}");
    let paths = json!({
        "/a": {"post": {"operationId": "pay"}, "get": {"operationId": "read"}},
        "/b": {"post": {"operationId": "other"}},
    });
    let api = OpenApi::from_text(document(&server, &paths)).idempotency_header("X-Request-Id").unwrap();
    let by_application = sent(api, "x-request-id").await;
    let [Some(one), None, Some(other)] = &by_application[..] else { panic!("{by_application:?}") };
    assert_ne!(one, other);
    let wrong = OpenApi::from_text(text).idempotency_header("Host").unwrap_err();
    assert!(wrong.to_string().contains("\"Host\" is not the name of a header"), "{wrong}");
}

#[tokio::test]
async fn a_private_server_is_refused_unless_its_network_is_allowed() {
    let server = Server::start(|_| answer(200, &json!(1))).await;
    let paths = json!({"/": {"get": {"operationId": "get"}}});
    let text = document(&server, &paths);
    let named = text.replace("127.0.0.1", "localhost");
    for text in [text, named] {
        let tools = Tools::new();
        let _mount = OpenApi::from_text(text).mount(&tools, "api").await.unwrap();
        let message = Caller::new(&tools).await.refused("api.get", json!({}), "TOOL_DENIED").await;
        assert!(message.contains("private, local or reserved"), "{message}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn credentials_in_clear_text_stay_in_the_networks_that_were_allowed() {
    // An address of the internet: nothing is ever sent there, because it would be in clear text.
    let document = json!({
        "openapi": "3.1.0", "servers": [{"url": "http://8.8.8.8/"}], "paths": {"/": {"get": {"operationId": "get"}}},
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    });
    let api = OpenApi::from_text(document.to_string()).credentials("key", Credential::Bearer("secret".into()));
    let (mut caller, _tools, _mount) = mounted(api).await;
    caller.refused("api.get", json!({}), "TOOL_DENIED").await;
}

#[tokio::test]
async fn files_and_forms_with_files_are_sent() {
    let server = Server::start(|_| answer(200, &json!(1))).await;
    let file = json!({"type": "string", "format": "binary"});
    let form = json!({"type": "object", "required": ["file"], "properties": {
        "file": file, "more": {"type": "array", "items": file}, "meta": {"type": "object"}, "note": {"type": "string"},
    }});
    let body = |content: Value| json!({"post": {"requestBody": {"required": true, "content": content}}});
    let paths = json!({
        "/form": body(json!({"multipart/form-data": {"schema": form, "encoding": {"note": {"contentType": "text/x-note"}}}})),
        "/bytes": body(json!({"application/octet-stream": {"schema": file}})),
        "/xml": body(json!({"application/xml": {"schema": {"type": "object"}}})),
    });
    let (mut caller, tools, mount) = mounted(OpenApi::from_text(document(&server, &paths))).await;
    assert_eq!(mount.left_out, []);
    assert_eq!(tools.spec("api.post_xml").unwrap().input_schema["properties"]["body"], json!({"type": "string"}));
    let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png", "filename": "a\"b.png"});
    let fields = json!({"file": image, "more": ["one", {"data": "dHdv"}], "meta": {"k": [1]}, "note": "n"});
    caller.call("api.post_form", json!({"body": fields})).await.unwrap();
    let seen = server.one();
    let boundary =
        seen.header("content-type").unwrap().strip_prefix("multipart/form-data; boundary=").unwrap().to_owned();
    let part = |head: &str, content: &str| {
        format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
    };
    let parts = [
        part("name=\"file\"; filename=\"a%22b.png\"\r\nContent-Type: image/png", "hi"),
        part("name=\"more\"", "one"),
        part("name=\"more\"; filename=\"more\"\r\nContent-Type: application/octet-stream", "two"),
        part("name=\"meta\"\r\nContent-Type: application/json", "{\"k\":[1]}"),
        part("name=\"note\"\r\nContent-Type: text/x-note", "n"),
    ];
    for part in &parts {
        assert!(seen.body.contains(part), "{part} is not in {}", seen.body);
    }
    assert_eq!(seen.body.len(), parts.iter().map(String::len).sum::<usize>() + boundary.len() + 6, "{}", seen.body);
    for (tool, body, sent, media_type) in [
        ("api.post_bytes", json!({"data": "aGk="}), "hi", "application/octet-stream"),
        ("api.post_bytes", json!("plain"), "plain", "application/octet-stream"),
        ("api.post_xml", json!("<a/>"), "<a/>", "application/xml"),
    ] {
        caller.call(tool, json!({"body": body})).await.unwrap();
        let seen = server.one();
        assert_eq!((seen.body.as_str(), seen.header("content-type")), (sent, Some(media_type)));
    }
    for wrong in [json!({"file": 7}), json!({"file": {"data": 7}}), json!({"note": "x"}), json!("x")] {
        caller.refused("api.post_form", json!({"body": wrong}), "INVALID_ARGUMENTS").await;
    }
    caller.refused("api.post_bytes", json!({"body": {"data": "not base64!"}}), "TOOL_FAILED").await;
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn results_are_declared_and_not_checked() {
    let server = Server::start(|_| answer(200, &json!({"id": "not a number"}))).await;
    let ok = |content: Value| json!({"200": {"description": "ok", "content": content}});
    let pet =
        json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "readOnly": true}}});
    let paths = json!({
        "/pet": {"get": {"responses": ok(json!({"application/json": {"schema": pet}}))}},
        "/photo": {"get": {"responses": ok(json!({"image/png": {}}))}},
        "/text": {"get": {"responses": ok(json!({"text/plain": {"schema": {"type": "string"}}}))}},
        "/gone": {"delete": {"responses": {"204": {"description": "gone"}}}},
        "/away": {"get": {"responses": ok(json!({"application/json": {"schema": {"$ref": "https://evil.example"}}}))}},
        "/silent": {"get": {}},
    });
    let (mut caller, tools, mount) = mounted(OpenApi::from_text(document(&server, &paths))).await;
    assert_eq!(mount.left_out, []);
    let declared = |tool: &str| tools.spec(&format!("api.{tool}")).unwrap().output_schema;
    let pet = declared("get_pet").unwrap();
    assert_eq!((&pet["required"], &pet["properties"]["id"]), (&json!(["id"]), &json!({"type": "integer"})));
    assert_eq!(declared("get_photo").unwrap()["properties"]["data"]["type"], json!("string"));
    assert_eq!(declared("get_text"), Some(json!({"type": "string"})));
    assert_eq!(declared("delete_gone"), Some(json!({"type": "null"})));
    assert_eq!((declared("get_away"), declared("get_silent")), (None, None));
    assert_eq!(caller.call("api.get_pet", json!({})).await.unwrap(), json!({"id": "not a number"}));
}
