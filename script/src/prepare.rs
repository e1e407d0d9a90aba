//! Prepares an author's code for V8: a parser tells its form, and `form` makes one strict-mode module of it.
//!
//! The author's own text stays on its own lines and columns, so that every position in an error is the author's.

mod form;
mod language;

use std::borrow::Cow;

use memchr::memmem;
use oxc_allocator::Allocator;
use oxc_ast::ast::{Expression, Program, Statement, TaggedTemplateExpression};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};

use crate::error::SyntaxError;
use crate::fence::{self, Code, Fence, Marked};
use crate::parse::{self, ParseError};
use crate::strip::{self, EXPRESSION_LEAD, Objects, Stripped};
use form::{FunctionKind, form};
use language::{FORMS_HINT, SHELL_HINT};

/// Code as V8 gets it.
#[derive(Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Text of an ECMAScript module.
    pub module: String,
    /// Line of the author's text on which the module begins, less one; negative: lines were put before it.
    pub line_offset: i32,
    /// Export to run after the module was evaluated.
    pub entry: Entry,
}

/// Export of a module that is the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The default export, a function around the author's code: call it.
    Wrapper,
    /// The default export, a function that returns the author's function: call both.
    WrapperOfFunction,
    /// The author's default export: call it if it is a function, else it is the result.
    Default,
    /// The author's exported `main`: call it.
    Main,
}

/// Author's code as plain JavaScript: without Markdown around it, its types blanked.
pub(crate) struct JavaScript<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) enums: Objects,
}

/// Syntax tree of JavaScript.
enum Tree<'a> {
    Statements(Program<'a>),
    /// One expression that means something else, or nothing, as statements.
    Expression {
        span: Span,
        function: Option<FunctionKind>,
    },
}

/// Reason why a text of code, without Markdown, is no program.
enum Failure {
    /// The text does not parse.
    Parse(ParseError),
    /// The text parses and is refused.
    Refused(SyntaxError),
    /// The text parses as JavaScript and holds syntax that only TypeScript has.
    NotJavaScript,
    /// The text parses and is Markdown with a fence.
    Markdown,
}

const FENCE_HINT: &str = "send JavaScript, alone or in a fence marked js, javascript, ts or typescript";

impl JavaScript<'_> {
    fn into_owned(self) -> JavaScript<'static> {
        JavaScript { text: Cow::Owned(self.text.into_owned()), enums: self.enums }
    }
}

impl Failure {
    /// Makes the error for the author.
    fn in_text(self, text: &str) -> SyntaxError {
        match self {
            Self::Refused(error) => error,
            Self::Parse(error) => {
                let hint = language::hint(text, error.offset);
                error.in_text(text, hint)
            }
            // Both lead to another reading of the text; they are left when that fails, too.
            Self::NotJavaScript | Self::Markdown => {
                SyntaxError::at(text, 0, "the text is no JavaScript".into(), FORMS_HINT)
            }
        }
    }
}

impl Prepared {
    /// Moves the author's lines down.
    fn moved(mut self, lines: u32) -> Self {
        self.line_offset += i32::try_from(lines).unwrap_or(i32::MAX);
        self
    }

    /// Puts the objects of enums before the author's first line.
    fn with_enums(mut self, enums: &Objects) -> Self {
        if enums.declarations.is_empty() {
            return self;
        }
        let has_line = self.line_offset < 0;
        self.module.insert_str(0, if has_line { "" } else { "\n" });
        self.module.insert_str(0, &enums.declarations);
        self.line_offset = -1;
        self
    }
}

/// Makes the module to run of an author's source: JavaScript or TypeScript, alone or in a Markdown fence.
///
/// The parser recurses: deep nesting may overflow the stack, which the caller has to expect.
///
/// ```
/// use relay_script::{Entry, prepare};
///
/// let prepared = prepare("return 6 * 7")?;
/// assert_eq!((prepared.entry, prepared.line_offset), (Entry::Wrapper, -1));
/// assert_eq!(prepare("(a: number) => a + 1")?.entry, Entry::WrapperOfFunction);
/// assert!(prepare("return\n  6 *").is_err_and(|error| error.line == 2));
/// # Ok::<_, relay_script::SyntaxError>(())
/// ```
///
/// # Errors
/// [`SyntaxError`]: the source does not parse, is another language, imports something, or is a module without a
/// program.
pub fn prepare(source: &str) -> Result<Prepared, SyntaxError> {
    in_fence(source, |text, marked| prepare_text(&without_program_line(text)?, marked))
        .map(|(prepared, lines)| prepared.moved(lines))
}

/// Makes a comment of a first line like `#!/usr/bin/env node`, wherever it will end up.
///
/// # Errors
/// [`Failure::Refused`]: the line names a program that runs no JavaScript.
fn without_program_line(text: &str) -> Result<Cow<'_, str>, Failure> {
    let mark = if text.starts_with(fence::BYTE_ORDER_MARK) { fence::BYTE_ORDER_MARK.len_utf8() } else { 0 };
    let (mark, rest) = text.split_at(mark);
    let Some(script) = rest.strip_prefix("#!") else { return Ok(Cow::Borrowed(text)) };
    let program = script.lines().next().unwrap_or("");
    if !["node", "deno", "bun", "tsx"].iter().any(|known| program.contains(known)) {
        let message = format!("`#!{program}` is not available");
        return Err(Failure::Refused(SyntaxError::at(text, 0, message, SHELL_HINT)));
    }
    Ok(Cow::Owned(format!("{mark}//{script}")))
}

/// Makes plain JavaScript of an author's source. Returns it with the number of lines of Markdown before it.
///
/// # Errors
/// [`SyntaxError`], as for [`prepare()`].
pub(crate) fn javascript(source: &str) -> Result<(JavaScript<'_>, u32), SyntaxError> {
    in_fence(source, |text, marked| match without_program_line(text)? {
        Cow::Borrowed(text) => plain(text, marked),
        Cow::Owned(text) => plain(&text, marked).map(JavaScript::into_owned),
    })
}

fn plain(text: &str, marked: Marked) -> Result<JavaScript<'_>, Failure> {
    to_javascript(text, marked, |_, _| Ok(())).map(|(code, ())| code)
}

/// Runs `work` on the code of a text that may be Markdown. Returns its result with the number of lines before the code.
fn in_fence<'a, T>(
    source: &'a str,
    work: impl Fn(&'a str, Marked) -> Result<T, Failure>,
) -> Result<(T, u32), SyntaxError> {
    let work_on = |code: Code<'a>| {
        if code.text.trim().is_empty() {
            let message = "the Markdown fence is empty".into();
            return Err(SyntaxError { message, line: code.first_line, column: 1, hint: FENCE_HINT });
        }
        let done = work(code.text, code.marked).map_err(|failure| failure.in_text(code.text).moved(code.first_line));
        done.map(|done| (done, code.first_line))
    };
    match fence::fenced(source) {
        Fence::Code(code) => return work_on(code),
        Fence::OtherLanguage { line } => {
            let message = "the Markdown holds no JavaScript".into();
            return Err(SyntaxError { message, line, column: 1, hint: FENCE_HINT });
        }
        Fence::None => {}
    }
    let failure = match work(source, Marked::JavaScript) {
        Ok(done) => return Ok((done, 0)),
        Err(failure) => failure,
    };
    if let Some(text) = fence::before_closing_fence(source) {
        return work_on(Code { text, first_line: 0, marked: Marked::JavaScript });
    }
    let is_markdown = matches!(failure, Failure::Markdown);
    let error = failure.in_text(source);
    match fence::fence_after_prose(source) {
        (Some(code), _) => work_on(code),
        (None, line) if is_markdown => Err(SyntaxError {
            message: "there is code both before and inside of a Markdown fence".into(),
            line,
            column: 1,
            hint: FENCE_HINT,
        }),
        (None, _) => Err(error),
    }
}

/// Makes the module of a text without Markdown.
fn prepare_text(text: &str, marked: Marked) -> Result<Prepared, Failure> {
    to_javascript(text, marked, form).map(|(code, prepared)| prepared.with_enums(&code.enums))
}

/// Runs `work` on the text as JavaScript, with its types blanked if it has any.
fn to_javascript<'a, T>(
    text: &'a str,
    marked: Marked,
    work: impl Fn(&str, &Tree<'_>) -> Result<T, Failure>,
) -> Result<(JavaScript<'a>, T), Failure> {
    let mut allocator = Allocator::default();
    let javascript_error = if marked == Marked::TypeScript {
        None
    } else {
        match tree(&allocator, text).and_then(|tree| work(text, &tree)) {
            Ok(done) => {
                return Ok((JavaScript { text: Cow::Borrowed(text), enums: Objects::default() }, done));
            }
            Err(Failure::Parse(error)) => Some(error),
            Err(Failure::NotJavaScript) => None,
            Err(failure) => return Err(failure),
        }
    };
    allocator.reset();
    let Stripped { text, enums } = strip::strip(&allocator, text).map_err(|error| match error {
        strip::Error::Refused(error) => Failure::Refused(error),
        strip::Error::Parse(error) => match (strip::jsx(&allocator, text), javascript_error) {
            (Some(jsx), _) => Failure::Refused(jsx),
            // The parser that came further knows better what is wrong.
            (None, Some(other)) if other.offset >= error.offset => Failure::Parse(other),
            (None, _) => Failure::Parse(error),
        },
    })?;
    allocator.reset();
    let done = tree(&allocator, &text).and_then(|tree| work(&text, &tree))?;
    Ok((JavaScript { text: Cow::Owned(text), enums }, done))
}

/// Parses a text.
fn tree<'a>(allocator: &'a Allocator, text: &'a str) -> Result<Tree<'a>, Failure> {
    let program = match parse::javascript(allocator, text) {
        Ok(program) => program,
        // An object literal or a function without a name is no statement, but an expression.
        Err(error) => return leading_expression(allocator, text)?.ok_or(Failure::Parse(error)),
    };
    if strip::is_typescript(&program) {
        return Err(Failure::NotJavaScript);
    }
    if memmem::find(text.as_bytes(), b"```").is_some() && has_fence(&program) {
        return Err(Failure::Markdown);
    }
    if let [Statement::BlockStatement(_)] = program.body.as_slice()
        && let Some(expression) = leading_expression(allocator, text)?
    {
        return Ok(expression);
    }
    Ok(Tree::Statements(program))
}

/// Returns whether the code holds an empty template that another one follows at once, as a Markdown fence parses.
fn has_fence(program: &Program<'_>) -> bool {
    struct Fences(bool);
    impl<'a> Visit<'a> for Fences {
        fn visit_tagged_template_expression(&mut self, tagged: &TaggedTemplateExpression<'a>) {
            let adjoin = tagged.tag.span().end == tagged.quasi.span.start;
            let before = match &tagged.tag {
                Expression::TemplateLiteral(template) => template.span.size() == 2,
                Expression::TaggedTemplateExpression(tag) => tag.quasi.span.size() == 2,
                _ => false,
            };
            self.0 |= adjoin && before;
            walk::walk_tagged_template_expression(self, tagged);
        }
    }
    let mut fences = Fences(false);
    fences.visit_program(program);
    fences.0
}

/// Parses the text as one expression, behind `0,`. `None`: it is none.
fn leading_expression<'a>(allocator: &'a Allocator, text: &str) -> Result<Option<Tree<'a>>, Failure> {
    let at = strip::end_of_directive(text);
    let Ok(program) = parse::javascript(allocator, strip::led(allocator, text, at)) else { return Ok(None) };
    if strip::is_typescript(&program) {
        return Err(Failure::NotJavaScript);
    }
    if program.directives.len() != usize::from(at > 0) {
        return Ok(None);
    }
    let mut statements = program.body.iter().filter(|statement| !matches!(statement, Statement::EmptyStatement(_)));
    let (Some(Statement::ExpressionStatement(only)), None) = (statements.next(), statements.next()) else {
        return Ok(None);
    };
    let Expression::SequenceExpression(sequence) = &only.expression else { return Ok(None) };
    // An author's own sequence has more parts.
    let [_, last] = sequence.expressions.as_slice() else { return Ok(None) };
    let unled = |offset: u32| offset.saturating_sub(u32::try_from(EXPRESSION_LEAD.len()).unwrap_or(0));
    let span = Span::new(unled(last.span().start), unled(last.span().end));
    Ok(Some(Tree::Expression { span, function: form::kind_of(last) }))
}
