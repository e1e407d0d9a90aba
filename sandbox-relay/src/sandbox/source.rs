//! The forms of code that an author may send, told apart by a parser, and the module that each becomes.
//!
//! Whatever the form, V8 gets one strict-mode module. The author's own text stays on its own lines and columns, so that
//! every position in an error is the author's.

use oxc_allocator::Allocator;
use oxc_ast::ast::{Declaration, ExportDefaultDeclarationKind, Expression, Program, Statement};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan, SourceType, Span};

/// Code as V8 will see it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// The text of an ECMAScript module.
    pub(crate) module: String,
    /// How many lines the author's first line moved down; negative when lines were put before it.
    pub(super) line_offset: i32,
    /// What to run when the module is there.
    pub(super) entry: Entry,
}

/// What of a module is the author's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The default export is a function of ours around the author's code: call it.
    Wrapper,
    /// As `Wrapper`, and what it yields is the author's function: call that too.
    WrapperOfFunction,
    /// The author's default export: call it if it is a function, else it is the value.
    Default,
    /// The author's exported `main`: call it.
    Main,
}

/// The source does not parse, or is of no form that runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    /// From 1, in the author's text; 0 where there is none.
    pub(super) line: u32,
    /// From 1.
    pub(super) column: u32,
    pub(super) hint: &'static str,
}

/// Finds the code's form. The parser recurses: deep nesting may overflow the stack, which the caller has to expect.
///
/// # Errors
/// The source has no form of the contract.
pub(crate) fn prepare(source: &str) -> Result<Prepared, SyntaxError> {
    let (text, first_line) = match fenced(source) {
        Fence::None => (source, 0),
        Fence::Code { text, first_line } => (text, first_line),
        Fence::OtherLanguage { line } => {
            return Err(SyntaxError {
                message: "the Markdown holds no JavaScript".into(),
                line,
                column: 1,
                hint: "send JavaScript, alone or in a fence marked js, javascript, ts or typescript",
            });
        }
    };
    let result = prepare_text(text).or_else(|error| match prose_around_fence(source) {
        // Prose does not parse; if there is a fence in it, that is the code.
        Some((text, first_line)) if first_line > 0 && matches!(fenced(source), Fence::None) => {
            prepare_text(text).map_err(|error| error.moved(first_line)).map(|code| code.moved(first_line))
        }
        _ => Err(error),
    });
    if first_line == 0 {
        return result;
    }
    result.map(|code| code.moved(first_line)).map_err(|error| error.moved(first_line))
}

impl Prepared {
    fn moved(mut self, lines: u32) -> Self {
        self.line_offset += i32::try_from(lines).unwrap_or(i32::MAX);
        self
    }
}

impl SyntaxError {
    fn moved(mut self, lines: u32) -> Self {
        self.line += lines;
        self
    }

    fn at(text: &str, offset: u32, message: String, hint: &'static str) -> Self {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            message,
            line: count(before.matches('\n').count() + 1),
            column: count(before[line_start..].chars().count() + 1),
            hint,
        }
    }
}

const IMPORT_HINT: &str = "nothing can be imported here; call tools with `await mcp.call(\"server.tool\", args)`";
const NESTED_PREFIX: &str = "export default async () => {\n";
const EXPRESSION_PREFIX: &str = "export default async () => (\n";

fn prepare_text(text: &str) -> Result<Prepared, SyntaxError> {
    let allocator = Allocator::default();
    let parsed = match parse(&allocator, text) {
        Ok(program) => program,
        // An object literal or a function without a name is no statement, but it is an expression.
        Err(error) => return leading_expression(&allocator, text).ok_or(error),
    };
    let body = &parsed.body;
    if let Some(span) = body.iter().find_map(import_span) {
        return Err(SyntaxError::at(text, span.start, "imports are not available".into(), IMPORT_HINT));
    }
    if body.iter().any(|statement| statement.as_module_declaration().is_some()) {
        let entry = exported_entry(&parsed).ok_or_else(|| SyntaxError {
            message: "a module has to export its program".into(),
            line: 0,
            column: 0,
            hint: "write `export default async () => { … }` or `export async function main() { … }`",
        })?;
        return Ok(Prepared { module: text.to_owned(), line_offset: 0, entry });
    }
    let mut statements = body.iter().filter(|statement| !matches!(statement, Statement::EmptyStatement(_)));
    let form = match (statements.next(), statements.next(), parsed.directives.as_slice()) {
        (None, None, [only]) => expression(text, only.expression.span, false),
        (Some(Statement::ExpressionStatement(only)), None, []) => {
            expression(text, only.expression.span(), is_function(&only.expression))
        }
        (Some(Statement::FunctionDeclaration(only)), None, []) => expression(text, only.span, true),
        (Some(Statement::BlockStatement(_)), None, []) => {
            leading_expression(&allocator, text).unwrap_or_else(|| wrapped(text, ""))
        }
        _ if declares_only_main(&parsed) => wrapped(text, "\n;return main();"),
        _ => wrapped(text, ""),
    };
    Ok(form)
}

fn options() -> ParseOptions {
    ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() }
}

fn parse<'a>(allocator: &'a Allocator, text: &'a str) -> Result<Program<'a>, SyntaxError> {
    let parsed = Parser::new(allocator, text, SourceType::mjs()).with_options(options()).parse();
    match parsed.diagnostics.iter().next() {
        None => Ok(parsed.program),
        Some(error) => {
            let offset = error.labels.first().map_or(0, |label| label.offset());
            Err(SyntaxError::at(text, offset, error.message.to_string(), ""))
        }
    }
}

/// Statements, as the body of a function.
fn wrapped(text: &str, call: &str) -> Prepared {
    Prepared { module: format!("{NESTED_PREFIX}{text}{call}\n}}"), line_offset: -1, entry: Entry::Wrapper }
}

/// One expression; what follows it (a semicolon, comments) is left out.
fn expression(text: &str, span: Span, is_function: bool) -> Prepared {
    let (before, text) = text.get(..index(span.end)).unwrap_or(text).split_at(index(span.start));
    // What stands before it (comments, semicolons) becomes blank, so that lines and columns stay.
    let blank: String = before.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
    let entry = if is_function { Entry::WrapperOfFunction } else { Entry::Wrapper };
    Prepared { module: format!("{EXPRESSION_PREFIX}{blank}{text}\n)"), line_offset: -1, entry }
}

/// Reads the text as one expression even where a statement would begin differently: after `0,` it has to be one.
fn leading_expression(allocator: &Allocator, text: &str) -> Option<Prepared> {
    const LEAD: &str = "0,";
    let led = allocator.alloc_str(&format!("{LEAD}{text}"));
    let program = parse(allocator, led).ok()?;
    let mut statements = program.body.iter().filter(|statement| !matches!(statement, Statement::EmptyStatement(_)));
    let (Some(Statement::ExpressionStatement(only)), None) = (statements.next(), statements.next()) else {
        return None;
    };
    let Expression::SequenceExpression(sequence) = &only.expression else { return None };
    // `{a: 1}` as an author's own sequence would have more parts.
    let [_, last] = sequence.expressions.as_slice() else { return None };
    let lead = u32::try_from(LEAD.len()).ok()?;
    let span = Span::new(0, last.span().end.checked_sub(lead)?);
    Some(expression(text, span, is_function(last)))
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

fn index(offset: u32) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

enum Fence<'a> {
    /// The text does not begin with a fence.
    None,
    /// The first fence with JavaScript or TypeScript in it, and how many lines stand before its content.
    Code { text: &'a str, first_line: u32 },
    /// It begins with a fence, but none is of a language that runs here.
    OtherLanguage { line: u32 },
}

/// Looks for fences in a text whose first line that is not blank opens one. As JavaScript it would begin with an empty
/// template that is called, which no program does.
fn fenced(source: &str) -> Fence<'_> {
    let Some((line, first)) = (0_u32..).zip(source.lines()).find(|(_, line)| !line.trim().is_empty()) else {
        return Fence::None;
    };
    if opening(first).is_none() {
        return Fence::None;
    }
    match prose_around_fence(source) {
        Some((text, first_line)) => Fence::Code { text, first_line },
        None => Fence::OtherLanguage { line: line + 1 },
    }
}

/// The content of the first fence of JavaScript or TypeScript, or of the first without a language if there is none.
fn prose_around_fence(source: &str) -> Option<(&str, u32)> {
    let mut unmarked = None;
    let mut open: Option<(&str, &str, usize, u32)> = None;
    let mut offset = 0;
    let mut found = None;
    for (number, line) in (1_u32..).zip(source.split_inclusive('\n')) {
        let end = offset + line.len();
        match open {
            None => open = opening(line).map(|(marker, language)| (marker, language, end, number)),
            Some((marker, language, start, first_line)) if closes(line, marker) => {
                open = None;
                found = pick(&source[start..offset], language, first_line, &mut unmarked);
            }
            Some(_) => {}
        }
        if found.is_some() {
            return found;
        }
        offset = end;
    }
    // A fence that nobody closed runs to the end, as in Markdown.
    if let Some((_, language, start, first_line)) = open {
        found = pick(&source[start..], language, first_line, &mut unmarked);
    }
    found.or(unmarked)
}

fn pick<'a>(
    text: &'a str,
    language: &str,
    first_line: u32,
    unmarked: &mut Option<(&'a str, u32)>,
) -> Option<(&'a str, u32)> {
    const LANGUAGES: [&str; 9] = ["js", "javascript", "mjs", "jsx", "ts", "typescript", "mts", "tsx", "ecmascript"];
    if LANGUAGES.iter().any(|known| known.eq_ignore_ascii_case(language)) {
        return Some((text, first_line));
    }
    if language.is_empty() && unmarked.is_none() {
        *unmarked = Some((text, first_line));
    }
    None
}

/// The marker and the language of a line that opens a fence.
fn opening(line: &str) -> Option<(&str, &str)> {
    let indented = line.trim_end().trim_start_matches(' ');
    if line.len() - line.trim_start_matches(' ').len() > 3 {
        return None;
    }
    let mark = indented.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = indented.len() - indented.trim_start_matches(mark).len();
    let (marker, info) = indented.split_at(length);
    let closed_in_line = mark == '`' && info.contains('`');
    if length < 3 || closed_in_line {
        return None;
    }
    let language = info.split([' ', '\t', ',', '{']).find(|word| !word.is_empty()).unwrap_or("");
    Some((marker, language))
}

fn closes(line: &str, marker: &str) -> bool {
    let text = line.trim();
    text.len() >= marker.len() && marker.chars().next().is_some_and(|mark| text.chars().all(|c| c == mark))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn entry(source: &str) -> Entry {
        prepare(source).unwrap().entry
    }

    #[test]
    fn each_form_is_told_by_its_syntax() {
        use Entry::{Default, Main, Wrapper, WrapperOfFunction};
        for (source, expected) in [
            ("return 1", Wrapper),
            ("const x = 1;\nreturn x;", Wrapper),
            ("1 + 1", Wrapper),
            ("1 + 1; // two", Wrapper),
            ("{a: 1, b: 2}", Wrapper),
            ("({a: 1})", Wrapper),
            ("\"use strict\"", Wrapper),
            ("", Wrapper),
            ("async () => 1", WrapperOfFunction),
            ("(async () => 1);", WrapperOfFunction),
            ("function () { return 1 }", WrapperOfFunction),
            ("async function work() { return 1 }", WrapperOfFunction),
            ("(async () => 1)()", Wrapper),
            ("export default async () => 1", Default),
            ("const f = () => 1; export { f as default }", Default),
            ("export async function main() { return 1 }", Main),
            ("const help = 1; const main = async () => help;", Wrapper),
            ("return \"export default\"", Wrapper),
        ] {
            assert_eq!(entry(source), expected, "{source}");
        }
        assert!(prepare("const a = 1; async function main() {}").unwrap().module.contains("return main()"));
        assert!(!prepare("async function main() {}\nawait main()").unwrap().module.contains("return main()"));
    }

    #[test]
    fn an_object_literal_is_a_value_and_a_block_is_not() {
        assert!(prepare("{a: 1}").unwrap().module.starts_with(EXPRESSION_PREFIX));
        assert!(prepare("{ return 1 }").unwrap().module.starts_with(NESTED_PREFIX));
        assert!(prepare("{ let a = 1; }").unwrap().module.starts_with(NESTED_PREFIX));
    }

    #[test]
    fn the_wrapper_cannot_be_closed_from_inside() {
        for source in ["}; evil(); async () => {", "1); evil((2", "return 1 } evil(); {", "*/ 1 /*", "`"] {
            assert!(prepare(source).is_err(), "{source}");
        }
    }

    #[test]
    fn the_first_fence_that_runs_is_taken_and_keeps_its_lines() {
        let prepared = prepare("```js\nreturn 1\n```").unwrap();
        assert_eq!((prepared.line_offset, prepared.entry), (0, Entry::Wrapper));
        let two = prepare("Text first.\n\n```python\nx\n```\n~~~ts\nreturn 2\n~~~\n```js\nreturn 3\n```\n").unwrap();
        assert!(two.module.contains("return 2") && !two.module.contains("return 3"), "{two:?}");
        assert_eq!(two.line_offset, 5);
        assert!(prepare("```js\nreturn 4").unwrap().module.contains("return 4"));
        assert_eq!(prepare("```python\nprint()\n```").unwrap_err().line, 1);
        assert_eq!(prepare("```\nreturn (\n```").unwrap_err().line, 3);
    }

    #[test]
    fn an_error_names_the_authors_line_and_column() {
        let error = prepare("const a = 1;\nconst = 2;").unwrap_err();
        assert_eq!((error.line, error.column), (2, 7), "{error:?}");
        let error = prepare("const a = 1;\n  import fs from 'fs';").unwrap_err();
        assert_eq!((error.line, error.column), (2, 3), "{error:?}");
    }
}
