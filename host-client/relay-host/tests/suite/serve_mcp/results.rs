//! Tests of results: the part that goes into the client's context, and the way to read the rest.

use serde_json::{Value, json};

use super::python::Client;
use super::setup::Setup;

const ISSUES: &str = "return Array.from({length: 2000}, (_, id) => ({
    id, title: 'Issue number ' + id, body: id === 1234 ? 'the deadlock in the scheduler' : 'all is well '.repeat(10)}))";

fn text(result: &Value) -> &str {
    assert_eq!(result["isError"], false, "{result}");
    result["content"][0]["text"].as_str().unwrap()
}

async fn refusal(client: &mut Client, arguments: Value) -> String {
    let result = client.call("read_output", arguments).await;
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_large_value_is_summarized_and_can_be_read_by_its_handle() {
    let setup = Setup::new();
    // Two sessions of one process.
    let server = setup.serve_http().await;
    let (mut client, mut other) = (Client::in_session(&server).await, Client::in_session(&server).await);
    client.list().await;
    let result = client.execute(ISSUES).await;
    let shown = text(&result);
    assert!(shown.starts_with("[Summary: an array of 2000 items, ") && shown.len() < 7_000, "{shown}");
    assert!(shown.contains("\n[3] {\"id\": 3, \"title\": \"Issue number 3\"}\n"), "{shown}");
    let footer = shown.lines().last().unwrap();
    assert!(footer.starts_with("[Output: 5.") && footer.ends_with("KB processed, 98% reduced]"), "{footer}");
    let structured = &result["structuredContent"];
    assert_eq!((&structured["shown"], structured.get("result")), (&json!(shown), None), "{structured}");

    let handle = &structured["handle"];
    let read = client.call("read_output", json!({"handle": handle, "path": "[1234].body"})).await;
    assert_eq!(text(&read), "the deadlock in the scheduler");
    let read = client.call("read_output", json!({"handle": handle, "offset": 1_998, "limit": 1})).await;
    assert!(text(&read).starts_with("[items 1998 to 1998 of 2000]\n[{\"id\":1998,"), "{read}");
    assert!(text(&read).ends_with("\n[go on with offset 1999]"), "{read}");

    for (arguments, said) in [
        (
            json!({"handle": handle, "path": "[2000]"}),
            "INVALID_INPUT: there is no \"2000\" at \"\"; there are the items",
        ),
        (json!({"handle": handle, "path": "a["}), "INVALID_INPUT: the path cannot be read: a bracket is not closed"),
        (json!({"handle": "out_"}), "INVALID_INPUT: there is no output with this handle: "),
    ] {
        assert!(refusal(&mut client, arguments).await.starts_with(said));
    }
    let said = refusal(&mut other, json!({"handle": handle})).await;
    assert!(
        said.contains("a handle is good in the session that it was given in") && said.contains("run the code again")
    );
    client.close().await;
    other.close().await;
}

#[tokio::test]
async fn what_does_not_concern_the_intent_is_left_out() {
    let setup = Setup::new();
    let mut client = Client::over_stdio(&setup).await;
    client.list().await;
    let arguments = json!({"code": ISSUES, "intent": "Find deadlocks in the scheduler"});
    let result = client.call("execute_code", arguments).await;
    assert!(text(&result).starts_with("[Filtered by intent: 1 of "), "{result}");
    assert!(text(&result).contains("the deadlock in the scheduler") && text(&result).len() < 3_000, "{result}");
    let result = client.call("execute_code", json!({"code": ISSUES, "intent": "what is it"})).await;
    assert!(text(&result).starts_with("[Summary: "), "{result}");
    client.close().await;
}

#[tokio::test]
async fn what_is_too_long_is_cut_up_to_the_limit_of_the_session() {
    let setup = Setup::new();
    let mut client = Client::over_stdio(&setup).await;
    client.list().await;
    let result = client.execute("return 'x'.repeat(5 << 20)").await;
    let shown = text(&result);
    assert!(shown.contains("x\n… [truncated middle — 4924.7KB omitted] …\nx"), "{}", &shown[119_990..120_060]);
    assert!(shown.ends_with("[Output: 195.4KB returned, 5120.0KB processed, 96% reduced]"), "{}", &shown[200_000..]);
    let result = client.execute("return 'a line\\n'.repeat(100_000)").await;
    let marker = "\n… [71430 lines / 488.3KB truncated — showing first 17142 + last 11428 lines] …\n";
    assert!(text(&result).contains(marker), "{}", &text(&result)[119_990..120_100]);
    client.close().await;
}

#[tokio::test]
async fn images_are_images() {
    let setup = Setup::with_everything().allowing_all();
    let mut client = Client::over_stdio(&setup).await;
    client.list().await;
    let result = client.execute("return await mcp.call('everything.get-tiny-image', {})").await;
    let blocks = result["content"].as_array().unwrap();
    assert!(text(&result).contains("\"[image/png, ") && text(&result).contains("KB, attachment 1]\""), "{result}");
    assert_eq!(blocks.len(), 2, "{result}");
    assert_eq!((&blocks[1]["type"], &blocks[1]["mimeType"]), (&json!("image"), &json!("image/png")));
    let data = blocks[1]["data"].as_str().unwrap();
    assert!(data.starts_with("iVBORw0KGgo") && !text(&result).contains("iVBORw0KGgo"), "{result}");
    assert!(!result["structuredContent"].to_string().contains("iVBORw0KGgo"), "{result}");

    let code = "console.log('printed'); return [
        {type: 'audio', mimeType: 'audio/wav', data: 'QUJD'}, 'data:application/pdf;base64,QUJD', 'data:image/svg+xml;base64,QUJD']";
    let result = client.execute(code).await;
    let blocks = result["content"].as_array().unwrap();
    let kinds: Vec<_> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "text", "audio", "resource", "resource"], "{result}");
    assert_eq!(blocks[3]["resource"], json!({"uri": "attachment:2", "mimeType": "application/pdf", "blob": "QUJD"}));
    client.close().await;
}
