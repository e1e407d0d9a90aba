//! Reads from the syntax of an argument as much of its value as is certain.

use oxc_ast::ast::*;
use oxc_semantic::Scoping;

/// Maximum nesting of a literal that is looked into.
const MAX_DEPTH: usize = 20;

/// Value of an expression, as far as it is known without running anything.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// Nothing is known.
    Unknown,
    /// `undefined`, or nothing is there: JSON leaves it out.
    Absent,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string; `None`: which one is not known.
    Text(Option<String>),
    /// An array; `None`: its items are not known.
    Array(Option<Vec<Given>>),
    /// An object of these members, each key once.
    Object {
        /// Members with their names, in the order of the code.
        members: Vec<(String, Given)>,
        /// `true`: it may have others, because something is spread into it or a name is computed.
        is_open: bool,
    },
}

impl Given {
    /// Reads an expression.
    pub(super) fn of(expression: &Expression<'_>, scoping: &Scoping) -> Self {
        read(expression, scoping, 0)
    }

    /// Makes an object without members.
    pub(super) fn empty_object() -> Self {
        Self::Object { members: Vec::new(), is_open: false }
    }
}

fn read(expression: &Expression<'_>, scoping: &Scoping, depth: usize) -> Given {
    if depth > MAX_DEPTH {
        return Given::Unknown;
    }
    match expression.without_parentheses() {
        Expression::Identifier(name) => {
            let is_global = name.reference_id.get().is_some_and(|id| scoping.get_reference(id).symbol_id().is_none());
            if name.name == "undefined" && is_global { Given::Absent } else { Given::Unknown }
        }
        Expression::NullLiteral(_) => Given::Null,
        Expression::BooleanLiteral(it) => Given::Bool(it.value),
        Expression::NumericLiteral(it) => Given::Number(it.value),
        Expression::StringLiteral(it) => Given::Text((!it.lone_surrogates).then(|| it.value.to_string())),
        Expression::TemplateLiteral(it) => Given::Text(match (it.quasis.as_slice(), it.expressions.is_empty()) {
            ([only], true) => only.value.cooked.as_ref().map(ToString::to_string),
            _ => None,
        }),
        Expression::UnaryExpression(it) => match (it.operator, read(&it.argument, scoping, depth + 1)) {
            (UnaryOperator::UnaryNegation, Given::Number(number)) => Given::Number(-number),
            (UnaryOperator::UnaryPlus, Given::Number(number)) => Given::Number(number),
            (UnaryOperator::Void, _) => Given::Absent,
            _ => Given::Unknown,
        },
        Expression::ArrayExpression(array) => {
            let item = |element: &ArrayExpressionElement<'_>| {
                element.as_expression().map(|expression| read(expression, scoping, depth + 1))
            };
            Given::Array(array.elements.iter().map(item).collect())
        }
        Expression::ObjectExpression(object) => read_object(object, scoping, depth),
        _ => Given::Unknown,
    }
}

fn read_object(object: &ObjectExpression<'_>, scoping: &Scoping, depth: usize) -> Given {
    let (mut members, mut is_open): (Vec<(String, Given)>, bool) = (Vec::new(), false);
    for property in &object.properties {
        let ObjectPropertyKind::ObjectProperty(property) = property else {
            is_open = true;
            continue;
        };
        let key = match &property.key {
            PropertyKey::StaticIdentifier(name) if !property.computed => name.name.to_string(),
            PropertyKey::StringLiteral(it) if !it.lone_surrogates => it.value.to_string(),
            _ => {
                is_open = true;
                continue;
            }
        };
        let is_plain = property.kind == PropertyKind::Init && !property.method;
        // `toJSON` decides what the object becomes, and `__proto__` where it has members from.
        if !is_plain || key == "toJSON" || key == "__proto__" {
            return Given::Unknown;
        }
        let value = read(&property.value, scoping, depth + 1);
        // Of equal keys the last value counts.
        match members.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => members.push((key, value)),
        }
    }
    // What is spread behind a member may replace it.
    if is_open {
        members.iter_mut().for_each(|(_, value)| *value = Given::Unknown);
    }
    Given::Object { members, is_open }
}
