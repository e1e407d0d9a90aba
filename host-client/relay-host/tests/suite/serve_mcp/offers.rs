//! Tools that the policy denies are not offered, or are offered with the reason.

use serde_json::{Value, json};

use super::raw::Raw;
use super::setup::Setup;

const POLICY: &str = "[default]\nunknown = \"allow\"\nmutating = \"allow\"\n\
                      [[rule]]\ntools = [\"fake.refuse\"]\ndecision = \"deny\"\nreason = \"it is for others\"\n";

async fn denying() -> (Setup, String) {
    let setup = Setup::new();
    let file = setup.path("policy.toml");
    std::fs::write(&file, POLICY).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (setup.option("--policy", &file), file)
}

/// The texts that the model is shown: the description of `execute_code`, the tools that are found, and one tool
/// described.
async fn shown(raw: &mut Raw) -> (String, Value, Value) {
    // From here on the server has started.
    raw.execute(1, "await mcp.call('fake.echo', {})").await;
    raw.answer(1).await;
    raw.send(json!({"id": 2, "method": "tools/list"})).await;
    let listed = raw.answer(2).await;
    let description = listed["result"]["tools"][0]["description"].as_str().unwrap().to_owned();
    let mut answers = Vec::new();
    for (id, tool, arguments) in
        [(3, "search_tools", json!({"query": "refuse"})), (4, "describe_tools", json!({"names": ["fake.refuse"]}))]
    {
        raw.send(json!({"id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})).await;
        answers.push(raw.answer(id).await["result"]["structuredContent"]["tools"].take());
    }
    let described = answers.pop().unwrap();
    (description, answers.pop().unwrap(), described)
}

#[tokio::test]
async fn a_denied_tool_is_not_offered() {
    let (setup, _) = denying().await;
    let mut raw = Raw::start(&setup).await;
    let (description, found, described) = shown(&mut raw).await;
    assert!(description.contains("\nfake.echo(") && !description.contains("fake.refuse"), "{description}");
    assert!(!found.to_string().contains("fake.refuse"), "{found}");
    let error = described[0]["error"].as_str().unwrap();
    assert!(error.contains("denied") && error.contains("it is for others"), "{described}");
    // Code that calls it all the same is told why it fails.
    raw.execute(5, "try { await fake.refuse({}) } catch (e) { return [e.code, e.message] }").await;
    let answer = raw.answer(5).await;
    let thrown = &answer["result"]["structuredContent"]["result"];
    assert!(thrown[0] == "TOOL_DENIED" && thrown[1].as_str().unwrap().contains("it is for others"), "{answer}");
}

#[tokio::test]
async fn a_denied_tool_is_shown_with_the_reason_if_that_is_wanted() {
    let (setup, _) = denying().await;
    let mut raw = Raw::start(&setup.flag("--show-denied")).await;
    let (description, found, described) = shown(&mut raw).await;
    let line = description.lines().find(|line| line.starts_with("fake.refuse(")).unwrap();
    assert!(line.contains("Not allowed: it is for others"), "{line}");
    assert_eq!(found[0]["name"], "fake.refuse", "{found}");
    assert!(described.to_string().contains("fake.refuse"), "{described}");
}

#[tokio::test]
async fn a_phase_offers_only_what_it_lets_code_call() {
    let (setup, policy) = denying().await;
    let code = "const names = (await mcp.search('fake')).map((tool) => tool.name); \
                const all = Object.keys((await mcp.call('mcp.interfaces', {})).fake); \
                const denied = await mcp.describe('fake.writes').catch((e) => e.code + ': ' + e.message); \
                return {names, all, denied}";
    let file = setup.path("code.js");
    std::fs::write(&file, code).unwrap();
    let mcp = setup.path("mcp.json");
    let arguments = ["run", file.to_str().unwrap(), "--mcp", mcp.to_str().unwrap(), "--policy", &policy];
    let mut command = tokio::process::Command::new(super::setup::RELAY_HOST);
    command.args(arguments).args(["--phase", "discover"]).env("XDG_CACHE_HOME", setup.path("cache"));
    let output = super::within(command.output()).await.unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    // Only `fake.reads` says that it reads.
    assert_eq!((&value["names"], &value["all"]), (&json!(["fake.reads"]), &json!(["reads"])), "{value}");
    assert!(value["denied"].as_str().unwrap().starts_with("TOOL_DENIED: "), "{value}");
}
