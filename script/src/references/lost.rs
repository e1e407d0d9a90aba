//! Tells why a program that ran has no value: its last statement has one, or nothing is called.

mod value;

use oxc_ast::ast::*;
use oxc_ast_visit::Visit;
use oxc_semantic::ScopeFlags;

use super::meaning::{Callable, Meanings};

/// Reason why a program that seems to be meant to have a value has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nothing {
    /// It returns nothing anywhere and ends with an expression whose value is lost.
    ReturnMissing,
    /// It only declares functions, none of which is called.
    NoCall {
        /// Name of the last function.
        function: String,
        /// `true`: that function is asynchronous.
        is_async: bool,
    },
}

/// Returns the reason why a program has no value; `None`: none is certain.
pub(super) fn nothing<'a>(program: &Program<'a>, meanings: Meanings<'_, 'a>) -> Option<Nothing> {
    if is_return_missing(program, meanings) { Some(Nothing::ReturnMissing) } else { uncalled(program) }
}

/// Returns whether the statements of the program, or of the one function that it is or exports, lose a value.
fn is_return_missing<'a>(program: &Program<'a>, meanings: Meanings<'_, 'a>) -> bool {
    match program.body.as_slice() {
        // Any other single expression is the value of the program.
        [Statement::ExpressionStatement(only)] => function_loses_value(&only.expression, meanings),
        [Statement::FunctionDeclaration(function)] => loses_value(function, meanings),
        statements if statements.iter().any(|statement| statement.as_module_declaration().is_some()) => {
            is_return_missing_in_module(statements, meanings)
        }
        statements => ends_in_lost_value(statements, meanings),
    }
}

/// Looks for the default export first and then for `main`, as the worker does.
fn is_return_missing_in_module<'a>(statements: &[Statement<'a>], meanings: Meanings<'_, 'a>) -> bool {
    let default = statements.iter().find_map(|statement| match statement {
        Statement::ExportDefaultDeclaration(export) => Some(&export.declaration),
        _ => None,
    });
    match default {
        Some(ExportDefaultDeclarationKind::FunctionDeclaration(function)) => return loses_value(function, meanings),
        Some(declaration) => {
            return match declaration.as_expression().map(Expression::without_parentheses) {
                Some(Expression::Identifier(name)) => declared_loses_value(statements, name.name.as_str(), meanings),
                Some(expression) => function_loses_value(expression, meanings),
                None => false,
            };
        }
        None => {}
    }
    let local = |exported: &str| {
        statements.iter().find_map(|statement| match statement {
            Statement::ExportNamedDeclaration(export) => {
                export.specifiers.iter().find(|one| one.exported.name() == exported).map(|one| one.local.name())
            }
            _ => None,
        })
    };
    let name = local("default").or_else(|| local("main"));
    declared_loses_value(statements, name.as_ref().map_or("main", |name| name.as_str()), meanings)
}

/// Returns whether the function of this name, which the statements declare, loses its value.
fn declared_loses_value<'a>(statements: &[Statement<'a>], name: &str, meanings: Meanings<'_, 'a>) -> bool {
    statements.iter().filter_map(declaration).any(|declaration| match declaration {
        Declaration::FunctionDeclaration(function) => {
            function.id.as_ref().is_some_and(|id| id.name == name) && loses_value(function, meanings)
        }
        Declaration::VariableDeclaration(variables) => variables.declarations.iter().any(|variable| {
            variable.id.get_identifier_name().is_some_and(|id| id == name)
                && variable.init.as_ref().is_some_and(|init| function_loses_value(init, meanings))
        }),
        _ => false,
    })
}

fn declaration<'s, 'a>(statement: &'s Statement<'a>) -> Option<&'s Declaration<'a>> {
    match statement {
        Statement::ExportDeclaration(export) => Some(&export.declaration),
        statement => statement.as_declaration(),
    }
}

fn function_loses_value<'a>(expression: &Expression<'a>, meanings: Meanings<'_, 'a>) -> bool {
    match Callable::of(expression) {
        Some(Callable::Arrow(arrow)) => match &arrow.body {
            ArrowFunctionBody::FunctionBody(body) => ends_in_lost_value(&body.statements, meanings),
            _ => false,
        },
        Some(Callable::Function(function)) => loses_value(function, meanings),
        None => false,
    }
}

fn loses_value<'a>(function: &Function<'a>, meanings: Meanings<'_, 'a>) -> bool {
    function.body.as_ref().is_some_and(|body| ends_in_lost_value(&body.statements, meanings))
}

fn ends_in_lost_value<'a>(statements: &[Statement<'a>], meanings: Meanings<'_, 'a>) -> bool {
    let last = statements.iter().rev().find(|statement| !matches!(statement, Statement::EmptyStatement(_)));
    let Some(Statement::ExpressionStatement(last)) = last else { return false };
    !value::returns(statements, |_| true) && value::has_value(&last.expression, meanings)
}

/// Returns the last function of code that only declares functions and values; `None`: it does more, or declares none.
fn uncalled(program: &Program<'_>) -> Option<Nothing> {
    /// Finds what runs code: a call, outside of functions.
    struct Runs(bool);
    impl<'a> Visit<'a> for Runs {
        fn visit_call_expression(&mut self, _: &CallExpression<'a>) {
            self.0 = true;
        }
        fn visit_new_expression(&mut self, _: &NewExpression<'a>) {
            self.0 = true;
        }
        fn visit_await_expression(&mut self, _: &AwaitExpression<'a>) {
            self.0 = true;
        }
        fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}
        fn visit_arrow_function_expression(&mut self, _: &ArrowFunctionExpression<'a>) {}
    }
    let mut last = None;
    let mut runs = Runs(false);
    let statements = program.body.iter().filter(|statement| !matches!(statement, Statement::EmptyStatement(_)));
    for statement in statements {
        runs.visit_statement(statement);
        match statement {
            Statement::FunctionDeclaration(function) => {
                last = function.id.as_ref().map(|id| (id.name.as_str(), function.r#async)).or(last);
            }
            Statement::VariableDeclaration(variables) => {
                for variable in &variables.declarations {
                    let is_async = match variable.init.as_ref().and_then(Callable::of) {
                        Some(Callable::Function(function)) => function.r#async,
                        Some(Callable::Arrow(arrow)) => arrow.r#async,
                        None => continue,
                    };
                    last = variable.id.get_identifier_name().map(|name| (name.as_str(), is_async)).or(last);
                }
            }
            Statement::ClassDeclaration(_) => {}
            _ => return None,
        }
    }
    let (function, is_async) = last.filter(|_| !runs.0)?;
    Some(Nothing::NoCall { function: function.to_owned(), is_async })
}
