//! TypeScript as JavaScript: all that is only type becomes blank, so that what is left keeps its lines and columns.
//!
//! Blank is not always enough, for JavaScript ends statements at line breaks where TypeScript saw a type. Each such
//! place gets a semicolon or has a parenthesis moved, and its reason stands beside it.

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
use self::edits::{Edits, is_line_break, next_token, word_at};
pub(crate) use self::enums::Objects;
use crate::error::SyntaxError;
use crate::parse::{self, ParseError, index};

/// What stands before a text to make one expression of it.
pub(crate) const EXPRESSION_LEAD: &str = "0,";

/// A text without its types.
#[derive(Debug)]
pub(crate) struct Stripped {
    pub(crate) text: String,
    /// What the text refers to in the place of its enums.
    pub(crate) enums: Objects,
}

/// Why a text is no TypeScript that runs.
#[derive(Debug)]
pub(crate) enum Error {
    /// It does not parse.
    Parse(ParseError),
    /// It needs more than taking types out.
    Refused(SyntaxError),
}

/// The text without its types. Like JavaScript's, the parser's depth is bounded by what `scan` counts.
///
/// # Errors
/// It is no TypeScript, or holds what has a meaning of its own in TypeScript alone.
pub(crate) fn strip(allocator: &Allocator, text: &str) -> Result<Stripped, Error> {
    let error = match parse::typescript(allocator, text) {
        Ok(program) => return strip_program(&program, text),
        Err(error) => error,
    };
    // An object literal or a function without a name is no statement, but it is an expression.
    let led = allocator.alloc_str(&format!("{EXPRESSION_LEAD}{text}"));
    if let Ok(program) = parse::typescript(allocator, led) {
        let Stripped { text, enums } = strip_program(&program, led).map_err(|error| unled(error, text))?;
        return Ok(Stripped { text: text.get(EXPRESSION_LEAD.len()..).unwrap_or("").to_owned(), enums });
    }
    Err(Error::Parse(error))
}

/// What to say of a text that is no TypeScript because it holds JSX.
///
/// Between the elements of JSX a quote is a quote, and what follows it is no string but may be code. A look at the
/// tokens of JavaScript thus says nothing about how deeply the text nests here: this is only for where the stack may
/// overflow.
pub(crate) fn jsx(allocator: &Allocator, text: &str) -> Option<SyntaxError> {
    parse::first_jsx(allocator, text).map(|at| refuse::JSX.at(text, at))
}

/// Whether there is anything in the tree that only TypeScript, or no engine, knows. The parser of JavaScript lets some
/// of it pass.
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

/// An error in a text with the lead, in the text without it.
fn unled(error: Error, text: &str) -> Error {
    match error {
        Error::Refused(error) if error.line == 1 => {
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

/// Walks the tree and notes what is only type. Inside a type it does not look.
struct Types<'s> {
    text: &'s str,
    edits: Edits<'s>,
    /// The first thing that blanking cannot take out, and where it is.
    refused: Option<(refuse::Refusal, usize)>,
    has_enums: bool,
    /// Where the latest expression begins that, if it began with `{`, would be a block.
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
        self.source(start, end).contains(is_line_break)
    }

    fn token_after(&self, offset: u32) -> usize {
        next_token(self.text, index(offset))
    }

    /// A whole statement, or member of a class. The semicolon ends what stands before it, as the statement did.
    fn vanish(&mut self, span: Span) {
        self.edits.blank_after(";", index(span.start), index(span.end));
    }

    /// The mark (`?` or `!`) that follows a name, if it does.
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

    /// Ends a statement whose last part was a type, where the next line would continue it: after `a as T`, a line that
    /// begins with `(` is a statement of its own, after `a` it is a call.
    fn end_statement(&mut self, span: Span) {
        let end = index(span.end);
        let next = next_token(self.text, end);
        if self.text[next..].starts_with(['(', '[', '`', '/', '+', '-', '*', '.', ',', '<', '=', '?']) {
            self.edits.end_statement(end);
        }
    }

    /// Takes what follows an expression in `expression as T`.
    fn blank_suffix(&mut self, expression: &Expression<'_>, span: Span) {
        let start = self.token_after(expression.span().end);
        self.edits.blank(start, index(span.end));
    }

    /// Takes the words before a member's name that only TypeScript knows, and gives whether there were any.
    fn blank_modifiers(&mut self, start: u32, key_start: u32) {
        let mut at = index(start);
        while at < index(key_start) {
            let word = word_at(self.text, at);
            let end = at + word.len();
            match word {
                "public" | "private" | "protected" | "readonly" | "override" | "abstract" | "declare" => {
                    // A member before that lacks its semicolon must not go on in `[name]` or `*name`.
                    let first = if at == index(start) { ";" } else { "" };
                    self.edits.blank_after(first, at, end);
                }
                "" => return,
                _ => {}
            }
            at = next_token(self.text, end);
        }
    }

    /// A field ends where its type ended: the next member might otherwise continue it, or be named by it (`get`).
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
