//! What an author sent, as a program: the map of the crate.
//!
//! An author (mostly a model) sends JavaScript or TypeScript in one of several forms, perhaps inside Markdown.
//! [`prepare`] makes one ECMAScript module of it, in which everything that is the author's stays on its line and
//! column:
//!
//! 1. `fence`: the code inside Markdown, and what language it is marked as.
//! 2. `parse`: text to syntax tree, and errors with a position.
//! 3. `strip`: TypeScript with its types blanked.
//! 4. `prepare`: the form of the code, and the module for it.
//!
//! The same tree tells other things: [`shortcut`] (the code is one tool call with literal arguments, which a host can
//! make without a sandbox), and [`references`] (which names the code declares, and which it uses that nothing
//! declares). [`json`] writes JSON as V8 would.
//!
//! The parser recurses. [`prepare`] and [`references`] may overflow the stack on deeply nested code, and belong where
//! that is expected; [`shortcut`] and [`json`] look at size and depth first and are safe anywhere. What `scan` counts
//! are tokens of JavaScript, so whatever `shortcut` reaches must parse as nothing else (TypeScript has the same tokens,
//! JSX has not).

mod error;
mod fence;
pub mod json;
mod literal;
mod parse;
mod prepare;
mod references;
mod scan;
mod shortcut;
mod strip;

pub use error::SyntaxError;
pub use literal::Literal;
pub use prepare::{Entry, Prepared, prepare};
pub use references::{MAX_DECLARED_NAMES, References, Undeclared, references};
pub use shortcut::{Callee, LiteralCall, MAX_SHORTCUT_BYTES, Shortcut, shortcut};
