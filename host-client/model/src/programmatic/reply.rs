//! Finds out if a reply is prose. The parser of the relay reads the program itself, with or without a Markdown fence.

/// Words that may stand before another word on one line of a program.
const BEFORE: &[&str] = &[
    "abstract",
    "accessor",
    "as",
    "asserts",
    "async",
    "await",
    "case",
    "class",
    "const",
    "declare",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "for",
    "from",
    "function",
    "get",
    "global",
    "if",
    "implements",
    "import",
    "in",
    "infer",
    "instanceof",
    "interface",
    "is",
    "keyof",
    "let",
    "module",
    "namespace",
    "new",
    "of",
    "out",
    "override",
    "private",
    "protected",
    "public",
    "readonly",
    "return",
    "satisfies",
    "set",
    "static",
    "super",
    "this",
    "throw",
    "try",
    "type",
    "typeof",
    "unique",
    "using",
    "var",
    "void",
    "while",
    "with",
    "yield",
];
/// Words that may stand after another word on one line of a program.
const AFTER: &[&str] = &["as", "extends", "from", "implements", "in", "instanceof", "is", "of", "satisfies"];

/// Returns the reply if it may contain code, in a fence or not; `None` if it is certainly prose.
pub(super) fn code(reply: &str) -> Option<&str> {
    let text = reply.trim();
    let has_fence = text.lines().map(str::trim_start).any(|line| line.starts_with("```") || line.starts_with("~~~"));
    (has_fence || !is_prose(text)).then_some(reply)
}

/// Returns `true` if the first line has two adjacent words that no program has, or an apostrophe within a word, before
/// anything that could be a string or a comment. An empty text is prose, too.
fn is_prose(text: &str) -> bool {
    let Some(line) = text.lines().next() else { return true };
    let end = line.find(['"', '\'', '`', '/', '#', '’']).unwrap_or(line.len());
    let (plain, rest) = line.split_at(end);
    let words: Vec<_> = plain.split_whitespace().collect();
    let has_neighbours = words.windows(2).any(|pair| {
        let [one, next] = pair else { return false };
        let next: &str = next.trim_end_matches([',', '.', ':', ';', '!', '?']);
        is_word(one) && is_word(next) && !BEFORE.contains(one) && !AFTER.contains(&next)
    });
    let mut rest = rest.chars();
    let is_apostrophe = matches!(rest.next(), Some('\'' | '’')) && rest.next().is_some_and(char::is_alphabetic);
    let before = plain.rsplit(|char: char| !char.is_alphabetic()).next().unwrap_or_default();
    has_neighbours || (is_apostrophe && is_word(before) && !BEFORE.contains(&before))
}

/// Returns `true` if the text has letters only.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn prose_is_known_and_no_program_is_taken_for_it() {
        for prose in [
            "",
            " \n ",
            "I cannot do that.",
            "I can't do that (there is no tool).",
            "I'm sorry.",
            "(Don’t ask)",
            "Sorry, there is no such tool; ask for another = one.",
            "Hier ist die Antwort: 42",
            "- Call the tool\n- Return its value",
            "The answer is 42.\nreturn 42",
            "Please return x",
        ] {
            assert_eq!(code(prose), None, "{prose:?}");
        }
        for program in [
            "return 42",
            "Math.max(1)",
            "a",
            "a, b",
            "return'a'",
            "x = y in'abc'",
            "'I cannot do that'",
            "// I cannot do that\nreturn 1",
            "/* I cannot do that */ 1",
            "`I cannot do that`",
            "const x = await exa.search({query: \"I cannot do that\"}); return x",
            "export default async function main() { return 1 }",
            "async () => { return await a.b({}) }",
            "for await (const x of y) {}",
            "if (a) b(); else c()",
            "type A = string; return 1",
            "interface A extends B { a: string }",
            "class A extends B {}",
            "key in object",
            "x instanceof Y",
            "let x of",
            "import type A from 'b'",
            "Here is the code:\n```js\nreturn 1\n```",
            "~~~\nreturn 1\n~~~",
            "{ \"tool\": \"a.b\" }",
        ] {
            assert_eq!(code(program), Some(program), "{program:?}");
        }
    }
}
