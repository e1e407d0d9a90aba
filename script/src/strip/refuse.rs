//! Refuses the syntax of TypeScript that is more than types, with advice on what to write instead.

use crate::error::SyntaxError;

/// Makes the error for syntax that is not available.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    message: &'static str,
    hint: &'static str,
}

impl Refusal {
    pub(super) fn at(self, text: &str, offset: usize) -> SyntaxError {
        SyntaxError::at(text, offset, self.message.into(), self.hint)
    }
}

pub(super) const JSX: Refusal =
    Refusal { message: "JSX is not available", hint: "there is no page to render; return data as JSON, or a string" };
pub(super) const IMPORT: Refusal = Refusal {
    message: "imports are not available",
    hint: "nothing can be imported here; call tools with `await mcp.call(\"server.tool\", args)`",
};
pub(super) const DECORATOR: Refusal = Refusal {
    message: "decorators are not available",
    hint: "call a function with the class or the method instead: `const Wrapped = decorate(Original)`",
};
pub(super) const ACCESSOR: Refusal = Refusal {
    message: "`accessor` fields are not available",
    hint: "write a private field with `get name() { … }` and `set name(value) { … }`",
};
pub(super) const PARAMETER_PROPERTY: Refusal = Refusal {
    message: "parameter properties are not available",
    hint: "declare the field in the class and assign it in the constructor: `this.name = name`",
};
pub(super) const NAMESPACE: Refusal = Refusal {
    message: "namespaces that hold values are not available",
    hint: "write an object instead: `const name = { … }`",
};
pub(super) const IMPORT_EQUALS: Refusal = Refusal {
    message: "`import =` is not available",
    hint: "nothing can be imported here; give another name to a value with `const name = other.name`",
};
pub(super) const EXPORT_EQUALS: Refusal = Refusal {
    message: "`export =` is not available",
    hint: "write `export default` instead, or only `return` the value",
};
pub(super) const ASSERTION_OF_LINES: Refusal = Refusal {
    message: "a type assertion in angle brackets has to stand on one line",
    hint: "write `value as Type` instead of `<Type>value`",
};
pub(super) const ENUM_MEMBER: Refusal = Refusal {
    message: "the value of this enum member is not a constant",
    hint: "write an object instead: `const Color = { Red: 0 } as const`",
};
pub(super) const ENUM_TWICE: Refusal = Refusal {
    message: "an enum cannot be declared twice",
    hint: "write all members in one `enum` declaration, or give the second another name",
};
pub(super) const ENUMS_TOO_LARGE: Refusal =
    Refusal { message: "the enums are too large", hint: "write objects instead: `const Color = { Red: 0 } as const`" };
