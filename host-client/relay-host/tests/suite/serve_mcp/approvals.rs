//! Approvals: the question, who is asked, and each answer.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::eventually;
use super::python::Client;
use super::setup::Setup;

/// Calls a tool that changes something, and gives what became of it.
const WRITES: &str =
    "try { await mcp.call('fake.writes', {what: 'it'}); return 'done' } catch (e) { return e.code + ': ' + e.message }";

async fn begin(client: &mut Client, code: &str) -> u64 {
    client.begin("execute_code", json!({"code": code})).await
}

async fn end(client: &mut Client, id: u64) -> Value {
    client.end(id).await["result"]["structuredContent"]["result"].take()
}

/// `fake.writes` itself answers every call with an error, which only a call that may run gets to see.
fn ran(value: &Value) -> bool {
    value.as_str().unwrap().starts_with("TOOL_FAILED: ")
}

#[tokio::test]
async fn an_approval_holds_as_long_as_was_said() {
    let setup = Setup::new();
    let mut client = Client::asking(&setup).await;
    let twice = format!("const one = async () => {{ {WRITES} }}; return [await one(), await one()]");

    let id = begin(&mut client, &twice).await;
    client.question().await;
    client.allow("once").await;
    client.question().await;
    client.allow("execution").await;
    let values = end(&mut client, id).await;
    assert!(ran(&values[0]) && ran(&values[1]), "{values}");

    let id = begin(&mut client, &twice).await;
    client.question().await;
    client.allow("execution").await;
    let values = end(&mut client, id).await;
    assert!(ran(&values[0]) && ran(&values[1]) && !client.was_asked(), "{values}");

    let id = begin(&mut client, WRITES).await;
    client.question().await;
    client.allow("session").await;
    assert!(ran(&end(&mut client, id).await));
    let id = begin(&mut client, &twice).await;
    let values = end(&mut client, id).await;
    assert!(ran(&values[0]) && ran(&values[1]) && !client.was_asked(), "{values}");
    client.close().await;
}

#[tokio::test]
async fn anything_but_a_clear_yes_is_a_no() {
    let setup = Setup::new();
    let mut client = Client::asking(&setup).await;
    for (action, content, said) in [
        ("decline", Value::Null, "the user said no"),
        ("cancel", Value::Null, "the user gave no answer"),
        ("accept", Value::Null, "the client's answer was not one of once, execution and session"),
        ("accept", json!({"allow": "everything"}), "the client's answer was not one of"),
        ("accept", json!({"allow": ["once"]}), "the client"),
        ("decline", json!({"allow": "once"}), "the user said no"),
    ] {
        let id = begin(&mut client, WRITES).await;
        client.question().await;
        client.answer(action, content.clone()).await;
        let value = end(&mut client, id).await;
        let text = value.as_str().unwrap();
        assert!(text.starts_with("APPROVAL_DENIED: ") && text.contains(said), "{action} {content}: {text}");
    }
    client.close().await;
}

#[tokio::test]
async fn a_client_that_cannot_ask_is_told_what_to_do() {
    let setup = Setup::new();
    let mut client = Client::over_stdio(&setup).await;
    let value = client.value(WRITES).await;
    let text = value.as_str().unwrap();
    assert!(text.starts_with("APPROVAL_DENIED: ") && text.contains("policy that allows the tool"), "{text}");
    client.close().await;
}

#[tokio::test]
async fn a_question_shows_what_is_asked_and_strangers_cannot_shape_it() {
    let setup = Setup::new();
    let mut client = Client::asking(&setup).await;
    let fake = "\n\nA program wants nothing.\n# Approve\n![x](http://example.com/x.png)\u{1b}[2J\u{202e}";
    let code = format!("/*{fake}*/\nawait mcp.call('fake.writes', {{what: {}}})", json!(fake));
    let id = client.begin("execute_code", json!({"code": code, "intent": format!("To help.{fake}")})).await;
    let question = client.question().await;
    let message = question["message"].as_str().unwrap();
    let mut lines = message.lines();
    assert_eq!(lines.next(), Some("A program that a model wrote wants to call a tool that needs your approval."));
    assert_eq!(lines.next(), Some(""));
    assert!(lines.all(|line| line.starts_with("    ")), "{message}");
    assert!(message.contains("    The code wants to call fake.writes (it changes something).\n"), "{message}");
    assert!(message.contains("    The rule that asks: default: ask mutating\n"), "{message}");
    assert!(
        message.contains("    The author of the code says what it is for:\n      | To help.\\n\\nA program"),
        "{message}"
    );
    assert!(message.chars().all(|it| it == '\n' || !(it.is_control() || it == '\u{202e}')), "{message}");
    assert_eq!(question["schema"]["required"], json!(["allow"]));
    assert_eq!(question["schema"]["properties"]["allow"]["enum"], json!(["once", "execution", "session"]));
    client.answer("decline", Value::Null).await;
    assert_eq!(client.end(id).await["result"]["isError"], true);
    client.close().await;
}

#[tokio::test]
async fn what_does_not_fit_a_message_is_in_a_file_until_it_is_answered() {
    let setup = Setup::new();
    let mut client = Client::asking(&setup).await;
    let comments = "// a comment\n".repeat(60);
    for (size, is_whole) in [(3_000, true), (200_000, false)] {
        let code = format!(
            "const what = 'x'.repeat({size}) + 'the end';\n{comments}return await mcp.call('fake.writes', {{what}})"
        );
        let id = begin(&mut client, &code).await;
        let question = client.question().await;
        let message = question["message"].as_str().unwrap();
        assert!(message.contains("    Line 62 of the code calls it, as the relay says:\n"), "{message}");
        assert!(message.contains("    >   62 | return await mcp.call("), "{message}");
        assert_eq!(message.contains("NOT ALL of the arguments"), !is_whole, "{message}");
        let unfolded = |text: &str, next: &str| text.replace(next, "");
        assert_eq!(unfolded(message, "\n      + ").contains("xthe end"), is_whole, "{message}");
        // The code has more lines than a message shows.
        let (_, after) = message.split_once("the whole question is in ").unwrap();
        let path = after.split(" on the machine of this MCP server").next().unwrap();
        let all = std::fs::read_to_string(path).unwrap();
        assert!(unfolded(&all, "\n  + ").contains("xthe end") && all.matches("// a comment").count() == 60, "{all}");
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        client.allow("once").await;
        assert!(!client.end(id).await.is_null());
        let is_gone = || !std::path::Path::new(path).exists();
        eventually("the file is removed", is_gone).await;
    }
    client.close().await;
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_is_withdrawn() {
    let setup = Setup::new();
    let mut client = Client::asked_by_requests(&setup).await;
    // The call is given up.
    let limits = json!({"approval_ms": 200});
    let id = client.begin("execute_code", json!({"code": WRITES, "limits": limits})).await;
    client.question().await;
    client.hear(|said| said.get("withdrawn").is_some()).await;
    assert!(end(&mut client, id).await.as_str().unwrap().starts_with("APPROVAL_TIMEOUT: "));
    // The request is cancelled.
    let id = begin(&mut client, WRITES).await;
    client.question().await;
    client.cancel(id).await;
    client.hear(|said| said.get("withdrawn").is_some()).await;
    assert_eq!(client.end(id).await["cancelled"], true);
    client.close().await;
}

#[tokio::test]
async fn an_approval_is_for_one_client_alone() {
    let setup = Setup::new();
    let server = setup.serve_http().await;
    let mut first = Client::in_session(&server).await;
    let id = begin(&mut first, WRITES).await;
    first.question().await;
    first.allow("session").await;
    assert!(ran(&end(&mut first, id).await));

    let mut second = Client::in_session(&server).await;
    let id = begin(&mut second, WRITES).await;
    second.question().await;
    second.answer("decline", Value::Null).await;
    assert!(!ran(&end(&mut second, id).await));
    let id = begin(&mut first, WRITES).await;
    assert!(ran(&end(&mut first, id).await) && !first.was_asked());
    first.close().await;
    second.close().await;
}
