//! Defines a task, and the usual way of doing one with programs.

use serde_json::{Value, json};

use crate::agent::Call;
use crate::scripted::{Answer, Script, Turns};

/// Spelling of tool calls in programs. All of them are written as [`Spelling::Call`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// `mcp.call("git.git_log", {…})`
    Call,
    /// `git.git_log({…})`, which needs the binding `servers`
    Server,
}

/// The spelling that is used.
const SPELLING: Spelling = Spelling::Server;
/// `true`: a model has to ask for the schemas before its first program, because the definition of `execute_code` has
/// only the names of the tools. It has the signatures of all of them; a test looks.
const ASKS_FOR_SCHEMAS: bool = false;

/// Nature of a task, which lets expect one of the ways to come off better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Many calls, or results that are far larger than the answer.
    Bulk,
    /// One or two calls are all it takes.
    Few,
    /// Somebody has to look and judge before it goes on.
    Judgement,
}

/// Something to find out or to do, with both ways of doing it.
pub struct Task {
    /// A short name, which the right answer has in the scene, too.
    pub name: &'static str,
    /// The question.
    pub question: &'static str,
    /// Nature of the task.
    pub kind: Kind,
    /// The servers whose tools it takes.
    pub servers: &'static [&'static str],
    /// A file of the scene that has to be the same afterwards, whichever way was taken.
    pub leaves: Option<&'static str>,
    pub(crate) by_tools: Script,
    pub(crate) by_programs: Script,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Kind {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Few => "few calls",
            Self::Judgement => "judgement",
        }
    }
}

/// Runs programs one after another; the last one's value is the answer.
///
/// The definition of `execute_code` says how tools are called. Where no schema says what a result looks like, the
/// first program looks at a small one, as a careful author would.
pub(crate) async fn programs(mut turns: Turns, tools: &[&str], programs: &[&str]) -> Answer {
    describe(&mut turns, tools).await?;
    let mut value = Value::Null;
    for code in programs {
        value = run(&mut turns, code).await?;
    }
    Ok(value)
}

/// The turn that asks how tools are called.
pub(crate) async fn describe(turns: &mut Turns, tools: &[&str]) -> anyhow::Result<()> {
    if ASKS_FOR_SCHEMAS {
        turns.call("describe_tools", json!({"names": tools})).await?;
    }
    Ok(())
}

/// The turn that runs a program. Gives what the program returned.
pub(crate) async fn run(turns: &mut Turns, code: &str) -> anyhow::Result<Value> {
    let text = turns.call("execute_code", json!({"code": spelled(code.trim_end(), SPELLING)})).await?;
    // What is no JSON is a string, which is shown as it is.
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// A call of a tool of the server of files, for one file.
pub(crate) fn read(path: &str) -> Call {
    Call::new("files.read_text_file", json!({"path": path}))
}

/// A call that reads many files of one folder.
pub(crate) fn read_all<'a>(folder: &str, names: impl IntoIterator<Item = &'a String>) -> Call {
    let paths: Vec<_> = names.into_iter().map(|name| format!("{folder}/{name}")).collect();
    Call::new("files.read_multiple_files", json!({"paths": paths}))
}

/// The names of the files in a listing of a folder.
pub(crate) fn names(listing: &str) -> Vec<String> {
    listing.lines().filter_map(|line| line.strip_prefix("[FILE] ")).map(str::to_owned).collect()
}

/// The files in what `read_multiple_files` gave: the names without folders, and the texts.
pub(crate) fn files(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\n---\n").filter_map(|file| {
        let (path, text) = file.split_once(":\n")?;
        Some((path.rsplit('/').next()?.trim(), text))
    })
}

/// A program in a spelling.
fn spelled(code: &str, spelling: Spelling) -> String {
    if spelling == Spelling::Call {
        return code.to_owned();
    }
    let mut parts = code.split("mcp.call(\"");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Our own programs name every tool in one string, and give arguments.
        let (tool, rest) = part.split_once("\", ").unwrap_or((part, ""));
        text += &format!("{}({rest}", tool.replace('-', "_"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_can_be_spelled_with_servers() {
        let code = "const a = await mcp.call(\"git.git_log\", {max_count: 2});\nreturn mcp.call(\"x.get-sum\", {});";
        let expected = "const a = await git.git_log({max_count: 2});\nreturn x.get_sum({});";
        assert_eq!(spelled(code, Spelling::Server), expected);
        assert_eq!(spelled(code, Spelling::Call), code);
    }
}
