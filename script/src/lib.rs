//! Makes a program of what an author sent, and tells things about it from its syntax tree.
//!
//! An author (mostly a model) sends JavaScript or TypeScript in one of several forms, perhaps inside Markdown.
//! [`prepare()`] makes one ECMAScript module of it, in which the author's text stays on its line and column:
//!
//! 1. `fence`: finds the code inside Markdown, and the language that it is marked as.
//! 2. `parse`: parses a text, or reports an error with its position.
//! 3. `strip`: blanks the types of TypeScript.
//! 4. `prepare`: tells the form of the code, and makes the module for it.
//!
//! [`shortcut()`] tells whether the code is one tool call with literal arguments, which a host can make without a
//! sandbox. [`calls()`] lists the tool calls that a program makes for certain. [`references()`] lists what the code
//! declares, uses and loses, for hints. [`json`] writes JSON as V8 does.
//!
//! The parser recurses. [`prepare()`] and [`references()`] may overflow the stack on deeply nested code: call them
//! where that is expected. [`shortcut()`], [`calls()`] and [`json`] check size and depth first and are safe anywhere.
//! `scan` and `nesting` count tokens of JavaScript, so `shortcut` and `calls` must not parse anything else (TypeScript
//! has the same tokens, JSX has not).
#![warn(missing_docs)]

mod calls;
mod error;
mod fence;
pub mod integers;
pub mod json;
mod lines;
mod literal;
mod nesting;
mod parse;
mod prepare;
mod references;
mod scan;
mod shortcut;
mod strip;

pub use calls::{Given, MAX_CALLS, ProgramCall, UsedPromise, calls};
pub use error::SyntaxError;
pub use literal::Literal;
pub use prepare::{Entry, Prepared, prepare};
pub use references::{
    Arguments, Chain, ChainUse, MAX_DECLARED_NAMES, MAX_MEMBERS, Member, Nothing, Place, PromiseUse, References,
    ResultUse, ResultUsed, Undeclared, Used, references,
};
pub use shortcut::{Callee, LiteralCall, MAX_SHORTCUT_BYTES, Shortcut, shortcut};
