//! Why a text is no program, and where.

/// The source does not parse, or is of no form that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong, in one sentence.
    pub message: String,
    /// From 1, in the author's text; 0 where there is none.
    pub line: u32,
    /// From 1, in UTF-16 code units, as JavaScript counts; 0 where there is none.
    pub column: u32,
    /// What to do instead; may be empty.
    pub hint: &'static str,
}

impl SyntaxError {
    /// An error at a byte offset of a text.
    pub(crate) fn at(text: &str, offset: usize, message: String, hint: &'static str) -> Self {
        let before = text.get(..offset.min(text.len())).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            message,
            line: count(before.matches('\n').count() + 1),
            column: count(before[line_start..].encode_utf16().count() + 1),
            hint,
        }
    }

    /// The same error in a text that has so many more lines before it.
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

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
