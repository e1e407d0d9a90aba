//! Parses a text to its syntax tree.

use oxc_allocator::Allocator;
use oxc_ast::ast::{JSXElement, JSXFragment, Program};
use oxc_ast_visit::Visit;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{SourceType, Span};

use crate::error::SyntaxError;

/// Reports a text that does not parse.
#[derive(Debug)]
pub(crate) struct ParseError {
    /// Place of the error, in bytes from the start of the text.
    pub(crate) offset: usize,
    pub(crate) message: String,
}

impl ParseError {
    pub(crate) fn in_text(self, text: &str, hint: &'static str) -> SyntaxError {
        SyntaxError::at(text, self.offset, self.message, hint)
    }
}

/// Parses a text as a JavaScript module in which `return` may stand anywhere.
pub(crate) fn javascript<'a>(allocator: &'a Allocator, text: &'a str) -> Result<Program<'a>, ParseError> {
    parse(allocator, text, SourceType::mjs())
}

/// Parses a text as [`javascript`] does, but as TypeScript.
pub(crate) fn typescript<'a>(allocator: &'a Allocator, text: &'a str) -> Result<Program<'a>, ParseError> {
    // Without `with_module` the text could be a script, in which `<!--` begins a comment.
    parse(allocator, text, SourceType::ts().with_module(true))
}

/// Returns the place of the first JSX element in a text that parses only as JSX; `None`: there is none.
pub(crate) fn first_jsx(allocator: &Allocator, text: &str) -> Option<usize> {
    struct First(Option<Span>);
    impl<'a> Visit<'a> for First {
        fn visit_jsx_element(&mut self, element: &JSXElement<'a>) {
            self.0.get_or_insert(element.span);
        }

        fn visit_jsx_fragment(&mut self, fragment: &JSXFragment<'a>) {
            self.0.get_or_insert(fragment.span);
        }
    }
    let program = parse(allocator, text, SourceType::tsx()).ok()?;
    let mut first = First(None);
    first.visit_program(&program);
    first.0.map(|span| index(span.start))
}

fn parse<'a>(allocator: &'a Allocator, text: &'a str, language: SourceType) -> Result<Program<'a>, ParseError> {
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parsed = Parser::new(allocator, text, language).with_options(options).parse();
    match parsed.diagnostics.iter().next() {
        None => Ok(parsed.program),
        Some(error) => {
            let offset = error.labels.first().map_or(0, |label| index(label.offset()));
            Err(ParseError { offset, message: error.message.to_string() })
        }
    }
}

/// Converts an offset of the parser to an index.
pub(crate) fn index(offset: u32) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
