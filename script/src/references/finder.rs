//! Walks the syntax tree and notes names, members, and values of calls that are used without an `await`.

use std::collections::{BTreeMap, HashSet};

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{ScopeFlags, SymbolId};
use oxc_span::{GetSpan, Span};

use super::chains::{Flat, flatten, of_computed, of_static};
use super::meaning::Meanings;
use super::results::{self, Origin, Results};
use super::{
    Arguments, Chain, ChainUse, MAX_DECLARED_NAMES, MAX_MEMBERS, Member, Place, PromiseUse, ResultUse, ResultUsed,
    Undeclared, Used,
};
use crate::lines::LineStarts;
use crate::parse::index;

/// Global object, whose members are the undeclared names.
const GLOBAL: &str = "globalThis";
/// Members by which a promise is used as one.
const OF_PROMISES: [&str; 3] = ["then", "catch", "finally"];
/// Constructors that iterate over what they are given.
const ITERATING: [&str; 4] = ["Set", "Map", "WeakSet", "WeakMap"];

pub(super) struct Finder<'s, 'a> {
    meanings: Meanings<'s, 'a>,
    lines: LineStarts<'s>,
    names: BTreeMap<String, Name>,
    chains: Vec<Chain>,
    promises: Vec<PromiseUse>,
    results: Results,
    /// Number of functions around this place.
    depth: usize,
    /// Variables in whose initializers the walk is, outside of functions there.
    initializing: Vec<SymbolId>,
    may_catch: bool,
}

struct Name {
    first: Place,
    called: bool,
    assigned: bool,
    asked: bool,
}

/// Names, chains and Promises that a program uses.
pub(super) struct Found {
    pub(super) undeclared: Vec<Undeclared>,
    pub(super) chains: Vec<Chain>,
    pub(super) promises: Vec<PromiseUse>,
    pub(super) results: Vec<ResultUse>,
    pub(super) may_catch: bool,
}

impl<'s, 'a> Finder<'s, 'a> {
    pub(super) fn new(meanings: Meanings<'s, 'a>, lines: LineStarts<'s>) -> Self {
        Self {
            meanings,
            lines,
            names: BTreeMap::new(),
            chains: Vec::new(),
            promises: Vec::new(),
            results: Results::default(),
            depth: 0,
            initializing: Vec::new(),
            may_catch: false,
        }
    }

    pub(super) fn end(self) -> Found {
        let of_global = |chain: &&Chain| !chain.is_declared && chain.root == GLOBAL && chain.used != Used::Called;
        let asked: HashSet<&str> = self.chains.iter().filter(of_global).map(|it| it.members[0].name.as_str()).collect();
        let undeclared = self.names.into_iter().map(|(name, found)| {
            let Name { first: (line, column), called, assigned, asked: in_typeof } = found;
            let asked = in_typeof || asked.contains(name.as_str());
            Undeclared { name, called, assigned, asked, line, column }
        });
        Found {
            undeclared: undeclared.collect(),
            chains: self.chains,
            promises: self.promises,
            results: self.results.certain(),
            may_catch: self.may_catch,
        }
    }

    fn place(&self, offset: u32) -> Place {
        self.lines.place(index(offset))
    }

    fn note(&mut self, expression: &Expression<'_>, mark: impl FnOnce(&mut Name)) {
        if let Expression::Identifier(name) = expression.without_parentheses() {
            self.note_name(name, mark);
        }
    }

    fn note_name(&mut self, name: &IdentifierReference<'_>, mark: impl FnOnce(&mut Name)) {
        if self.meanings.symbol(name).is_some() {
            return;
        }
        let first = self.place(name.span.start);
        let new = Name { first, called: false, assigned: false, asked: false };
        mark(self.names.entry(name.name.to_string()).or_insert(new));
    }

    fn members(&self, members: &[(&str, Span)]) -> Vec<Member> {
        let member = |(name, span): &(&str, Span)| Member {
            name: (*name).to_owned(),
            start: self.place(span.start),
            end: self.place(span.end),
        };
        members.iter().map(member).collect()
    }

    /// Notes a chain, and walks into what it begins with.
    fn chain(&mut self, flat: &Flat<'_, 'a>, used: Used, arguments: Arguments, span: Span) {
        self.visit_expression(flat.base);
        if flat.members.is_empty() || flat.members.len() > MAX_MEMBERS {
            return;
        }
        let of_result = if used == Used::Called { ResultUsed::Called } else { ResultUsed::Read };
        self.result(flat.base, &flat.members, of_result, span);
        let used = if flat.is_optional { Used::Read } else { used };
        if let Expression::Identifier(root) = flat.base {
            let symbol = self.meanings.symbol(root);
            self.push_chain(Chain {
                root: root.name.to_string(),
                is_declared: symbol.is_some(),
                members: self.members(&flat.members),
                used,
                arguments,
                in_own_initializer: symbol.is_some_and(|symbol| self.initializing.contains(&symbol)),
            });
        }
        let is_of_promises = flat.members.first().is_some_and(|(first, _)| OF_PROMISES.contains(first));
        if used != Used::Assigned && !flat.is_optional && !is_of_promises {
            let members = self.members(&flat.members);
            self.promise(flat.base, ChainUse::Members { members, called: used == Used::Called }, span);
        }
    }

    fn push_chain(&mut self, chain: Chain) {
        if self.chains.len() < MAX_DECLARED_NAMES {
            self.chains.push(chain);
        }
    }

    /// Notes a use of a member of an expression, if its value comes from an awaited call.
    fn result(&mut self, base: &Expression<'a>, members: &[(&str, Span)], used: ResultUsed, span: Span) {
        if self.results.is_full() {
            return;
        }
        let Some(origin) = results::origin(self.meanings, base) else { return };
        let Origin { call, callee, path } = origin.with(members);
        let path: Vec<(&str, Span)> = path.iter().map(|(name, span)| (name.as_str(), *span)).collect();
        self.results.add(ResultUse {
            callee,
            lines: (self.place(call.span.start).0, self.place(call.span.end).0),
            members: self.members(&path),
            used,
            start: self.place(span.start),
            end: self.place(span.end),
        });
    }

    /// Notes that an expression is the value of the program, or of a function of its top level.
    fn returned(&mut self, value: &Expression<'a>) {
        if self.depth <= 1 {
            self.result(value, &[], ResultUsed::Returned, value.span());
        }
    }

    /// Notes that the value of an expression is used as none of a promise, if it is that of a call.
    fn promise(&mut self, value: &Expression<'a>, used: ChainUse, span: Span) {
        match &used {
            ChainUse::Iterated => self.result(value, &[], ResultUsed::Iterated, span),
            ChainUse::Parsed => self.result(value, &[], ResultUsed::Parsed, span),
            ChainUse::Members { .. } => {}
        }
        if self.promises.len() == MAX_DECLARED_NAMES {
            return;
        }
        let Some((root, members)) = self.meanings.called(value) else { return };
        let (root, members) = (root.to_owned(), members.into_iter().map(str::to_owned).collect());
        let (start, end) = (self.place(span.start), self.place(span.end));
        self.promises.push(PromiseUse { root, members, used, start, end });
    }

    /// Notes what a call does with its first argument.
    fn first_argument(&mut self, callee: &Flat<'_, 'a>, arguments: &[Argument<'a>], span: Span) {
        let Some(first) = arguments.first().and_then(Argument::as_expression) else { return };
        let Expression::Identifier(root) = callee.base else { return };
        if self.meanings.symbol(root).is_some() {
            return;
        }
        match (root.name.as_str(), callee.members.as_slice()) {
            ("Promise", [("all" | "allSettled" | "any" | "race", _)]) | ("Object", [("fromEntries", _)]) => {
                self.promise(first, ChainUse::Iterated, span);
            }
            ("JSON", [("parse", _)]) => self.promise(first, ChainUse::Parsed, span),
            _ => {}
        }
    }

    /// Walks into code that runs later.
    fn later(&mut self, walk: impl FnOnce(&mut Self)) {
        let initializing = std::mem::take(&mut self.initializing);
        self.depth += 1;
        walk(self);
        self.depth -= 1;
        self.initializing = initializing;
    }
}

impl<'a> Visit<'a> for Finder<'_, 'a> {
    fn visit_program(&mut self, program: &Program<'a>) {
        if let [Statement::ExpressionStatement(only)] = program.body.as_slice() {
            self.returned(&only.expression);
        }
        walk::walk_program(self, program);
    }

    fn visit_return_statement(&mut self, it: &ReturnStatement<'a>) {
        if let Some(value) = &it.argument {
            self.returned(value);
        }
        walk::walk_return_statement(self, it);
    }

    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        self.note_name(name, |_| {});
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        self.note(&call.callee, |name| name.called = true);
        let flat = flatten(&call.callee);
        self.may_catch |= match flat.members.last() {
            Some(("catch" | "allSettled" | "any" | "race", _)) => true,
            Some(("then", _)) => call.arguments.len() > 1,
            _ => false,
        };
        self.first_argument(&flat, &call.arguments, call.span);
        let arguments = match call.arguments.as_slice() {
            [] => Arguments::None,
            [Argument::ObjectExpression(_)] => Arguments::Object,
            _ => Arguments::Other,
        };
        self.chain(&flat, if call.optional { Used::Read } else { Used::Called }, arguments, call.span);
        self.visit_arguments(&call.arguments);
    }

    fn visit_new_expression(&mut self, new: &NewExpression<'a>) {
        self.note(&new.callee, |name| name.called = true);
        if let Expression::Identifier(name) = new.callee.without_parentheses()
            && ITERATING.contains(&name.name.as_str())
            && self.meanings.symbol(name).is_none()
            && let Some(first) = new.arguments.first().and_then(Argument::as_expression)
        {
            self.promise(first, ChainUse::Iterated, new.span);
        }
        walk::walk_new_expression(self, new);
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        if let Some((object, name, span, is_optional)) = of_static(it) {
            let mut flat = flatten(object);
            flat.members.push((name, span));
            flat.is_optional |= is_optional;
            self.chain(&flat, Used::Read, Arguments::Other, it.span);
        }
    }

    fn visit_computed_member_expression(&mut self, it: &ComputedMemberExpression<'a>) {
        if let Some((object, name, span, is_optional)) = of_computed(it) {
            let mut flat = flatten(object);
            flat.members.push((name, span));
            flat.is_optional |= is_optional;
            self.chain(&flat, Used::Read, Arguments::Other, it.span);
        } else {
            walk::walk_computed_member_expression(self, it);
        }
    }

    fn visit_simple_assignment_target(&mut self, target: &SimpleAssignmentTarget<'a>) {
        if let SimpleAssignmentTarget::AssignmentTargetIdentifier(name) = target {
            self.note_name(name, |name| name.assigned = true);
        }
        let (chains, results) = (self.chains.len(), self.results.len());
        walk::walk_simple_assignment_target(self, target);
        if target.as_member_expression().is_some() {
            self.results.last_is_changed(results);
        }
        if target.as_member_expression().is_some()
            && let Some(chain) = self.chains.get_mut(chains..).and_then(<[Chain]>::last_mut)
        {
            chain.used = Used::Assigned;
        }
    }

    fn visit_unary_expression(&mut self, unary: &UnaryExpression<'a>) {
        if unary.operator == UnaryOperator::Typeof {
            self.note(&unary.argument, |name| name.asked = true);
        }
        let results = self.results.len();
        walk::walk_unary_expression(self, unary);
        if unary.operator == UnaryOperator::Delete {
            self.results.last_is_changed(results);
        }
    }

    fn visit_binary_expression(&mut self, binary: &BinaryExpression<'a>) {
        walk::walk_binary_expression(self, binary);
        if let (BinaryOperator::In, Expression::StringLiteral(asked)) = (binary.operator, &binary.left) {
            let mut flat = flatten(&binary.right);
            if let Expression::Identifier(root) = flat.base {
                flat.members.push((asked.value.as_str(), asked.span));
                self.push_chain(Chain {
                    root: root.name.to_string(),
                    is_declared: self.meanings.symbol(root).is_some(),
                    members: self.members(&flat.members),
                    used: Used::Read,
                    arguments: Arguments::Other,
                    in_own_initializer: false,
                });
            }
        }
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        if !it.r#await {
            self.promise(&it.right, ChainUse::Iterated, Span::new(it.span.start, it.right.span().end));
        }
        walk::walk_for_of_statement(self, it);
    }

    fn visit_spread_element(&mut self, spread: &SpreadElement<'a>) {
        self.promise(&spread.argument, ChainUse::Iterated, spread.span);
        walk::walk_spread_element(self, spread);
    }

    fn visit_object_property_kind(&mut self, property: &ObjectPropertyKind<'a>) {
        match property {
            // `{...promise}` has no members and is no error.
            ObjectPropertyKind::SpreadProperty(spread) => self.visit_expression(&spread.argument),
            ObjectPropertyKind::ObjectProperty(_) => walk::walk_object_property_kind(self, property),
        }
    }

    fn visit_variable_declarator(&mut self, variable: &VariableDeclarator<'a>) {
        self.visit_binding_pattern(&variable.id);
        let Some(init) = &variable.init else { return };
        if matches!(variable.id, BindingPattern::ArrayPattern(_)) {
            self.promise(init, ChainUse::Iterated, variable.span);
        }
        let before = self.initializing.len();
        let names = variable.id.get_binding_identifiers();
        self.initializing.extend(names.iter().filter_map(|name| name.symbol_id.get()));
        self.visit_expression(init);
        self.initializing.truncate(before);
    }

    fn visit_try_statement(&mut self, it: &TryStatement<'a>) {
        self.may_catch |= it.handler.is_some();
        walk::walk_try_statement(self, it);
    }

    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        self.later(|this| walk::walk_function(this, function, flags));
    }

    fn visit_arrow_function_expression(&mut self, arrow: &ArrowFunctionExpression<'a>) {
        if let (0, Some(value)) = (self.depth, arrow.body.as_expression()) {
            self.returned(value);
        }
        self.later(|this| walk::walk_arrow_function_expression(this, arrow));
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        self.later(|this| walk::walk_class(this, class));
    }
}
