//! Lists the names that code uses and declares, and tells whether it forgot to return: for hints.

use std::collections::{BTreeMap, BTreeSet};

use oxc_allocator::Allocator;
use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{Scoping, SemanticBuilder};
use oxc_span::Span;

use crate::error::SyntaxError;
use crate::parse::{self, index};
use crate::prepare::{self, JavaScript};

/// Maximum number of names in [`References::declared`].
pub const MAX_DECLARED_NAMES: usize = 1_000;

/// Names that a program refers to, and how it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// Names that the program uses and does not declare, sorted. Built-in names such as `Math` are among them.
    pub undeclared: Vec<Undeclared>,
    /// Names that the program declares in any scope, sorted, without the names of types; at most
    /// [`MAX_DECLARED_NAMES`]. One of them may hide a global.
    pub declared: Vec<String>,
    /// `true`: the program returns nothing anywhere and ends with an expression whose value is lost.
    pub missing_return: bool,
}

/// Name that the program uses and does not declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undeclared {
    /// Name as in the code.
    pub name: String,
    /// `true`: the name itself is called or constructed, as in `name(…)`.
    pub called: bool,
    /// `true`: it stands under `typeof` at least once, which is no error for an unknown name.
    pub in_typeof: bool,
    /// Line of its first use in the author's text, counted from 1.
    pub line: u32,
    /// Column of its first use, counted from 1 in UTF-16 code units as JavaScript does.
    pub column: u32,
}

/// Lists the references of an author's source. Code that does not parse has none.
///
/// The parser recurses, as for [`prepare`](crate::prepare()).
///
/// ```
/// let references = relay_script::references("const answer = 6 * 7;\nfetch(answer)");
/// assert_eq!(references.declared, ["answer"]);
/// assert!(references.undeclared[0].name == "fetch" && references.undeclared[0].line == 2 && references.missing_return);
/// ```
#[must_use]
pub fn references(source: &str) -> References {
    let Ok((JavaScript { text, enums }, lines)) = prepare::javascript(source) else { return References::default() };
    let allocator = Allocator::default();
    let Ok(program) = parse::javascript(&allocator, &text) else { return References::default() };
    let semantic = SemanticBuilder::new().build(&program).semantic;
    let mut uses = Uses { scoping: semantic.scoping(), found: BTreeMap::new() };
    uses.visit_program(&program);
    let of_author = uses.found.into_iter().filter(|(name, _)| !enums.is_name(name));
    let undeclared = of_author.map(|(name, found)| {
        let place = SyntaxError::at(&text, index(found.first.start), String::new(), "").moved(lines);
        let Found { called, in_typeof, .. } = found;
        Undeclared { name: name.to_owned(), called, in_typeof, line: place.line, column: place.column }
    });
    let declared: BTreeSet<&str> = semantic.scoping().symbol_names().collect();
    References {
        undeclared: undeclared.collect(),
        declared: declared.into_iter().take(MAX_DECLARED_NAMES).map(str::to_owned).collect(),
        missing_return: is_return_missing(&program),
    }
}

struct Uses<'w, 'a> {
    scoping: &'w Scoping,
    found: BTreeMap<&'a str, Found>,
}

struct Found {
    first: Span,
    called: bool,
    in_typeof: bool,
}

impl<'a> Uses<'_, 'a> {
    fn note(&mut self, expression: &Expression<'a>, mark: impl Fn(&mut Found)) {
        if let Expression::Identifier(name) = expression.without_parentheses()
            && let Some(found) = self.undeclared(name)
        {
            mark(found);
        }
    }

    fn undeclared(&mut self, name: &IdentifierReference<'a>) -> Option<&mut Found> {
        let id = name.reference_id.get()?;
        if self.scoping.get_reference(id).symbol_id().is_some() {
            return None;
        }
        let new = Found { first: name.span, called: false, in_typeof: false };
        Some(self.found.entry(name.name.as_str()).or_insert(new))
    }
}

impl<'a> Visit<'a> for Uses<'_, 'a> {
    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        self.undeclared(name);
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        self.note(&call.callee, |found| found.called = true);
        walk::walk_call_expression(self, call);
    }

    fn visit_new_expression(&mut self, new: &NewExpression<'a>) {
        self.note(&new.callee, |found| found.called = true);
        walk::walk_new_expression(self, new);
    }

    fn visit_unary_expression(&mut self, unary: &UnaryExpression<'a>) {
        if unary.operator == UnaryOperator::Typeof {
            self.note(&unary.argument, |found| found.in_typeof = true);
        }
        walk::walk_unary_expression(self, unary);
    }
}

/// Returns whether the statements of the program, or of the one function that it is or exports, lose a value.
fn is_return_missing(program: &Program<'_>) -> bool {
    match program.body.as_slice() {
        // Any other single expression is the value of the program.
        [Statement::ExpressionStatement(only)] => function_loses_value(&only.expression),
        [Statement::FunctionDeclaration(function)] => loses_value(function),
        statements if statements.iter().any(|statement| statement.as_module_declaration().is_some()) => {
            is_return_missing_in_module(statements)
        }
        statements => ends_in_lost_value(statements),
    }
}

/// Looks for the default export first and then for `main`, as the worker does.
fn is_return_missing_in_module(statements: &[Statement<'_>]) -> bool {
    let default = statements.iter().find_map(|statement| match statement {
        Statement::ExportDefaultDeclaration(export) => Some(&export.declaration),
        _ => None,
    });
    match default {
        Some(ExportDefaultDeclarationKind::FunctionDeclaration(function)) => return loses_value(function),
        Some(declaration) => {
            return match declaration.as_expression().map(Expression::without_parentheses) {
                Some(Expression::Identifier(name)) => declared_loses_value(statements, name.name.as_str()),
                Some(expression) => function_loses_value(expression),
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
    declared_loses_value(statements, name.as_ref().map_or("main", |name| name.as_str()))
}

/// Returns whether the function of this name, which the statements declare, loses its value.
fn declared_loses_value(statements: &[Statement<'_>], name: &str) -> bool {
    statements.iter().filter_map(declaration).any(|declaration| match declaration {
        Declaration::FunctionDeclaration(function) => {
            function.id.as_ref().is_some_and(|id| id.name == name) && loses_value(function)
        }
        Declaration::VariableDeclaration(variables) => variables.declarations.iter().any(|variable| {
            variable.id.get_identifier_name().is_some_and(|id| id == name)
                && variable.init.as_ref().is_some_and(function_loses_value)
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

fn function_loses_value(expression: &Expression<'_>) -> bool {
    match expression.without_parentheses() {
        Expression::ArrowFunctionExpression(arrow) => match &arrow.body {
            ArrowFunctionBody::FunctionBody(body) => ends_in_lost_value(&body.statements),
            _ => false,
        },
        Expression::FunctionExpression(function) => loses_value(function),
        _ => false,
    }
}

fn loses_value(function: &Function<'_>) -> bool {
    function.body.as_ref().is_some_and(|body| ends_in_lost_value(&body.statements))
}

fn ends_in_lost_value(statements: &[Statement<'_>]) -> bool {
    /// Finds a `return`, but none of inner functions.
    struct Returns(bool);
    impl<'a> Visit<'a> for Returns {
        fn visit_return_statement(&mut self, _: &ReturnStatement<'a>) {
            self.0 = true;
        }
        fn visit_function(&mut self, _: &Function<'a>, _: oxc_semantic::ScopeFlags) {}
        fn visit_arrow_function_expression(&mut self, _: &ArrowFunctionExpression<'a>) {}
        fn visit_class(&mut self, _: &Class<'a>) {}
    }
    let last = statements.iter().rev().find(|statement| !matches!(statement, Statement::EmptyStatement(_)));
    let Some(Statement::ExpressionStatement(last)) = last else { return false };
    let mut returns = Returns(false);
    statements.iter().for_each(|statement| returns.visit_statement(statement));
    !returns.0 && has_value(&last.expression)
}

/// Returns whether an expression is written for its value rather than for its effect.
fn has_value(expression: &Expression<'_>) -> bool {
    match expression.without_parentheses() {
        Expression::AssignmentExpression(_) | Expression::UpdateExpression(_) => false,
        Expression::UnaryExpression(it) => !matches!(it.operator, UnaryOperator::Void | UnaryOperator::Delete),
        Expression::AwaitExpression(it) => has_value(&it.argument),
        Expression::CallExpression(call) => match call.callee.without_parentheses() {
            Expression::StaticMemberExpression(member) => {
                !matches!(&member.object, Expression::Identifier(object) if object.name == "console")
            }
            _ => true,
        },
        _ => true,
    }
}
