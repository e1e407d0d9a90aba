//! Finds uses of the values that awaited tool calls give, and the members by which they are reached.

use oxc_ast::ast::*;
use oxc_semantic::SymbolId;
use oxc_span::{GetSpan, Span};

use super::chains::{Flat, Member, flatten};
use super::meaning::Meanings;
use super::{MAX_DECLARED_NAMES, Place};
use crate::shortcut::Callee;

/// Maximum number of variables between a use and the call.
const MAX_VARIABLES: usize = 8;

/// Use of the value of an awaited call, or of a member of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultUse {
    /// Tool that is called.
    pub callee: Callee,
    /// First and last line of the call, counted from 1.
    pub lines: (u32, u32),
    /// Members that lead from the value of the call to the one that is used, in their order; empty: it is used itself.
    pub members: Vec<Member>,
    /// Way in which it is used.
    pub used: ResultUsed,
    /// Start of the code that uses it.
    pub start: Place,
    /// End of that code.
    pub end: Place,
}

/// Way in which a value is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultUsed {
    /// It is read.
    Read,
    /// It is called.
    Called,
    /// It is iterated over.
    Iterated,
    /// It is given to `JSON.parse`.
    Parsed,
    /// It is the value that the program, or a function of its top level, returns.
    Returned,
}

/// Uses that were found so far.
#[derive(Default)]
pub(super) struct Results {
    uses: Vec<ResultUse>,
    /// Members that the program sets or deletes, so that they are no more as the call gave them.
    changed: Vec<ResultUse>,
}

impl Results {
    pub(super) fn len(&self) -> usize {
        self.uses.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.uses.len() + self.changed.len() >= MAX_DECLARED_NAMES
    }

    pub(super) fn add(&mut self, of: ResultUse) {
        self.uses.push(of);
    }

    /// Notes that the member of the last use is changed, if that use came after `before` others.
    pub(super) fn last_is_changed(&mut self, before: usize) {
        if self.uses.len() > before {
            self.changed.extend(self.uses.pop());
        }
    }

    /// Returns the uses of values that the program does not change.
    pub(super) fn certain(self) -> Vec<ResultUse> {
        let Self { mut uses, changed } = self;
        uses.retain(|it| !changed.iter().any(|changed| changed.is_around(it)));
        uses
    }
}

impl ResultUse {
    /// Returns whether this member is, contains, or is a part of that of another use of the same call.
    fn is_around(&self, other: &Self) -> bool {
        let names = self.members.iter().zip(&other.members);
        self.lines == other.lines
            && self.callee == other.callee
            && names.into_iter().all(|(one, two)| one.name == two.name)
    }
}

/// Awaited call, and the members that lead from its value to another one.
pub(super) struct Origin<'n, 'a> {
    pub(super) call: &'n CallExpression<'a>,
    pub(super) callee: Callee,
    /// Names of the members, each with its place.
    pub(super) path: Vec<(String, Span)>,
}

impl<'n, 'a> Origin<'n, 'a> {
    /// Adds members to the path.
    pub(super) fn with(mut self, members: &[(&str, Span)]) -> Self {
        self.path.extend(members.iter().map(|(name, span)| ((*name).to_owned(), *span)));
        self
    }
}

/// Finds the awaited call that gives the value of an expression, by way of variables that keep their first value, of
/// members and of destructuring. `None`: it is another value, or not certain.
pub(super) fn origin<'n, 'a>(meanings: Meanings<'n, 'a>, expression: &'n Expression<'a>) -> Option<Origin<'n, 'a>> {
    Search { meanings, left: MAX_VARIABLES }.awaited(expression)
}

/// Search for the call that gives a value.
struct Search<'n, 'a> {
    meanings: Meanings<'n, 'a>,
    /// Number of variables that may still be looked up: they may go around in a circle.
    left: usize,
}

impl<'n, 'a> Search<'n, 'a> {
    fn awaited(&mut self, expression: &'n Expression<'a>) -> Option<Origin<'n, 'a>> {
        let Flat { base, members, .. } = flatten(expression);
        let origin = match base {
            Expression::AwaitExpression(it) => self.promise(&it.argument)?,
            Expression::Identifier(name) => self.variable(self.meanings.symbol(name)?)?,
            _ => return None,
        };
        Some(origin.with(&members))
    }

    /// Finds the call whose Promise an expression is.
    fn promise(&mut self, expression: &'n Expression<'a>) -> Option<Origin<'n, 'a>> {
        match expression.without_parentheses() {
            Expression::CallExpression(call) => Some(Origin { call, callee: self.callee(call)?, path: Vec::new() }),
            Expression::Identifier(name) => {
                self.left = self.left.checked_sub(1)?;
                self.promise(self.meanings.only_value(self.meanings.symbol(name)?)?)
            }
            _ => None,
        }
    }

    /// Returns the tool of a call: its object is none of the program's.
    fn callee(&self, call: &'n CallExpression<'a>) -> Option<Callee> {
        if call.optional {
            return None;
        }
        let Flat { base: Expression::Identifier(root), members, is_optional: false } = flatten(&call.callee) else {
            return None;
        };
        if self.meanings.symbol(root).is_some() {
            return None;
        }
        let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
        let member = |server: &str, tool: &str| Callee::Member { server: server.into(), tool: tool.into() };
        match (root.name.as_str(), names.as_slice()) {
            ("mcp", ["call"]) => match call.arguments.first()?.as_expression()?.without_parentheses() {
                Expression::StringLiteral(name) => Some(Callee::Named(name.value.to_string())),
                _ => None,
            },
            ("mcp", _) => None,
            ("servers" | "globalThis", [server, tool]) => Some(member(server, tool)),
            (server, [tool]) => Some(member(server, tool)),
            _ => None,
        }
    }

    /// Finds the call that gives the value of a variable.
    fn variable(&mut self, symbol: SymbolId) -> Option<Origin<'n, 'a>> {
        self.left = self.left.checked_sub(1)?;
        let variable = self.meanings.kept_variable(symbol)?;
        let init = variable.init.as_ref()?;
        let mut path = Vec::new();
        if !path_in(&variable.id, symbol, &mut path) {
            return None;
        }
        path.reverse();
        let (origin, path) = match (self.all(init), path.split_first()) {
            (Some(all), Some(((index, _), rest))) => (self.promise(element(all, index)?)?, rest.to_vec()),
            (Some(_), None) => return None,
            (None, _) => (self.awaited(init)?, path),
        };
        Some(Origin { path: [origin.path, path].concat(), ..origin })
    }

    /// Returns the array whose elements `await Promise.all([…])` waits for; `None`: it is something else.
    fn all(&self, expression: &'n Expression<'a>) -> Option<&'n ArrayExpression<'a>> {
        let Expression::AwaitExpression(it) = expression.without_parentheses() else { return None };
        let Expression::CallExpression(call) = it.argument.without_parentheses() else { return None };
        let Flat { base: Expression::Identifier(root), members, .. } = flatten(&call.callee) else { return None };
        let is_all = root.name == "Promise" && self.meanings.symbol(root).is_none();
        match (members.as_slice(), call.arguments.first()) {
            ([("all", _)], Some(Argument::ArrayExpression(array))) if is_all => Some(array),
            _ => None,
        }
    }
}

/// Returns an element of an array literal; `None`: there is none, or a spread before it makes it uncertain.
fn element<'n, 'a>(array: &'n ArrayExpression<'a>, index: &str) -> Option<&'n Expression<'a>> {
    let index: usize = index.parse().ok()?;
    let until = array.elements.get(..=index)?;
    let has_spread = until.iter().any(|it| matches!(it, ArrayExpressionElement::SpreadElement(_)));
    if has_spread { None } else { until.last()?.as_expression() }
}

/// Appends the members by which destructuring reaches a variable, the last one first. Returns `false` if the pattern
/// does not declare the variable, or its value is not certain.
fn path_in(pattern: &BindingPattern<'_>, symbol: SymbolId, path: &mut Vec<(String, Span)>) -> bool {
    match pattern {
        BindingPattern::BindingIdentifier(name) => name.symbol_id.get() == Some(symbol),
        BindingPattern::ObjectPattern(object) => object.properties.iter().any(|property| {
            let Some(name) = property.key.static_name() else { return false };
            let is_in = path_in(&property.value, symbol, path);
            if is_in {
                path.push((name.to_string(), property.span));
            }
            is_in
        }),
        BindingPattern::ArrayPattern(array) => (0..).zip(&array.elements).any(|(index, element)| {
            let Some(element) = element else { return false };
            let is_in = path_in(element, symbol, path);
            if is_in {
                path.push((usize::to_string(&index), element.span()));
            }
            is_in
        }),
        // The default may be the value.
        BindingPattern::AssignmentPattern(_) => false,
    }
}
