//! How code spells names of servers and tools that are no identifiers.

/// Words that no variable can be called by in strict code, or that mean something of their own.
const RESERVED: [&str; 53] = [
    "arguments",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "constructor",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "prototype",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "then",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// The identifier for a name: `my-backend` is `my_backend`, `123start` is `_123start`, `has.dots` is `has_dots`, and `class` is
/// `_class`. A name that is an identifier of ASCII letters stays as it is.
pub fn identifier(name: &str) -> String {
    let fits = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '$');
    let mut spelled: String = name.chars().map(|character| if fits(character) { character } else { '_' }).collect();
    if spelled.is_empty() || spelled.starts_with(|first: char| first.is_ascii_digit()) || RESERVED.contains(&&*spelled)
    {
        spelled.insert(0, '_');
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::identifier;

    #[test]
    fn a_name_is_spelled_as_an_identifier() {
        for (name, expected) in [
            ("exa", "exa"),
            ("my-backend", "my_backend"),
            ("123start", "_123start"),
            ("has.dots", "has_dots"),
            ("a b/c", "a_b_c"),
            ("größe", "gr__e"),
            ("$x_1", "$x_1"),
            ("class", "_class"),
            ("then", "_then"),
            ("", "_"),
        ] {
            assert_eq!(identifier(name), expected, "{name}");
        }
    }
}
