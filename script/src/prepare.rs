//! The forms of code that an author may send, told apart by a parser, and the module that each becomes.
//!
//! Whatever the form, V8 gets one strict-mode module. The author's own text stays on its own lines and columns, so that
//! every position in an error is the author's.

use std::borrow::Cow;

use memchr::memmem;
use oxc_allocator::Allocator;
use oxc_ast::ast::{
    Declaration, ExportDefaultDeclarationKind, Expression, Program, Statement, TaggedTemplateExpression,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};

use crate::error::SyntaxError;
use crate::fence::{self, Code, Fence, Marked};
use crate::parse::{self, ParseError, index};
use crate::strip::{self, EXPRESSION_LEAD, Objects, Stripped};

/// Code as V8 will see it.
#[derive(Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The text of an ECMAScript module.
    pub module: String,
    /// How many lines the author's first line moved down; negative when lines were put before it.
    pub line_offset: i32,
    /// What to run when the module is there.
    pub entry: Entry,
}

/// What of a module is the author's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The default export is a function of ours around the author's code: call it.
    Wrapper,
    /// As `Wrapper`, and what it yields is the author's function: call that too.
    WrapperOfFunction,
    /// The author's default export: call it if it is a function, else it is the value.
    Default,
    /// The author's exported `main`: call it.
    Main,
}

/// The author's code as plain JavaScript: without Markdown around it, its types blanked.
pub(crate) struct JavaScript<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) enums: Objects,
}

/// The syntax tree of JavaScript.
enum Tree<'a> {
    Statements(Program<'a>),
    /// What as statements would mean something else or nothing.
    Expression {
        span: Span,
        is_function: bool,
    },
}

/// Why a text of code, without any Markdown, is no program.
enum Failure {
    /// It does not parse.
    Parse(ParseError),
    /// It parses, and is refused.
    Refused(SyntaxError),
    /// It parses as JavaScript, but holds what only TypeScript has.
    NotJavaScript,
    /// It parses, but what it says is Markdown with a fence.
    Markdown,
}

const IMPORT_HINT: &str = "nothing can be imported here; call tools with `await mcp.call(\"server.tool\", args)`";
const FORMS_HINT: &str = "send JavaScript or TypeScript: statements with `return`, one expression, or one function";
const SHELL_HINT: &str = "this looks like a shell script; send JavaScript or TypeScript";
const FENCE_HINT: &str = "send JavaScript, alone or in a fence marked js, javascript, ts or typescript";
const NESTED_PREFIX: &str = "export default async () => {\n";
const EXPRESSION_PREFIX: &str = "export default async () => (\n";

impl Failure {
    fn in_text(self, text: &str) -> SyntaxError {
        match self {
            Self::Refused(error) => error,
            Self::Parse(error) => {
                let hint = language_hint(text);
                error.in_text(text, hint)
            }
            // These two lead to another reading of the text; what is left of them is what the text is not.
            Self::NotJavaScript | Self::Markdown => {
                SyntaxError::at(text, 0, "the text is no JavaScript".into(), FORMS_HINT)
            }
        }
    }
}

impl Prepared {
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

/// What to do about a text that does not parse, from how its lines begin.
fn language_hint(text: &str) -> &'static str {
    let begins = |words: &[&str]| text.lines().any(|line| words.iter().any(|word| line.trim_start().starts_with(word)));
    let first = text.trim_start();
    if first.starts_with("<!") || first.starts_with("<html") {
        "this looks like HTML; send JavaScript or TypeScript"
    } else if begins(&["def ", "elif ", "print(", "import json", "import os", "from ", "except", "with open("]) {
        "this looks like Python; send JavaScript or TypeScript"
    } else if begins(&["curl ", "npm ", "echo ", "cd ", "sudo ", "export PATH", "$ "]) {
        SHELL_HINT
    } else {
        FORMS_HINT
    }
}

/// Finds the code's form. The parser recurses: deep nesting may overflow the stack, which the caller has to expect.
///
/// # Errors
/// The source has no form of the contract.
pub fn prepare(source: &str) -> Result<Prepared, SyntaxError> {
    in_fence(source, |text, marked| {
        if let Some(script) = text.strip_prefix("#!") {
            let program = script.lines().next().unwrap_or("");
            if !["node", "deno", "bun", "tsx"].iter().any(|known| program.contains(known)) {
                let message = format!("`#!{program}` is not available");
                return Err(Failure::Refused(SyntaxError::at(text, 0, message, SHELL_HINT)));
            }
            // What the shell would read is a comment, also when it no longer is on the first line.
            return prepare_text(&format!("//{script}"), marked);
        }
        prepare_text(text, marked)
    })
    .map(|(prepared, lines)| prepared.moved(lines))
}

/// The author's code as plain JavaScript, and how many lines of Markdown stood before it.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn javascript(source: &str) -> Result<(JavaScript<'_>, u32), SyntaxError> {
    in_fence(source, |text, marked| to_javascript(text, marked, |_, _| Ok(())).map(|(code, ())| code))
}

/// Does something with the code of a text that may be Markdown, and says how many lines stand before it.
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
    let markdown = matches!(failure, Failure::Markdown);
    let error = failure.in_text(source);
    match fence::first_fence(source) {
        // Prose does not parse, and fails before the fence. Code that fails later may hold a fence in a string.
        Some(code) if markdown || error.line < code.first_line => work_on(code),
        _ => Err(error),
    }
}

/// The module for a text without Markdown.
fn prepare_text(text: &str, marked: Marked) -> Result<Prepared, Failure> {
    to_javascript(text, marked, form).map(|(code, prepared)| prepared.with_enums(&code.enums))
}

/// What `work` makes of the text as JavaScript, its types blanked if there are any.
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
            // Of the two parsers the one that came further knows better what is wrong.
            (None, Some(other)) if other.offset >= error.offset => Failure::Parse(other),
            (None, _) => Failure::Parse(error),
        },
    })?;
    allocator.reset();
    let done = tree(&allocator, &text).and_then(|tree| work(&text, &tree))?;
    Ok((JavaScript { text: Cow::Owned(text), enums }, done))
}

fn tree<'a>(allocator: &'a Allocator, text: &'a str) -> Result<Tree<'a>, Failure> {
    let program = match parse::javascript(allocator, text) {
        Ok(program) => program,
        // An object literal or a function without a name is no statement, but it is an expression.
        Err(error) => return leading_expression(allocator, text)?.ok_or(Failure::Parse(error)),
    };
    if strip::is_typescript(&program) {
        return Err(Failure::NotJavaScript);
    }
    if memmem::find(text.as_bytes(), b"```").is_some() && has_fence(&program) {
        return Err(Failure::Markdown);
    }
    if let ([Statement::BlockStatement(_)], []) = (program.body.as_slice(), program.directives.as_slice())
        && let Some(expression) = leading_expression(allocator, text)?
    {
        return Ok(expression);
    }
    Ok(Tree::Statements(program))
}

/// Whether a template that nobody would write stands in the code: an empty one that another one follows at once.
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

fn form(text: &str, tree: &Tree<'_>) -> Result<Prepared, Failure> {
    let program = match tree {
        Tree::Statements(program) => program,
        Tree::Expression { span, is_function } => return Ok(expression(text, *span, *is_function)),
    };
    let body = &program.body;
    if let Some(span) = body.iter().find_map(import_span) {
        let message = "imports are not available".into();
        return Err(Failure::Refused(SyntaxError::at(text, index(span.start), message, IMPORT_HINT)));
    }
    if body.iter().any(|statement| statement.as_module_declaration().is_some()) {
        let entry = exported_entry(program).ok_or_else(|| {
            Failure::Refused(SyntaxError {
                message: "a module has to export its program".into(),
                line: 0,
                column: 0,
                hint: "write `export default async () => { … }` or `export async function main() { … }`",
            })
        })?;
        return Ok(Prepared { module: text.to_owned(), line_offset: 0, entry });
    }
    let mut statements = body.iter().filter(|statement| !matches!(statement, Statement::EmptyStatement(_)));
    Ok(match (statements.next(), statements.next(), program.directives.as_slice()) {
        (None, None, [only]) => expression(text, only.expression.span, false),
        (Some(Statement::ExpressionStatement(only)), None, []) => {
            expression(text, only.expression.span(), is_function(&only.expression))
        }
        (Some(Statement::FunctionDeclaration(only)), None, []) => expression(text, only.span, true),
        _ if declares_only_main(program) => wrapped(text, "\n;return main();"),
        _ => wrapped(text, ""),
    })
}

/// Statements, as the body of a function.
fn wrapped(text: &str, call: &str) -> Prepared {
    Prepared { module: format!("{NESTED_PREFIX}{text}{call}\n}}"), line_offset: -1, entry: Entry::Wrapper }
}

/// One expression; what follows it (a semicolon, comments) is left out.
fn expression(text: &str, span: Span, is_function: bool) -> Prepared {
    let (before, text) = text.get(..index(span.end)).unwrap_or(text).split_at(index(span.start));
    // What stands before it (comments, semicolons) becomes blank, so that lines and columns stay.
    let mut blank = String::with_capacity(before.len());
    strip::push_blank(&mut blank, before);
    let entry = if is_function { Entry::WrapperOfFunction } else { Entry::Wrapper };
    Prepared { module: format!("{EXPRESSION_PREFIX}{blank}{text}\n)"), line_offset: -1, entry }
}

/// Reads the text as one expression even where a statement would begin differently: after `0,` it has to be one.
fn leading_expression<'a>(allocator: &'a Allocator, text: &str) -> Result<Option<Tree<'a>>, Failure> {
    let led = allocator.alloc_str(&format!("{EXPRESSION_LEAD}{text}"));
    let Ok(program) = parse::javascript(allocator, led) else { return Ok(None) };
    if strip::is_typescript(&program) {
        return Err(Failure::NotJavaScript);
    }
    let mut statements = program.body.iter().filter(|statement| !matches!(statement, Statement::EmptyStatement(_)));
    let (Some(Statement::ExpressionStatement(only)), None) = (statements.next(), statements.next()) else {
        return Ok(None);
    };
    let Expression::SequenceExpression(sequence) = &only.expression else { return Ok(None) };
    // `{a: 1}` as an author's own sequence would have more parts.
    let [_, last] = sequence.expressions.as_slice() else { return Ok(None) };
    let lead = u32::try_from(EXPRESSION_LEAD.len()).unwrap_or(0);
    let span = Span::new(0, last.span().end.saturating_sub(lead));
    Ok(Some(Tree::Expression { span, is_function: is_function(last) }))
}

fn is_function(expression: &Expression<'_>) -> bool {
    matches!(
        expression.without_parentheses(),
        Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_)
    )
}

fn import_span(statement: &Statement<'_>) -> Option<Span> {
    match statement {
        Statement::ImportDeclaration(import) => Some(import.span),
        Statement::ExportAllDeclaration(export) => Some(export.span),
        Statement::ExportFromDeclaration(export) => Some(export.span),
        _ => None,
    }
}

/// What a module with exports runs: its default export, or its `main`.
fn exported_entry(program: &Program<'_>) -> Option<Entry> {
    let mut main = None;
    for statement in &program.body {
        match statement {
            Statement::ExportDefaultDeclaration(export) => {
                let is_class = matches!(export.declaration, ExportDefaultDeclarationKind::ClassDeclaration(_));
                return (!is_class).then_some(Entry::Default);
            }
            Statement::ExportDeclaration(export) if declares_main(&export.declaration) => main = Some(Entry::Main),
            Statement::ExportNamedDeclaration(export) => {
                let named = |name: &str| export.specifiers.iter().any(|specifier| specifier.exported.name() == name);
                if named("default") {
                    return Some(Entry::Default);
                }
                if named("main") {
                    main = Some(Entry::Main);
                }
            }
            _ => {}
        }
    }
    main
}

/// Nothing but declarations, one of them the function `main`: without a call the code would do nothing.
fn declares_only_main(program: &Program<'_>) -> bool {
    let mut mains = 0;
    for statement in &program.body {
        match statement.as_declaration() {
            Some(declaration) => mains += usize::from(declares_main(declaration)),
            None if matches!(statement, Statement::EmptyStatement(_)) => {}
            None => return false,
        }
    }
    mains == 1
}

fn declares_main(declaration: &Declaration<'_>) -> bool {
    match declaration {
        Declaration::FunctionDeclaration(function) => function.id.as_ref().is_some_and(|id| id.name == "main"),
        Declaration::VariableDeclaration(variables) => variables.declarations.iter().any(|variable| {
            let named = variable.id.get_identifier_name().is_some_and(|name| name == "main");
            named && variable.init.as_ref().is_some_and(is_function)
        }),
        _ => false,
    }
}
