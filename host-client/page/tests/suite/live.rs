//! The page of what a process runs, by HTTP: live runs, their questions, and the changes that browsers are told of.

use std::sync::Arc;
use std::time::Duration;

use host_client_core::watch::Watch;
use host_client_core::{
    Approval, CallbackApprover, Client, Effect, ExecuteRequest, Host, LocalRelay, Policy, ToolError, Tools,
};
use host_client_page::Page;
use relay_test_support::within;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::stage::{Agent, tools};
use crate::ui::{Opened, hidden};

/// A page of a host whose tools `bank.*` are asked about on it.
async fn opened(policy: Policy, tools: Tools) -> (Opened, Agent) {
    let watch = Watch::new();
    let page = Page::live(&watch).unwrap().by("Ada");
    let host = Host::new(tools).policy(policy).watch(watch).approver(page.approver());
    (Opened::new(&page).await, Agent::new(host).await)
}

/// Loads a view until it has a text.
async fn until(page: &Opened, path: &str, text: &str) -> String {
    let loaded = async {
        loop {
            let view = page.get(path).await;
            if view.text.contains(text) {
                return view.text;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(loaded).await
}

fn path_of(list: &str) -> String {
    list.split("href=\"/live/").nth(1).unwrap().split('"').next().map(|name| format!("/live/{name}")).unwrap()
}

#[tokio::test]
async fn a_live_run_is_seen_asked_about_and_ends() {
    let (page, agent) = opened(Policy::new().ask(["bank.*"]), tools()).await;
    assert!(page.get("/").await.headers["location"].to_str().unwrap() == "/live");
    assert!(page.get("/live").await.text.contains("has run nothing"));
    let code =
        "console.log('<b>begins\\u202e');\nconst paid = await mcp.call('bank.pay', {to: '<i>Ada'});\nreturn paid.paid";
    let execution = agent.begin(code).await;
    let path = path_of(&until(&page, "/live", ">waiting<").await);
    let run = until(&page, &path, "waiting for approval").await;
    assert!(run.contains("&#60;b&#62;begins<mark>\\u{202e}</mark>") && !run.contains("<b>"), "{run}");
    assert!(run.contains("class=\"person\"") && run.contains("waiting for a person"), "{run}");
    assert!(run.contains("class=\"called\"") && run.contains("&#60;i&#62;Ada"), "{run}");
    assert!(!run.contains("style="), "{run}");

    let approvals = page.get("/approvals").await;
    assert!(approvals.text.contains("Approve call") && approvals.text.contains("&#60;i&#62;Ada"), "{}", approvals.text);
    let (token, question) = (hidden(&approvals, "form"), hidden(&approvals, "question"));
    let action = approvals.text.split("action=\"/questions/").nth(1).unwrap().split('"').next().unwrap();
    let action = format!("/questions/{action}");
    let approve = [("form", token.as_str()), ("question", &question), ("decision", "approve")];
    assert_eq!(page.post(&action, &approve[1..]).await.status, 403, "no token");
    let other = [approve[0], ("question", "0"), approve[2]];
    assert_eq!(page.post(&action, &other).await.status, 409, "another question");
    assert_eq!(page.post(&action.replace('/', "/0"), &approve).await.status, 404);
    assert_eq!(page.post("/questions/ff", &approve).await.status, 409);
    assert_eq!(page.post(&action, &approve).await.status, 303);
    let late = page.post(&action, &[approve[0], approve[1], ("decision", "deny")]).await;
    assert!(late.status == 409 && late.text.contains("Already decided"), "{}", late.text);
    assert_eq!(within(execution).await.unwrap().value().unwrap(), "<i>Ada");

    let ended = until(&page, &path, ">done<").await;
    assert!(ended.contains("<h2>Result</h2>") && ended.contains("Decided by</dt><dd>Ada<"), "{ended}");
    assert!(ended.contains("class=\"running\"") && ended.contains("<meter"), "{ended}");
    assert!(ended.contains("Rule that asks") && ended.contains("bank.*"), "{ended}");
    assert!(page.get("/approvals").await.text.contains("No call waits"));
    assert_eq!(page.get("/live/nothing").await.status, 404);
    assert_eq!(page.get("/runs").await.headers["location"], "/live");
}

#[tokio::test]
async fn an_approval_can_be_for_the_run_or_the_session() {
    let (page, agent) = opened(Policy::new().ask(["bank.*"]), tools()).await;
    let decide = async |scope: &str| {
        let view = until(&page, "/approvals", "data-approve").await;
        let field =
            |name: &str| view.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap().split('"').next().unwrap();
        let action = view.split("action=\"/questions/").nth(1).unwrap().split('"').next().unwrap();
        let fields =
            [("form", field("form")), ("question", field("question")), ("decision", "approve"), ("scope", scope)];
        page.post(&format!("/questions/{action}"), &fields).await.status
    };
    let code = "await mcp.call('bank.pay', {to: 'Ada'});\nreturn (await mcp.call('bank.pay', {to: 'Bo'})).paid";
    let first = agent.begin(code).await;
    assert_eq!(decide("everything").await, 400, "there is no such choice");
    assert_eq!(decide("execution").await, 303);
    assert_eq!(within(first).await.unwrap().value().unwrap(), "Bo", "the second call was not asked about");
    // It held for that run alone.
    let second = agent.begin(code).await;
    assert_eq!(decide("call").await, 303);
    assert_eq!(decide("session").await, 303, "one call was approved, and the next is asked about");
    within(second).await.unwrap();
    let third = agent.begin(code).await;
    assert_eq!(within(third).await.unwrap().value().unwrap(), "Bo", "the session has an approval");
}

#[tokio::test]
async fn a_denial_and_another_approver_answer_as_well() {
    let watch = Watch::new();
    let page = Page::live(&watch).unwrap().by("Ada");
    let answers = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&answers);
    let terminal = CallbackApprover::new("terminal", move |_| {
        let waits = Arc::clone(&waits);
        async move {
            waits.acquire().await.unwrap().forget();
            Approval::Once
        }
    });
    let host = Host::new(tools()).policy(Policy::new().ask(["bank.*"])).watch(watch);
    let agent = Agent::new(host.approver(page.approver().or(terminal))).await;
    let opened = Opened::new(&page).await;
    let code = "return await mcp.call('bank.pay', {to: 'Eve'}).then((it) => it.paid, (error) => error.message)";
    let denied = agent.begin(code).await;
    let view = until(&opened, "/approvals", "data-deny").await;
    let field =
        |name: &str| view.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap().split('"').next().unwrap();
    let action = view.split("action=\"/questions/").nth(1).unwrap().split('"').next().unwrap();
    let fields =
        [("form", field("form")), ("question", field("question")), ("decision", "deny"), ("reason", "not to Eve")];
    assert_eq!(opened.post(&format!("/questions/{action}"), &fields).await.status, 303);
    assert_eq!(within(denied).await.unwrap().value().unwrap(), "bank.pay was denied: not to Eve");
    // The other one answers, and the question is gone.
    let approved = agent.begin(code).await;
    until(&opened, "/approvals", "data-deny").await;
    answers.add_permits(1);
    assert_eq!(within(approved).await.unwrap().value().unwrap(), "Eve");
    until(&opened, "/approvals", "No call waits").await;
}

#[tokio::test]
async fn browsers_are_told_of_changes_and_have_to_have_a_session() {
    let (page, agent) = opened(Policy::new().allow(["*"]), tools()).await;
    let url = format!("{}/changes", page.server.url);
    let stranger = within(page.browser.request("GET", &url).send()).await.unwrap();
    assert_eq!(stranger.status(), 401);
    let watch = || page.browser.request("GET", &url).header("cookie", &page.cookie).send();
    let mut events = within(watch()).await.unwrap();
    assert_eq!(events.headers()["content-type"], "text/event-stream");
    assert!(within(events.chunk()).await.unwrap().unwrap().starts_with(b"data: 1"));
    // Whoever does not read holds nobody up.
    let _unread = within(watch()).await.unwrap();
    for _ in 0..20 {
        let execution = agent.begin("return (await mcp.call('bank.pay', {to: 'Ada'})).paid").await;
        within(execution).await.unwrap();
    }
    assert!(within(events.chunk()).await.unwrap().unwrap().starts_with(b"data: 2"));
    // There is a bound, and a window that is closed gives its place back.
    let mut open = vec![events];
    let refused = loop {
        let response = within(watch()).await.unwrap();
        if response.status() != 200 {
            break response.status();
        }
        open.push(response);
        assert!(open.len() <= 40);
    };
    assert_eq!(refused, 503);
    drop(open);
    let again = async {
        while watch().await.unwrap().status() != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(again).await;
}

#[tokio::test]
async fn what_is_kept_is_bounded() {
    let tools = Tools::new();
    let many = |_: Value| async { Ok::<_, ToolError>(json!("w".repeat(100_000))) };
    tools.add("t.many", "Returns a lot", Effect::ReadOnly, many).unwrap();
    let (page, agent) = opened(Policy::new().allow(["*"]), tools).await;
    let code = "for (let n = 0; n < 600; n++) { await mcp.call('t.many', {n, text: 'v'.repeat(10_000)}); console.log('x'.repeat(90)) }";
    within(agent.begin(code).await).await.unwrap();
    let path = path_of(&until(&page, "/live", ">done<").await);
    let view = page.get(&path).await;
    assert!(view.text.contains("100 more are left out"), "some calls are left out");
    assert!(view.text.contains("This is a part") && view.text.len() < 10_000_000, "{}", view.text.len());
    for number in 0..220 {
        within(agent.begin(&format!("return {number} + 1")).await).await.unwrap();
    }
    let list = until(&page, "/live", "return 219 + 1").await;
    assert_eq!(list.matches("data-item").count(), 200);
    assert!(!list.contains("return 19 + 1<"), "the oldest is gone");
}

#[tokio::test]
async fn a_host_that_nobody_watches_tells_nothing_and_a_page_that_is_gone_holds_nothing() {
    let watch = Watch::new();
    let host = Host::new(tools()).policy(Policy::new().allow(["*"])).watch(watch.clone());
    let relay = LocalRelay::start().await.unwrap();
    let client = Client::connect(relay.client_config().await.unwrap(), host).await.unwrap();
    let page = Page::live(&watch).unwrap();
    drop(page);
    let request = || ExecuteRequest::new("return 1").always_in_sandbox();
    within(within(client.execute(request())).await.unwrap()).await.unwrap();
    let mut seen = watch.subscribe();
    within(within(client.execute(request())).await.unwrap()).await.unwrap();
    let first = within(seen.recv()).await.unwrap();
    assert!(format!("{:?}", first.what).starts_with("Began"), "{first:?}");
}
