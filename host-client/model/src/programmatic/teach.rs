//! Prompts for the model: the form of a program, its result, and what to repair.

use std::fmt::Write as _;

use relay_proto::ErrorCode;

use super::answer::ProgrammaticError;
use crate::output::OutputConfig;
use crate::report::Printed;
use crate::surroundings::surroundings;
use host_client_core::error::ExecutionError;
use host_client_core::rules::policy::Phase;
use host_client_core::text::shortened_text;

/// Maximum length of an error's message, and of the output before it, in a prompt, in bytes.
const MESSAGE_BYTES: usize = 4_000;

/// Returns the system prompt: the form of a program, its bindings and the tools.
pub(super) fn system(bindings: &[&str], overview: &str) -> String {
    format!(
        "You fulfil the user's request with one program that calls tools. Answer with the program in a ```js fence and \
         nothing else. It is run once, and what it returns is the answer to the request.\n\
         {}\
         - Where the tools cannot do what is asked, return a text that says what is missing.\n\
         The tools:\n\
         {overview}",
        surroundings(bindings)
    )
}

/// Describes a phase of the policy.
pub(super) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Discover => "The program may only look: calls of tools that change anything are refused.",
        Phase::Write => "The program may look and change things: of the tools that do, those that are offered for it.",
    }
}

/// Tells the model the result of its program. There is no intent, because later requests are unknown, and no store,
/// because the model has no tool to read the rest.
pub(super) fn result(json: &[u8], output: OutputConfig) -> String {
    format!("The program returned:\n{}", output.show(json, None, None).text)
}

/// Tells the model why its program failed.
pub(super) fn failure(error: &ProgrammaticError) -> String {
    match error {
        ProgrammaticError::NoCode { .. } => {
            "There is no code in your answer, so that nothing was run: it was prose.".to_owned()
        }
        ProgrammaticError::Cut => {
            "Your answer was cut off before its end, so that nothing was run. Write a shorter program.".to_owned()
        }
        ProgrammaticError::Execution(error) => execution(error),
        other => format!("The program was not run: {}", shortened_text(&other.to_string(), MESSAGE_BYTES)),
    }
}

/// Describes the error of an execution.
fn execution(error: &ExecutionError) -> String {
    let what = if error.code == ErrorCode::CheckFailed { "was not run" } else { "failed" };
    let mut text = format!("The program {what}. {}: {}", error.code, shortened_text(&error.message, MESSAGE_BYTES));
    // Writing to a String cannot fail, here and below.
    if let (Some(line), Some(column)) = (error.line, error.column) {
        let _ = write!(text, "\nAt line {line}, column {column} of your answer.");
    }
    if let Some((tool, code)) = &error.tool {
        let _ = write!(text, "\nA call of {tool} failed with {code}, and the program did not catch it.");
    }
    if let Some(limit) = &error.limit {
        let _ = write!(text, "\nThe limit: {limit}.");
    }
    if let Some(hint) = &error.hint {
        let _ = write!(text, "\nHint: {}", shortened_text(hint, MESSAGE_BYTES));
    }
    if !error.output.is_empty() {
        let _ = write!(
            text,
            "\nIt had printed:\n{}",
            shortened_text(&Printed::new(&error.output, None).text, MESSAGE_BYTES)
        );
    }
    text
}

/// Asks the model for a corrected program, and lists the tools that may have changed something.
pub(super) fn repair(changes: &[String]) -> String {
    let done = match changes {
        [] => String::new(),
        tools => format!(
            "\nBefore it failed it had called tools that change things: {}. What they did may be done, and stays done: \
             look at what is there first, and do not do it twice.",
            tools.join(", ")
        ),
    };
    format!("{done}\nAnswer with the whole program, corrected, in a ```js fence and nothing else.")
}
