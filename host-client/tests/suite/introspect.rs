//! Tests of the server `mcp`, by which code learns of its tools; the calls come in as those of a relay do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::Caller;
use host_client::{Effect, ExecuteRequest, Host, ManifestChange, Policy, ToolSpec, Tools};
use serde_json::{Value, json};

fn tools() -> Tools {
    let tools = Tools::new();
    for (name, description) in [
        ("exa.search", "Searches the web.\nIn many words."),
        ("exa.fetch", "Fetches a page"),
        ("my-db.find.rows", "Finds rows"),
        ("other.search", "Searches elsewhere"),
        ("other.secret", "Is not for code"),
    ] {
        let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]});
        let spec = ToolSpec::new(name, description, schema).effect(Effect::ReadOnly);
        tools.add_with(spec, |_, _| async { Ok("{\"rows\": [{\"id\": 1}]}".into()) }).unwrap();
    }
    tools
        .amend(["other.secret"], ManifestChange { callable_from_code: Some(false), ..ManifestChange::default() })
        .unwrap();
    tools
}

fn names(found: &Value) -> Vec<&str> {
    found.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn code_searches_and_describes_its_tools() {
    let mut caller = Caller::new(&tools()).await;
    let found = caller.call("mcp.search", json!({"query": "search the web"})).await.unwrap();
    assert_eq!(names(&found)[0], "exa.search");
    assert_eq!(found[0]["description"], "Searches the web.");
    let typescript = found[0]["typescript"].as_str().unwrap();
    assert!(typescript.contains("function search(args: { query: string }): Promise<unknown>;"), "{typescript}");
    let one = caller.call("mcp.search", json!({"query": "search", "limit": 1})).await.unwrap();
    assert_eq!(names(&one), ["other.search"], "of two with the name the one that says less beside it");
    assert_eq!(caller.call("mcp.search", json!({"query": "zeppelin"})).await.unwrap(), json!([]));
    assert_eq!(caller.call("mcp.search", json!({"query": "secret"})).await.unwrap(), json!([]));

    let described = caller.call("mcp.describe", json!({"name": "exa.search"})).await.unwrap();
    assert_eq!(described["description"], "Searches the web.\nIn many words.");
    assert_eq!(described["input_schema"]["required"], json!(["query"]));
    assert_eq!(caller.call("mcp.describe", json!({"name": "fetch"})).await.unwrap()["name"], "exa.fetch");
    for (name, says) in [
        ("exa.serach", r#"did you mean "exa.search"?"#),
        ("search", r#""exa.search" or "other.search""#),
        ("nowhere.nothing", "there is no server \"nowhere\""),
    ] {
        let failed = caller.call("mcp.describe", json!({"name": name})).await.unwrap_err();
        assert_eq!(failed.code, "UNKNOWN_TOOL");
        assert!(failed.message.contains(says), "{failed:?}");
    }
    let interface = caller.call("mcp.interface", json!({"name": "my_db.find_rows"})).await.unwrap();
    assert_eq!(interface["name"], "my-db.find.rows");
    assert_eq!(caller.call("mcp.interface", json!({"name": "no.such"})).await.unwrap(), Value::Null);
    let all = caller.call("mcp.interfaces", json!({})).await.unwrap();
    assert_eq!(all["my-db"]["find.rows"], interface);
    assert_eq!(all["exa"]["search"], described);
    assert_eq!(all["other"].as_object().unwrap().len(), 1, "what code may not call is not there");
}

#[tokio::test]
async fn what_does_not_fit_is_refused_in_words() {
    let mut caller = Caller::new(&tools()).await;
    for (tool, arguments, code, says) in [
        ("mcp.search", json!({}), "INVALID_ARGUMENTS", "\"query\" has to be a string"),
        ("mcp.search", json!({"query": 5}), "INVALID_ARGUMENTS", "\"query\""),
        ("mcp.search", json!({"query": "x", "limit": -1}), "INVALID_ARGUMENTS", "whole number, at most 50"),
        ("mcp.search", json!({"query": "x", "limit": 1.5}), "INVALID_ARGUMENTS", "\"limit\""),
        ("mcp.search", json!([]), "INVALID_ARGUMENTS", "not an object"),
        ("mcp.describe", json!({}), "INVALID_ARGUMENTS", "\"name\" has to be a string"),
        ("mcp.invent", json!({}), "UNKNOWN_TOOL", "search, describe, interfaces, interface"),
    ] {
        let failed = caller.call(tool, arguments.clone()).await.unwrap_err();
        assert_eq!(failed.code, code, "{tool} {arguments}");
        assert!(failed.message.contains(says), "{failed:?}");
    }
    // More than there may be is as many as there may be.
    assert!(caller.call("mcp.search", json!({"query": "search", "limit": 1_000_000})).await.is_ok());
}

#[tokio::test]
async fn an_execution_is_told_only_of_the_tools_that_it_may_call() {
    let host = Host::new(tools());
    let mut caller = Caller::with(host, ExecuteRequest::new("the test").tools(["exa.*"])).await;
    let all = caller.call("mcp.interfaces", json!({})).await.unwrap();
    assert_eq!(all.as_object().unwrap().keys().collect::<Vec<_>>(), ["exa"]);
    let found = caller.call("mcp.search", json!({"query": "search rows elsewhere"})).await.unwrap();
    assert!(names(&found).iter().all(|name| name.starts_with("exa.")), "{found}");
    assert_eq!(caller.call("mcp.interface", json!({"name": "my-db.find.rows"})).await.unwrap(), Value::Null);
    let failed = caller.call("mcp.describe", json!({"name": "other.search"})).await.unwrap_err();
    assert!(!failed.message.contains("did you mean \"other"), "{failed:?}");
    assert_eq!(caller.call("mcp.describe", json!({"name": "search"})).await.unwrap()["name"], "exa.search");
}

#[tokio::test]
async fn results_are_learned_where_that_is_turned_on_and_are_no_promise() {
    let calls = Arc::new(AtomicUsize::new(0));
    let tools = Tools::new();
    let counted = Arc::clone(&calls);
    let results = ["{\"rows\": [{\"id\": 1}], \"token\": \"s3cr3t\"}", "{\"rows\": []}", "5"];
    let spec = ToolSpec::new("db.find", "", json!({"type": "object"})).effect(Effect::ReadOnly);
    let find = move |_, _| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok(results[number % results.len()].into()) }
    };
    tools.add_with(spec, find).unwrap();
    for learns in [false, true] {
        calls.store(0, Ordering::SeqCst);
        let host = Host::new(tools.clone()).learn_results(learns).policy(Policy::new().allow(["*"]));
        let mut caller = Caller::with(host, ExecuteRequest::new("the test")).await;
        for _ in 0..2 {
            caller.call("db.find", json!({})).await.unwrap();
        }
        let interface = caller.call("mcp.describe", json!({"name": "db.find"})).await.unwrap();
        let typescript = interface["typescript"].as_str().unwrap();
        assert_eq!(interface.get("output_schema"), None);
        assert!(!typescript.contains("s3cr3t"));
        if !learns {
            assert!(typescript.contains("function find(args?: {}): Promise<unknown>;"), "{typescript}");
            continue;
        }
        assert!(typescript.contains("@returns observed in 2 results, not promised"), "{typescript}");
        let result = "Promise<{ rows: { id: number }[]; token?: string }>;";
        assert!(typescript.contains(result), "{typescript}");
        assert_eq!(caller.call("db.find", json!({})).await.unwrap(), 5, "nothing is held against what was seen");
    }
}
