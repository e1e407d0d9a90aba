//! Makes JavaScript of TypeScript: types become blanks, so that the rest keeps its lines and columns.
//!
//! Blanks are not always enough: JavaScript may end a statement at a line break where TypeScript saw a type. Such a
//! place gets a semicolon or a moved parenthesis, with the reason beside it in this code.

mod edits;
mod enums;
mod generics;
mod refuse;
mod vanish;
mod visit;

use oxc_allocator::Allocator;
use oxc_ast::ast::*;
use oxc_ast_visit::Visit;
use oxc_span::{GetSpan, Span};

pub(crate) use self::edits::push_blank;
use self::edits::{Edits, next_token, word_at};
pub(crate) use self::enums::Objects;
use crate::error::SyntaxError;
use crate::lines::{self, is_break};
use crate::parse::{self, ParseError, index};

/// Text before a text that makes one expression of it.
pub(crate) const EXPRESSION_LEAD: &str = "0,";

/// Text without its types.
#[derive(Debug)]
pub(crate) struct Stripped {
    pub(crate) text: String,
    /// Objects that the text refers to in place of its enums.
    pub(crate) enums: Objects,
}

/// Reports a text that is no TypeScript that runs.
#[derive(Debug)]
pub(crate) enum Error {
    /// The text does not parse.
    Parse(ParseError),
    /// The text has syntax that needs more than blanking types.
    Refused(SyntaxError),
}

/// Blanks the types of a text. As for JavaScript, `scan` bounds the depth of the parser.
///
/// # Errors
/// - [`Error::Parse`]: the text is no TypeScript
/// - [`Error::Refused`]: it has syntax that needs more than blanking types
pub(crate) fn strip(allocator: &Allocator, text: &str) -> Result<Stripped, Error> {
    let error = match parse::typescript(allocator, text) {
        Ok(program) => return strip_program(&program, text),
        Err(error) => error,
    };
    // An object literal or a function without a name is no statement, but an expression.
    let at = end_of_directive(text);
    let led = led(allocator, text, at);
    if let Ok(program) = parse::typescript(allocator, led) {
        let Stripped { mut text, enums } = strip_program(&program, led).map_err(|error| unled(error, text, at))?;
        // Nothing before the lead changed.
        text.replace_range(at..at + EXPRESSION_LEAD.len(), "");
        return Ok(Stripped { text, enums });
    }
    Err(Error::Parse(error))
}

/// Inserts the lead into a text.
pub(crate) fn led<'a>(allocator: &'a Allocator, text: &str, at: usize) -> &'a str {
    let (before, behind) = text.split_at(at);
    allocator.alloc_str(&format!("{before}{EXPRESSION_LEAD}{behind}"))
}

/// Returns the end of the directive `"use strict"` that the text begins with; 0: it begins with none.
pub(crate) fn end_of_directive(text: &str) -> usize {
    let start = next_token(text, 0);
    if !["\"use strict\"", "'use strict'"].iter().any(|directive| text[start..].starts_with(directive)) {
        return 0;
    }
    let end = start + "'use strict'".len();
    let next = next_token(text, end);
    match text[next..].starts_with(';') {
        true => next + 1,
        // The line's end ends it; what follows may continue it all the same, and is no directive then.
        false if text[end..next].contains(is_break) => next,
        false => 0,
    }
}

/// Makes the error for a text that is no TypeScript because it holds JSX; `None`: it holds none.
///
/// Inside JSX elements a quote begins no string, so that `scan` does not bound the depth: call this only where the
/// stack may overflow.
pub(crate) fn jsx(allocator: &Allocator, text: &str) -> Option<SyntaxError> {
    parse::first_jsx(allocator, text).map(|at| refuse::JSX.at(text, at))
}

/// Returns whether the tree holds syntax that only TypeScript knows. The parser of JavaScript accepts some of it.
pub(crate) fn is_typescript(program: &Program<'_>) -> bool {
    let mut types = Types::new(program.source_text);
    types.visit_program(program);
    types.refused.is_some() || types.has_enums || !types.edits.is_empty() || generics::has_generic_call(program)
}

fn strip_program(program: &Program<'_>, text: &str) -> Result<Stripped, Error> {
    let mut types = Types::new(text);
    types.visit_program(program);
    if let Some((refusal, at)) = types.refused {
        return Err(Error::Refused(refusal.at(text, at)));
    }
    let enums = if types.has_enums {
        enums::compile(program, text, &mut types.edits).map_err(Error::Refused)?
    } else {
        Objects::default()
    };
    Ok(Stripped { text: types.edits.apply().into_owned(), enums })
}

/// Moves an error of a text with the lead to the text without it.
fn unled(error: Error, text: &str, at: usize) -> Error {
    match error {
        Error::Refused(error) if error.line == lines::place(text, at).0 => {
            let lead = u32::try_from(EXPRESSION_LEAD.len()).unwrap_or(0);
            Error::Refused(SyntaxError { column: error.column.saturating_sub(lead), ..error })
        }
        Error::Parse(error) => {
            let offset = error.offset.saturating_sub(EXPRESSION_LEAD.len()).min(text.len());
            Error::Parse(ParseError { offset, ..error })
        }
        error @ Error::Refused(_) => error,
    }
}

/// Walks the tree and notes the types. It does not walk into a type.
struct Types<'s> {
    text: &'s str,
    edits: Edits<'s>,
    /// First syntax that blanking cannot remove, and its place.
    refused: Option<(refuse::Refusal, usize)>,
    has_enums: bool,
    /// Start of the latest expression that would be a block if it began with `{`.
    block_position: Option<u32>,
}

impl<'s> Types<'s> {
    fn new(text: &'s str) -> Self {
        Self { text, edits: Edits::new(text), refused: None, has_enums: false, block_position: None }
    }

    fn refuse(&mut self, refusal: refuse::Refusal, span: Span) {
        let at = index(span.start);
        if self.refused.is_none_or(|(_, before)| at < before) {
            self.refused = Some((refusal, at));
        }
    }

    fn blank(&mut self, span: Span) {
        self.edits.blank(index(span.start), index(span.end));
    }

    fn source(&self, start: u32, end: u32) -> &'s str {
        self.text.get(index(start)..index(end)).unwrap_or("")
    }

    fn spans_lines(&self, start: u32, end: u32) -> bool {
        self.source(start, end).contains(is_break)
    }

    fn token_after(&self, offset: u32) -> usize {
        next_token(self.text, index(offset))
    }

    /// Blanks a whole statement or class member. The semicolon ends the code before it, as the statement did.
    fn vanish(&mut self, span: Span) {
        self.edits.blank_after(";", index(span.start), index(span.end));
    }

    /// Blanks the mark (`?` or `!`) behind a name, if there is one.
    fn blank_mark(&mut self, name_end: u32, mark: char) {
        let at = self.token_after(name_end);
        if self.text[at..].starts_with(mark) {
            self.edits.blank(at, at + mark.len_utf8());
        }
    }

    fn blank_type(&mut self, annotation: Option<&TSTypeAnnotation<'_>>) {
        if let Some(annotation) = annotation {
            self.blank(annotation.span);
        }
    }

    fn blank_type_arguments(&mut self, arguments: Option<&TSTypeParameterInstantiation<'_>>) {
        if let Some(arguments) = arguments {
            self.blank(arguments.span);
        }
    }

    fn blank_type_parameters(&mut self, parameters: Option<&TSTypeParameterDeclaration<'_>>) {
        if let Some(parameters) = parameters {
            self.blank(parameters.span);
        }
    }

    /// Ends a statement whose last part was a type, if the next line would continue it: behind `a as T` a line that
    /// begins with `(` is a statement of its own, behind `a` it is a call.
    fn end_statement(&mut self, span: Span) {
        let end = index(span.end);
        let next = next_token(self.text, end);
        if self.text[next..].starts_with(['(', '[', '`', '/', '+', '-', '*', '.', ',', '<', '=', '?']) {
            self.edits.end_statement(end);
        }
    }

    /// Blanks the part behind the expression in `expression as T`.
    fn blank_suffix(&mut self, expression: &Expression<'_>, span: Span) {
        let start = self.token_after(expression.span().end);
        self.edits.blank(start, index(span.end));
    }

    /// Blanks the words before a member's name that only TypeScript knows. Returns whether there were any.
    fn blank_modifiers(&mut self, start: u32, key_start: u32) {
        let mut at = index(start);
        while at < index(key_start) {
            let word = word_at(self.text, at);
            let end = at + word.len();
            match word {
                "public" | "private" | "protected" | "readonly" | "override" | "abstract" | "declare" => {
                    // A member before it without a semicolon must not continue with `[name]` or `*name`.
                    let first = if at == index(start) { ";" } else { "" };
                    self.edits.blank_after(first, at, end);
                }
                "" => return,
                _ => {}
            }
            at = next_token(self.text, end);
        }
    }

    /// Ends a field where its type ended: otherwise the next member could continue it, or be named by it (`get`).
    fn end_field(&mut self, span: Span) {
        let end = index(span.end);
        if self.edits.ends_at(end) {
            self.edits.end_statement(end);
        }
    }

    fn function_types(&mut self, function: &Function<'_>) {
        self.blank_type_parameters(function.type_parameters.as_deref());
        if let Some(this) = &function.this_param {
            let after = self.token_after(this.span.end);
            let comma = self.text[after..].starts_with(',');
            self.edits.blank(index(this.span.start), if comma { after + 1 } else { index(this.span.end) });
        }
    }
}
