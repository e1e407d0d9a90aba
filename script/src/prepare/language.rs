//! Tells which other language a text that does not parse may be in, by the line where the parser stopped.

pub(super) const FORMS_HINT: &str =
    "send JavaScript or TypeScript: statements with `return`, one expression, or one function";
pub(super) const SHELL_HINT: &str = "this looks like a shell script; send JavaScript or TypeScript";
const PYTHON_HINT: &str = "this looks like Python; send JavaScript or TypeScript";
const HTML_HINT: &str = "this looks like HTML; send JavaScript or TypeScript";

/// Returns advice about a text that does not parse from this byte offset on. Lines elsewhere say nothing: they may be
/// part of a template or a comment.
pub(super) fn hint(text: &str, offset: usize) -> &'static str {
    let first = text.trim_start();
    if first.starts_with("<!") || first.starts_with("<html") {
        return HTML_HINT;
    }
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    // The line may begin inside a template or a comment that ends in it.
    if before[start..].contains('`') || before[start..].contains("*/") {
        return FORMS_HINT;
    }
    let line = text[start..].lines().next().unwrap_or("").trim();
    // `import json` fails at the next line, where `from` is missing.
    let last = before[..start].lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    if is_python(line) || imports(last.trim()) {
        PYTHON_HINT
    } else if is_shell(line) {
        SHELL_HINT
    } else {
        FORMS_HINT
    }
}

fn is_python(line: &str) -> bool {
    let (first, rest) = line.split_once(|c: char| !c.is_alphanumeric()).unwrap_or((line, ""));
    let is_block = matches!(first, "if" | "elif" | "else" | "for" | "while" | "try" | "except" | "finally" | "class");
    match first {
        "def" => rest.contains('('),
        "async" => rest.starts_with("def "),
        "with" => rest.contains(" as ") && line.ends_with(':'),
        "from" => rest.contains(" import "),
        _ => imports(line) || is_block && line.ends_with(':'),
    }
}

/// Returns whether a line imports modules as Python does, such as `import os, json`.
fn imports(line: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ',' | ' ');
    line.strip_prefix("import ").is_some_and(|names| !names.contains(" from ") && names.chars().all(is_name))
}

fn is_shell(line: &str) -> bool {
    let words = ["$", "cat", "cd", "curl", "echo", "export PATH", "git", "mkdir", "npm", "npx", "pip", "sudo", "wget"];
    words.iter().any(|word| line.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '='])))
}
