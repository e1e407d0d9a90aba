//! Finds the parts of a program that guard its calls: conditions, handlers of errors, and functions that may not run.

use std::collections::BTreeSet;

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{ScopeFlags, Scoping, SymbolId};
use oxc_span::GetSpan;

/// Guards of the whole program.
pub(super) struct Guards {
    /// `true`: a failure is handled somewhere, so that what other functions do may be meant to fail.
    pub(super) handles_errors: bool,
    /// `true`: nothing is certain. A helper throws on its own, which may end the program before a call, or the program
    /// changes what globals are.
    is_everywhere: bool,
    /// Starts of the functions that are the program.
    pub(super) main: BTreeSet<u32>,
    /// Starts of the functions that run whenever the code around them does: the program itself, callbacks, and helpers
    /// that are called without a condition.
    pub(super) certain: BTreeSet<u32>,
}

impl Guards {
    /// Finds the guards of a program.
    pub(super) fn of(program: &Program<'_>, scoping: &Scoping) -> Self {
        let mut seen = Seen {
            scoping,
            guards: Self {
                handles_errors: false,
                is_everywhere: false,
                main: BTreeSet::new(),
                certain: BTreeSet::new(),
            },
            conditions: 0,
            functions: 0,
            called: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            helpers: Vec::new(),
        };
        seen.note_main(program);
        seen.visit_program(program);
        let Seen { mut guards, called, doubtful, helpers, .. } = seen;
        let is_certain = |symbol: &SymbolId| called.contains(symbol) && !doubtful.contains(symbol);
        guards.certain.extend(helpers.iter().filter(|(symbol, _)| is_certain(symbol)).map(|(_, start)| *start));
        guards
    }

    /// Returns `true` if no call of the program is certain.
    pub(super) fn are_everywhere(&self) -> bool {
        self.is_everywhere
    }
}

/// Returns the start of a function, if the expression is one.
pub(super) fn function_start(expression: &Expression<'_>) -> Option<u32> {
    match expression.without_parentheses() {
        Expression::ArrowFunctionExpression(it) => Some(it.span.start),
        Expression::FunctionExpression(it) => Some(it.span.start),
        _ => None,
    }
}

struct Seen<'w> {
    scoping: &'w Scoping,
    guards: Guards,
    /// Conditions around this place.
    conditions: usize,
    /// Functions with a name around this place, the program's own not counted.
    functions: usize,
    /// Names that are used without a condition.
    called: BTreeSet<SymbolId>,
    /// Names that are used under a condition, or in a helper.
    doubtful: BTreeSet<SymbolId>,
    /// Functions with a name, and where they start.
    helpers: Vec<(SymbolId, u32)>,
}

impl Seen<'_> {
    /// Notes the function that is the program.
    fn note_main(&mut self, program: &Program<'_>) {
        let named = |function: &Function<'_>| function.id.as_ref().is_some_and(|id| id.name == "main");
        let only = program.body.len() == 1;
        for statement in &program.body {
            let start = match statement {
                Statement::ExpressionStatement(it) if only => function_start(&it.expression),
                Statement::FunctionDeclaration(it) if only || named(it) => Some(it.span.start),
                Statement::ExportDefaultDeclaration(export) => match &export.declaration {
                    ExportDefaultDeclarationKind::FunctionDeclaration(it) => Some(it.span.start),
                    other => other.as_expression().and_then(function_start),
                },
                Statement::ExportDeclaration(export) => match &export.declaration {
                    Declaration::FunctionDeclaration(it) if named(it) => Some(it.span.start),
                    _ => None,
                },
                _ => None,
            };
            self.guards.main.extend(start);
        }
        self.guards.certain.clone_from(&self.guards.main);
    }

    fn under_condition(&mut self, work: impl FnOnce(&mut Self)) {
        self.conditions += 1;
        work(self);
        self.conditions -= 1;
    }

    /// Looks into a function, which is a helper unless it is certain to run.
    fn in_function(&mut self, start: u32, work: impl FnOnce(&mut Self)) {
        let inner = usize::from(!self.guards.certain.contains(&start));
        self.functions += inner;
        work(self);
        self.functions -= inner;
    }
}

impl<'a> Visit<'a> for Seen<'_> {
    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        let symbol = name.reference_id.get().and_then(|id| self.scoping.get_reference(id).symbol_id());
        let is_certain = self.conditions == 0 && self.functions == 0;
        let names = if is_certain { &mut self.called } else { &mut self.doubtful };
        names.extend(symbol);
        self.guards.is_everywhere |= symbol.is_none() && matches!(name.name.as_str(), "globalThis" | "eval");
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        let object = match &it.left {
            AssignmentTarget::StaticMemberExpression(member) => Some(&member.object),
            AssignmentTarget::ComputedMemberExpression(member) => Some(&member.object),
            _ => None,
        };
        // `mcp.call = …` makes something else of every call.
        if let Some(Expression::Identifier(name)) = object
            && name.reference_id.get().is_some_and(|id| self.scoping.get_reference(id).symbol_id().is_none())
        {
            self.guards.is_everywhere = true;
        }
        walk::walk_assignment_expression(self, it);
    }

    fn visit_if_statement(&mut self, it: &IfStatement<'a>) {
        self.under_condition(|this| walk::walk_if_statement(this, it));
    }

    fn visit_conditional_expression(&mut self, it: &ConditionalExpression<'a>) {
        self.under_condition(|this| walk::walk_conditional_expression(this, it));
    }

    fn visit_logical_expression(&mut self, it: &LogicalExpression<'a>) {
        self.under_condition(|this| walk::walk_logical_expression(this, it));
    }

    fn visit_chain_expression(&mut self, it: &ChainExpression<'a>) {
        self.under_condition(|this| walk::walk_chain_expression(this, it));
    }

    fn visit_switch_statement(&mut self, it: &SwitchStatement<'a>) {
        self.under_condition(|this| walk::walk_switch_statement(this, it));
    }

    fn visit_while_statement(&mut self, it: &WhileStatement<'a>) {
        self.under_condition(|this| walk::walk_while_statement(this, it));
    }

    fn visit_try_statement(&mut self, it: &TryStatement<'a>) {
        self.guards.handles_errors = true;
        self.under_condition(|this| walk::walk_try_statement(this, it));
    }

    fn visit_throw_statement(&mut self, it: &ThrowStatement<'a>) {
        self.guards.is_everywhere |= self.functions > 0;
        walk::walk_throw_statement(self, it);
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        if matches!(it.property.name.as_str(), "catch" | "allSettled" | "any" | "race") {
            self.guards.handles_errors = true;
        }
        walk::walk_static_member_expression(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        let handles = |name: &str| name == "then" && it.arguments.len() > 1;
        if let Expression::StaticMemberExpression(member) = it.callee.without_parentheses()
            && handles(member.property.name.as_str())
        {
            self.guards.handles_errors = true;
        }
        let callbacks = it.arguments.iter().filter_map(Argument::as_expression).filter_map(function_start);
        self.guards.certain.extend(callbacks.chain(function_start(&it.callee)));
        walk::walk_call_expression(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        let symbol = match &it.id {
            BindingPattern::BindingIdentifier(id) => id.symbol_id.get(),
            _ => None,
        };
        let start = it.init.as_ref().and_then(function_start);
        self.helpers.extend(symbol.zip(start));
        walk::walk_variable_declarator(self, it);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        if it.is_declaration() {
            let symbol = it.id.as_ref().and_then(|id| id.symbol_id.get());
            self.helpers.extend(symbol.map(|symbol| (symbol, it.span().start)));
        }
        self.in_function(it.span.start, |this| walk::walk_function(this, it, flags));
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.in_function(it.span.start, |this| walk::walk_arrow_function_expression(this, it));
    }
}
