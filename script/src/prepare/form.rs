//! The module that each form of code becomes: statements, an expression, a function, `main`, a module with exports.

use oxc_ast::ast::{Declaration, ExportDefaultDeclarationKind, Expression, Program, Statement};
use oxc_span::{GetSpan, Span};

use super::{Entry, Failure, Prepared, Tree};
use crate::error::SyntaxError;
use crate::parse::index;
use crate::strip;

const IMPORT_HINT: &str = "nothing can be imported here; call tools with `await mcp.call(\"server.tool\", args)`";
/// Text before statements.
const NESTED_PREFIX: &str = "export default async () => {\n";
/// Text before an expression.
const EXPRESSION_PREFIX: &str = "export default async () => (\n";

/// Makes the module for a syntax tree.
///
/// # Errors
/// [`Failure::Refused`]: the code imports something, or is a module without a program.
pub(super) fn form(text: &str, tree: &Tree<'_>) -> Result<Prepared, Failure> {
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

/// Wraps statements in a function.
fn wrapped(text: &str, call: &str) -> Prepared {
    Prepared { module: format!("{NESTED_PREFIX}{text}{call}\n}}"), line_offset: -1, entry: Entry::Wrapper }
}

/// Wraps one expression in a function. Text behind it (a semicolon, comments) is left out.
fn expression(text: &str, span: Span, is_function: bool) -> Prepared {
    let (before, text) = text.get(..index(span.end)).unwrap_or(text).split_at(index(span.start));
    // Text before it (comments, semicolons) becomes blank, so that lines and columns stay.
    let mut blank = String::with_capacity(before.len());
    strip::push_blank(&mut blank, before);
    let entry = if is_function { Entry::WrapperOfFunction } else { Entry::Wrapper };
    Prepared { module: format!("{EXPRESSION_PREFIX}{blank}{text}\n)"), line_offset: -1, entry }
}

/// Returns whether an expression is a function or an arrow function.
pub(super) fn is_function(expression: &Expression<'_>) -> bool {
    matches!(
        expression.without_parentheses(),
        Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_)
    )
}

/// Returns the place of an import; `None`: the statement imports nothing.
fn import_span(statement: &Statement<'_>) -> Option<Span> {
    match statement {
        Statement::ImportDeclaration(import) => Some(import.span),
        Statement::ExportAllDeclaration(export) => Some(export.span),
        Statement::ExportFromDeclaration(export) => Some(export.span),
        _ => None,
    }
}

/// Returns what to run of a module with exports; `None`: it exports no program.
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

/// Returns whether the code is declarations alone, one of them the function `main`: it is called, or the code would do
/// nothing.
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

/// Returns whether a declaration declares the function `main`.
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
