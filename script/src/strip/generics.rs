//! Recognizes calls with type arguments that JavaScript reads as comparisons: `new Set<string>(names)`.

use std::collections::HashSet;

use memchr::memchr_iter;
use oxc_allocator::Allocator;
use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};

use crate::parse::{self, index};

/// Returns whether code that parses as JavaScript means a call `f<T>(x)`: it has no spaces around the angle brackets,
/// and the comparison makes no sense, because `T` is a name that nothing declares, no name, or holds a `typeof` or an
/// object.
///
/// With spaces, or with a variable `T`, it is a comparison.
pub(super) fn has_generic_call(program: &Program<'_>) -> bool {
    let text = program.source_text;
    if !may_have_arguments(text.as_bytes()) {
        return false;
    }
    let allocator = Allocator::default();
    let Ok(typescript) = parse::typescript(&allocator, text) else { return false };
    let mut calls = Calls { text, arguments: Vec::new() };
    calls.visit_program(&typescript);
    if calls.arguments.is_empty() {
        return false;
    }
    let mut names = Names { used: Vec::new(), declared: HashSet::new() };
    names.visit_program(program);
    names.used.sort_unstable_by_key(|(at, _)| *at);
    calls.arguments.iter().any(|arguments| arguments.is_only_type || !names.may_compare(arguments.span))
}

/// Returns whether there is `>(` or `` >` `` behind something other than an arrow or a space.
fn may_have_arguments(text: &[u8]) -> bool {
    memchr_iter(b'>', text).any(|at| {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        matches!(text.get(at + 1), Some(b'(' | b'`')) && !matches!(before, None | Some(b'=' | b' '))
    })
}

/// Type arguments of calls, as TypeScript reads them, without spaces around their brackets.
struct Calls<'s> {
    text: &'s str,
    arguments: Vec<Arguments>,
}

/// Type arguments of a call, with their brackets.
struct Arguments {
    span: Span,
    /// `true`: they hold a `typeof` or an object, which nobody compares with `<`.
    is_only_type: bool,
}

impl Calls<'_> {
    fn note(&mut self, callee: Span, arguments: Option<&TSTypeParameterInstantiation<'_>>) {
        let Some(arguments) = arguments else { return };
        let end = index(arguments.span.end);
        let is_close = arguments.span.start == callee.end && self.text[end..].starts_with(['(', '`']);
        if is_close {
            let mut only = OnlyTypes(false);
            only.visit_ts_type_parameter_instantiation(arguments);
            self.arguments.push(Arguments { span: arguments.span, is_only_type: only.0 });
        }
    }
}

impl<'a> Visit<'a> for Calls<'_> {
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        self.note(call.callee.span(), call.type_arguments.as_deref());
        walk::walk_call_expression(self, call);
    }

    fn visit_new_expression(&mut self, new: &NewExpression<'a>) {
        self.note(new.callee.span(), new.type_arguments.as_deref());
        walk::walk_new_expression(self, new);
    }

    fn visit_tagged_template_expression(&mut self, tagged: &TaggedTemplateExpression<'a>) {
        self.note(tagged.tag.span(), tagged.type_arguments.as_deref());
        walk::walk_tagged_template_expression(self, tagged);
    }
}

/// Finds `typeof x` and `{ a: T }`.
struct OnlyTypes(bool);

impl<'a> Visit<'a> for OnlyTypes {
    fn visit_ts_type_query(&mut self, _: &TSTypeQuery<'a>) {
        self.0 = true;
    }

    fn visit_ts_type_literal(&mut self, _: &TSTypeLiteral<'a>) {
        self.0 = true;
    }
}

/// Names of variables and their uses, as JavaScript reads them.
struct Names<'a> {
    used: Vec<(u32, &'a str)>,
    declared: HashSet<&'a str>,
}

impl Names<'_> {
    /// Returns whether the text in this place has variables and all of them are declared.
    fn may_compare(&self, span: Span) -> bool {
        let first = self.used.partition_point(|(at, _)| *at < span.start);
        let mut inside = self.used[first..].iter().take_while(|(at, _)| *at < span.end).peekable();
        inside.peek().is_some() && inside.all(|(_, name)| self.declared.contains(name))
    }
}

impl<'a> Visit<'a> for Names<'a> {
    fn visit_binding_identifier(&mut self, id: &BindingIdentifier<'a>) {
        self.declared.insert(id.name.as_str());
    }

    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        self.used.push((name.span.start, name.name.as_str()));
    }
}
