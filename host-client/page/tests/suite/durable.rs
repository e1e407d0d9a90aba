//! Approval links of durable runs: they work after a restart.

use std::sync::Arc;
use std::time::Duration;

use host_client_core::runs::{RunState, RunVerdict, decide, show};
use host_client_core::{Client, ExecuteRequest, LazyClient, LocalRelay, RunOptions, Runs};
use host_client_journal::SqliteJournal;
use host_client_page::{ApprovalLinks, WebhookApprover};
use relay_test_support::within;
use serde_json::json;

use crate::stage::{Browser, Receiver, Server, host, secret};

const CODE: &str = "const paid = await mcp.call('bank.pay', {to: 'Ada', text: 'w'.repeat(100_000)});\nreturn paid";

/// One process: a client with its own relay, the pages of its links, and the journal in a folder.
struct Process {
    runs: Runs,
    journal: Arc<SqliteJournal>,
    pages: Server,
}

impl Process {
    async fn start(folder: &tempfile::TempDir, receiver: &Receiver) -> Self {
        let journal = Arc::new(SqliteJournal::open(folder.path().join("runs.db")).await.unwrap());
        let mut links = None;
        let pages = Server::start(|url| {
            let made = ApprovalLinks::new(url, secret()).unwrap().journal(Arc::clone(&journal) as _);
            links.insert(made).router()
        })
        .await;
        let approver = WebhookApprover::new(links.unwrap(), receiver.config()).unwrap();
        let relay = Arc::new(LocalRelay::start().await.unwrap());
        let client = LazyClient::new(host(&approver).journal(Arc::clone(&journal)), move |host| {
            let relay = Arc::clone(&relay);
            async move { Client::connect(relay.client_config().await?, host).await }
        });
        let options = RunOptions { passivate_after: Duration::from_millis(200), ..RunOptions::default() };
        Self { runs: Runs::new(client, options).unwrap(), journal, pages }
    }

    /// Returns the address of a link's page at this process.
    fn here(&self, link: &str) -> String {
        format!("{}/approve/{}", self.pages.url, link.rsplit('/').next().unwrap())
    }
}

#[tokio::test]
async fn a_link_works_after_a_restart_and_once() {
    let (folder, mut receiver) = (tempfile::tempdir().unwrap(), Receiver::start([]).await);
    let first = Process::start(&folder, &receiver).await;
    let run = within(first.runs.start(ExecuteRequest::new(CODE))).await.unwrap();
    let message = receiver.next().await;
    assert_eq!(message.data()["run"], run.id().as_str());
    assert_eq!(within(run.settled()).await, RunState::WaitingForApproval(vec![1]));
    first.runs.leave().await;
    drop(first);

    // Nobody goes on with the run, and another process serves the pages.
    let second = Process::start(&folder, &receiver).await;
    let (browser, link) = (Browser::new(), second.here(&message.link()));
    let (page, late) = (browser.open(&link).await, browser.open(&link).await);
    assert_eq!(page.status, 200);
    // Whole, although it is long, with the line that calls.
    assert!(page.text.contains(&"w".repeat(100_000)) && page.text.contains("The marked line 1 makes the call."));
    assert_eq!(browser.answer(&page, &[("decision", "approve")]).await.status, 200);
    assert_eq!(browser.answer(&late, &[("decision", "deny")]).await.status, 409, "the first decision counts");
    assert_eq!(browser.open(&link).await.status, 404, "a link is used once");

    let recovered = within(second.runs.recover()).await.unwrap();
    assert_eq!(within(recovered.runs[0].outcome()).await.unwrap().value().unwrap(), json!({"paid": "Ada"}));
    let shown = show(&*second.journal, run.id()).await.unwrap();
    assert_eq!(shown.calls[0].decided_by.as_deref(), Some("approval link"));
}

#[tokio::test]
async fn a_process_that_goes_on_tells_of_the_question_again_with_the_same_id() {
    let (folder, mut receiver) = (tempfile::tempdir().unwrap(), Receiver::start([]).await);
    let first = Process::start(&folder, &receiver).await;
    let run = within(first.runs.start(ExecuteRequest::new(CODE))).await.unwrap();
    let message = receiver.next().await;
    assert_eq!(within(run.settled()).await, RunState::WaitingForApproval(vec![1]));
    first.runs.leave().await;
    drop((first, run));

    let second = Process::start(&folder, &receiver).await;
    let recovered = within(second.runs.recover()).await.unwrap();
    let run = &recovered.runs[0];
    let again = receiver.next().await;
    assert_eq!(again.headers["webhook-id"], message.headers["webhook-id"]);
    let (browser, old, new) = (Browser::new(), second.here(&message.link()), again.link());
    let denied = browser.answer(&browser.open(&old).await, &[("decision", "deny"), ("reason", "too late")]).await;
    assert_eq!(denied.status, 200);
    assert_eq!(browser.open(&new).await.status, 404, "both are for the same call");
    let error = within(run.outcome()).await.unwrap_err().to_string();
    assert!(error.contains("bank.pay was denied: too late"), "{error}");
}

#[tokio::test]
async fn a_decision_elsewhere_or_a_cancelled_run_ends_the_link() {
    let (folder, mut receiver) = (tempfile::tempdir().unwrap(), Receiver::start([]).await);
    let process = Process::start(&folder, &receiver).await;
    let browser = Browser::new();
    let one = within(process.runs.start(ExecuteRequest::new(CODE))).await.unwrap();
    let link = receiver.next().await.link();
    let page = browser.open(&link).await;
    decide(&*process.journal, one.id(), 1, RunVerdict::Approve, "Bo").await.unwrap();
    let late = browser.answer(&page, &[("decision", "deny")]).await;
    assert_eq!((late.status, browser.open(&link).await.status), (409, 404));
    within(one.outcome()).await.unwrap();

    let two = within(process.runs.start(ExecuteRequest::new(CODE))).await.unwrap();
    let link = receiver.next().await.link();
    assert_eq!(browser.open(&link).await.status, 200);
    two.cancel();
    assert!(within(two.outcome()).await.is_err());
    assert_eq!(browser.open(&link).await.status, 404);
}
