//! `policy`: checks a policy against the tools that there are, and explains its decision about one tool.

use host_client::{Decision, Explanation, Host, ManifestChange, PolicyPattern, ToolBudget};
use serde_json::{Value, json};

use crate::args::{HostArgs, PolicyArgs, PolicyCommand};
use crate::exit::{FAILED, Failure};
use crate::interrupt::Interrupts;
use crate::output::{inline, note, print, print_json};
use crate::progress::Progress;
use crate::setup::Setup;
use crate::warnings::warnings;

/// Runs the command.
pub(crate) async fn policy(args: PolicyArgs, progress: &Progress) -> Result<(), Failure> {
    let host_args = match &args.command {
        PolicyCommand::Check { host, .. } | PolicyCommand::Explain { host, .. } => host,
    };
    // The command prints warnings itself.
    let setup = Interrupts::new()?.during(Setup::without_warnings(host_args, progress)).await?;
    let ended = match &args.command {
        PolicyCommand::Check { json, .. } => check(&setup, host_args, *json),
        PolicyCommand::Explain { tool, phase, json, .. } => {
            explain(&setup.host, tool, phase.map(Into::into)).and_then(|it| show(tool, &setup.host, &it, *json))
        }
    };
    setup.close().await;
    ended
}

/// Prints each pattern with the number of tools that it fits, and the warnings. With warnings, the status is 1.
fn check(setup: &Setup, args: &HostArgs, json: bool) -> Result<(), Failure> {
    let patterns = setup.host.policy_patterns();
    let warnings = warnings(&setup.host, &args.redact, &setup.missing_servers());
    if json {
        let patterns = patterns.iter().map(|it| json!({"place": it.place, "pattern": it.pattern, "tools": it.tools}));
        let patterns: Vec<_> = patterns.collect();
        print_json(&json!({"patterns": patterns, "warnings": warnings}).to_string())?;
    } else {
        print(table(&patterns).trim_end())?;
        for warning in &warnings {
            note(&format!("warning: {}", inline(warning)));
        }
    }
    if warnings.is_empty() { Ok(()) } else { Err(Failure::printed(FAILED)) }
}

/// Formats the patterns below the rule or entry that has them.
fn table(patterns: &[PolicyPattern]) -> String {
    if patterns.is_empty() {
        return "the policy names no tools: their effects alone decide".into();
    }
    let width = patterns.iter().map(|it| it.pattern.chars().count()).max().unwrap_or_default();
    let (mut text, mut place) = (String::new(), "");
    for PolicyPattern { place: at, pattern, tools, .. } in patterns {
        if place != at {
            text += &format!("{}\n", inline(at));
            place = at;
        }
        let tools = match tools {
            0 => "no tool".to_owned(),
            1 => "1 tool".to_owned(),
            tools => format!("{tools} tools"),
        };
        text += &format!("  {pattern:width$}  {tools}\n");
    }
    text
}

/// Explains the decision about a tool.
///
/// # Errors
/// There is no such tool; the message names the one that may have been meant.
fn explain(host: &Host, tool: &str, phase: Option<host_client::Phase>) -> Result<Explanation, Failure> {
    host.explain(tool, phase).ok_or_else(|| {
        let unknown = host.tools().describe(tool).err();
        Failure::usage(unknown.map_or_else(|| format!("there is no tool {tool:?}"), |error| error.to_string()))
    })
}

/// Prints an explanation.
fn show(tool: &str, host: &Host, explained: &Explanation, json: bool) -> Result<(), Failure> {
    let (decision, reason) = match &explained.ruling.decision {
        Decision::Allow => ("allow", None),
        Decision::Ask => ("ask", None),
        Decision::Deny { reason } => ("deny", Some(reason.as_str())),
    };
    let effect = host.tools().spec(tool).and_then(|spec| spec.manifest.effect).map(|effect| effect.as_str());
    if json {
        let manifests: Vec<_> = explained.manifests.iter().map(|(at, change)| json!([at, changed(change)])).collect();
        let budgets: Vec<_> = explained.budgets.iter().map(|(at, budget)| json!([at, budgeted(budget)])).collect();
        let object = json!({
            "tool": tool, "effect": effect, "decision": decision, "reason": reason, "because": &*explained.ruling.rule,
            "rules": explained.rules.iter().map(|rule| &**rule).collect::<Vec<_>>(), "manifests": manifests, "budgets": budgets,
        });
        return print_json(&object.to_string());
    }
    let mut lines = vec![("tool", tool.to_owned()), ("effect", effect.unwrap_or("unknown").to_owned())];
    lines.push(("decision", reason.map_or_else(|| decision.to_owned(), |reason| format!("{decision}: {reason}"))));
    lines.push(("because", explained.ruling.rule.to_string()));
    let others = explained.rules.iter().filter(|rule| **rule != explained.ruling.rule);
    lines.extend(others.map(|rule| ("also fits", rule.to_string())));
    let manifests = explained.manifests.iter().map(|(at, change)| ("manifest", format!("{at}: {}", changed(change))));
    lines.extend(manifests);
    lines.extend(explained.budgets.iter().map(|(at, budget)| ("budget", format!("{at}: {}", budgeted(budget)))));
    let lines: Vec<_> = lines.iter().map(|(name, text)| format!("{name:9}  {}", inline(text))).collect();
    print(&lines.join("\n"))
}

/// Returns the fields of a change that are set.
fn changed(change: &ManifestChange) -> Value {
    let ManifestChange { effect, timeout_ms, result_bytes, overflow, concurrency, callable_from_code, idempotent } =
        change;
    without_null(json!({
        "effect": effect, "timeout_ms": timeout_ms, "result_bytes": result_bytes, "overflow": overflow,
        "concurrency": concurrency, "callable_from_code": callable_from_code, "idempotent": idempotent,
    }))
}

/// Returns the limits of a budget that are set.
fn budgeted(budget: &ToolBudget) -> Value {
    without_null(json!({"calls": budget.calls, "bytes_read": budget.bytes_read}))
}

fn without_null(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}
