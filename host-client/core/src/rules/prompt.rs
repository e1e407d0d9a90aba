//! The text of an approval's question, and the parsing of its answer, for any terminal or user interface.

mod layout;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::time::Duration;

use serde_json::Value;

use self::layout::{ARGUMENTS, Excerpt, code_excerpt, cut, numbered, wrapped};
use crate::text::shortened;
use crate::tool::Effect;

pub use crate::text::{Indented, indented, visible};

/// The fewest columns of a space.
const MIN_COLUMNS: usize = 40;
/// The fewest rows that arguments get, whatever the space.
const MIN_ARGUMENT_ROWS: usize = 10;
/// The fewest rows that the code gets, whatever the space.
const MIN_CODE_ROWS: usize = 7;
/// The rows of a question beside its arguments and its code.
const OTHER_ROWS: usize = 10;
/// The columns before a tool's name: a name that is cut does not reach the next row.
const COLUMNS_BESIDE_NAME: usize = 24;
/// The columns of the line with the rule beside the rule.
const COLUMNS_BESIDE_RULE: usize = 22;

/// The content of an approval's question.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The tool's full name.
    pub tool: &'a str,
    /// The tool's declared effect; `None`: undeclared.
    pub effect: Option<Effect>,
    /// The rule of the policy that requires the approval.
    pub rule: &'a str,
    /// The arguments that the tool gets if the call is approved.
    pub arguments: &'a Value,
    /// The code and the number of the line with the call, from 1; `None`: the code, or the line, is not known.
    pub script: Option<(&'a str, Option<usize>)>,
    /// The time that is left for an answer.
    pub remaining: Duration,
}

/// The space that a question may take: the size of a terminal, say. The default is 80 columns and 50 rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    columns: usize,
    rows: usize,
}

impl Default for Space {
    fn default() -> Self {
        Self { columns: 80, rows: 50 }
    }
}

impl Space {
    /// Creates a space. Fewer than 40 columns count as 40, and fewer than 10 rows as 10. In few rows, a question takes
    /// more than there are.
    pub fn new(columns: usize, rows: usize) -> Self {
        Self { columns: columns.max(MIN_COLUMNS), rows: rows.max(10) }
    }

    /// Returns the width of a row, in columns.
    pub fn columns(self) -> usize {
        self.columns
    }

    /// Returns the number of rows.
    pub fn rows(self) -> usize {
        self.rows
    }

    fn code_rows(self) -> usize {
        (self.rows / 3).max(MIN_CODE_ROWS)
    }

    fn argument_rows(self) -> usize {
        self.rows.saturating_sub(self.code_rows() + OTHER_ROWS).max(MIN_ARGUMENT_ROWS)
    }
}

/// A question as text; made by [`describe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The text. Each row ends with a line feed.
    pub text: String,
    /// `false`: a part of the tool's name, of the arguments or of the code is left out, and the text says so.
    pub is_whole: bool,
}

/// A person's answer to a [`Question`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Allows this call.
    Once,
    /// Allows all calls of this tool in this execution.
    Execution,
    /// Allows all calls of this tool in this session.
    Session,
    /// Asks to see [`whole`], and answers later.
    View,
    /// Denies this call.
    No,
}

/// Returns the question for a terminal, as text that ends where the answer is typed. Text of the code's choice stands
/// only after a bar (`|`, or `+` where a line goes on), or shortened in the names of tool and rule, and is escaped: it
/// cannot move the cursor, change the writing direction, or hide.
pub fn render(question: &Question<'_>, space: Space) -> String {
    let remaining = humantime::format_duration(Duration::from_secs(question.remaining.as_secs()));
    let mut text = describe(question, space, "v shows it").text;
    text += &format!("No answer within {remaining} is a no.\n");
    text += "[y] once  [e] tool, this execution  [s] tool, this session  [v] view all  [n] no\n";
    text += &format!("Run {}? ", fit_name(question.tool, space));
    text
}

/// Returns the question without time limit and answers, for a user interface that offers them in another way. `rest`
/// says how a person sees what is left out, such as `v shows it`.
pub fn describe(question: &Question<'_>, space: Space, rest: &str) -> Description {
    let Question { tool, rule, arguments, script, .. } = question;
    let name = fit_name(tool, space);
    let mut is_whole = name == visible(tool);
    let mut text = format!("The code wants to call {name} ({}).\n", effect_text(question.effect));
    if !is_whole {
        text += &format!("NOT ALL of the tool's name is shown: {rest}.\n");
    }
    text += &format!("The rule that asks: {}\n", cut(&visible(rule), space.columns - COLUMNS_BESIDE_RULE));
    text += "The arguments:\n";
    let (rows, are_whole) = argument_rows(arguments, space);
    text += &rows;
    if !are_whole {
        text += &format!("NOT ALL of the arguments is shown: {rest}. Say no unless you know the rest.\n");
    }
    is_whole &= are_whole;
    if let Some((code, at)) = script {
        let Excerpt { rows, line, is_whole: has_all, lines } = code_excerpt(code, *at, space);
        text += &match line {
            Some(line) => format!("Line {line} of the code calls it, as the relay says:\n"),
            None if has_all => "The code:\n".to_owned(),
            None => "The code begins:\n".to_owned(),
        };
        text += &rows;
        if !has_all {
            text += &format!("Not all {lines} lines of the code are shown: {rest}.\n");
        }
        is_whole &= has_all;
    }
    Description { text, is_whole }
}

/// Returns everything about the question, however long it is: the whole names of tool and rule, all arguments, all
/// code. Long lines go on in rows of at most `columns` columns, so that no row begins with text of the code's choice.
pub fn whole(question: &Question<'_>, columns: usize) -> String {
    let Question { tool, rule, arguments, script, .. } = question;
    let columns = columns.max(MIN_COLUMNS);
    let title = format!("The code wants to call {} ({}).", visible(tool), effect_text(question.effect));
    let mut text = wrapped("", &title, columns);
    text += &wrapped("", &format!("The rule that asks: {}", visible(rule)), columns);
    text += "The arguments:\n";
    text += &json_rows(arguments, columns);
    if let Some((code, at)) = script {
        text += "The code:\n";
        for (number, line) in (1..).zip(code.lines()) {
            text += &numbered(number, *at == Some(number), line, columns);
        }
    }
    text
}

/// Parses a typed answer. An empty one is [`Answer::No`]; `None`: it is not one of the answers, and the question has to
/// be asked again.
pub fn parse_answer(typed: &str) -> Option<Answer> {
    match typed.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(Answer::Once),
        "e" => Some(Answer::Execution),
        "s" => Some(Answer::Session),
        "v" => Some(Answer::View),
        "n" | "no" | "" => Some(Answer::No),
        _ => None,
    }
}

fn effect_text(effect: Option<Effect>) -> &'static str {
    match effect {
        None => "nobody said what it does",
        Some(Effect::ReadOnly) => "it changes nothing",
        Some(Effect::Mutating) => "it changes something",
        Some(Effect::Privileged) => "it can do what a person has to answer for",
    }
}

/// Returns the rows of the arguments' JSON that fit, and `true` if these are all. Of arguments that do not fit, long
/// members are shortened, so that they do not push out short ones.
fn argument_rows(arguments: &Value, space: Space) -> (String, bool) {
    let most = space.argument_rows();
    let room = most * space.columns;
    if arguments.to_string().len() <= room {
        let rows = json_rows(arguments, space.columns);
        if rows.matches('\n').count() <= most {
            return (rows, true);
        }
    }
    let mut rows = json_rows(&shortened(arguments, room), space.columns);
    if let Some((end, _)) = rows.match_indices('\n').nth(most - 1) {
        rows.truncate(end + 1);
    }
    (rows, false)
}

/// Returns a value's JSON, indented, in rows.
fn json_rows(value: &Value, columns: usize) -> String {
    format!("{value:#}").lines().map(|line| wrapped(ARGUMENTS, &visible(line), columns)).collect()
}

/// Escapes a tool's name, and cuts it so that the line with it fits.
fn fit_name(tool: &str, space: Space) -> String {
    cut(&visible(tool), space.columns - COLUMNS_BESIDE_NAME)
}
