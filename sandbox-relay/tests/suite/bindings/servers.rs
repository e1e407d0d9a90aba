//! One object per server, however its name is written.

use host_client::{ToolSpec, Tools};
use serde_json::json;

use super::{error, value};
use crate::support::{Fixture, connect, start_relay};

/// A relay whose host has tools of these names, each of which returns its own name and its arguments.
async fn with_tools(names: &[&str]) -> Fixture {
    let tools = Tools::new();
    for name in names {
        let spec = ToolSpec::new(*name, "", json!({})).effect(host_client::Effect::ReadOnly);
        let echo = |arguments, context: host_client::CallContext| async move {
            Ok(json!([context.tool.as_str(), arguments]).to_string().into())
        };
        tools.add_with(spec, echo).unwrap();
    }
    let relay = start_relay(&[]).await;
    let client = connect(&relay, tools).await;
    Fixture { relay, client, seen: std::sync::Arc::default() }
}

const SERVERS: [&str; 1] = ["servers"];

#[tokio::test]
async fn a_name_can_be_written_as_it_is_and_as_an_identifier() {
    let fixture =
        with_tools(&["exa.search", "my-backend.do-it", "123start.x", "a b.has.dots", "class.new", "Math.max"]).await;
    for (code, expected) in [
        ("return exa.search({query: 'x'})", json!(["exa.search", {"query": "x"}])),
        ("return globalThis.exa.search()", json!(["exa.search", {}])),
        ("return my_backend.do_it({})", json!(["my-backend.do-it", {}])),
        ("return globalThis['my-backend']['do-it']({})", json!(["my-backend.do-it", {}])),
        ("return _123start.x({})", json!(["123start.x", {}])),
        ("return servers['123start'].x({})", json!(["123start.x", {}])),
        ("return a_b.has_dots({})", json!(["a b.has.dots", {}])),
        ("return servers['a b']['has.dots']({})", json!(["a b.has.dots", {}])),
        ("return _class._new({})", json!(["class.new", {}])),
        ("return [Math.max(1), await servers.Math.max({})]", json!([1, ["Math.max", {}]])),
        ("return mcp.call('exa.search', {a: 1})", json!(["exa.search", {"a": 1}])),
        (
            "return [exa === globalThis.exa, exa === servers.exa, my_backend === servers['my-backend']]",
            json!([true, true, true]),
        ),
        (
            "return Object.keys(servers)",
            json!([
                "123start",
                "Math",
                "_123start",
                "_Math",
                "_class",
                "a b",
                "a_b",
                "class",
                "exa",
                "my-backend",
                "my_backend"
            ]),
        ),
        (
            "return [Object.keys(exa), Object.isFrozen(exa), typeof exa.search, exa.search.name]",
            json!([["search"], true, "function", "search"]),
        ),
        ("return Object.keys(globalThis)", json!(["mcp"])),
        ("const {search} = exa; return search({})", json!(["exa.search", {}])),
        ("const { exa: mine } = servers; return (async (exa) => exa)(7)", json!(7)),
    ] {
        assert_eq!(value(&fixture, &SERVERS, code).await, expected, "{code}");
    }
    assert_eq!(value(&fixture, &[], "return typeof exa + typeof servers").await, json!("undefinedundefined"));
}

#[tokio::test]
async fn a_spelling_of_two_names_is_refused_and_says_what_to_write() {
    let fixture = with_tools(&["a-b.x", "a_b.x", "one.get-it", "one.get_it", "one.other"]).await;
    let ambiguous = error(&fixture, &SERVERS, "return a_b.x({})").await;
    let text = "TypeError: this could be the server \"a-b\" or \"a_b\"; say which: mcp.call(\"a-b.tool\", args)";
    assert_eq!((ambiguous.code.as_str(), ambiguous.message.as_str()), ("EVAL_ERROR", text));
    let ambiguous = error(&fixture, &SERVERS, "return one.get_it({})").await;
    let text = "Error: this could be the tool \"get-it\" or \"get_it\"; say which: mcp.call(\"one.get-it\", args)";
    assert_eq!(ambiguous.message, text);
    let code = "return one.get_it({}).catch((e) => e.code)";
    assert_eq!(value(&fixture, &SERVERS, code).await, json!("INVALID_TOOL_NAME"));
    for (code, expected) in [
        ("return servers['a-b'].x({})", "a-b.x"),
        ("return one['get-it']({})", "one.get-it"),
        ("return one.other({})", "one.other"),
        ("return mcp.call('a_b.x')", "a_b.x"),
    ] {
        assert_eq!(value(&fixture, &SERVERS, code).await[0], json!(expected), "{code}");
    }
}

#[tokio::test]
async fn only_what_the_execution_may_call_is_there() {
    let fixture = with_tools(&["exa.search", "exa.buy", "bank.pay"]).await;
    let request = host_client::ExecuteRequest::new("return [Object.keys(servers), Object.keys(exa), typeof bank]");
    let outcome = fixture.run_request(request.bindings(SERVERS).tools(["exa.search"])).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!([["exa"], ["search"], "undefined"]));
    // A token that knows less: the same.
    let tools = Tools::new();
    for name in ["exa.search", "bank.pay"] {
        tools.add_with(ToolSpec::new(name, "", json!({})), |_, _| std::future::pending()).unwrap();
    }
    let client =
        crate::support::connect_as(&fixture.relay, &["--subject", "s", "--tools", "exa.*"], tools).await.unwrap();
    let request = host_client::ExecuteRequest::new("return Object.keys(servers)").bindings(SERVERS);
    assert_eq!(client.run(request).await.unwrap().value().unwrap(), json!(["exa"]));
}
