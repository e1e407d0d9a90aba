//! Tells what a name means where it is used: nothing that the program declares, a function, or the value of a call.

use oxc_ast::AstKind;
use oxc_ast::ast::*;
use oxc_semantic::{Semantic, SymbolId};

use super::chains::flatten;

/// Functions and initial values behind the names of a program.
#[derive(Clone, Copy)]
pub(super) struct Meanings<'s, 'a> {
    semantic: &'s Semantic<'a>,
}

/// Function of the program.
#[derive(Clone, Copy)]
pub(super) enum Callable<'n, 'a> {
    Function(&'n Function<'a>),
    Arrow(&'n ArrowFunctionExpression<'a>),
}

impl<'n, 'a> Callable<'n, 'a> {
    pub(super) fn of(expression: &'n Expression<'a>) -> Option<Self> {
        match expression.without_parentheses() {
            Expression::ArrowFunctionExpression(arrow) => Some(Self::Arrow(arrow)),
            Expression::FunctionExpression(function) => Some(Self::Function(function)),
            _ => None,
        }
    }
}

impl<'s, 'a> Meanings<'s, 'a> {
    pub(super) fn new(semantic: &'s Semantic<'a>) -> Self {
        Self { semantic }
    }

    /// Returns what a name is declared as; `None`: the program does not declare it.
    pub(super) fn symbol(self, name: &IdentifierReference<'_>) -> Option<SymbolId> {
        self.semantic.scoping().get_reference(name.reference_id.get()?).symbol_id()
    }

    /// Returns the value that a variable gets once and keeps; `None`: it has none, or gets another.
    pub(super) fn only_value(self, symbol: SymbolId) -> Option<&'s Expression<'a>> {
        let variable = self.kept_variable(symbol)?;
        variable.id.get_identifier_name()?;
        variable.init.as_ref()
    }

    /// Returns the declaration of a variable that is set there alone; `None`: it is set elsewhere, or is no variable.
    pub(super) fn kept_variable(self, symbol: SymbolId) -> Option<&'s VariableDeclarator<'a>> {
        let scoping = self.semantic.scoping();
        if scoping.symbol_is_mutated(symbol) {
            return None;
        }
        match self.semantic.nodes().kind(scoping.symbol_declaration(symbol)) {
            AstKind::VariableDeclarator(variable) => Some(variable),
            _ => None,
        }
    }

    /// Returns the function that a name is declared as; `None`: it is something else.
    pub(super) fn function(self, symbol: SymbolId) -> Option<Callable<'s, 'a>> {
        let scoping = self.semantic.scoping();
        match self.semantic.nodes().kind(scoping.symbol_declaration(symbol)) {
            AstKind::Function(function) if !scoping.symbol_is_mutated(symbol) => Some(Callable::Function(function)),
            _ => Callable::of(self.only_value(symbol)?),
        }
    }

    /// Returns whether a name is declared as a class.
    pub(super) fn is_class(self, symbol: SymbolId) -> bool {
        let declaration = self.semantic.scoping().symbol_declaration(symbol);
        matches!(self.semantic.nodes().kind(declaration), AstKind::Class(_))
    }

    /// Returns root and members of the call whose value an expression is, such as `exa.search({})` or a variable that
    /// holds it; `None`: it is awaited, or the program declares the root.
    pub(super) fn called<'n>(self, expression: &'n Expression<'a>) -> Option<(&'n str, Vec<&'n str>)>
    where
        's: 'n,
    {
        match expression.without_parentheses() {
            Expression::CallExpression(call) if !call.optional => {
                let flat = flatten(&call.callee);
                let Expression::Identifier(root) = flat.base else { return None };
                if self.symbol(root).is_some() || flat.members.is_empty() || flat.is_optional {
                    return None;
                }
                Some((root.name.as_str(), flat.members.into_iter().map(|(name, _)| name).collect()))
            }
            // A variable of a variable would be one too many: it may go around in a circle.
            Expression::Identifier(name) => match self.only_value(self.symbol(name)?)?.without_parentheses() {
                value @ Expression::CallExpression(_) => self.called(value),
                _ => None,
            },
            _ => None,
        }
    }
}
