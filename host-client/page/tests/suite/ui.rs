//! The page of a journal and an audit log, by HTTP.

use std::sync::Arc;
use std::time::Duration;

use host_client_core::durable::{Batch, Claim, Journal, MemoryJournal, NewRun, RunId};
use host_client_core::runs::{RunState, cancel, show};
use host_client_core::{
    Audit, AuditConfig, Client, ExecuteRequest, Host, LazyClient, LocalRelay, Policy, RunOptions, RunStatus, Runs,
};
use host_client_page::{Page, ServeLimits, serve};
use relay_test_support::within;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stage::{Browser, Page as Answer, Server, form, tools};

/// A page with the session that a browser has opened.
pub(crate) struct Opened {
    pub(crate) server: Server,
    pub(crate) browser: Browser,
    pub(crate) cookie: String,
}

impl Opened {
    pub(crate) async fn new(page: &Page) -> Self {
        let mut server = Server::start(|_| page.router()).await;
        let ip = server.url.clone();
        let address = page.local_address(server.url.rsplit(':').next().unwrap().parse().unwrap());
        server.url = address.split("/#").next().unwrap().to_owned();
        let host = server.url.strip_prefix("http://").unwrap().split(':').next().unwrap();
        assert!(host.len() > 40 && host.ends_with(".localhost"), "{host}");
        let browser = Browser::at(host);
        // Under a name that other programs of this machine can know, it does not answer.
        for known in [ip.clone(), ip.replace("127.0.0.1", "localhost")] {
            let request =
                browser.request("GET", &format!("{ip}/")).header("host", known.strip_prefix("http://").unwrap());
            assert_eq!(browser.send(request, &ip).await.status, 421, "{known}");
        }
        let front = format!("{}/", server.url);
        let signed = browser.send(form(browser.request("POST", &front), &[("token", page.token())]), &front).await;
        assert_eq!((signed.status, signed.headers["location"].to_str().unwrap().len()), (303, 5), "{}", signed.text);
        let cookie = signed.headers["set-cookie"].to_str().unwrap();
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        Self { cookie: cookie.split(';').next().unwrap().to_owned(), server, browser }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let url = format!("{}{path}", self.server.url);
        self.browser.send(self.browser.request("GET", &url).header("cookie", &self.cookie), &url).await
    }

    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let url = format!("{}{path}", self.server.url);
        let request = self.browser.request("POST", &url).header("cookie", &self.cookie);
        self.browser.send(form(request, fields), &url).await
    }
}

pub(crate) fn hidden(page: &Answer, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    page.text.split(&start).nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// Durable runs with a journal in memory, whose calls are asked about.
struct Waiting {
    runs: Runs,
    journal: Arc<MemoryJournal>,
}

impl Waiting {
    fn new(audit: Option<Audit>) -> Self {
        let journal = Arc::new(MemoryJournal::new());
        let host = Host::new(tools()).policy(Policy::new().ask(["bank.*"])).journal(Arc::clone(&journal));
        let host = match audit {
            Some(audit) => host.audit(audit),
            None => host,
        };
        let relay = Arc::new(tokio::sync::OnceCell::<LocalRelay>::new());
        let client = LazyClient::new(host, move |host| {
            let relay = Arc::clone(&relay);
            async move {
                let relay = relay.get_or_try_init(LocalRelay::start).await?;
                Client::connect(relay.client_config().await?, host).await
            }
        });
        let options = RunOptions { passivate_after: Duration::from_millis(200), ..RunOptions::default() };
        Self { runs: Runs::new(client, options).unwrap(), journal }
    }

    fn page(&self) -> Page {
        Page::new(Arc::clone(&self.journal) as _).unwrap().by("Ada")
    }

    /// Begins a run, and waits until it waits.
    async fn begin(&self, code: &str) -> host_client_core::Run {
        let run = within(self.runs.start(ExecuteRequest::new(code))).await.unwrap();
        assert_eq!(within(run.settled()).await, RunState::WaitingForApproval(vec![1]));
        run
    }
}

#[tokio::test]
async fn a_call_that_waits_is_decided_and_the_run_ends() {
    let stage = Waiting::new(None);
    let run = stage.begin("return (await mcp.call('bank.pay', {to: '<b>Ada\\u202e', amount: 7})).paid").await;
    let page = Opened::new(&stage.page()).await;
    let list = page.get("/runs").await;
    assert!(list.text.contains(&format!("href=\"/runs/{}\"", run.id())), "{}", list.text);
    let approvals = page.get("/approvals").await;
    for view in [&approvals, &page.get(&format!("/runs/{}", run.id())).await] {
        assert_eq!(view.status, 200);
        let argument = "&#34;to&#34;: &#34;&#60;b&#62;Ada<mark>\\u{202e}</mark>&#34;";
        assert!(
            view.text.contains(argument) && !view.text.contains("<b>") && !view.text.contains('\u{202e}'),
            "{}",
            view.text
        );
        assert!(view.text.contains("Approve call 1") && view.text.contains("class=\"called\""), "{}", view.text);
    }
    let (token, question) = (hidden(&approvals, "form"), hidden(&approvals, "question"));
    let path = format!("/runs/{}/calls/1", run.id());
    let approve = [("form", token.as_str()), ("question", &question), ("decision", "approve")];
    let first = approvals.text.split("calls/1\"").nth(1).unwrap().split("<button").nth(1).unwrap();
    assert!(first.starts_with(" disabled hidden>"), "Enter in a field presses the first button: {first}");
    let mixed = page.post(&path, &[&approve[..], &[("reason", "not to Ada")]].concat()).await;
    assert!(mixed.status == 400 && mixed.text.contains("Nothing was decided"), "{}", mixed.text);
    let decided = page.post(&path, &approve).await;
    assert_eq!(decided.status, 303, "{}", decided.text);
    let late = page.post(&path, &[("form", &token), ("question", &question), ("decision", "deny")]).await;
    assert!(late.status == 409 && late.text.contains("Already decided"), "{}", late.text);
    assert_eq!(within(run.outcome()).await.unwrap().value().unwrap(), "<b>Ada\u{202e}");
    assert_eq!(show(&*stage.journal, run.id()).await.unwrap().calls[0].decided_by.as_deref(), Some("Ada"));
    assert!(page.get("/approvals").await.text.contains("No call waits"));
    let ended = page.get(&format!("/runs/{}", run.id())).await;
    assert!(ended.text.contains("<h2>Result</h2>") && ended.text.contains("&#34;paid&#34;"), "{}", ended.text);
}

#[tokio::test]
async fn a_denial_and_a_cancel_reach_their_runs() {
    let stage = Waiting::new(None);
    let code = "return await mcp.call('bank.pay', {to: 'Eve'}).catch((error) => error.message)";
    let (denied, cancelled) = (stage.begin(code).await, stage.begin(code).await);
    let page = Opened::new(&stage.page()).await;
    let view = page.get(&format!("/runs/{}", denied.id())).await;
    let fields = [
        ("form", &*hidden(&view, "form")),
        ("question", &*hidden(&view, "question")),
        ("decision", "deny"),
        ("reason", "no <Eve>"),
    ];
    assert_eq!(page.post(&format!("/runs/{}/calls/1", denied.id()), &fields).await.status, 303);
    assert_eq!(within(denied.outcome()).await.unwrap().value().unwrap(), "bank.pay was denied: no <Eve>");
    assert_eq!(page.post(&format!("/runs/{}/cancel", cancelled.id()), &[("form", fields[0].1)]).await.status, 303);
    assert!(within(cancelled.outcome()).await.is_err());
    let view = page.get(&format!("/runs/{}", cancelled.id())).await;
    assert!(view.text.contains("<code>CANCELLED</code>"), "{}", view.text);
}

#[tokio::test]
async fn nobody_comes_in_without_the_token_and_it_works_once() {
    let stage = Waiting::new(None);
    let made = stage.page();
    let page = Opened::new(&made).await;
    let stranger = Browser::at(page.server.url.strip_prefix("http://").unwrap().split(':').next().unwrap());
    let front = format!("{}/", page.server.url);
    for token in [made.token(), "", "x"] {
        let refused = stranger.send(form(stranger.request("POST", &front), &[("token", token)]), &front).await;
        assert!(refused.status == 401 && !refused.headers.contains_key("set-cookie"), "{}", refused.text);
    }
    for path in ["/runs", "/runs/x", "/approvals", "/audit", "/study"] {
        let url = format!("{}{path}", page.server.url);
        for cookie in ["", "relay_page=x", &format!("other={}", page.cookie)] {
            let refused = stranger.send(stranger.request("GET", &url).header("cookie", cookie), &url).await;
            assert!(refused.status == 401 && refused.text.contains("<h1>Open the page</h1>"), "{path}");
        }
    }
    let (one, other) = (page.cookie.split('=').next(), Opened::new(&stage.page()).await);
    assert_ne!(one, other.cookie.split('=').next(), "two pages do not overwrite each other's cookie");
    let view = page.get("/runs").await;
    for (name, value) in
        [("x-frame-options", "DENY"), ("cache-control", "no-store"), ("x-content-type-options", "nosniff")]
    {
        assert_eq!(view.headers[name], value);
    }
    assert!(!view.text.contains("style=") && !view.text.contains("onclick") && !view.text.contains("<script>"));
    let rebound = page.browser.request("GET", &format!("{}/runs", page.server.url));
    let rebound = rebound.header("cookie", &page.cookie).header("host", "evil.example");
    assert_eq!(page.browser.send(rebound, "").await.status, 421);
    let token = hidden(&view, "form");
    assert_eq!(page.post("/sign-out", &[("form", &token)]).await.status, 303);
    assert_eq!(page.get("/runs").await.status, 401, "the session has ended");
}

#[tokio::test]
async fn forged_and_large_forms_change_nothing() {
    let stage = Waiting::new(None);
    let run = stage.begin("return await mcp.call('bank.pay', {to: 'Ada'})").await;
    let page = Opened::new(&stage.page()).await;
    let view = page.get("/approvals").await;
    let (token, question) = (hidden(&view, "form"), hidden(&view, "question"));
    let path = format!("/runs/{}/calls/1", run.id());
    let url = format!("{}{path}", page.server.url);
    let approve = [("form", token.as_str()), ("question", question.as_str()), ("decision", "approve")];
    assert_eq!(page.post(&path, &approve[1..]).await.status, 403, "no token");
    assert_eq!(page.post(&path, &[("form", "x"), approve[1], approve[2]]).await.status, 403);
    for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example"), ("origin", "null")] {
        let request = page.browser.request("POST", &url).header("cookie", &page.cookie).header(name, value);
        assert_eq!(page.browser.send(form(request, &approve), &url).await.status, 403, "{name}");
    }
    assert_eq!(
        page.post(&path, &[approve[0], approve[1], approve[2], ("reason", &"x".repeat(20 << 10))]).await.status,
        413
    );
    let deny = [approve[0], approve[1], ("decision", "deny")];
    let long = page.post(&path, &[&deny[..], &[("reason", &*"東".repeat(1_001))]].concat()).await;
    assert!(long.status == 400 && long.text.contains("at most 1000 characters"), "{}", long.text);
    let other = "0".repeat(64);
    assert_eq!(page.post(&path, &[approve[0], ("question", &other), approve[2]]).await.status, 409, "another question");
    assert_eq!(page.get(&path).await.status, 405, "nothing changes by GET");
    assert_eq!(page.get("/approvals").await.text.matches("data-approve").count(), 1, "it still waits");
}

#[tokio::test]
async fn the_newest_of_more_runs_than_are_looked_through_are_shown() {
    let journal = Arc::new(MemoryJournal::new());
    let claim = Claim { holder: "one".into(), until_ms: i64::MAX };
    for number in 0..100_060_i64 {
        let new = NewRun { id: format!("run-{number}").parse().unwrap(), created_ms: number, plan: "{}".into() };
        journal.create(new, claim.clone()).await.unwrap();
    }
    let page = Opened::new(&Page::new(journal).unwrap()).await;
    let first = page.get("/runs").await;
    assert!(first.text.contains("run-100059<") && first.text.matches("data-item").count() == 50, "{}", first.text);
    let searched = page.get("/runs?search=run-59").await;
    assert!(searched.text.contains("run-59999<"), "{}", searched.text);
    let nothing = page.get("/runs?search=nothing").await;
    assert!(nothing.text.contains("100,000 runs were looked through") && nothing.text.contains(">Older<"));
    let rest = page.get("/runs?search=nothing&before=60.run-60").await;
    assert!(rest.text.contains("No runs.") && !rest.text.contains("looked through"), "{}", rest.text);
}

#[tokio::test]
async fn what_cannot_be_decided_has_no_form_and_says_why() {
    let stage = Waiting::new(None);
    let run = stage.begin("return await mcp.call('bank.pay', {to: 'Ada'})").await;
    let page = Opened::new(&stage.page()).await;
    let path = format!("/runs/{}", run.id());
    let view = page.get(&path).await;
    let (token, question) = (hidden(&view, "form"), hidden(&view, "question"));
    let deny = [("form", token.as_str()), ("question", &question), ("decision", "deny")];
    // Another process cancels it, and nobody goes on with the run: the call is asked about no more.
    stage.runs.leave().await;
    cancel(&*stage.journal, run.id()).await.unwrap();
    let cancelled = page.get(&path).await;
    assert!(cancelled.text.contains("not decided: the run is over") && !cancelled.text.contains("data-deny"));
    assert!(cancelled.text.contains("Somebody has cancelled") && !cancelled.text.contains("Cancel the run"));
    assert!(page.get("/approvals").await.text.contains("No call waits"));
    let late = page.post(&format!("{path}/calls/1"), &deny).await;
    assert!(late.status == 409 && late.text.contains("The run is over"), "{}", late.text);
    // Cancelling twice is cancelling once.
    let twice = page.post(&format!("{path}/cancel"), &deny[..1]).await;
    assert_eq!(twice.status, 303, "{}", twice.text);
    assert!(page.get(&path).await.text.contains("Somebody has cancelled"));
}

#[tokio::test]
async fn arguments_that_are_too_long_to_be_shown_cannot_be_approved() {
    let stage = Waiting::new(None);
    // They have 20 kB, and over 20,000 lines if they are indented.
    let code = "return (await mcp.call('bank.pay', {to: 'Ada', list: Array(21_000).fill(1)})).paid";
    let run = stage.begin(code).await;
    let page = Opened::new(&stage.page()).await;
    let path = format!("/runs/{}", run.id());
    for view in [page.get(&path).await, page.get("/approvals").await] {
        assert!(view.text.contains("This is a part") && view.text.contains("cannot be approved here"));
        assert!(!view.text.contains("data-approve") && view.text.contains("data-deny") && view.text.len() < 4_000_000);
    }
    let view = page.get(&path).await;
    let (token, question) = (hidden(&view, "form"), hidden(&view, "question"));
    let fields = [("form", &*token), ("question", &question), ("decision", "approve")];
    let refused = page.post(&format!("{path}/calls/1"), &fields).await;
    assert!(refused.status == 409 && refused.text.contains("Not approved"), "{}", refused.text);
    let fields = [fields[0], fields[1], ("decision", "deny")];
    assert_eq!(page.post(&format!("{path}/calls/1"), &fields).await.status, 303);
    assert!(within(run.outcome()).await.is_err());
}

#[tokio::test]
async fn a_run_that_cannot_be_read_is_named() {
    let journal = Arc::new(MemoryJournal::new());
    let id: RunId = "damaged".parse().unwrap();
    let new = NewRun { id: id.clone(), created_ms: i64::MAX, plan: "{}".into() };
    journal.create(new, Claim { holder: "one".into(), until_ms: i64::MAX }).await.unwrap();
    let batch = Batch { first: 1, entries: Vec::new(), status: Some(RunStatus::Waiting), at_ms: i64::MAX };
    journal.append(id, "one".into(), batch).await.unwrap();
    let page = Opened::new(&Page::new(journal).unwrap()).await;
    let view = page.get("/approvals").await;
    assert!(view.text.contains("cannot be shown: the plan of the run damaged cannot be read"), "{}", view.text);
    assert!(!view.text.contains("No call waits"));
    // Its time is one that no date has.
    assert!(page.get("/runs").await.text.contains("9999-12-31T23:59:59Z"));
}

#[tokio::test]
async fn slow_and_many_peers_are_bounded() {
    let mut limits = ServeLimits::default();
    (limits.connections, limits.head_within) = (2, Duration::from_millis(300));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let page = Page::new(Arc::new(MemoryJournal::new())).unwrap();
    let serving = tokio::spawn(serve(listener, page.router(), limits));
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
        slow.push(peer);
    }
    // It is served when one of the others has used up its time.
    let mut other = TcpStream::connect(address).await.unwrap();
    other.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    within(other.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    for mut peer in slow {
        let mut rest = Vec::new();
        // A reset connection is closed as well.
        let _ = within(peer.read_to_end(&mut rest)).await;
    }
    serving.abort();
}

#[tokio::test]
async fn ten_thousand_runs_are_listed_in_pages() {
    let journal = Arc::new(MemoryJournal::new());
    let claim = Claim { holder: "one".into(), until_ms: i64::MAX };
    for number in 0..10_000_i64 {
        let id: RunId = format!("run-{number}").parse().unwrap();
        let new = NewRun { id: id.clone(), created_ms: number, plan: "{}".into() };
        journal.create(new, claim.clone()).await.unwrap();
        if number % 100 != 0 {
            let batch = Batch { first: 1, entries: Vec::new(), status: Some(RunStatus::Ended), at_ms: number };
            journal.append(id, "one".into(), batch).await.unwrap();
        }
    }
    let page = Opened::new(&Page::new(journal).unwrap()).await;
    let older = |view: &Answer| {
        let link = view.text.split("rel=\"next\" href=\"").nth(1)?.split('"').next()?;
        Some(link.replace("&amp;", "&").replace("&#38;", "&"))
    };
    let first = page.get("/runs").await;
    assert!(first.text.contains("run-9999<") && first.text.contains("run-9950<"), "{}", first.text);
    assert!(!first.text.contains("run-9949<") && first.text.len() < 40_000);
    let second = page.get(&older(&first).unwrap()).await;
    assert!(
        second.text.contains("run-9949<") && second.text.contains("run-9900<") && !second.text.contains("run-9899<")
    );
    assert!(second.text.contains(">Newest<") && !first.text.contains(">Newest<"));
    let last = page.get("/runs?before=50.run-50").await;
    assert!(last.text.contains("run-0<") && older(&last).is_none(), "{}", last.text);
    assert!(
        page.get("/runs?before=99999999999999999999.x").await.text.contains("run-9999<"),
        "it begins with the newest"
    );
    let running = page.get("/runs?status=running").await;
    assert!(running.text.contains("run-9900<") && running.text.contains("run-5000<"), "{}", running.text);
    let rest = page.get(&older(&running).unwrap()).await;
    assert!(rest.text.contains("run-4900<") && rest.text.contains("run-0<") && older(&rest).is_none(), "{}", rest.text);
    let found = page.get("/runs?search=run-123").await;
    assert!(found.text.matches("data-item").count() == 11 && found.text.contains("run-1239<"), "{}", found.text);
    // What is searched for stands in the page as text.
    let hostile = page.get("/runs?search=%22%3E%3Cscript%3E&page=1").await;
    assert!(!hostile.text.contains("\"><script>") && hostile.text.contains("&#34;&#62;&#60;script&#62;"));
    assert_eq!(page.get("/runs/run-77777").await.status, 404);
}

#[tokio::test]
async fn a_study_is_shown_as_bars() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.json");
    let stage = Waiting::new(None);
    let page = Opened::new(&stage.page().study(&path)).await;
    assert!(page.get("/runs").await.text.contains("href=\"/study\""));
    assert_eq!(page.get("/study").await.status, 503, "there is no such file yet");
    let sums = json!([
        {"measure": "<b>turns\u{202e}", "one_by_one": 127, "together": 63, "programs": 0, "median_ratio_together": 1.5},
        {"measure": "tokens", "one_by_one": u64::MAX, "together": u64::MAX / 4, "programs": 1, "together_as_good": []},
    ]);
    std::fs::write(&path, json!({"tasks": [{"task": "a"}, {"task": "b"}], "sums": sums}).to_string()).unwrap();
    let view = page.get("/study").await;
    assert!(view.status == 200 && view.text.contains("The sums of 2 tasks"), "{}", view.text);
    assert!(
        view.text.contains("&#60;b&#62;turns<mark>\\u{202e}</mark>") && !view.text.contains("<b>"),
        "{}",
        view.text
    );
    let widths: Vec<_> = view.text.split("width=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(widths, ["1000", "496", "0", "1000", "249", "0"]);
    for wrong in ["", "{}", "[]", r#"{"tasks": [], "sums": [{"measure": "x"}]}"#] {
        std::fs::write(&path, wrong).unwrap();
        let view = page.get("/study").await;
        assert!(view.status == 503 && view.text.contains("xtask study --json"), "{}", view.text);
    }
    std::fs::write(&path, " ".repeat((4 << 20) + 1)).unwrap();
    assert!(page.get("/study").await.text.contains("more than 4 MiB"));
    let none = Opened::new(&stage.page()).await;
    assert!(none.get("/study").await.text.contains("No file of a study was named"));
    assert!(!none.get("/runs").await.text.contains("href=\"/study\""));
}

#[tokio::test]
async fn the_audit_is_shown_searched_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let stage = Waiting::new(Some(Audit::open(AuditConfig::new(&path)).unwrap()));
    let run = stage.begin("return await mcp.call('bank.pay', {to: '<script>alert(1)</script>'})").await;
    run.cancel();
    assert!(within(run.outcome()).await.is_err());
    let page = Opened::new(&stage.page().audit(&path)).await;
    let all = page.get("/audit").await;
    assert!(
        all.text.contains("decision") && all.text.contains("bank.pay") && !all.text.contains("<script>a"),
        "{}",
        all.text
    );
    let some = page.get("/audit?search=no+such+record").await;
    assert!(some.text.contains("0 records"), "{}", some.text);
    let whole = page.get("/audit?verify=1").await;
    assert!(whole.text.contains("The log is whole"), "{}", whole.text);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("bank.pay", "bank.get", 1)).unwrap();
    let changed = page.get("/audit?verify=1").await;
    assert!(changed.text.contains("The log is not whole"), "{}", changed.text);
    let none = Opened::new(&stage.page()).await;
    assert!(none.get("/audit").await.text.contains("No audit log was named"));
}
