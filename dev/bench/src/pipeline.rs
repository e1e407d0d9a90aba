//! Measures what a call costs on the host: without any extras, and with rules, both schemas, an audit in a file and a
//! watcher.

use std::time::Instant;

use anyhow::Context as _;
use host_client::bench::HostSide;
use host_client::{Audit, AuditConfig, Effect, Host, Policy, ToolSpec, Tools};
use serde_json::json;

use crate::report::{Table, Times, micros};

/// Registers a tool like those of MCP servers, with a schema for its arguments and, if wanted, one for its result.
fn tools(checks_result: bool) -> anyhow::Result<Tools> {
    let tools = Tools::new();
    let input = json!({
        "type": "object",
        "properties": {
            "owner": {"type": "string", "minLength": 1},
            "repo": {"type": "string"},
            "state": {"enum": ["open", "closed", "all"]},
            "labels": {"type": "array", "items": {"type": "string"}},
            "page": {"type": "integer", "minimum": 1},
        },
        "required": ["owner", "repo"],
        "additionalProperties": false,
    });
    let output = json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "title": {"type": "string"}, "open": {"type": "boolean"}},
            "required": ["id", "title", "open"],
        },
    });
    let mut spec = ToolSpec::new("github.list_issues", "Lists issues", input).effect(Effect::ReadOnly);
    if checks_result {
        spec = spec.output_schema(output);
    }
    let issues: Vec<_> = (0..5).map(|id| json!({"id": id, "title": "Something does not work", "open": true})).collect();
    let answer = serde_json::to_vec(&issues)?;
    tools.add_with(spec, move |_, _| std::future::ready(Ok(answer.clone().into())))?;
    Ok(tools)
}

pub(crate) async fn pipeline(scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("relay-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut policy = Policy::new();
    for server in ["git", "fs", "bank", "mail", "web", "db", "chat", "cloud", "build", "deploy"] {
        policy = policy.deny([format!("{server}.delete_*")], "nothing is deleted").ask([format!("{server}.write_*")]);
    }
    let audit = Audit::open(AuditConfig::new(folder.join("audit.jsonl")))?;
    let mut bare = HostSide::open(Host::new(tools(false)?))?;
    let mut whole = HostSide::open(Host::new(tools(true)?).policy(policy).audit(audit))?;
    let mut events = whole.events();
    let watching = tokio::spawn(async move {
        let mut seen = 0_usize;
        while events.next().await.is_some() {
            seen += 1;
        }
        seen
    });
    let arguments =
        json!({"owner": "someone", "repo": "something", "state": "open", "labels": ["bug", "help"], "page": 3});
    let arguments = bytes::Bytes::from(arguments.to_string());
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..200 / scale {
        for (side, times) in [&mut bare, &mut whole].into_iter().zip(&mut times) {
            for _ in 0..50 {
                let started = Instant::now();
                let answer = side.call("github.list_issues", arguments.clone()).await.context("no answer")?;
                anyhow::ensure!(answer.success, "{}", answer.error);
                // The first rounds are slower: caches are cold.
                if round > 1 {
                    times.push(started.elapsed());
                }
            }
        }
    }
    drop(whole);
    anyhow::ensure!(watching.await? > 0, "nobody saw anything");
    std::fs::remove_dir_all(&folder)?;
    let [bare, whole] = times.map(|times| micros(Times::new(times).median()));
    table.note("one call on the host, bare, p50", format!("{bare:.1} µs"));
    table.at_most("what rules, both schemas, audit and events add to it, p50", whole - bare, 30.0, "µs");
    Ok(())
}
