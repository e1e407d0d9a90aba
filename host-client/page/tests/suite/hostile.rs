//! Hostile texts: none runs, none hides, and none is cut where a decision depends on it.

use host_client_core::ExecuteRequest;
use host_client_core::LimitName;
use relay_test_support::within;

use crate::stage::{Agent, Browser, Stage, host};

#[tokio::test]
async fn hostile_arguments_are_shown_as_they_are() {
    let mut stage = Stage::new().await;
    let agent = Agent::new(host(&stage.approver)).await;
    let code = r#"// </code></li></ol><script>alert(1)</script>
        return await mcp.call('bank.pay', {to: '<img src=x onerror=alert(1)>"\'', note: 'a\u202eb\u2066c\u200b',
            ansi: '\u001b[2J\u001b[1;1H', '</code><script>': '&lt;', amount: 9007199254740993})"#;
    let _execution = agent.begin(code).await;
    let page = Browser::new().open(&stage.receiver.next().await.link()).await;
    assert_eq!(page.status, 200);
    assert!(!page.text.contains("<script") && !page.text.contains("<img"), "{}", page.text);
    for hidden in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{1b}'] {
        assert!(!page.text.contains(hidden), "{hidden:?}");
    }
    for shown in [
        "&#60;img src=x onerror=alert(1)&#62;",
        "a<mark>\\u{202e}</mark>b<mark>\\u{2066}</mark>c<mark>\\u{200b}</mark>",
        "\\u001b[2J\\u001b[1;1H",
        "&#60;/code&#62;&#60;script&#62;&#34;: &#34;&#38;lt;",
    ] {
        assert!(page.text.contains(shown), "{shown} is not in {}", page.text);
    }
}

#[tokio::test]
async fn a_megabyte_is_shown_whole() {
    let mut stage = Stage::new().await;
    let agent = Agent::new(host(&stage.approver)).await;
    let code = "return (await mcp.call('bank.pay', {to: 'Ada', text: 'w'.repeat(1_000_000) + '!'})).paid";
    let request = ExecuteRequest::new(code).always_in_sandbox().limit(LimitName::WallMs, 30_000);
    let execution = agent.client.execute(request).await.unwrap();
    let message = stage.receiver.next().await;
    assert!(message.body.len() < 20_000, "a message is short");
    assert!(message.data()["arguments"].is_null() && message.data()["arguments_bytes"].as_u64() > Some(1_000_000));
    let browser = Browser::new();
    let page = browser.open(&message.link()).await;
    assert!(page.text.contains(&format!("{}!", "w".repeat(1_000_000))));
    assert_eq!(browser.answer(&page, &[("decision", "approve")]).await.status, 200);
    assert_eq!(within(execution).await.unwrap().value().unwrap(), "Ada");
}
