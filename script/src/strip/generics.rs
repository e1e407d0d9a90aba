//! Calls with type arguments that JavaScript would read as comparisons: `new Set<string>(names)`.

use std::collections::HashSet;

use memchr::memmem;
use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_span::GetSpan;

use crate::parse::index;

/// Whether code that parses as JavaScript calls `f<T>(x)`, written without spaces, where nothing declares `T`.
///
/// As JavaScript it would compare `f` with something that is not there. With spaces, or with such a variable, it is
/// taken at its word.
pub(super) fn has_generic_call(program: &Program<'_>) -> bool {
    let text = program.source_text.as_bytes();
    if memmem::find(text, b">(").is_none() && memmem::find(text, b">`").is_none() {
        return false;
    }
    let mut calls = Calls { text: program.source_text, types: Vec::new(), declared: HashSet::new() };
    calls.visit_program(program);
    calls.types.iter().any(|name| !calls.declared.contains(name))
}

struct Calls<'s, 'a> {
    text: &'s str,
    /// What stands between the angle brackets.
    types: Vec<&'a str>,
    declared: HashSet<&'a str>,
}

impl Calls<'_, '_> {
    fn is_between(&self, sign: &str, left: &Expression<'_>, right: &Expression<'_>) -> bool {
        self.text.get(index(left.span().end)..index(right.span().start)) == Some(sign)
    }

    fn is_argument(&self, expression: &Expression<'_>) -> bool {
        self.text[index(expression.span().start)..].starts_with(['(', '`'])
    }
}

impl<'a> Visit<'a> for Calls<'_, 'a> {
    fn visit_binding_identifier(&mut self, id: &BindingIdentifier<'a>) {
        self.declared.insert(id.name.as_str());
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        if it.operator == BinaryOperator::GreaterThan
            && let Expression::BinaryExpression(less) = &it.left
            && less.operator == BinaryOperator::LessThan
            && let Some(name) = root(&less.right)
            && self.is_between("<", &less.left, &less.right)
            && self.is_between(">", &it.left, &it.right)
            && self.is_argument(&it.right)
        {
            self.types.push(name);
        }
        walk::walk_binary_expression(self, it);
    }
}

/// The first name in `A.B.C`.
fn root<'a>(mut expression: &Expression<'a>) -> Option<&'a str> {
    loop {
        match expression {
            Expression::Identifier(name) => return Some(name.name.as_str()),
            Expression::StaticMemberExpression(member) => expression = &member.object,
            _ => return None,
        }
    }
}
