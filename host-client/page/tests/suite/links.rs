//! Approval links of executions that are not durable.

use std::time::Duration;

use host_client_page::{ApprovalLinks, LinkSecret};
use relay_test_support::within;
use serde_json::json;

use crate::stage::{Agent, Browser, Stage, form, host};

const CODE: &str = "const to = 'Ada';\nconst paid = await mcp.call('bank.pay', {to, amount: 7});\nreturn paid";

#[tokio::test]
async fn a_link_shows_the_whole_call_and_decides_once() {
    let mut stage = Stage::new().await;
    let agent = Agent::new(host(&stage.approver)).await;
    let execution = agent.begin(CODE).await;
    let message = stage.receiver.next().await;
    let data = message.data();
    assert_eq!((&data["tool"], &data["arguments"]), (&json!("bank.pay"), &json!({"to": "Ada", "amount": 7})));
    assert_eq!((&data["line"], &data["effect"], &data["code"]), (&json!(2), &json!("mutating"), &json!(CODE)));

    let browser = Browser::new();
    let link = message.link();
    // Opening it decides nothing, also where a program opens it ahead of the person.
    for _ in 0..3 {
        assert_eq!(browser.open(&link).await.status, 200);
    }
    let page = browser.open(&link).await;
    for shown in [
        "<h1>May the code call <code>bank.pay</code>?</h1>",
        "class=\"called\" value=\"2\"><code>const paid = await mcp.call(&#39;bank.pay&#39;",
        "<code>  &#34;amount&#34;: 7,</code>",
        "<code>  &#34;to&#34;: &#34;Ada&#34;</code>",
        "Pays an amount",
    ] {
        assert!(page.text.contains(shown), "{shown} is not in {}", page.text);
    }
    let approved = browser.answer(&page, &[("decision", "approve")]).await;
    assert!(approved.status == 200 && approved.text.contains("<h1>Approved</h1>"), "{}", approved.text);
    assert_eq!(within(execution).await.unwrap().value().unwrap(), json!({"paid": "Ada"}));
    assert_eq!(browser.open(&link).await.status, 404, "a link is used once");
}

#[tokio::test]
async fn a_denial_reaches_the_code_with_its_reason() {
    let mut stage = Stage::new().await;
    let agent = Agent::new(host(&stage.approver)).await;
    let execution = agent.begin("try { await mcp.call('bank.pay', {to: 'Eve'}) } catch (e) { return e.message }").await;
    let (browser, link) = (Browser::new(), stage.receiver.next().await.link());
    let page = browser.open(&link).await;
    let denied = browser.answer(&page, &[("decision", "deny"), ("reason", " not to Eve ")]).await;
    assert!(denied.status == 200 && denied.text.contains("<h1>Denied</h1>"), "{}", denied.text);
    assert_eq!(within(execution).await.unwrap().value().unwrap(), "bank.pay was denied: not to Eve");
}

#[tokio::test]
async fn an_approval_with_a_reason_decides_nothing() {
    let mut stage = Stage::new().await;
    let agent = Agent::new(host(&stage.approver)).await;
    let execution = agent.begin(CODE).await;
    let (browser, link) = (Browser::new(), stage.receiver.next().await.link());
    let page = browser.open(&link).await;
    // What Enter in a field presses.
    let first = page.text.split("<form").nth(1).unwrap().split("<button").nth(1).unwrap();
    assert!(first.starts_with(" disabled hidden>"), "{first}");
    let mixed = browser.answer(&page, &[("decision", "approve"), ("reason", "not to Eve")]).await;
    assert!(mixed.status == 400 && mixed.text.contains("Nothing was decided"), "{}", mixed.text);
    assert_eq!(browser.answer(&page, &[("decision", "approve"), ("reason", " ")]).await.status, 200);
    assert!(within(execution).await.is_ok());
    // Letters that are written from right to left change the order of nothing.
    let style = browser.open(&format!("{}/approve/assets/page.css", stage.pages.url)).await.text;
    let rule = style.lines().find(|line| line.contains("bidi-override")).unwrap();
    for shown in [".lines code", "h1 code", "h3 code", "summary code", "dd", "pre.json"] {
        assert!(rule.contains(shown), "{rule}");
    }
}

#[tokio::test]
async fn of_two_people_the_first_counts_and_the_other_is_told() {
    let mut stage = Stage::new().await;
    let agent = Agent::new(host(&stage.approver)).await;
    let execution = agent.begin(CODE).await;
    let link = stage.receiver.next().await.link();
    let (one, two) = (Browser::new(), Browser::new());
    let pages = tokio::join!(one.open(&link), two.open(&link));
    let (approve, deny) = ([("decision", "approve")], [("decision", "deny")]);
    let (first, second) = tokio::join!(one.answer(&pages.0, &approve), two.answer(&pages.1, &deny));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let loser = if first.status == 409 { &first } else { &second };
    assert!(loser.text.contains("Already decided"), "{}", loser.text);
    assert_eq!(within(execution).await.is_ok(), first.status == 200);
}

#[tokio::test]
async fn links_that_do_not_work_all_look_the_same() {
    let mut stage = Stage::new().await;
    let agent = Agent::new(host(&stage.approver)).await;
    let mut execution = agent.begin(CODE).await;
    let link = stage.receiver.next().await.link();
    let browser = Browser::new();
    assert_eq!(browser.open(&link).await.status, 200);
    let mut forged = link.clone();
    let last = forged.pop().unwrap();
    forged.push(if last == 'A' { 'B' } else { 'A' });
    // It ends before anybody has decided.
    execution.cancel();
    let _ = within(&mut execution).await;
    let expected = browser.open(&forged).await;
    assert_eq!(expected.status, 404);
    for url in [link, format!("{}/approve/x", stage.pages.url), format!("{}/approve/", stage.pages.url)] {
        let page = browser.open(&url).await;
        assert_eq!((page.status, page.text), (404, expected.text.clone()), "{url}");
    }
}

#[tokio::test]
async fn a_link_expires_and_its_call_waits_on() {
    let mut stage = Stage::with(|links| links.expires_after(Duration::ZERO)).await;
    let agent = Agent::new(host(&stage.approver)).await;
    let mut execution = agent.begin(CODE).await;
    let link = stage.receiver.next().await.link();
    assert_eq!(Browser::new().open(&link).await.status, 404);
    execution.cancel();
    assert!(within(&mut execution).await.is_err());
}

#[tokio::test]
async fn an_answer_that_did_not_come_from_the_page_decides_nothing() {
    let mut stage = Stage::new().await;
    let agent = Agent::new(host(&stage.approver)).await;
    let execution = agent.begin(CODE).await;
    let link = stage.receiver.next().await.link();
    let browser = Browser::new();
    let (page, other) = (browser.open(&link).await, browser.open(&link).await);
    let (token, cookie) = (page.form_token(), page.cookie());
    let post = |fields: &[(&str, &str)]| form(browser.request("POST", &link), fields);
    let others = other.form_token();
    let approve = [("form", token.as_str()), ("decision", "approve")];
    for (why, request) in [
        ("no cookie", post(&approve)),
        ("no token", post(&[("decision", "approve")]).header("cookie", &cookie)),
        ("the token of another page", post(&[("form", &others), ("decision", "approve")]).header("cookie", &cookie)),
        ("a form of another site", post(&approve).header("cookie", &cookie).header("sec-fetch-site", "cross-site")),
        ("a form of a sibling", post(&approve).header("cookie", &cookie).header("sec-fetch-site", "same-site")),
        ("another origin", post(&approve).header("cookie", &cookie).header("origin", "https://evil.example")),
        ("an origin that is kept secret", post(&approve).header("cookie", &cookie).header("origin", "null")),
    ] {
        let refused = browser.send(request, &link).await;
        assert_eq!(refused.status, 403, "{why}");
        assert_eq!(browser.open(&link).await.status, 200, "{why}: it still waits");
    }
    assert_eq!(browser.answer(&page, &[("decision", "approve")]).await.status, 200);
    assert!(within(execution).await.is_ok());
}

#[tokio::test]
async fn other_requests_are_refused() {
    let mut stage = Stage::new().await;
    let agent = Agent::new(host(&stage.approver)).await;
    let _execution = agent.begin(CODE).await;
    let link = stage.receiver.next().await.link();
    let browser = Browser::new();
    let page = browser.open(&link).await;
    let own = |request: reqwest::RequestBuilder| request.header("cookie", page.cookie());
    let token = page.form_token();
    let large = "x".repeat(20 << 10);
    for (expected, request) in [
        (421, browser.request("GET", &link).header("host", "evil.example")),
        (405, browser.request("PUT", &link)),
        (400, form(own(browser.request("POST", &link)), &[("form", &token), ("decision", "perhaps")])),
        (413, form(own(browser.request("POST", &link)), &[("form", &token), ("decision", &large)])),
        (400, own(browser.request("POST", &link)).json(&json!({"form": token, "decision": "approve"}))),
    ] {
        let refused = browser.send(request, &link).await;
        assert_eq!(refused.status, expected, "{}", refused.text);
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("referrer-policy", "same-origin"),
        ] {
            assert_eq!(refused.headers[name], value);
        }
        let policy = refused.headers["content-security-policy"].to_str().unwrap();
        for part in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "script-src 'self'"] {
            assert!(policy.contains(part) && !policy.contains("unsafe"), "{policy}");
        }
    }
    assert_eq!(browser.open(&link).await.status, 200, "nothing of this has decided");
    let style = browser.open(&format!("{}/approve/assets/page.css", stage.pages.url)).await;
    assert!(style.status == 200 && style.headers["content-type"].to_str().unwrap().starts_with("text/css"));
}

#[tokio::test]
async fn a_secret_is_made_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("links.secret");
    let _made = LinkSecret::kept_in(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.len(), 64);
    let _read = LinkSecret::kept_in(&path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&path, "short\n").unwrap();
    let error = LinkSecret::kept_in(&path).unwrap_err().to_string();
    assert!(error.contains("has 5 bytes and needs at least 32"), "{error}");
    for base in ["", "agent.example", "ftp://agent.example", "https://a@agent.example", "https://agent.example/?q"] {
        assert!(ApprovalLinks::new(base, LinkSecret::random().unwrap()).is_err(), "{base}");
    }
}
