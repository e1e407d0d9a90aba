//! Tells expressions that are written for their value from those that are written for their effect.

use std::cell::Cell;

use oxc_ast::ast::*;
use oxc_ast_visit::Visit;
use oxc_semantic::ScopeFlags;

use super::super::chains::{Flat, flatten};
use super::super::meaning::{Callable, Meanings};

/// Maximum number of functions and calls that are looked at for a value, in all: they may call each other.
const MAX_STEPS: usize = 64;

/// Methods that are called for their value alone.
const METHODS: [&str; 62] = [
    "at",
    "charAt",
    "charCodeAt",
    "codePointAt",
    "concat",
    "difference",
    "endsWith",
    "entries",
    "every",
    "filter",
    "find",
    "findIndex",
    "findLast",
    "findLastIndex",
    "flat",
    "flatMap",
    "get",
    "getFullYear",
    "getTime",
    "has",
    "includes",
    "indexOf",
    "intersection",
    "isSubsetOf",
    "isSupersetOf",
    "join",
    "keys",
    "lastIndexOf",
    "localeCompare",
    "map",
    "match",
    "matchAll",
    "normalize",
    "padEnd",
    "padStart",
    "reduce",
    "reduceRight",
    "repeat",
    "replace",
    "replaceAll",
    "search",
    "slice",
    "some",
    "split",
    "startsWith",
    "substring",
    "test",
    "toFixed",
    "toISOString",
    "toJSON",
    "toLocaleLowerCase",
    "toLocaleString",
    "toLowerCase",
    "toReversed",
    "toSorted",
    "toSpliced",
    "toString",
    "toUpperCase",
    "trim",
    "union",
    "values",
    "with",
];
/// Global functions that are called for their value alone.
const FUNCTIONS: [&str; 12] = [
    "Array",
    "BigInt",
    "Boolean",
    "Number",
    "Object",
    "String",
    "decodeURIComponent",
    "encodeURIComponent",
    "isNaN",
    "parseFloat",
    "parseInt",
    "read_input",
];
/// Members of `Object` and `Reflect` that change something.
const CHANGING: [&str; 9] = [
    "assign",
    "defineProperties",
    "defineProperty",
    "deleteProperty",
    "freeze",
    "preventExtensions",
    "seal",
    "set",
    "setPrototypeOf",
];

/// Returns whether an expression is written for its value. `false`: it has none, or it is not certain.
pub(super) fn has_value<'a>(expression: &Expression<'a>, meanings: Meanings<'_, 'a>) -> bool {
    Values { meanings, left: &Cell::new(MAX_STEPS) }.of(expression)
}

/// Returns whether statements return a value, outside of inner functions, for which `is_value` holds.
pub(super) fn returns<'a>(statements: &[Statement<'a>], is_value: impl Fn(Option<&Expression<'a>>) -> bool) -> bool {
    struct Returns<F>(F, bool);
    impl<'a, F: Fn(Option<&Expression<'a>>) -> bool> Visit<'a> for Returns<F> {
        fn visit_return_statement(&mut self, statement: &ReturnStatement<'a>) {
            self.1 |= (self.0)(statement.argument.as_ref());
        }
        fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}
        fn visit_arrow_function_expression(&mut self, _: &ArrowFunctionExpression<'a>) {}
        fn visit_class(&mut self, _: &Class<'a>) {}
    }
    let mut returns = Returns(is_value, false);
    statements.iter().for_each(|statement| returns.visit_statement(statement));
    returns.1
}

#[derive(Clone, Copy)]
struct Values<'s, 'a> {
    meanings: Meanings<'s, 'a>,
    /// Number of steps that are left.
    left: &'s Cell<usize>,
}

impl<'a> Values<'_, 'a> {
    fn of(self, expression: &Expression<'a>) -> bool {
        match expression.without_parentheses() {
            Expression::AssignmentExpression(_)
            | Expression::UpdateExpression(_)
            | Expression::YieldExpression(_)
            | Expression::NewExpression(_)
            | Expression::TaggedTemplateExpression(_)
            | Expression::ImportExpression(_)
            | Expression::ArrowFunctionExpression(_)
            | Expression::FunctionExpression(_)
            | Expression::ClassExpression(_)
            | Expression::ThisExpression(_) => false,
            Expression::UnaryExpression(it) => !matches!(it.operator, UnaryOperator::Void | UnaryOperator::Delete),
            Expression::Identifier(name) => self.name_has_value(name),
            Expression::AwaitExpression(it) => self.awaited(&it.argument),
            Expression::LogicalExpression(it) => self.of(&it.right),
            Expression::ConditionalExpression(it) => self.of(&it.consequent) && self.of(&it.alternate),
            Expression::SequenceExpression(it) => it.expressions.last().is_some_and(|last| self.of(last)),
            Expression::CallExpression(call) => self.call(call),
            Expression::ChainExpression(chain) => match &chain.expression {
                ChainElement::CallExpression(call) => self.call(call),
                _ => true,
            },
            _ => true,
        }
    }

    fn name_has_value(self, name: &IdentifierReference<'a>) -> bool {
        match self.meanings.symbol(name) {
            Some(symbol) => self.meanings.function(symbol).is_none() && !self.meanings.is_class(symbol),
            None => name.name != "undefined",
        }
    }

    fn awaited(self, argument: &Expression<'a>) -> bool {
        match argument.without_parentheses() {
            // What is awaited may have been begun for its effect.
            Expression::Identifier(name) => {
                let value = self.meanings.symbol(name).and_then(|symbol| self.meanings.only_value(symbol));
                value.is_some_and(|value| self.deeper().is_some_and(|this| this.of(value)))
            }
            argument => self.of(argument),
        }
    }

    /// Takes a step; `None`: none is left.
    fn deeper(self) -> Option<Self> {
        self.left.set(self.left.get().checked_sub(1)?);
        Some(self)
    }

    fn call(self, call: &CallExpression<'a>) -> bool {
        let Some(this) = self.deeper() else { return false };
        let flat = flatten(&call.callee);
        let Some(((method, _), path)) = flat.members.split_last() else {
            return match flat.base {
                Expression::Identifier(name) => match this.meanings.symbol(name) {
                    Some(symbol) => this.meanings.function(symbol).is_some_and(|function| this.gives_value(function)),
                    None => FUNCTIONS.contains(&name.name.as_str()),
                },
                base => Callable::of(base).is_some_and(|function| this.gives_value(function)),
            };
        };
        if let Expression::Identifier(root) = flat.base
            && this.meanings.symbol(root).is_none()
            && let Some(has_value) = this.of_global(root.name.as_str(), &flat, call)
        {
            return has_value;
        }
        let callback = call.arguments.first().and_then(Argument::as_expression).and_then(Callable::of);
        match *method {
            "then" => callback.is_some_and(|callback| this.gives_value(callback)),
            "catch" | "finally" => path.is_empty() && this.of(flat.base),
            "map" | "flatMap" => callback.is_none_or(|callback| this.gives_value(callback)),
            method => METHODS.contains(&method),
        }
    }

    /// Returns whether a member of a global is called for its value; `None`: it depends on the method alone.
    fn of_global(self, root: &str, flat: &Flat<'_, 'a>, call: &CallExpression<'a>) -> Option<bool> {
        let (method, path) = flat.members.split_last()?;
        match (root, path, method.0) {
            ("console", ..) => Some(false),
            ("store", _, method) => Some(matches!(method, "get" | "has" | "keys" | "list")),
            ("Promise", [], _) => Some(match call.arguments.first().and_then(Argument::as_expression) {
                Some(Expression::ArrayExpression(array)) => {
                    array.elements.iter().filter_map(|element| element.as_expression()).any(|element| self.of(element))
                }
                Some(Expression::CallExpression(inner)) => self.call(inner),
                _ => false,
            }),
            ("Object" | "Reflect", [], method) => Some(!CHANGING.contains(&method)),
            ("Array" | "BigInt" | "Date" | "JSON" | "Math" | "Number" | "String", [], _) => Some(true),
            // A tool.
            ("mcp", [], _) => Some(true),
            ("servers" | "globalThis", [_], _) => Some(true),
            (_, [], "then" | "catch" | "finally") => None,
            (_, [], _) => Some(true),
            _ => None,
        }
    }

    /// Returns whether a function returns a value that its caller may want.
    fn gives_value(self, function: Callable<'_, 'a>) -> bool {
        let Some(this) = self.deeper() else { return false };
        let statements = match function {
            Callable::Function(function) if function.generator => return false,
            Callable::Function(function) => match &function.body {
                Some(body) => &body.statements,
                None => return false,
            },
            Callable::Arrow(arrow) => match &arrow.body {
                ArrowFunctionBody::FunctionBody(body) => &body.statements,
                body => return body.as_expression().is_some_and(|value| this.of(value)),
            },
        };
        returns(statements, |value| value.is_some_and(|value| this.of(value)))
    }
}
