//! A TypeScript type as text, and the combination of types: each member once, in parentheses where they are needed.

use serde_json::Value;

/// A TypeScript type as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) text: String,
    precedence: Precedence,
}

/// The binding strength of a type's outermost operator, from the tightest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precedence {
    /// A name, a literal, or a type in brackets.
    Atom,
    /// Types joined with `&`.
    Intersection,
    /// Types joined with `|`.
    Union,
}

impl Type {
    /// Creates a type that needs parentheses nowhere.
    pub(super) fn atom(text: impl Into<String>) -> Self {
        Self { text: text.into(), precedence: Precedence::Atom }
    }

    /// Returns the type `unknown`.
    pub(super) fn unknown() -> Self {
        Self::atom("unknown")
    }

    /// Returns `true` if the type has exactly this text.
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    /// Returns the text as a part of a type of this precedence, in parentheses if it binds less tightly.
    pub(super) fn inside(&self, precedence: Precedence) -> String {
        if self.precedence > precedence { format!("({})", self.text) } else { self.text.clone() }
    }
}

/// Returns the union of types: `unknown` if one of them is, `never` if there are none.
pub(super) fn union(types: Vec<Type>) -> Type {
    let mut members: Vec<Type> = Vec::new();
    for each in types {
        if each.is("unknown") {
            return each;
        }
        if !each.is("never") && !members.contains(&each) {
            members.push(each);
        }
    }
    if members.len() > 1 {
        let texts: Vec<_> = members.iter().map(|each| each.inside(Precedence::Union)).collect();
        return Type { text: texts.join(" | "), precedence: Precedence::Union };
    }
    members.pop().unwrap_or_else(|| Type::atom("never"))
}

/// Returns the intersection of types: `never` if one of them is, `unknown` if there are none.
pub(super) fn intersection(types: Vec<Type>) -> Type {
    let mut members: Vec<Type> = Vec::new();
    for each in types {
        if each.is("never") {
            return each;
        }
        if !each.is("unknown") && !members.contains(&each) {
            members.push(each);
        }
    }
    if members.len() > 1 {
        let texts: Vec<_> = members.iter().map(|each| each.inside(Precedence::Intersection)).collect();
        return Type { text: texts.join(" & "), precedence: Precedence::Intersection };
    }
    members.pop().unwrap_or_else(Type::unknown)
}

/// Returns the type of all values of the same kind as this one, such as `string`.
pub(super) fn broad_type(value: &Value) -> Type {
    Type::atom(match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "unknown[]",
        Value::Object(_) => "Record<string, unknown>",
    })
}
