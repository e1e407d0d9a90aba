//! The module that each form of code becomes: statements, an expression, a function, `main`, a module with exports.

use oxc_ast::ast::*;
use oxc_span::{GetSpan, Span};

use super::{Entry, Failure, Prepared, Tree};
use crate::error::SyntaxError;
use crate::parse::index;
use crate::strip;

const GENERATOR: &str = "the program is a generator function, of which calling runs nothing";
const GENERATOR_HINT: &str = "write `async function main()` without `*`, put the values into an array and return it";
const FUNCTIONS: &str = "the default export is an object of functions, none of which is called";
const EXPORT_HINT: &str = "write `export default async () => { … }` or `export async function main() { … }`";
/// Text before statements.
const NESTED_PREFIX: &str = "export default async () => {\n";
/// Text before an expression.
const EXPRESSION_PREFIX: &str = "export default async () => (\n";

/// Kind of a function that is the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FunctionKind {
    /// Runs when it is called.
    Plain,
    /// Gives an iterator when it is called.
    Generator,
}

/// Makes the module for a syntax tree.
///
/// # Errors
/// [`Failure::Refused`]: the code is a module without a program, or its program is one that cannot be run by a call.
pub(super) fn form(text: &str, tree: &Tree<'_>) -> Result<Prepared, Failure> {
    let program = match tree {
        Tree::Statements(program) => program,
        Tree::Expression { span, function } => return expression(text, *span, *function),
    };
    let body = &program.body;
    if body.iter().any(|statement| statement.as_module_declaration().is_some()) {
        let entry = exported_entry(text, program)?.ok_or_else(|| {
            Failure::Refused(SyntaxError {
                message: "a module has to export its program".into(),
                line: 0,
                column: 0,
                hint: EXPORT_HINT,
            })
        })?;
        return Ok(Prepared { module: text.to_owned(), line_offset: 0, entry });
    }
    let mut statements = body.iter().filter(|statement| !matches!(statement, Statement::EmptyStatement(_)));
    match (statements.next(), statements.next(), program.directives.as_slice()) {
        // A module is strict without a directive.
        (None, None, [.., last]) => expression(text, last.expression.span, None),
        (Some(Statement::ExpressionStatement(only)), None, _) => {
            expression(text, only.expression.span(), kind_of(&only.expression))
        }
        (Some(Statement::FunctionDeclaration(only)), None, _) => {
            expression(text, only.span, Some(kind_of_function(only)))
        }
        _ => match only_main(program) {
            Some((kind, span)) => {
                refuse_generator(text, Some(kind), span)?;
                Ok(wrapped(text, "\n;return main();"))
            }
            None => Ok(wrapped(text, "")),
        },
    }
}

/// # Errors
/// [`Failure::Refused`]: the function is a generator.
fn refuse_generator(text: &str, kind: Option<FunctionKind>, span: Span) -> Result<(), Failure> {
    match kind {
        Some(FunctionKind::Generator) => {
            Err(Failure::Refused(SyntaxError::at(text, index(span.start), GENERATOR.into(), GENERATOR_HINT)))
        }
        Some(FunctionKind::Plain) | None => Ok(()),
    }
}

/// Wraps statements in a function.
fn wrapped(text: &str, call: &str) -> Prepared {
    Prepared { module: format!("{NESTED_PREFIX}{text}{call}\n}}"), line_offset: -1, entry: Entry::Wrapper }
}

/// Wraps one expression in a function. Text behind it (a semicolon, comments) is left out.
///
/// # Errors
/// [`Failure::Refused`]: it is a generator function.
fn expression(text: &str, span: Span, function: Option<FunctionKind>) -> Result<Prepared, Failure> {
    refuse_generator(text, function, span)?;
    let (before, text) = text.get(..index(span.end)).unwrap_or(text).split_at(index(span.start));
    // Text before it (comments, semicolons, directives) becomes blank, so that lines and columns stay.
    let mut blank = String::with_capacity(before.len());
    strip::push_blank(&mut blank, before);
    let entry = if function.is_some() { Entry::WrapperOfFunction } else { Entry::Wrapper };
    Ok(Prepared { module: format!("{EXPRESSION_PREFIX}{blank}{text}\n)"), line_offset: -1, entry })
}

/// Returns the kind of a function or an arrow function; `None`: the expression is neither.
pub(super) fn kind_of(expression: &Expression<'_>) -> Option<FunctionKind> {
    match expression.without_parentheses() {
        Expression::ArrowFunctionExpression(_) => Some(FunctionKind::Plain),
        Expression::FunctionExpression(function) => Some(kind_of_function(function)),
        _ => None,
    }
}

fn kind_of_function(function: &Function<'_>) -> FunctionKind {
    if function.generator { FunctionKind::Generator } else { FunctionKind::Plain }
}

/// Returns what to run of a module with exports; `None`: it exports no program.
///
/// # Errors
/// [`Failure::Refused`]: what it exports cannot be run by a call.
fn exported_entry(text: &str, program: &Program<'_>) -> Result<Option<Entry>, Failure> {
    let mut main = None;
    for statement in &program.body {
        match statement {
            Statement::ExportDefaultDeclaration(export) => return default_entry(text, export),
            Statement::ExportDeclaration(export) => {
                if let Some((kind, span)) = main_of(&export.declaration) {
                    refuse_generator(text, Some(kind), span)?;
                    main = Some(Entry::Main);
                }
            }
            Statement::ExportNamedDeclaration(export) => {
                let named = |name: &str| export.specifiers.iter().any(|specifier| specifier.exported.name() == name);
                if named("default") {
                    return Ok(Some(Entry::Default));
                }
                if named("main") {
                    main = Some(Entry::Main);
                }
            }
            _ => {}
        }
    }
    Ok(main)
}

/// Returns what to run of a default export; `None`: it is a class.
fn default_entry(text: &str, export: &ExportDefaultDeclaration<'_>) -> Result<Option<Entry>, Failure> {
    match &export.declaration {
        ExportDefaultDeclarationKind::ClassDeclaration(_) => return Ok(None),
        ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
            refuse_generator(text, Some(kind_of_function(function)), function.span)?;
        }
        declaration => {
            let expression = declaration.as_expression().map(Expression::without_parentheses);
            if let Some(expression) = expression {
                refuse_generator(text, kind_of(expression), expression.span())?;
            }
            if let Some(Expression::ObjectExpression(object)) = expression
                && !object.properties.is_empty()
                && object.properties.iter().all(is_method)
            {
                let at = index(object.span.start);
                return Err(Failure::Refused(SyntaxError::at(text, at, FUNCTIONS.into(), EXPORT_HINT)));
            }
        }
    }
    Ok(Some(Entry::Default))
}

fn is_method(property: &ObjectPropertyKind<'_>) -> bool {
    matches!(property, ObjectPropertyKind::ObjectProperty(it) if it.kind == PropertyKind::Init && kind_of(&it.value).is_some())
}

/// Returns the function `main` of code that is declarations alone: it is called, or the code would do nothing.
fn only_main(program: &Program<'_>) -> Option<(FunctionKind, Span)> {
    let mut main = None;
    for statement in &program.body {
        match statement.as_declaration() {
            Some(declaration) => main = main.or(main_of(declaration)),
            None if matches!(statement, Statement::EmptyStatement(_)) => {}
            None => return None,
        }
    }
    main
}

/// Returns the function `main` that a declaration declares; `None`: it declares none.
fn main_of(declaration: &Declaration<'_>) -> Option<(FunctionKind, Span)> {
    match declaration {
        Declaration::FunctionDeclaration(function) => {
            let is_main = function.id.as_ref().is_some_and(|id| id.name == "main");
            is_main.then(|| (kind_of_function(function), function.span))
        }
        Declaration::VariableDeclaration(variables) => variables.declarations.iter().find_map(|variable| {
            let is_main = variable.id.get_identifier_name().is_some_and(|name| name == "main");
            let init = variable.init.as_ref().filter(|_| is_main)?;
            Some((kind_of(init)?, init.span()))
        }),
        _ => None,
    }
}
