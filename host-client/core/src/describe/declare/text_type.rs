//! A type as text, and how types are put together: each once, and in parentheses where that is needed.

use serde_json::Value;

/// A type as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) text: String,
    binds: Binds,
}

/// What has to stand in parentheses, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binds {
    Tight,
    Intersection,
    Union,
}

impl Type {
    pub(super) fn tight(text: impl Into<String>) -> Self {
        Self { text: text.into(), binds: Binds::Tight }
    }

    pub(super) fn unknown() -> Self {
        Self::tight("unknown")
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(super) fn within(&self, binds: Binds) -> String {
        if self.binds > binds { format!("({})", self.text) } else { self.text.clone() }
    }
}

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
        let texts: Vec<_> = members.iter().map(|each| each.within(Binds::Union)).collect();
        return Type { text: texts.join(" | "), binds: Binds::Union };
    }
    members.pop().unwrap_or_else(|| Type::tight("never"))
}

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
        let texts: Vec<_> = members.iter().map(|each| each.within(Binds::Intersection)).collect();
        return Type { text: texts.join(" & "), binds: Binds::Intersection };
    }
    members.pop().unwrap_or_else(Type::unknown)
}

/// The type of all values of this one's kind.
pub(super) fn kind(value: &Value) -> Type {
    Type::tight(match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "unknown[]",
        Value::Object(_) => "Record<string, unknown>",
    })
}
