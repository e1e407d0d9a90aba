//! The code of an execution as it is recorded. Where code is one call with literal arguments, the redactions of the
//! arguments apply to the code as well.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::arguments::MAX_REDACTABLE_BYTES;
use super::redact::REDACTED;
use super::redactions::Redactions;
use super::{CodeRecord, MAX_CODE_BYTES};
use crate::hash::Hash;

/// The code of an execution as the log contains it.
pub(super) struct RecordedCode<'a> {
    /// The code, or its redacted form.
    text: Cow<'a, str>,
    /// `false`: the text is too large, or only its hash is to be recorded.
    is_text_recorded: bool,
    /// The reason why the record does not contain the code as it was; `None`: it does, or it has only the hash.
    pub(super) note: Option<CodeNote>,
}

/// The reason why a record does not contain the code as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CodeNote {
    /// It is one call of a tool that has redactions. The record contains the call as JSON, and the hash of that.
    Redacted,
    /// It is one call that redactions apply to, and too large to be searched. The record contains no code, and the hash
    /// of the tool's name alone.
    TooLargeToRedact,
}

/// A call with literal arguments that is all that some code does.
struct OnlyCall {
    /// The tool's full name; empty if it is not certain, so that all redactions apply.
    tool: String,
    arguments: Value,
}

impl<'a> RecordedCode<'a> {
    pub(super) fn new(code: &'a str, record: CodeRecord, redactions: &Redactions) -> Self {
        let (text, note) = redacted(code, redactions);
        let is_text_recorded =
            record == CodeRecord::Full && code.len() <= MAX_CODE_BYTES && note != Some(CodeNote::TooLargeToRedact);
        Self { text, is_text_recorded, note }
    }

    /// Computes the SHA-256 of the code, or of its redacted form: that of the code itself would let a secret be guessed.
    pub(super) fn hash(&self) -> Hash {
        Hash::of(self.text.as_bytes())
    }

    /// Returns the code to record; `None`: it is too large, or only its hash is to be recorded.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        self.is_text_recorded.then_some(self.text)
    }
}

/// Returns code with the redactions applied, if it is one call of a tool that has redactions.
fn redacted<'a>(code: &'a str, redactions: &Redactions) -> (Cow<'a, str>, Option<CodeNote>) {
    let call = (!redactions.are_none()).then(|| only_call(code)).flatten();
    let Some(OnlyCall { tool, arguments }) = call.filter(|call| redactions.apply_to(&call.tool)) else {
        return (code.into(), None);
    };
    if code.len() > MAX_REDACTABLE_BYTES {
        return (tool.into(), Some(CodeNote::TooLargeToRedact));
    }
    // Written anew even if nothing is selected: a comment or a member that stands twice may hold the secret, too.
    let call = serde_json::json!({"tool": tool, "arguments": redactions.redact(&tool, &arguments)});
    (call.to_string().into(), Some(CodeNote::Redacted))
}

/// Reads code that is one call with literal arguments, as JSON or as JavaScript; `None`: it does more, or nothing.
fn only_call(code: &str) -> Option<OnlyCall> {
    written(code).or_else(|| literal(code))
}

/// Reads `{"tool": …, "arguments": …}`, alone or in a fence. An object with other members is no call and is not run, but
/// it is recorded: its arguments are taken as redacted in whole.
fn written(code: &str) -> Option<OnlyCall> {
    let text = code.trim();
    let inside = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    let text = inside.and_then(|inside| inside.strip_suffix("```")).unwrap_or(text).trim();
    let Value::Object(mut members) = serde_json::from_str(text).ok()? else { return None };
    let tool = members.get("tool")?.as_str()?.to_owned();
    let arguments = members.remove("arguments");
    let is_call = members.len() == 1;
    let arguments = if is_call { arguments.unwrap_or_default() } else { REDACTED.into() };
    Some(OnlyCall { tool, arguments })
}

/// Reads JavaScript whose syntax tree is one call with literal arguments.
#[cfg(feature = "short-path")]
fn literal(code: &str) -> Option<OnlyCall> {
    use relay_script::{Callee, Shortcut, shortcut};
    let Shortcut::Call(call) = shortcut(code)? else { return None };
    let tool = match call.callee {
        Callee::Named(name) => name,
        // An underscore may stand for a character that is not allowed in an identifier.
        Callee::Member { server, tool } if !server.contains('_') && !tool.contains('_') => format!("{server}.{tool}"),
        Callee::Member { .. } => String::new(),
    };
    Some(OnlyCall { tool, arguments: serde_json::from_slice(&call.arguments.to_json()).ok()? })
}

/// Without the feature `short-path`, JavaScript is not parsed on the host.
#[cfg(not(feature = "short-path"))]
fn literal(_code: &str) -> Option<OnlyCall> {
    None
}
