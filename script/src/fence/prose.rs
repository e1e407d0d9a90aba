//! Tells prose from code, line by line: where neither is certain, a text counts as code.

/// Words that begin a statement if they stand at the start of a line. In prose these lines begin with a capital, or
/// with other words.
const BEGIN_CODE: [&str; 10] =
    ["const", "var", "function", "import", "export", "return", "throw", "await", "yield", "async"];
/// Words that begin a statement if a bracket follows.
const BEGIN_CODE_WITH_BRACKET: [&str; 10] =
    ["if", "for", "while", "switch", "do", "try", "else", "catch", "with", "new"];
/// Operators that prose does not have.
const OPERATORS: [&str; 7] = ["=>", "==", "!=", "&&", "||", "+=", "??"];

/// Returns whether every line is prose, so that no comment, string or template is open behind the last one.
pub(super) fn is_prose(text: &str) -> bool {
    text.lines().all(|line| is_line_of_prose(line.trim().trim_start_matches(super::BYTE_ORDER_MARK)))
}

fn is_line_of_prose(line: &str) -> bool {
    let Some(words) = without_inline_code(line) else { return false };
    let opened = |open: char, close: char| words.matches(open).count() > words.matches(close).count();
    let is_open = opened('(', ')') || opened('[', ']') || opened('{', '}') || words.contains("/*");
    let begins = words.starts_with(['}', ')', ']', '.']) || words.starts_with("//") || words.starts_with("#!");
    let ends = words.ends_with([';', '\\', '=']);
    let has_operator = OPERATORS.iter().any(|operator| words.contains(operator));
    !(is_open || begins || ends || has_operator || begins_a_statement(&words))
}

/// Returns the line without its inline code, as in `` `a.b()` ``; `None`: a backtick in it may mean something else.
fn without_inline_code(line: &str) -> Option<String> {
    let mut words = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once('`') {
        let (_, after) = behind.split_once('`')?;
        let is_apart =
            |c: Option<char>, others: &str| c.is_none_or(|c| c.is_whitespace() || !c.is_ascii() || others.contains(c));
        if !is_apart(before.chars().next_back(), "([*_-") || !is_apart(after.chars().next(), ".,:;!?)]*_-'") {
            return None;
        }
        words.push_str(before);
        words.push('x');
        rest = after;
    }
    words.push_str(rest);
    // With an open quote, the backticks may belong to a string.
    let is_quoted = rest.len() < line.len() && (words.matches('"').count() % 2 == 1 || words.starts_with('\''));
    (!is_quoted).then_some(words)
}

/// Returns whether a line begins like a declaration, an assignment, a call or another statement.
fn begins_a_statement(line: &str) -> bool {
    let path_end = line.find(|c: char| !(c.is_alphanumeric() || "_$.".contains(c))).unwrap_or(line.len());
    let (path, rest) = line.split_at(path_end);
    let next = rest.trim_start();
    if BEGIN_CODE.contains(&path) {
        return true;
    }
    if path == "let" {
        let name_end = next.find(|c: char| !(c.is_alphanumeric() || "_$".contains(c))).unwrap_or(next.len());
        let behind = next[name_end..].trim_start();
        return name_end == 0 || behind.is_empty() || behind.starts_with(['=', ';', ':', ',']);
    }
    if BEGIN_CODE_WITH_BRACKET.contains(&path) && next.starts_with(['(', '{']) {
        return true;
    }
    let is_assignment = !path.is_empty() && next.starts_with('=');
    let is_call = !path.is_empty() && rest.starts_with('(') && line.ends_with(')');
    is_assignment || is_call
}
