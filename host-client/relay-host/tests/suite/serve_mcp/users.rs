//! Users of the server over HTTP: each has sessions, runs and approvals that no other has.

use std::process::Command;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::durable::{durable, handle, runs};
use super::eventually;
use super::setup::{HttpServer, RELAY_HOST, Setup};
use super::web::Web;
use super::within;

const ASKS: &str = "return (await mcp.call('fake.echo', {a: 1})).arguments.a";
const ADA: &str = "ada has a token of 32 characters";
const BO: &str = "bo has one that is another token";
/// The digests of both, as `sha256sum` prints them.
const USERS: &str = "ada = \"e51e4c5f23077b3357898d56a91db6c0e453292aad2c8fe0553dfe69cd66e9fd\"\n\"bo@example.com\" = \"848052a1a300695d1871917512c8047c2b4fd0911e30be885943deb61d53f18e\"\n";

fn with_users(setup: Setup) -> Setup {
    let file = setup.path("users.toml");
    std::fs::write(&file, USERS).unwrap();
    setup.option("--http-users", file.to_str().unwrap())
}

async fn ready(web: &Web) {
    let mut starting = json!(["fake"]);
    while starting.as_array().is_some_and(|all| !all.is_empty()) {
        starting = web.call("search_tools", json!({"query": "x"})).await["structuredContent"]["still_starting"].take();
    }
}

async fn stop(mut server: HttpServer) {
    let id = rustix::process::Pid::from_raw(server.child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert!(within(server.child.wait()).await.unwrap().success());
}

fn text(report: &Value) -> &str {
    report["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn each_user_has_runs_and_sessions_of_his_own() {
    let setup = with_users(durable());
    let audit = setup.path("audit.jsonl");
    let setup = setup.option("--audit", audit.to_str().unwrap()).flag("--audit-sync");
    let server = setup.serve_http().await;
    for token in [None, Some("nobody has this token, of course")] {
        assert_eq!(Web::open_with(&server, token).await.err(), Some(StatusCode::UNAUTHORIZED));
    }
    let (ada, bo) =
        (Web::open_with(&server, Some(ADA)).await.unwrap(), Web::open_with(&server, Some(BO)).await.unwrap());
    ready(&ada).await;
    let run = handle(&ada.call("execute_code", json!({"code": ASKS})).await);
    assert_eq!(bo.call("wait_for_run", json!({})).await["structuredContent"], json!({"runs": []}));
    for tool in ["wait_for_run", "cancel_run"] {
        let report = bo.call(tool, json!({"run": run})).await;
        assert!(report["isError"] == true && text(&report).contains("there is no run"), "{report}");
    }
    assert_eq!(ada.call("wait_for_run", json!({})).await["structuredContent"]["runs"][0]["run"], run.as_str());

    // Nobody takes part in the session of somebody else, or ends it.
    for (token, refused) in [(Some(BO), StatusCode::NOT_FOUND), (None, StatusCode::UNAUTHORIZED)] {
        let stolen = ada.stolen_by(token);
        let statuses = stolen.statuses().await;
        assert!(statuses.iter().all(|status| *status == refused), "{statuses:?}");
        assert_eq!(stolen.delete().await, refused);
    }
    assert_eq!(ada.ping().await, StatusCode::OK);
    let told = std::fs::read_to_string(&audit).unwrap();
    assert!(told.contains(&format!("http:ada, raw 1, MCP session {}", &ada.id[..8])), "{told}");
    assert!(
        !told.contains(ADA) && !told.contains("e51e4c5f23077b3357898d56a91db6c0e453292aad2c8fe0553dfe69cd66e9fd"),
        "{told}"
    );

    // After a restart, the runs of all users go on by themselves.
    stop(server).await;
    let server = setup.serve_http().await;
    runs(&setup, &["approve", &run, "1", "--by", "Cy"]).await;
    let journal = async {
        while runs(&setup, &["show", &run]).await["status"] != "ended" {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    within(journal).await;
    let ada = Web::open_with(&server, Some(ADA)).await.unwrap();
    assert_eq!(ada.call("wait_for_run", json!({"run": run})).await["structuredContent"]["result"], 1);
    let bo = Web::open_with(&server, Some(BO)).await.unwrap();
    assert_eq!(bo.call("wait_for_run", json!({"run": run})).await["isError"], true);
}

#[tokio::test]
async fn the_shared_token_is_nobody_of_the_users() {
    let shared = "correct horse battery staple";
    let setup = with_users(durable()).option("--http-token", shared);
    let server = setup.serve_http().await;
    let (anybody, ada) =
        (Web::open_with(&server, Some(shared)).await.unwrap(), Web::open_with(&server, Some(ADA)).await.unwrap());
    ready(&ada).await;
    let of_ada = handle(&ada.call("execute_code", json!({"code": ASKS})).await);
    let of_anybody = handle(&anybody.call("execute_code", json!({"code": ASKS})).await);
    for (web, run) in [(&anybody, &of_ada), (&ada, &of_anybody)] {
        let report = web.call("wait_for_run", json!({"run": run, "seconds": 0})).await;
        assert!(report["isError"] == true && text(&report).contains("there is no run"), "{report}");
    }
    assert_eq!(anybody.stolen_by(Some(ADA)).ping().await, StatusCode::NOT_FOUND);
    assert_eq!(ada.stolen_by(Some(shared)).ping().await, StatusCode::NOT_FOUND);
}

#[test]
fn a_file_of_users_that_is_wrong_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.toml");
    for (content, said) in [("", "names no user"), ("ada = \"short\"", "64 hexadecimal digits")] {
        std::fs::write(&file, content).unwrap();
        let mut command = Command::new(RELAY_HOST);
        let output = command.args(["serve-mcp", "--http", "127.0.0.1:0", "--http-users"]).arg(&file).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(said), "{stderr}");
    }
}

#[tokio::test]
async fn code_whose_client_does_not_come_back_is_cancelled() {
    let setup = Setup::new().option("--answer-within", "1");
    let audit = setup.path("audit.jsonl");
    let setup = setup.option("--audit", audit.to_str().unwrap()).flag("--audit-sync");
    let mut raw = super::raw::Raw::without_session(&setup).await;
    raw.ready().await;
    // It would ask for ever.
    let code = "for (;;) await mcp.call('fake.echo', {a: 1}).catch(() => {})";
    let asked = raw.call(1, "execute_code", json!({"code": code}), json!({"elicitation": {}})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let is_cancelled = || {
        let audit = std::fs::read_to_string(&audit).unwrap();
        audit.lines().any(|line| line.contains("\"kind\":\"end\"") && line.contains("\"CANCELLED\""))
    };
    eventually("it is cancelled", is_cancelled).await;
}
