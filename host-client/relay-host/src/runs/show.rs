//! Prints runs of a journal, for a person or as JSON.

use std::time::{Duration, UNIX_EPOCH};

use host_client::durable::RunHead;
use host_client::prompt::indented;
use host_client::runs::{self, CallSummary, QuestionState, RunSummary};
use host_client::{Journal, RunId, RunStatus};
use relay_proto::time::now_ms;
use serde_json::{Value, json};

use super::find::find;
use crate::exit::Failure;
use crate::output::{inline, plain, print, print_json};

/// Maximum length of a result in the text for people, in characters. JSON has it whole.
const MAX_SHOWN: usize = 2_000;

/// Maximum size of arguments that are indented, in bytes. Larger ones are printed in one line.
const MAX_INDENTED_BYTES: usize = 4 << 20;
/// Maximum number of lines of arguments that are indented.
const MAX_INDENTED_LINES: usize = 20_000;
/// Last ms of the year 9999, since 1970. No later time can be written.
const LAST_MS: u64 = 253_402_300_799_999;

/// Prints one run.
pub(super) async fn show(journal: &dyn Journal, name: &str, json: bool) -> Result<(), Failure> {
    let id = find(journal, name).await?;
    let summary = runs::show(journal, &id).await?;
    if json { print_json(&summary_json(&summary).to_string()) } else { print(&text(&summary)) }
}

/// Returns `true` if a process goes on with the run.
pub(crate) fn is_held(head: &RunHead) -> bool {
    head.claim.as_ref().is_some_and(|claim| claim.until_ms > now_ms())
}

/// Formats a run as one line of a list.
pub(super) fn head_line(head: &RunHead) -> String {
    let held = if is_held(head) { ", in a process" } else { "" };
    let held = if head.status == RunStatus::Ended { "" } else { held };
    format!("{}  {}  {}{held}", head.id, time(head.created_ms), head.status.as_str())
}

/// Returns a run as one object of a list.
pub(super) fn head_json(head: &RunHead) -> Value {
    json!({
        "run": head.id.as_str(),
        "status": head.status.as_str(),
        "created_ms": head.created_ms,
        "changed_ms": head.changed_ms,
        "held": is_held(head),
    })
}

fn summary_json(summary: &RunSummary) -> Value {
    let error = summary.error.as_ref().map(|(code, message)| json!({"code": code, "message": message}));
    json!({
        "run": summary.head.id.as_str(),
        "status": summary.head.status.as_str(),
        "created_ms": summary.head.created_ms,
        "changed_ms": summary.head.changed_ms,
        "held": is_held(&summary.head),
        "attempts": summary.attempts,
        "code": summary.code,
        "calls": summary.calls,
        "waiting_for_approval": summary.waiting(),
        "cancelled": summary.instructed.contains(&0),
        "result": summary.result,
        "error": error,
    })
}

/// Formats a run for a person.
fn text(summary: &RunSummary) -> String {
    let RunSummary { head, code, calls, attempts, .. } = summary;
    let mut text = format!("run       {}\nstatus    {}", head.id, head.status.as_str());
    let is_over = head.status == RunStatus::Ended;
    if !is_over {
        text += if is_held(head) { ", in a process" } else { ", in no process" };
        text += if summary.instructed.contains(&0) { ", to be cancelled" } else { "" };
    }
    text += &format!("\nbegan     {}\nchanged   {}", time(head.created_ms), time(head.changed_ms));
    text += &format!("\nattempts  {attempts}\ncode\n");
    text.extend(plain(code).lines().map(|line| format!("  | {line}\n")));
    for call in calls {
        text += &call_text(call, summary.question(call), &head.id);
    }
    if let Some(result) = &summary.result {
        text += &format!("result    {}\n", shortened(result));
    }
    if let Some((code, message)) = &summary.error {
        text += &format!("error     {}: {}\n", inline(code), inline(message));
    }
    let is_shortened = |number: &u64| calls.iter().any(|call| call.call == *number && call.is_shortened);
    for call in summary.waiting().into_iter().filter(|call| !is_shortened(call)) {
        text += &format!("relay-host runs approve {} {call}\n", head.id);
    }
    text.trim_end().to_owned()
}

/// Formats a call with the state of its question.
fn call_text(call: &CallSummary, question: Option<QuestionState>, run: &RunId) -> String {
    let state = question.map_or(call.state, QuestionState::as_str);
    let mut text = format!("call {}  {}: {}", call.call, inline(&call.tool), state.replace('_', " "));
    if let Some(by) = &call.decided_by {
        text += &format!(", decided by {}", inline(by));
    }
    if let Some(until_ms) = call.until_ms.filter(|_| question == Some(QuestionState::Open)) {
        text += &format!(" until {}", time(until_ms));
    }
    text.push('\n');
    if let Some(rule) = &call.rule {
        text += &format!("  rule       {}\n", inline(rule));
    }
    if let Some(arguments) = &call.arguments {
        // All of them: a person decides by them.
        let json = indented(arguments, MAX_INDENTED_BYTES, MAX_INDENTED_LINES);
        let arguments = if json.is_shortened { arguments.to_string() } else { json.text };
        text.extend(arguments.lines().map(|line| format!("  | {}\n", inline(line))));
    }
    if call.is_shortened {
        text += "  The arguments are over 2 MiB, and shortened here: the journal has no more of them.\n";
        if question == Some(QuestionState::Open) {
            text += &format!(
                "  To approve them, go on with the run at a terminal, which shows the whole: relay-host runs resume {run}\n"
            );
        }
    }
    text
}

/// Formats a value as one line, cut if it is long.
fn shortened(value: &Value) -> String {
    let json = value.to_string();
    match json.char_indices().nth(MAX_SHOWN) {
        Some((at, _)) => format!("{}… (cut; --json shows all)", inline(&json[..at])),
        None => inline(&json).into_owned(),
    }
}

/// Formats a time, in UTC.
fn time(ms: i64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or_default().min(LAST_MS));
    humantime::format_rfc3339_seconds(at).to_string()
}
