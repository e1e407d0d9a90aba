//! Slips of authors, put into the programs of the tasks one at a time: the runs that fail, and those of them that the
//! check refuses before anything runs.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use serde::Serialize;

use crate::agent::{Call, Definition, Observation, RunEnd, Toolbox};

/// Slip in the last tool call of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slip {
    /// Two letters of the tool's name have changed places.
    Tool,
    /// The name of the first argument has a letter too many.
    Argument,
    /// The last `await` is left out.
    Await,
}

/// All slips.
pub const SLIPS: [Slip; 3] = [Slip::Tool, Slip::Argument, Slip::Await];

/// Runs of programs with one slip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SlipRuns {
    /// Name of the slip.
    pub slip: &'static str,
    /// Number of programs that were run with it.
    pub runs: u64,
    /// Number of runs that failed, or that the check refused.
    pub failed: u64,
    /// Number of runs that the check refused before anything ran.
    pub refused: u64,
}

impl Slip {
    /// Returns the words for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "a misspelled tool",
            Self::Argument => "a misspelled argument",
            Self::Await => "an await left out",
        }
    }

    /// Puts the slip into a program that calls tools of these servers. `None`: there is no place for it.
    pub(crate) fn put_into(self, code: &str, servers: &[&str]) -> Option<String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // Places of `server.tool({`, as the study's own programs write calls.
        let call = code.rmatch_indices("({").map(|(open, _)| open).find_map(|open| {
            let before = &code[..open];
            let tool = before.rfind(|c| !is_name(c)).map_or(0, |at| at + 1);
            let server = before[..tool].strip_suffix('.')?;
            let is_server = servers
                .iter()
                .any(|name| server.strip_suffix(name).is_some_and(|rest| !rest.ends_with(|c| is_name(c) || c == '.')));
            is_server.then_some((tool, open))
        });
        let (tool, open) = call?;
        match self {
            Self::Tool => {
                let name = &code[tool..open];
                let at =
                    (1..name.len().saturating_sub(1)).find(|at| name.as_bytes()[*at] != name.as_bytes()[at + 1])?;
                let swapped = [&name[..at], &name[at + 1..at + 2], &name[at..=at], &name[at + 2..]].concat();
                Some([&code[..tool], &swapped, &code[open..]].concat())
            }
            Self::Argument => {
                let start = open + "({".len();
                let rest = &code[start..];
                let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(0)];
                let behind = &rest[name.len()..];
                let value = if behind.starts_with(':') { String::new() } else { format!(": {name}") };
                (!name.is_empty()).then(|| [&code[..start], name, "s", &value, behind].concat())
            }
            Self::Await => {
                let at = code.rfind("await ")?;
                Some([&code[..at], &code[at + "await ".len()..]].concat())
            }
        }
    }
}

impl SlipRuns {
    /// Counts nothing yet.
    pub(crate) fn new(slip: Slip) -> Self {
        Self { slip: slip.as_str(), runs: 0, failed: 0, refused: 0 }
    }

    pub(crate) fn count(&mut self, end: Option<RunEnd>) {
        self.runs += 1;
        self.failed += u64::from(end != Some(RunEnd::Done));
        self.refused += u64::from(end == Some(RunEnd::Refused));
    }
}

/// Toolbox that keeps the programs that go through it.
pub(crate) struct Recorder<'t> {
    pub(crate) toolbox: &'t dyn Toolbox,
    codes: Mutex<Vec<String>>,
}

impl<'t> Recorder<'t> {
    pub(crate) fn new(toolbox: &'t dyn Toolbox) -> Self {
        Self { toolbox, codes: Mutex::default() }
    }

    pub(crate) fn into_codes(self) -> Vec<String> {
        self.codes.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Toolbox for Recorder<'_> {
    fn definitions(&self) -> &[Definition] {
        self.toolbox.definitions()
    }

    async fn call(&self, call: &Call) -> Observation {
        if let Some(code) = call.arguments["code"].as_str() {
            self.codes.lock().unwrap_or_else(PoisonError::into_inner).push(code.to_owned());
        }
        self.toolbox.call(call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_put_into_the_last_call_of_a_tool() {
        let code = "const a = await git.git_log({n: 1});\nreturn a.map(({b}) => files.read_text_file({path}))";
        let put = SLIPS.map(|slip| slip.put_into(code, &["git", "files"]));
        let expected = [
            code.replace("read_text_file", "raed_text_file"),
            code.replace("({path})", "({paths: path})"),
            code.replace("await ", ""),
        ];
        assert_eq!(put, expected.map(Some));
        assert_eq!(Slip::Argument.put_into(code, &["git"]), Some(code.replace("{n:", "{ns:")));
        assert_eq!(Slip::Tool.put_into("return [1].map(({a}) => a.git({}))", &["git"]), None);
    }
}
