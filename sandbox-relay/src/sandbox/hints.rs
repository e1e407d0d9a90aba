//! Gives the author of the code, mostly a model, advice about an error. What the code does is told by its syntax tree
//! and its scopes: a misleading hint is worse than none.

mod calls;
mod known;
mod names;
mod results;

use relay_script::{ChainUse, Member, Nothing, Place, References, Undeclared};

pub(super) use self::known::set_bindings;

/// Maximum number of bytes of an error's text that are searched.
const MAX_TEXT_BYTES: usize = 1_000;
/// Maximum length in bytes of a name in it.
const MAX_NAME_BYTES: usize = 100;

/// Maximum number of undeclared names that are looked up.
const MAX_LOOKED_UP: usize = 200;

/// Advice about code that is made of text.
const NOT_CODE: &str = "a text is never run as code";

/// Error of V8 about which more may be known.
pub(super) enum Problem {
    /// A text was to become code.
    CodeOfText,
    /// A value is not iterable.
    NotIterable,
    /// A value was parsed and is no text with JSON; `true`: it is a Promise.
    NotJson { is_promise: bool },
    /// The member of this name was read of `undefined`.
    Undefined(String),
    /// A member is no function.
    NotAFunction,
    /// A variable was used before it has its value.
    TooEarly(String),
    /// A name is not there.
    NotDefined(String),
}

/// Returns the kind of an error with this text; `None`: nothing more can be said about it.
pub(super) fn problem(text: &str) -> Option<Problem> {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    if text == "EvalError: Code generation from strings disallowed for this context" {
        return Some(Problem::CodeOfText);
    }
    if let Some(text) = text.strip_prefix("ReferenceError: ") {
        let early = between(text, "Cannot access '", "' before initialization").map(Problem::TooEarly);
        return early.or_else(|| between(text, "", " is not defined").map(Problem::NotDefined));
    }
    if text.starts_with("SyntaxError: ") {
        let is_promise = text.contains("\"[object Promise]\" is not valid JSON");
        return Some(Problem::NotJson { is_promise });
    }
    let text = text.strip_prefix("TypeError: ")?;
    if let Some(name) = between(text, "Cannot read properties of undefined (reading '", "')") {
        Some(Problem::Undefined(name))
    } else if text.contains("is not iterable") {
        Some(Problem::NotIterable)
    } else if text.ends_with(" is not a function") {
        Some(Problem::NotAFunction)
    } else {
        None
    }
}

fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let name = text.strip_prefix(before)?.strip_suffix(after)?;
    (!name.is_empty() && name.len() <= MAX_NAME_BYTES).then(|| name.to_owned())
}

/// Returns advice about an uncaught error at this place; `None`: there is none.
pub(super) fn of_error(problem: &Problem, place: Place, references: &References) -> Option<String> {
    match problem {
        Problem::CodeOfText => Some(format!("{NOT_CODE} here, by eval, Function or a timer: write the code itself")),
        Problem::NotIterable => calls::of_promise(references, place, |used| *used == ChainUse::Iterated)
            .or_else(|| results::of_iteration(references, place)),
        Problem::NotJson { is_promise: true } => calls::of_promise(references, place, |used| *used == ChainUse::Parsed),
        Problem::NotJson { is_promise: false } => results::of_parsing(references, place),
        Problem::Undefined(name) => {
            calls::of_read(references, name, place).or_else(|| results::of_read(references, name, place))
        }
        Problem::NotAFunction => calls::of_call(references, place).or_else(|| results::of_call(references, place)),
        Problem::TooEarly(name) => calls::of_hidden_server(references, name),
        Problem::NotDefined(name) => {
            let undeclared = references.undeclared.iter().find(|it| it.name == *name)?;
            names::of_name(undeclared, references)
        }
    }
}

/// Returns whether code may catch an error and go on, as far as a look at the text can tell.
pub(super) fn may_catch(source: &str) -> bool {
    ["catch", "allSettled", ".any(", ".race(", ".then"]
        .iter()
        .any(|word| memchr::memmem::find(source.as_bytes(), word.as_bytes()).is_some())
}

/// Returns advice about what does not work, for code that caught the errors and went on.
pub(super) fn caught(references: &References, mut is_there: impl FnMut(&str) -> bool) -> Vec<String> {
    if !references.may_catch {
        return Vec::new();
    }
    let mut hints = Vec::new();
    let mut tell = |hint: String| {
        if hints.len() < known::MAX_NAMED && !hints.contains(&hint) {
            hints.push(hint);
        }
        hints.len() < known::MAX_NAMED
    };
    let mut goes_on = true;
    for hint in calls::all(references) {
        goes_on = tell(hint);
    }
    for undeclared in references.undeclared.iter().take(if goes_on { MAX_LOOKED_UP } else { 0 }) {
        let Undeclared { name, called, asked, line, .. } = undeclared;
        if *called && (name == "eval" || name == "Function") {
            goes_on = tell(format!("{name}(…) fails here: {NOT_CODE}; write the code itself"));
        }
        // Code that asks first can do without the name.
        if goes_on
            && !*asked
            && !is_there(name)
            && let Some(hint) = names::of_name(undeclared, references)
        {
            goes_on = tell(format!("{name} is not defined: line {line} fails where it runs; {hint}"));
        }
        if !goes_on {
            break;
        }
    }
    hints
}

/// Returns advice about a program that returned `undefined`.
pub(super) fn of_undefined(references: &References) -> Option<String> {
    references.nothing.as_ref().map(of_nothing).or_else(|| results::of_returned(references))
}

/// Returns whether the runtime may name this place when it reads the member.
fn is_at(member: &Member, place: Place) -> bool {
    member.start <= place && place < member.end
}

/// Returns advice about a program that has no value.
fn of_nothing(nothing: &Nothing) -> String {
    match nothing {
        Nothing::ReturnMissing => "nothing was returned; the last statement has a value: write return before it".into(),
        Nothing::NoCall { function, is_async } => {
            let call = if *is_async { "await " } else { "" };
            format!(
                "nothing was called: the code only declares; call a function and return its value, such as `return {call}{function}()`, or name it main"
            )
        }
    }
}

/// Advice about a generator in the place of a value.
pub(super) const GENERATOR: &str =
    "the value is a generator, none of whose code has run: return its values, such as `[...values]`";
