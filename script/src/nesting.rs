//! Tells of a text, by its tokens, that it nests so little that parsing it and walking its syntax tree is safe.
//!
//! It counts the tokens that make a tree deeper: brackets, operators, keywords. The count starts anew where a statement or a
//! member of a list begins. Where a token cannot be told with certainty, such as a division from a regular expression,
//! the text is not let through.

/// Maximum length in bytes of a text that is parsed.
const MAX_BYTES: usize = 64 << 10;
/// Maximum number of tokens that may nest in each other.
const MAX_NESTED: usize = 200;

/// Words that an expression or a statement follows, so that they can nest and a `/` after them begins a regular
/// expression.
const KEYWORDS: [&str; 24] = [
    "await",
    "case",
    "const",
    "default",
    "delete",
    "do",
    "else",
    "export",
    "extends",
    "finally",
    "import",
    "in",
    "instanceof",
    "let",
    "new",
    "return",
    "throw",
    "try",
    "typeof",
    "var",
    "void",
    "yield",
    "class",
    "function",
];
/// Words after which a bracket holds a condition, and not arguments.
const CONTROL: [&str; 6] = ["if", "while", "for", "with", "switch", "catch"];
/// Words that are names in some places and keywords in others.
const CONTEXTUAL: [&str; 26] = [
    "abstract",
    "accessor",
    "any",
    "as",
    "asserts",
    "async",
    "declare",
    "from",
    "get",
    "implements",
    "infer",
    "interface",
    "is",
    "keyof",
    "module",
    "namespace",
    "of",
    "out",
    "override",
    "private",
    "protected",
    "public",
    "readonly",
    "satisfies",
    "set",
    "static",
];
/// Words that begin a statement wherever they follow a value, so that nothing before them goes on.
const STARTERS: [&str; 12] =
    ["class", "const", "export", "for", "function", "if", "import", "let", "return", "switch", "throw", "try"];

/// Kind of the token before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// An operator or an opening bracket: a value follows.
    Open,
    /// The end of a value: a name, a literal or a closing bracket.
    Value,
    Keyword,
    Contextual,
    /// `if` or another word before a condition.
    Control,
    /// `}` of a block or an object.
    Brace,
    /// A token after which `/` is a division in one reading and a regular expression in another.
    Unclear,
}

/// Bracket that is open.
struct Level {
    closes: u8,
    /// Tokens that may nest, since the last place where all of them have ended.
    nested: usize,
    /// `true`: the bracket holds a condition.
    is_control: bool,
    /// `true`: a comma ends all that is nested in this bracket.
    is_list: bool,
}

/// Returns `true` if the text can be parsed as JavaScript and as TypeScript on a stack of 1 MiB; `false`: it nests
/// deeper, or that is not certain.
pub(crate) fn is_shallow(text: &str) -> bool {
    let is_line = |character: char| matches!(character, '\u{2028}' | '\u{2029}');
    text.len() <= MAX_BYTES
        && !text.starts_with("#!")
        && !text.contains(is_line)
        && Scan { text, bytes: text.as_bytes(), at: 0, levels: Vec::new(), top: 0, total: 0 }.all().is_some()
}

struct Scan<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    levels: Vec<Level>,
    /// Tokens that may nest outside of all brackets.
    top: usize,
    /// Sum of all levels and their tokens.
    total: usize,
}

impl Scan<'_> {
    fn all(&mut self) -> Option<()> {
        let (mut last, mut was_word) = (Last::Open, false);
        while let Some(byte) = self.bytes.get(self.at).copied() {
            self.at += 1;
            let is_word = matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'#' | 0x80..);
            last = match byte {
                b' ' | b'\t' | b'\n' | b'\r' => continue,
                b'/' if matches!(self.bytes.get(self.at), Some(b'/' | b'*')) => {
                    self.comment()?;
                    continue;
                }
                b'/' => self.slash(last)?,
                b'"' | b'\'' => self.string(byte)?,
                b'`' => {
                    self.count(usize::from(last == Last::Value))?;
                    self.template()?
                }
                b'(' | b'[' | b'{' => self.open(byte, last)?,
                b')' | b']' | b'}' => self.close(byte)?,
                b';' => {
                    if !matches!(self.next_word(), "else" | "while") {
                        self.start_anew();
                    }
                    Last::Open
                }
                b',' => {
                    if self.levels.last().is_some_and(|level| level.is_list) {
                        self.start_anew();
                    }
                    Last::Open
                }
                b'0'..=b'9' => {
                    self.word();
                    Last::Value
                }
                _ if is_word => self.name(last, was_word)?,
                b'\\' | b'@' | ..b' ' | 0x7F => return None,
                b'<' if self.bytes[self.at..].starts_with(b"!--") => return None,
                b'-' if self.bytes[self.at..].starts_with(b"->") => return None,
                _ => self.operator(byte, last)?,
            };
            was_word = is_word;
        }
        self.levels.is_empty().then_some(())
    }

    /// Counts tokens that may nest.
    fn count(&mut self, tokens: usize) -> Option<()> {
        match self.levels.last_mut() {
            Some(level) => level.nested += tokens,
            None => self.top += tokens,
        }
        self.total += tokens;
        (self.total <= MAX_NESTED).then_some(())
    }

    /// Notes that all that was nested in the innermost bracket has ended.
    fn start_anew(&mut self) {
        let nested = match self.levels.last_mut() {
            Some(level) => std::mem::take(&mut level.nested),
            None => std::mem::take(&mut self.top),
        };
        self.total -= nested;
    }

    fn operator(&mut self, byte: u8, last: Last) -> Option<Last> {
        self.count(1)?;
        let is_value = matches!(last, Last::Value | Last::Contextual | Last::Brace | Last::Unclear);
        let before = self.at.checked_sub(2).and_then(|at| self.bytes.get(at)).copied();
        Some(match byte {
            // After `a++`, `a!` and `<T>` a division may follow.
            b'+' | b'-' if before == Some(byte) => Last::Unclear,
            b'!' if is_value => Last::Unclear,
            b'>' if before != Some(b'=') => Last::Unclear,
            _ => Last::Open,
        })
    }

    fn slash(&mut self, last: Last) -> Option<Last> {
        match last {
            Last::Value => {
                self.count(1)?;
                Some(Last::Open)
            }
            Last::Open | Last::Keyword => self.regular_expression(),
            _ => None,
        }
    }

    fn open(&mut self, byte: u8, last: Last) -> Option<Last> {
        // A bracket behind a value makes the chain one longer, too.
        self.count(usize::from(!matches!(last, Last::Open)))?;
        let before = self.bytes[..self.at - 1].iter().rev().find(|byte| !byte.is_ascii_whitespace());
        let (closes, is_list) = match byte {
            b'(' => (b')', true),
            b'[' => (b']', true),
            // Behind these it is an object; elsewhere it may be a block.
            _ => (b'}', matches!(before, Some(b'(' | b'[' | b',' | b'=' | b'?'))),
        };
        self.levels.push(Level { closes, nested: 0, is_control: last == Last::Control, is_list });
        self.total += 1;
        (self.total <= MAX_NESTED).then_some(Last::Open)
    }

    fn close(&mut self, byte: u8) -> Option<Last> {
        let level = self.levels.pop()?;
        self.total -= level.nested + 1;
        match (byte, level.closes) {
            // The end of `${…}`: the template goes on.
            (b'}', b'`') => self.template(),
            (b'}', b'}') => Some(Last::Brace),
            (b')', b')') if level.is_control => Some(Last::Unclear),
            (closed, expected) if closed == expected => Some(Last::Value),
            _ => None,
        }
    }

    /// Takes a name or a keyword.
    fn name(&mut self, last: Last, was_word: bool) -> Option<Last> {
        let before = self.at.checked_sub(2).and_then(|at| self.bytes.get(at)).copied();
        let word = self.word();
        if !word.is_ascii() && !word.chars().all(|it| it.is_alphanumeric() || matches!(it, '_' | '$')) {
            return None;
        }
        // The values of an enum's members can be much longer than its text.
        if word == "enum" {
            return None;
        }
        if before == Some(b'.') {
            return Some(Last::Value);
        }
        let known = |words: &[&str]| words.contains(&word);
        let kind = match () {
            () if known(&CONTROL) => Last::Control,
            () if known(&KEYWORDS) => Last::Keyword,
            () if known(&CONTEXTUAL) => Last::Contextual,
            () => Last::Value,
        };
        if known(&STARTERS) && matches!(last, Last::Value | Last::Brace) {
            self.start_anew();
        }
        self.count(usize::from(kind != Last::Value || was_word))?;
        Some(kind)
    }

    /// Takes the rest of a word or a number.
    fn word(&mut self) -> &str {
        let start = self.at - 1;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || *byte >= 0x80;
        while self.bytes.get(self.at).is_some_and(is_part) {
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or("\\")
    }

    /// Returns the word that comes next, behind spaces and comments.
    fn next_word(&self) -> &str {
        let mut rest = &self.text[self.at..];
        loop {
            rest = rest.trim_start();
            let after = if rest.starts_with("//") {
                rest.find('\n')
            } else if rest.starts_with("/*") {
                rest.find("*/").map(|end| end + 2)
            } else {
                let end = rest.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(rest.len());
                return &rest[..end];
            };
            rest = &rest[after.unwrap_or(rest.len())..];
        }
    }

    fn comment(&mut self) -> Option<()> {
        let rest = &self.bytes[self.at..];
        self.at += match rest.first()? {
            b'/' => memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
            _ => memchr::memmem::find(&rest[1..], b"*/")? + 3,
        };
        Some(())
    }

    /// Takes the next byte of a literal that no backslash escapes, with the escaped ones before it.
    fn next_unescaped(&mut self) -> Option<u8> {
        while *self.bytes.get(self.at)? == b'\\' {
            self.at += 2;
        }
        self.at += 1;
        Some(self.bytes[self.at - 1])
    }

    fn string(&mut self, quote: u8) -> Option<Last> {
        loop {
            match self.next_unescaped()? {
                b'\n' | b'\r' => return None,
                byte if byte == quote => return Some(Last::Value),
                _ => {}
            }
        }
    }

    /// Takes a template up to its end, or up to the code in it.
    fn template(&mut self) -> Option<Last> {
        loop {
            match self.next_unescaped()? {
                b'`' => return Some(Last::Value),
                b'$' if self.bytes.get(self.at) == Some(&b'{') => {
                    self.at += 1;
                    self.levels.push(Level { closes: b'`', nested: 0, is_control: false, is_list: false });
                    self.total += 1;
                    return (self.total <= MAX_NESTED).then_some(Last::Open);
                }
                _ => {}
            }
        }
    }

    fn regular_expression(&mut self) -> Option<Last> {
        let mut is_in_class = false;
        loop {
            match self.next_unescaped()? {
                b'\n' | b'\r' => return None,
                b'[' => is_in_class = true,
                b']' => is_in_class = false,
                b'/' if !is_in_class => return Some(Last::Value),
                _ => {}
            }
        }
    }
}
