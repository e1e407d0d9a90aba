//! Walks a program and collects its certain calls.

use std::collections::{BTreeMap, BTreeSet};

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{ScopeFlags, Scoping, SymbolId};
use oxc_span::GetSpan;

use super::given::Given;
use super::guards::Guards;
use crate::shortcut::{Callee, path, text_of};

/// Call as found in the tree, with places as offsets.
pub(super) struct Found {
    pub(super) callee: Callee,
    pub(super) arguments: Given,
    pub(super) start: u32,
    /// Use of its Promise as if it were the result, as code, and its place.
    pub(super) promise: Option<(String, u32)>,
}

/// Collector of calls.
pub(super) struct Calls<'w> {
    scoping: &'w Scoping,
    guards: &'w Guards,
    /// Conditions, handlers and uncertain functions around this place.
    around: usize,
    /// `true`: the function around this place may have been left before.
    may_be_left: bool,
    /// `true`: the declaration at this place is of constants.
    is_const: bool,
    /// Starts and ends of the calls whose failure ends the function around them: they are awaited or returned.
    settled: BTreeSet<(u32, u32)>,
    /// Uses of a call's Promise as its value, by the start of the call.
    uses: BTreeMap<u32, (String, u32)>,
    /// Constants that are the Promise of a call, with the start of that.
    promises: BTreeMap<SymbolId, u32>,
    found: BTreeMap<u32, Found>,
}

impl<'w> Calls<'w> {
    /// Collects the calls of a program, in the order of the text.
    pub(super) fn of(program: &Program<'_>, scoping: &'w Scoping, guards: &'w Guards) -> Vec<Found> {
        let mut calls = Self {
            scoping,
            guards,
            around: 0,
            may_be_left: false,
            is_const: false,
            settled: BTreeSet::new(),
            uses: BTreeMap::new(),
            promises: BTreeMap::new(),
            found: BTreeMap::new(),
        };
        calls.visit_program(program);
        let Self { mut uses, found, .. } = calls;
        found.into_values().map(|call| Found { promise: uses.remove(&call.start), ..call }).collect()
    }

    fn is_certain(&self) -> bool {
        self.around == 0 && !self.may_be_left
    }

    fn guarded(&mut self, work: impl FnOnce(&mut Self)) {
        self.around += 1;
        work(self);
        self.around -= 1;
    }

    fn in_function(&mut self, start: u32, work: impl FnOnce(&mut Self)) {
        let is_certain = self.guards.certain.contains(&start);
        // Where failures are handled, a function may be one that is meant to fail.
        let may_fail = self.guards.handles_errors && !self.guards.main.contains(&start);
        let more = usize::from(!is_certain) + usize::from(may_fail) + usize::from(self.may_be_left);
        let left = std::mem::take(&mut self.may_be_left);
        self.around += more;
        work(self);
        self.around -= more;
        self.may_be_left = left;
    }

    /// Returns the start of the call that an expression is, if it calls a tool.
    fn call_start(&self, expression: &Expression<'_>) -> Option<u32> {
        match expression.without_parentheses() {
            Expression::CallExpression(call) => self.callee(call).map(|_| call.span.start),
            Expression::Identifier(name) => {
                let symbol = self.scoping.get_reference(name.reference_id.get()?).symbol_id()?;
                self.promises.get(&symbol).copied()
            }
            _ => None,
        }
    }

    /// Returns the tool that a call is of; `None`: it calls something else, or that is not certain.
    fn callee(&self, call: &CallExpression<'_>) -> Option<Callee> {
        if call.optional {
            return None;
        }
        let path = path(&call.callee)?;
        let root = root(&call.callee)?;
        if self.scoping.get_reference(root.reference_id.get()?).symbol_id().is_some() {
            return None;
        }
        match (path.as_slice(), call.arguments.as_slice()) {
            (["mcp", "call"], [name, ..]) => text_of(name).map(Callee::Named),
            (["mcp" | "globalThis", ..], _) => None,
            ([server, tool], _) => Some(Callee::Member { server: (*server).into(), tool: (*tool).into() }),
            _ => None,
        }
    }

    /// Notes that the Promise of a call is used as its value.
    fn note_use(&mut self, expression: &Expression<'_>, what: impl FnOnce() -> String, place: u32) {
        if !self.is_certain() {
            return;
        }
        if let Some(start) = self.call_start(expression) {
            self.uses.entry(start).or_insert_with(|| (what(), place));
        }
    }

    fn note_member(&mut self, object: &Expression<'_>, member: &str, place: u32) {
        if !matches!(member, "then" | "catch" | "finally" | "constructor" | "toString") {
            self.note_use(object, || format!(".{member:.60}"), place);
        }
    }
}

/// Returns the name that a path such as `a.b.c` begins with.
fn root<'e, 'a>(callee: &'e Expression<'a>) -> Option<&'e IdentifierReference<'a>> {
    let mut expression = callee.without_parentheses();
    loop {
        expression = match expression {
            Expression::Identifier(name) => return Some(name),
            Expression::StaticMemberExpression(member) => member.object.without_parentheses(),
            Expression::ComputedMemberExpression(member) => member.object.without_parentheses(),
            _ => return None,
        };
    }
}

/// Returns whether a statement may leave the function or the loop around it.
fn leaves(statement: &Statement<'_>) -> bool {
    struct Leaves(bool);
    impl<'a> Visit<'a> for Leaves {
        fn visit_return_statement(&mut self, _: &ReturnStatement<'a>) {
            self.0 = true;
        }
        fn visit_throw_statement(&mut self, _: &ThrowStatement<'a>) {
            self.0 = true;
        }
        fn visit_break_statement(&mut self, _: &BreakStatement<'a>) {
            self.0 = true;
        }
        fn visit_continue_statement(&mut self, _: &ContinueStatement<'a>) {
            self.0 = true;
        }
        fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}
        fn visit_arrow_function_expression(&mut self, _: &ArrowFunctionExpression<'a>) {}
    }
    let mut found = Leaves(false);
    found.visit_statement(statement);
    found.0
}

impl<'a> Visit<'a> for Calls<'_> {
    fn visit_statement(&mut self, it: &Statement<'a>) {
        walk::walk_statement(self, it);
        let may_leave = match it {
            Statement::IfStatement(_) | Statement::SwitchStatement(_) | Statement::TryStatement(_) => leaves(it),
            Statement::ReturnStatement(_) | Statement::ThrowStatement(_) => true,
            Statement::BreakStatement(_) | Statement::ContinueStatement(_) => true,
            _ => false,
        };
        self.may_be_left |= may_leave;
    }

    fn visit_if_statement(&mut self, it: &IfStatement<'a>) {
        self.visit_expression(&it.test);
        self.guarded(|this| {
            this.visit_statement(&it.consequent);
            it.alternate.iter().for_each(|alternate| this.visit_statement(alternate));
        });
    }

    fn visit_conditional_expression(&mut self, it: &ConditionalExpression<'a>) {
        self.visit_expression(&it.test);
        self.guarded(|this| {
            this.visit_expression(&it.consequent);
            this.visit_expression(&it.alternate);
        });
    }

    fn visit_logical_expression(&mut self, it: &LogicalExpression<'a>) {
        self.visit_expression(&it.left);
        self.guarded(|this| this.visit_expression(&it.right));
    }

    fn visit_chain_expression(&mut self, it: &ChainExpression<'a>) {
        self.guarded(|this| walk::walk_chain_expression(this, it));
    }

    fn visit_switch_statement(&mut self, it: &SwitchStatement<'a>) {
        self.visit_expression(&it.discriminant);
        self.guarded(|this| it.cases.iter().for_each(|case| this.visit_switch_case(case)));
    }

    fn visit_while_statement(&mut self, it: &WhileStatement<'a>) {
        self.visit_expression(&it.test);
        self.guarded(|this| this.visit_statement(&it.body));
    }

    fn visit_try_statement(&mut self, it: &TryStatement<'a>) {
        self.guarded(|this| walk::walk_try_statement(this, it));
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        self.guarded(|this| walk::walk_class(this, it));
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        if !it.r#await {
            self.note_use(&it.right, || "for (… of …)".to_owned(), it.right.span().start);
        }
        walk::walk_for_of_statement(self, it);
    }

    fn visit_spread_element(&mut self, it: &SpreadElement<'a>) {
        self.note_use(&it.argument, || "...".to_owned(), it.span.start);
        walk::walk_spread_element(self, it);
    }

    fn visit_template_literal(&mut self, it: &TemplateLiteral<'a>) {
        for expression in &it.expressions {
            self.note_use(expression, || "${…}".to_owned(), expression.span().start);
        }
        walk::walk_template_literal(self, it);
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        self.note_member(&it.object, it.property.name.as_str(), it.span.start);
        walk::walk_static_member_expression(self, it);
    }

    fn visit_computed_member_expression(&mut self, it: &ComputedMemberExpression<'a>) {
        self.note_use(&it.object, || "[…]".to_owned(), it.span.start);
        walk::walk_computed_member_expression(self, it);
    }

    fn visit_variable_declaration(&mut self, it: &VariableDeclaration<'a>) {
        for declarator in &it.declarations {
            self.is_const = it.kind == VariableDeclarationKind::Const;
            self.visit_variable_declarator(declarator);
        }
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let Some(init) = &it.init {
            match &it.id {
                BindingPattern::BindingIdentifier(id) if self.is_const => {
                    if let (Some(symbol), Some(start)) = (id.symbol_id.get(), self.call_start(init)) {
                        self.promises.insert(symbol, start);
                    }
                }
                BindingPattern::ObjectPattern(_) => {
                    self.note_use(init, || "const {…} =".to_owned(), init.span().start);
                }
                BindingPattern::ArrayPattern(_) => {
                    self.note_use(init, || "const […] =".to_owned(), init.span().start);
                }
                _ => {}
            }
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_await_expression(&mut self, it: &AwaitExpression<'a>) {
        self.settled.extend(call_place(&it.argument));
        walk::walk_await_expression(self, it);
    }

    fn visit_return_statement(&mut self, it: &ReturnStatement<'a>) {
        self.settled.extend(it.argument.as_ref().and_then(call_place));
        walk::walk_return_statement(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        let start = it.span.start;
        // Where failures are handled, only a call that is awaited on the spot is certain to end the program.
        let is_settled = !self.guards.handles_errors || self.settled.contains(&(start, it.span.end));
        if self.is_certain()
            && is_settled
            && let Some(callee) = self.callee(it)
        {
            let skipped = usize::from(matches!(callee, Callee::Named(_)));
            let arguments = match it.arguments.get(skipped) {
                None => Given::empty_object(),
                Some(argument) => {
                    argument.as_expression().map_or(Given::Unknown, |expression| Given::of(expression, self.scoping))
                }
            };
            self.found.insert(start, Found { callee, arguments, start, promise: None });
        }
        walk::walk_call_expression(self, it);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        self.in_function(it.span.start, |this| walk::walk_function(this, it, flags));
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.in_function(it.span.start, |this| walk::walk_arrow_function_expression(this, it));
    }
}

/// Returns where a call begins and ends, if the expression is one.
fn call_place(expression: &Expression<'_>) -> Option<(u32, u32)> {
    match expression.without_parentheses() {
        Expression::CallExpression(call) => Some((call.span.start, call.span.end)),
        _ => None,
    }
}
