//! The revision 2026-07-28, which has no sessions over HTTP, and asks by results that require input.

use serde_json::{Value, json};

use super::durable::{durable, handle, runs, wait};
use super::python::Client;
use super::raw::Raw;
use super::setup::Setup;

const ASKS: &str = "return (await mcp.call('fake.echo', {a: 1})).arguments.a";

#[tokio::test]
async fn the_sdk_speaks_the_newest_revision_and_is_asked_in_rounds() {
    let setup = Setup::new();
    let server = setup.serve_http().await;
    for mut client in [Client::asking(&setup).await, Client::asking_over_http(&server).await] {
        assert_eq!(client.revision, "2026-07-28");
        client.ready().await;
        // Calls that are made together are asked about together.
        let code =
            "const all = [1, 2, 3].map(a => mcp.call('fake.echo', {a}).then(it => it.arguments.a, it => it.code));
            console.log('asks'); return Promise.all(all)";
        let id = client.begin("execute_code", json!({"code": code, "intent": "To count."})).await;
        for allow in [true, false, true] {
            let question = client.question().await;
            assert!(question["message"].as_str().unwrap().contains("| To count."), "{question}");
            match allow {
                true => client.allow("once").await,
                false => client.answer("decline", Value::Null).await,
            }
        }
        let ended = client.end(id).await["result"].take();
        let mut value = ended["structuredContent"]["result"].as_array().unwrap().clone();
        value.retain(|it| it == "APPROVAL_DENIED");
        assert_eq!((value.len(), &ended["structuredContent"]["output"]), (1, &json!("asks\n")), "{ended}");
        // A result that is too long is read by the next request.
        let long = client.execute("return 'x'.repeat(1e6) + 'the end'").await;
        let handle = &long["structuredContent"]["handle"];
        let read = client.call("read_output", json!({"handle": handle, "offset": 1_000_000})).await;
        assert!(read["content"][0]["text"].as_str().unwrap().contains("the end"), "{read}");
        client.close().await;
    }
}

#[tokio::test]
async fn a_run_with_a_journal_is_asked_in_rounds_and_goes_on_without_its_client() {
    let setup = durable();
    let mut client = Client::asking(&setup).await;
    client.ready().await;
    let id = client.begin("execute_code", json!({"code": ASKS})).await;
    client.question().await;
    client.allow("execution").await;
    assert_eq!(client.end(id).await["result"]["structuredContent"]["result"], 1);
    assert_eq!(runs(&setup, &["list", "--all"]).await, json!([]), "it leaves nothing in the journal");
    // A client that goes away between two rounds leaves its run behind.
    client.begin("execute_code", json!({"code": ASKS})).await;
    client.question().await;
    let open = client.call("wait_for_run", json!({})).await;
    let run = open["structuredContent"]["runs"][0]["run"].as_str().unwrap().to_owned();
    let id = client.begin("wait_for_run", json!({"run": run})).await;
    client.question().await;
    client.allow("once").await;
    client.allow("once").await;
    assert_eq!(client.end(id).await["result"]["structuredContent"]["result"], 1);
    client.close().await;
}

#[tokio::test]
async fn a_client_that_has_tasks_gets_one() {
    let setup = durable();
    let mut raw = Raw::without_session(&setup).await;
    raw.ready().await;
    let extensions = json!({"io.modelcontextprotocol/tasks": {}});
    let answer = raw.call(1, "execute_code", json!({"code": ASKS}), json!({"extensions": extensions})).await;
    let task = &answer["result"];
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{answer}");
    let id = task["taskId"].as_str().unwrap().to_owned();
    assert!(task["createdAt"].as_str().unwrap().ends_with('Z'), "{task}");
    let able = json!({"extensions": extensions, "elicitation": {}});
    let get = raw.request(2, "tasks/get", json!({"taskId": id}), able.clone()).await;
    assert_eq!(get["result"]["status"], "input_required", "{get}");
    assert_eq!(get["result"]["inputRequests"]["1"]["method"], "elicitation/create", "{get}");
    let responses = json!({"1": {"action": "accept", "content": {"allow": "once"}}});
    let update = json!({"taskId": id, "inputResponses": responses});
    let updated = raw.request(3, "tasks/update", update, able.clone()).await;
    assert!(updated.get("error").is_none(), "{updated}");
    let ended = settled(&mut raw, 4, &id, &able).await;
    assert_eq!(ended["result"]["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["result"]["structuredContent"]["result"], 1, "{ended}");
    let unknown = raw.request(1_000_000, "tasks/get", json!({"taskId": "0123456789abcdef"}), able.clone()).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");

    // Without the extension it is a handle, and the same run.
    let answer = raw.call(1_000_001, "execute_code", json!({"code": ASKS}), json!({})).await;
    let run = handle(&answer["result"]);
    let cancelled = raw.request(1_000_002, "tasks/cancel", json!({"taskId": run}), able.clone()).await;
    assert!(cancelled.get("error").is_none(), "{cancelled}");
    // The answer says that the run is to be cancelled; it ends soon after.
    let ended = settled(&mut raw, 1_000_003, &run, &able).await;
    assert_eq!(ended["result"]["status"], "cancelled", "{ended}");
}

/// Asks for a task until it does not work any more; the requests are numbered from `first`.
async fn settled(raw: &mut Raw, first: u64, id: &str, able: &Value) -> Value {
    for number in first.. {
        let get = raw.request(number, "tasks/get", json!({"taskId": id}), able.clone()).await;
        if get["result"]["status"] != "working" {
            return get;
        }
    }
    unreachable!("there are more numbers than requests")
}

#[tokio::test]
async fn a_client_that_cannot_ask_gets_a_handle_and_people_decide_elsewhere() {
    let setup = durable();
    let mut client = Client::over_stdio(&setup).await;
    client.ready().await;
    let run = handle(&client.execute(ASKS).await);
    runs(&setup, &["approve", &run, "1", "--by", "Ada"]).await;
    assert_eq!(wait(&mut client, &run, 60).await["structuredContent"]["result"], 1);
    client.close().await;
}
