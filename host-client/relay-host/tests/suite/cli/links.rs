//! Approvals by links: a webhook is told, and a person decides in a browser.

use std::process::Stdio;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::mpsc;

use super::folder::{Folder, finish};
use super::within;

pub(crate) const SECRET: (&str, &str) = ("RELAY_APPROVAL_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
const CODE: &str = "return (await mcp.call('fake.echo', {to: 'Ada'})).arguments";

/// Starts a receiver of webhooks, and returns its address and what it gets.
pub(crate) async fn receiver() -> (String, mpsc::Receiver<Value>) {
    let (sender, messages) = mpsc::channel(10);
    let receive = |State(sender): State<mpsc::Sender<Value>>, body: String| async move {
        let _ = sender.send(serde_json::from_str(&body).unwrap()).await;
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = Router::new().route("/hook", post(receive)).with_state(sender);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, messages)
}

/// Opens a link, and answers with its form. Returns the page after that.
pub(crate) async fn decide(link: &str, decision: &str) -> String {
    let http = reqwest::Client::new();
    let page = within(http.get(link).send()).await.unwrap();
    let cookie = page.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let text = within(page.text()).await.unwrap();
    let form = text.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let request = http.post(link).header("cookie", cookie).header("content-type", "application/x-www-form-urlencoded");
    let answer = within(request.body(format!("form={form}&decision={decision}")).send()).await.unwrap();
    within(answer.text()).await.unwrap()
}

#[tokio::test]
async fn a_run_waits_for_the_decision_at_its_own_pages() {
    let (folder, (url, mut messages)) = (Folder::new(), receiver().await);
    folder.fake_server("plain");
    let mut command = folder.command(&[
        "run",
        "-",
        "--mcp",
        "mcp.json",
        "--approval-webhook",
        &url,
        "--approval-webhook-network",
        "127.0.0.0/8",
        "--approval-listen",
        "127.0.0.1:0",
    ]);
    command.env(SECRET.0, SECRET.1);
    let running = tokio::spawn(async move { finish(command, CODE).await });
    let message = within(messages.recv()).await.unwrap();
    assert_eq!((&message["data"]["tool"], &message["data"]["run"]), (&json!("fake.echo"), &Value::Null));
    let page = decide(message["data"]["link"].as_str().unwrap(), "approve").await;
    assert!(page.contains("<h1>Approved</h1>"), "{page}");
    let ended = running.await.unwrap();
    assert_eq!((ended.status, &*ended.out), (Some(0), "{\"to\":\"Ada\"}\n"), "{ended:?}");
}

#[tokio::test]
async fn a_durable_run_is_decided_while_nothing_but_the_pages_runs() {
    let (folder, (url, mut messages)) = (Folder::new(), receiver().await);
    folder.fake_server("plain");
    let (tools, journal) = (["--mcp", "mcp.json"], ["--journal", "runs.db"]);
    let links = ["--approval-url", "https://links.example/agent"];
    let webhook = ["--approval-webhook", &url, "--approval-webhook-network", "127.0.0.0/8"];
    let begin = ["run", "-", "--durable", "--passivate-after", "1"];
    let mut command = folder.command(&[&begin[..], &tools, &journal, &links, &webhook].concat());
    command.env(SECRET.0, SECRET.1);
    let began = finish(command, CODE).await;
    assert_eq!(began.status, Some(4), "{began:?}");
    let id = began.err.lines().find_map(|line| line.strip_prefix("run ")).unwrap();
    let message = within(messages.recv()).await.unwrap();
    let link = message["data"]["link"].as_str().unwrap();
    assert_eq!(message["data"]["run"], id);
    assert!(link.starts_with("https://links.example/agent/approve/"), "{link}");
    assert!(folder.processes().is_empty(), "{:?}", folder.processes());

    let serve = ["runs", "links", "--approval-listen", "127.0.0.1:0"];
    let mut server = folder.command(&[&serve[..], &journal, &links].concat());
    let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(server.stderr.take().unwrap()).lines();
    let told = within(told.next_line()).await.unwrap().unwrap();
    let address = told.split("http://").nth(1).unwrap().split(',').next().unwrap();
    // The proxy that has the public name hands requests on.
    let here = format!("http://{address}/approve/{}", link.rsplit('/').next().unwrap());
    let page = decide(&here, "approve").await;
    assert!(page.contains("<h1>Approved</h1>"), "{page}");
    within(server.kill()).await.unwrap();
    let value = folder.run(&[&["runs", "resume", id][..], &tools, &journal].concat()).await.value();
    assert_eq!(value, json!({"to": "Ada"}));
}

#[tokio::test]
async fn links_that_nobody_could_open_or_anybody_could_read_are_refused() {
    let folder = Folder::new();
    folder.file("short", "short");
    let webhook = ["--approval-webhook", "http://127.0.0.1:1/", "--approval-webhook-secret", SECRET.1];
    for (arguments, expected) in [
        (&["run", "-", "--approval-listen", "127.0.0.1:0"][..], "--approval-webhook"),
        (&[&["run", "-"], &webhook[..]].concat(), "--approval-listen"),
        (&[&["run", "-", "--approval-listen", "0.0.0.0:0"], &webhook[..]].concat(), "--approval-url https://"),
        (&[&["run", "-", "--durable", "--journal", "runs.db"], &webhook[..]].concat(), "runs links"),
        (&["run", "-", "--approval-webhook", "http://127.0.0.1:1/"], "--approval-webhook-secret"),
        (
            &[&["run", "-", "--approval-listen", "127.0.0.1:0", "--approval-secret-file", "short"], &webhook[..]]
                .concat(),
            "needs at least 32",
        ),
        (&["runs", "links", "--approval-listen", "127.0.0.1:0", "--journal", "none.db"], "there is no journal"),
    ] {
        let ended = folder.run_with("return 1", arguments).await;
        assert!(ended.status == Some(2) && ended.err.contains(expected), "{arguments:?}: {ended:?}");
    }
}
