//! The tool calls of an execution that ended with an error, by tool and by how they ended.

use std::fmt;

use crate::text::{short_name, visible};
use crate::tool::Effect;

/// The maximum number of groups that are kept.
const MAX_GROUPS: usize = 64;
/// The maximum number of tools that a text names for each way to end.
const MAX_NAMES: usize = 8;

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallEnd {
    /// The tool returned a result.
    Finished,
    /// The tool ran, and the call failed. The tool may have changed something before.
    Failed,
    /// The tool did not run: the call was denied, did not fit, or was stopped before.
    NotRun,
    /// The tool ran, and nobody knows what it did: it was stopped, or its time was up.
    Unknown,
}

/// Tool calls of one tool that ended in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallGroup {
    /// The tool's full name as the code wrote it; there may be no such tool.
    pub tool: String,
    /// The effect of the tool; `None`: there is no such tool, or it does not declare one.
    pub effect: Option<Effect>,
    /// How the calls ended.
    pub end: CallEnd,
    /// The number of calls.
    pub count: u64,
}

impl CallGroup {
    /// Tells whether the calls may have changed something.
    pub fn may_have_changed(&self) -> bool {
        self.end != CallEnd::NotRun && self.effect != Some(Effect::ReadOnly)
    }

    /// Returns how much it matters to know of these calls; the groups that matter least are left out first.
    fn weight(&self) -> u8 {
        match (self.may_have_changed(), self.end) {
            (true, CallEnd::Unknown) => 3,
            (true, _) => 2,
            (false, CallEnd::NotRun) => 0,
            (false, _) => 1,
        }
    }
}

/// The tool calls of an execution, in groups of the same tool and end, and in the order in which the first call of each
/// group ended.
///
/// As a text it says what was done, for a person or a model: `2 calls finished (files.read ×2), 1 has an unknown
/// outcome (bank.pay)`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    groups: Vec<CallGroup>,
    left_out: u64,
}

impl Calls {
    /// Returns the groups, at most 64. If there are more, those are left out first whose calls did not run, then those
    /// that only read.
    pub fn groups(&self) -> &[CallGroup] {
        &self.groups
    }

    /// Returns the number of calls that are in none of the groups.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the number of calls.
    pub fn count(&self) -> u64 {
        self.groups.iter().map(|group| group.count).sum::<u64>() + self.left_out
    }

    /// Tells whether there were no calls.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Returns the groups of calls that may have changed something and whose outcome nobody knows.
    pub fn unknown(&self) -> impl Iterator<Item = &CallGroup> {
        self.groups.iter().filter(|group| group.end == CallEnd::Unknown && group.may_have_changed())
    }

    /// Adds a call that has ended.
    pub(crate) fn add(&mut self, tool: &str, effect: Option<Effect>, end: CallEnd) {
        let tool = short_name(tool);
        let same = |group: &&mut CallGroup| group.tool == tool && group.effect == effect && group.end == end;
        if let Some(group) = self.groups.iter_mut().find(same) {
            group.count += 1;
            return;
        }
        let group = CallGroup { tool: tool.to_owned(), effect, end, count: 1 };
        if self.groups.len() == MAX_GROUPS {
            let least =
                self.groups.iter().enumerate().min_by_key(|(_, it)| it.weight()).map(|(at, it)| (at, it.weight()));
            match least {
                Some((at, weight)) if weight < group.weight() => self.left_out += self.groups.remove(at).count,
                _ => {
                    self.left_out += 1;
                    return;
                }
            }
        }
        self.groups.push(group);
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no calls");
        }
        let mut separator = "";
        for end in [CallEnd::Finished, CallEnd::Failed, CallEnd::NotRun, CallEnd::Unknown] {
            let groups: Vec<_> = self.groups.iter().filter(|group| group.end == end).collect();
            let count: u64 = groups.iter().map(|group| group.count).sum();
            if count == 0 {
                continue;
            }
            let calls = if separator.is_empty() { if count == 1 { " call" } else { " calls" } } else { "" };
            let what = match (end, count) {
                (CallEnd::Finished, _) => "finished",
                (CallEnd::Failed, _) => "failed",
                (CallEnd::NotRun, _) => "did not run",
                (CallEnd::Unknown, 1) => "has an unknown outcome",
                (CallEnd::Unknown, _) => "have an unknown outcome",
            };
            let names: Vec<_> = groups.iter().take(MAX_NAMES).map(|group| named(group)).collect();
            let more = groups.len().saturating_sub(MAX_NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            write!(f, "{separator}{count}{calls} {what} ({}{more})", names.join(", "))?;
            separator = ", ";
        }
        if self.left_out > 0 {
            write!(f, "{separator}{} more are not listed", self.left_out)?;
        }
        Ok(())
    }
}

/// Returns a tool with the number of its calls, such as `files.read ×2`.
fn named(group: &CallGroup) -> String {
    let tool = visible(&group.tool);
    if group.count == 1 { tool.into_owned() } else { format!("{tool} ×{}", group.count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ended: impl IntoIterator<Item = (String, Effect, CallEnd)>) -> Calls {
        let mut calls = Calls::default();
        ended.into_iter().for_each(|(tool, effect, end)| calls.add(&tool, Some(effect), end));
        calls
    }

    #[test]
    fn the_text_says_what_was_done() {
        assert_eq!(Calls::default().to_string(), "no calls");
        let of = |tool: &str, end| (tool.to_owned(), Effect::Mutating, end);
        let some = [
            of("files.read", CallEnd::Finished),
            of("bank.pay", CallEnd::Unknown),
            of("files.read", CallEnd::Finished),
        ];
        assert_eq!(calls(some).to_string(), "2 calls finished (files.read ×2), 1 has an unknown outcome (bank.pay)");
        let odd = [of("a.\u{1b}[31m", CallEnd::NotRun), of("b.c", CallEnd::Failed)];
        assert_eq!(calls(odd).to_string(), "1 call failed (b.c), 1 did not run (a.\\u{1b}[31m)");
        let many = (0..10).map(|number| of(&format!("a.b{number}"), CallEnd::Finished));
        let text = calls(many).to_string();
        assert!(text.starts_with("10 calls finished (a.b0, ") && text.ends_with("a.b7 and 2 more)"), "{text}");
    }

    #[test]
    fn calls_that_may_have_changed_something_are_left_out_last() {
        let noise = (0..100).map(|number| (format!("no.tool{number}"), Effect::ReadOnly, CallEnd::NotRun));
        let pay = (0..70).map(|number| (format!("bank.pay{number}"), Effect::Mutating, CallEnd::Finished));
        let unknown = [("bank.close".to_owned(), Effect::Mutating, CallEnd::Unknown)];
        let calls = calls(noise.chain(pay).chain(unknown));
        assert_eq!((calls.groups().len(), calls.count()), (MAX_GROUPS, 171));
        assert!(calls.groups().iter().all(CallGroup::may_have_changed));
        assert_eq!(calls.unknown().map(|group| &*group.tool).collect::<Vec<_>>(), ["bank.close"]);
        assert!(calls.to_string().ends_with(&format!("{} more are not listed", 171 - 64)));
    }
}
