//! The server over HTTP: who gets in.

use std::process::Command;

use reqwest::StatusCode;
use serde_json::json;

use super::python::Client;
use super::setup::{HttpServer, RELAY_HOST, Setup};
use super::web::{hello, plain_client};
use super::within;

const TOKEN: &str = "correct horse battery staple";

/// The status of a first request with these headers.
async fn status(server: &HttpServer, headers: &[(&str, &str)]) -> StatusCode {
    let mut request =
        plain_client().post(&server.url).header("accept", "application/json, text/event-stream").json(&hello());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    within(request.send()).await.unwrap().status()
}

#[tokio::test]
async fn the_sdk_does_over_http_what_it_does_over_stdio() {
    let setup = Setup::with_everything().allowing_all().option("--http-token", TOKEN);
    let server = setup.serve_http().await;
    let mut client = Client::over_http(&server, Some(TOKEN)).await;
    client.list().await;
    assert_eq!(client.value("return await mcp.call('everything.echo', {message: 'hi'})").await, "Echo: hi");
    assert_eq!(client.execute("return x").await["structuredContent"]["error"]["code"], "EVAL_ERROR");
    let id = client.begin("execute_code", json!({"code": "await mcp.call('fake.wait', {})"})).await;
    client.hear(|said| said["message"] == "fake.wait …").await;
    client.cancel(id).await;
    assert_eq!(client.end(id).await["cancelled"], true);
    super::eventually("the tool is cancelled", || setup.notes() == "waiting\ncancelled True\n").await;
    client.close().await;
}

#[tokio::test]
async fn only_who_has_the_token_gets_in() {
    let setup = Setup::new().option("--http-token", TOKEN);
    let server = setup.serve_http().await;
    let bearer = |token: &str| format!("Bearer {token}");
    assert_eq!(status(&server, &[]).await, StatusCode::UNAUTHORIZED);
    for wrong in [bearer("wrong horse battery staple"), bearer(""), TOKEN.to_owned(), format!("Basic {TOKEN}")] {
        assert_eq!(status(&server, &[("authorization", &wrong)]).await, StatusCode::UNAUTHORIZED, "{wrong}");
    }
    assert_eq!(status(&server, &[("authorization", &bearer(TOKEN))]).await, StatusCode::OK);
    assert_eq!(status(&server, &[("authorization", &format!("bearer {TOKEN}"))]).await, StatusCode::OK);
}

#[tokio::test]
async fn a_web_page_does_not_get_in_by_a_name_or_an_origin_of_its_own() {
    let setup = Setup::new().option("--http-host", "tools.example.com");
    let server = setup.serve_http().await;
    for (headers, expected) in [
        (vec![], StatusCode::OK),
        (vec![("host", "localhost")], StatusCode::OK),
        (vec![("host", "tools.example.com")], StatusCode::OK),
        (vec![("host", "rebound.example.com")], StatusCode::FORBIDDEN),
        (vec![("host", "127.0.0.1.example.com")], StatusCode::FORBIDDEN),
        (vec![("origin", "https://example.com")], StatusCode::FORBIDDEN),
        (vec![("origin", "http://localhost:8080")], StatusCode::FORBIDDEN),
        (vec![("origin", "null")], StatusCode::FORBIDDEN),
    ] {
        assert_eq!(status(&server, &headers).await, expected, "{headers:?}");
    }
}

#[test]
fn it_does_not_start_where_anybody_could_run_code() {
    for (options, said) in [
        (vec!["--http", "0.0.0.0:0"], "anybody could run code there"),
        (vec!["--http", "[::]:0"], "anybody could run code there"),
        (vec!["--http", "127.0.0.1:0", "--http-token", ""], "the token is too short"),
        (vec!["--http", "0.0.0.0:0", "--http-token", "short"], "the token is too short"),
    ] {
        let output = Command::new(RELAY_HOST).arg("serve-mcp").args(&options).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {stderr}");
        assert!(stderr.contains(said) && output.stdout.is_empty(), "{options:?}: {stderr}");
    }
}
