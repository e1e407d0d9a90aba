//! Finds the tool calls of a program that are made for certain as they are written, for a check before it runs.
//!
//! A call that is spread, computed, shadowed or optional, that stands under a condition or in a `try`, or whose failure
//! the program handles, is not among them.

mod given;
mod guards;
mod visit;

use oxc_allocator::Allocator;
use oxc_semantic::SemanticBuilder;

use crate::error::SyntaxError;
use crate::fence::{self, Code, Fence, Marked};
use crate::shortcut::Callee;
use crate::{nesting, parse, strip};
use guards::Guards;
use visit::Calls;

pub use given::Given;

/// Maximum number of calls that are returned; a program with more is checked up to there.
pub const MAX_CALLS: usize = 500;

/// Tool call of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramCall {
    /// Tool that is called.
    pub callee: Callee,
    /// Arguments, as far as they are literals.
    pub arguments: Given,
    /// Line in the author's text, counted from 1.
    pub line: u32,
    /// Column, counted from 1 in UTF-16 code units as JavaScript does.
    pub column: u32,
    /// Place where the Promise of the call is used as if it were the tool's result; `None`: nowhere that is known.
    pub promise: Option<UsedPromise>,
}

/// Use of a call's Promise as if it were the tool's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedPromise {
    /// The use as code, such as `.length` or `for (… of …)`.
    pub what: String,
    /// Line in the author's text, counted from 1.
    pub line: u32,
    /// Column, counted from 1 in UTF-16 code units.
    pub column: u32,
}

/// Returns the tool calls of an author's source that are certain, in the order of the text. Code that does not parse,
/// or that nests too deep for a host's stack, has none. Safe for any text on a stack of 1 MiB.
///
/// ```
/// use relay_script::{Callee, Given, calls};
///
/// let calls = calls("const r = await mcp.call('files.read', {path: 'a', ...more});\nif (r) await git.log({});");
/// assert_eq!((calls.len(), calls[0].line), (1, 1));
/// assert_eq!(calls[0].callee, Callee::Named("files.read".into()));
/// assert!(matches!(&calls[0].arguments, Given::Object { is_open: true, .. }));
/// ```
#[must_use]
pub fn calls(source: &str) -> Vec<ProgramCall> {
    match fence::fenced(source) {
        Fence::None => {
            let whole = Code { text: source, first_line: 0, marked: Marked::JavaScript };
            let behind_prose = || fence::fence_after_prose(source).0.and_then(calls_of);
            calls_of(whole).or_else(behind_prose).unwrap_or_default()
        }
        Fence::Code(code) => calls_of(code).unwrap_or_default(),
        Fence::OtherLanguage { .. } => Vec::new(),
    }
}

/// Returns the calls of code without Markdown; `None`: it does not parse, or nests too deep.
fn calls_of(code: Code<'_>) -> Option<Vec<ProgramCall>> {
    if !nesting::is_shallow(code.text) {
        return None;
    }
    let allocator = Allocator::default();
    let javascript = match code.marked {
        Marked::JavaScript => parse::javascript(&allocator, code.text).ok(),
        Marked::TypeScript => None,
    };
    let (text, program) = match javascript.filter(|program| !strip::is_typescript(program)) {
        Some(program) => (code.text, program),
        None => {
            let stripped = strip::strip(&allocator, code.text).ok()?;
            let text: &str = allocator.alloc_str(&stripped.text);
            (text, parse::javascript(&allocator, text).ok()?)
        }
    };
    let semantic = SemanticBuilder::new().build(&program).semantic;
    let guards = Guards::of(&program, semantic.scoping());
    if guards.are_everywhere() {
        return Some(Vec::new());
    }
    let found = Calls::of(&program, semantic.scoping(), &guards);
    let place = |offset: u32| {
        let place = SyntaxError::at(text, parse::index(offset), String::new(), "").moved(code.first_line);
        (place.line, place.column)
    };
    let call = |found: visit::Found| {
        let (line, column) = place(found.start);
        let promise = found.promise.map(|(what, start)| {
            let (line, column) = place(start);
            UsedPromise { what, line, column }
        });
        ProgramCall { callee: found.callee, arguments: found.arguments, line, column, promise }
    };
    Some(found.into_iter().take(MAX_CALLS).map(call).collect())
}
