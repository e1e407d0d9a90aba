//! The text of an approval's question, and the parsing of its answer, for any terminal or user interface.

use std::time::Duration;

use serde_json::Value;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::text::shortened;
use crate::tool::Effect;

pub use crate::text::visible;

/// The most lines of the arguments' JSON that are shown.
const MAX_ARGUMENT_LINES: usize = 40;
/// The approximate number of bytes that arguments are shortened to.
const MAX_ARGUMENT_BYTES: usize = 4 << 10;
/// The most columns that are shown of a line that the code wrote. With its prefix the line fits a terminal of 80
/// columns: a wrapped line would begin a row with text of the code's choice.
const MAX_COLUMNS: usize = 68;
/// The most columns of a tool's name that are shown, for the same reason.
const MAX_NAME_COLUMNS: usize = 36;
/// The most columns of a rule that are shown, for the same reason.
const MAX_RULE_COLUMNS: usize = 58;
/// The number of lines of code that are shown before the line with the call, and after it.
const CONTEXT_LINES: usize = 3;

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

/// A person's answer to a [`Question`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Allows this call.
    Once,
    /// Allows all calls of this tool in this execution.
    Execution,
    /// Allows all calls of this tool in this session.
    Session,
    /// Denies this call.
    No,
}

/// Returns the question as text, which ends where the answer is typed. Text of the code's choice stands only after a
/// bar (`|`), or shortened in the names of tool and rule, and is escaped: it cannot move the cursor, change the writing
/// direction, or hide.
pub fn render(question: &Question<'_>) -> String {
    let remaining = humantime::format_duration(Duration::from_secs(question.remaining.as_secs()));
    let mut text = describe(question);
    text += &format!("No answer within {remaining} is a no.\n");
    text += "[y] once  [e] this tool, this execution  [s] this tool, this session  [n] no\n";
    text += &format!("Run {}? ", fit_name(question.tool));
    text
}

/// Returns the question without time limit and answers, for a user interface that offers them in another way.
pub fn describe(question: &Question<'_>) -> String {
    let Question { tool, effect, rule, arguments, script, remaining: _ } = question;
    let effect = match effect {
        None => "nobody said what it does",
        Some(Effect::ReadOnly) => "it changes nothing",
        Some(Effect::Mutating) => "it changes something",
        Some(Effect::Privileged) => "it can do what a person has to answer for",
    };
    let mut text = format!("The code wants to call {} ({effect}).\n", fit_name(tool));
    text += &format!("The rule that asks: {}\nThe arguments:\n", cut(&visible(rule), MAX_RULE_COLUMNS));
    text += &render_arguments(arguments);
    if let Some((code, at)) = script {
        text += &render_script(code, *at);
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
        "" | "n" | "no" => Some(Answer::No),
        _ => None,
    }
}

/// Returns the lines of the arguments' JSON, and a warning if not all of it is shown.
fn render_arguments(arguments: &Value) -> String {
    let shown = shortened(arguments, MAX_ARGUMENT_BYTES);
    let pretty = format!("{shown:#}");
    let mut lines = pretty.lines();
    let mut is_cut = shown != *arguments;
    let mut text = String::new();
    for json in lines.by_ref().take(MAX_ARGUMENT_LINES) {
        let json = visible(json);
        is_cut |= json.width() > MAX_COLUMNS;
        text += &format!("  | {}\n", fit_line(&json));
    }
    if is_cut || lines.next().is_some() {
        text += "NOT ALL of the arguments is shown. Say no unless you know the rest.\n";
    }
    text
}

/// Returns the lines of the code around line `at`, or its first lines if that is `None`.
fn render_script(code: &str, at: Option<usize>) -> String {
    let first = at.unwrap_or(1).saturating_sub(CONTEXT_LINES).max(1);
    let mut text = match at {
        Some(at) => format!("It is called in line {at} of the code:\n"),
        None => "The code begins:\n".to_owned(),
    };
    let lines = code.lines().enumerate().skip(first - 1).take(2 * CONTEXT_LINES + 1);
    for (index, code) in lines {
        let number = index + 1;
        let mark = if at == Some(number) { '>' } else { ' ' };
        text += &format!("{mark}{number:>5} | {}\n", fit_line(code));
    }
    text
}

/// Escapes a text of the code's choice, and cuts it to [`MAX_COLUMNS`].
fn fit_line(text: &str) -> String {
    cut(&visible(text), MAX_COLUMNS)
}

/// Escapes a tool's name, and cuts it to [`MAX_NAME_COLUMNS`].
fn fit_name(tool: &str) -> String {
    cut(&visible(tool), MAX_NAME_COLUMNS)
}

/// Returns a text of at most `columns` unchanged, and of a wider one the start that fits, and `…`.
fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut taken = 0;
    let fits = |character: &char| {
        taken += character.width().unwrap_or_default();
        taken < columns
    };
    format!("{}…", text.chars().take_while(fits).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(arguments: &Value) -> Question<'_> {
        Question {
            tool: "bank.pay",
            effect: Some(Effect::Mutating),
            rule: "ask bank.*",
            arguments,
            script: Some((
                "const a = 1\n// two\n// three\n// four\nawait mcp.call('bank.pay', {a})\nreturn a",
                Some(5),
            )),
            remaining: Duration::from_millis(90_500),
        }
    }

    #[test]
    fn a_question_says_what_where_why_and_how_long() {
        let expected = "\
The code wants to call bank.pay (it changes something).
The rule that asks: ask bank.*
The arguments:
  | {
  |   \"a\": 1
  | }
It is called in line 5 of the code:
     2 | // two
     3 | // three
     4 | // four
>    5 | await mcp.call('bank.pay', {a})
     6 | return a
No answer within 1m 30s is a no.
[y] once  [e] this tool, this execution  [s] this tool, this session  [n] no
Run bank.pay? ";
        assert_eq!(render(&question(&json!({"a": 1}))), expected);
        let arguments = json!([]);
        let bare = Question { effect: None, script: Some(("one", None)), ..question(&arguments) };
        assert!(render(&bare).contains("(nobody said what it does)") && render(&bare).contains("The code begins:\n"));
        for at in [0, 1, 99, usize::MAX] {
            let odd = Question { script: Some(("one\ntwo", Some(at))), ..question(&arguments) };
            assert!(render(&odd).ends_with("Run bank.pay? "), "{at}");
        }
    }

    #[test]
    fn nothing_that_the_code_writes_can_look_like_the_question_or_hide() {
        let fake = "\r\u{1b}[2K\nRun it? [y] once: y\n\u{202e}\u{200b}\u{2028}\u{9b}2J\u{feff}";
        let arguments = json!({ fake: fake, "list": [fake] });
        let hostile = Question { tool: fake, rule: fake, script: Some((fake, Some(2))), ..question(&arguments) };
        let text = render(&hostile);
        assert!(text.chars().all(|it| it == '\n' || !it.is_control()), "{text}");
        assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{2028}', '\u{feff}']), "{text}");
        let asking = text.lines().filter(|line| line.starts_with("[y] once  [e]") || line.starts_with("Run ")).count();
        assert_eq!((asking, text.lines().last().map(|line| line.ends_with("? "))), (2, Some(true)), "{text}");
        // No row of a terminal of 80 columns begins with what the code wrote, however wide its characters are.
        let wide = json!({"漢".repeat(200): "Run it? ".repeat(30)});
        let text = render(&Question { tool: "bank.pay", rule: "r", arguments: &wide, ..hostile });
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    }

    #[test]
    fn a_question_fits_a_screen_and_says_when_something_is_not_shown() {
        let long = json!({"aa": "x".repeat(1 << 20), "amount": 5});
        let many = json!((0..10_000).collect::<Vec<_>>());
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
        for (arguments, is_cut) in [(long, true), (many, true), (deep, true), (json!({"a": "x".repeat(50)}), false)] {
            let text = render(&question(&arguments));
            assert!(text.lines().count() <= MAX_ARGUMENT_LINES + 14, "{text}");
            assert!(text.lines().all(|line| line.width() <= 80), "{text}");
            assert_eq!(text.contains("NOT ALL"), is_cut, "{text}");
        }
        let long = json!({"aa": "x".repeat(1 << 20), "amount": 5});
        assert!(render(&question(&long)).contains("\"amount\": 5"), "a large member does not push out a small one");
    }

    #[test]
    fn an_answer_is_one_of_four_or_asked_again() {
        for (typed, answer) in [
            ("y\n", Some(Answer::Once)),
            (" YES ", Some(Answer::Once)),
            ("e", Some(Answer::Execution)),
            ("S\r\n", Some(Answer::Session)),
            ("n", Some(Answer::No)),
            ("", Some(Answer::No)),
            ("\n", Some(Answer::No)),
            ("yep", None),
            ("y e", None),
            ("\u{1b}y", None),
            ("ｙ", None),
        ] {
            assert_eq!(parse_answer(typed), answer, "{typed:?}");
        }
    }
}
