//! Reports why a text is no program, and where.

use crate::lines;

/// Reports a source that does not parse, or has no form that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Message, one sentence.
    pub message: String,
    /// Line in the author's text, counted from 1; 0 is unknown.
    pub line: u32,
    /// Column, counted from 1 in UTF-16 code units as JavaScript does; 0 is unknown.
    pub column: u32,
    /// Advice; may be empty.
    pub hint: &'static str,
}

impl SyntaxError {
    /// Makes an error at a byte offset of a text.
    pub(crate) fn at(text: &str, offset: usize, message: String, hint: &'static str) -> Self {
        let (line, column) = lines::place(text, offset);
        Self { message, line, column, hint }
    }

    /// Moves the error down by a number of lines.
    pub(crate) fn moved(mut self, lines: u32) -> Self {
        if self.line > 0 {
            self.line += lines;
        }
        self
    }
}

impl std::fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.message)?;
        if self.line > 0 { write!(f, " ({}:{})", self.line, self.column) } else { Ok(()) }
    }
}

impl std::error::Error for SyntaxError {}
