//! What a model is told: what a program is, what came of it, what to mend.

use std::fmt::Write as _;

use super::answer::ProgrammaticError;
use crate::client::Outcome;
use crate::error::ExecutionError;
use crate::policy::Phase;
use crate::report::printed;
use crate::shorten::shortened_text;

/// The most bytes of an error's message, and of what was printed before it, in a prompt.
const MESSAGE_BYTES: usize = 4_000;
/// The most bytes of a result in a conversation.
const RESULT_BYTES: usize = 20_000;

/// What a program is, with the bindings that it has and the overview of the tools.
pub(super) fn system(bindings: &[&str], overview: &str) -> String {
    let has = |name: &str| bindings.contains(&name);
    let mut text = String::from(
        "You fulfil the user's request with one program that calls tools. Answer with the program in a ```js fence and \
         nothing else. It is run once, and what it returns is the answer to the request.\n\
         - Form: JavaScript or TypeScript; statements at the top level, where `await` works, and `return` with the answer.\n\
         - Tools: `await mcp.call(\"server.tool\", {…})` gives the tool's result.",
    );
    if has("servers") {
        text.push_str(" Each server is also an object with its tools, such as `await exa.search({query: \"…\"})`.");
    }
    text.push_str(
        "\n- Calls that do not need each other's results are made together: \
         `const [a, b] = await Promise.all([mcp.call(…), mcp.call(…)])`.\n\
         - `return` the answer as JSON: only what the request asks for. Filter, join and count in the program.\n\
         - A failed call throws an Error with `code` (such as `INVALID_ARGUMENTS`, `TOOL_FAILED`, `TOOL_DENIED`) and \
         `message`. Catch it where the program can go on without the call, and nowhere else.\n\
         - What is there: the built-ins of ECMAScript, `mcp`",
    );
    for (name, what) in [
        ("console", ", `console`"),
        ("timers", ", timers such as `setTimeout`"),
        (
            "introspection",
            "; `await mcp.search(\"words\")` finds tools, `await mcp.describe(\"server.tool\")` says how to call one",
        ),
    ] {
        if has(name) {
            text.push_str(what);
        }
    }
    text.push_str(
        ".\n- What is not there: no `require`, `import`, `fetch`, `fs` or `process`, no files and no network. Everything \
         outside is reached by tools.\n\
         - Where the tools cannot do what is asked, return a text that says what is missing.\n\
         The tools:\n",
    );
    text.push_str(overview);
    text
}

/// What a phase means for the program.
pub(super) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Discover => "The program may only look: calls of tools that change anything are refused.",
        Phase::Write => "The program may look and change things: of the tools that do, those that are offered for it.",
    }
}

/// What the program returned, for the conversation.
pub(super) fn result(outcome: &Outcome) -> String {
    let json = String::from_utf8_lossy(&outcome.json);
    format!("The program returned:\n{}", shortened_text(&json, RESULT_BYTES))
}

/// What went wrong with a program.
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

fn execution(error: &ExecutionError) -> String {
    let mut text = format!("The program failed. {}: {}", error.code, shortened_text(&error.message, MESSAGE_BYTES));
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
        let _ = write!(text, "\nIt had printed:\n{}", shortened_text(&printed(&error.output), MESSAGE_BYTES));
    }
    text
}

/// What the model is asked for after a failure, and what it has to know of what was done.
pub(super) fn repair(changes: &[String]) -> String {
    let done = match changes {
        [] => String::new(),
        tools => format!(
            "\nBefore it failed it had called tools that change things: {}. What they did may be done, and stays done: look at \
             what is there first, and do not do it twice.",
            tools.join(", ")
        ),
    };
    format!("{done}\nAnswer with the whole program, corrected, in a ```js fence and nothing else.")
}
