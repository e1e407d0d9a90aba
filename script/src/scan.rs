//! Scans the tokens of a text before it is parsed, and lets through only texts that nest so little that the parser is
//! safe.

/// Maximum length in bytes of a text that is parsed.
pub(crate) const MAX_BYTES: usize = 64 << 10;
/// Maximum nesting of brackets.
const MAX_DEPTH: usize = 110;
/// Maximum number of tokens that are no part of a literal. Only these make the parser recurse without brackets.
const MAX_OTHER: usize = 48;

/// Kind of the token before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// An operator or an opening bracket: a value follows.
    Open,
    Colon,
    /// The end of a value: a word, a literal or a closing bracket.
    Value,
}

/// Returns whether the text may be one call with literal arguments. Such a text nests at most `MAX_DEPTH` brackets and
/// `MAX_OTHER` other tokens deep, as JavaScript and as TypeScript, whose tokens are the same; as JSX it may nest
/// deeper.
pub(crate) fn may_be_a_call(text: &str) -> bool {
    text.len() <= MAX_BYTES && Scan { bytes: text.as_bytes(), at: 0, depth: 0, others: 0 }.all().is_some()
}

struct Scan<'t> {
    bytes: &'t [u8],
    at: usize,
    depth: usize,
    others: usize,
}

impl Scan<'_> {
    /// Scans to the end. `None`: the text cannot be a call, or is not worth parsing.
    fn all(&mut self) -> Option<()> {
        let mut last = Last::Open;
        while let Some(byte) = self.bytes.get(self.at).copied() {
            self.at += 1;
            last = match byte {
                b' ' | b'\t' | b'\n' | b'\r' => continue,
                b'/' => {
                    self.comment()?;
                    continue;
                }
                b'"' | b'\'' => {
                    self.string(byte)?;
                    Last::Value
                }
                b'`' => {
                    if last == Last::Value {
                        self.other()?;
                    }
                    self.string(byte)?;
                    Last::Value
                }
                // HTML comments hide the rest of their line from some parsers.
                b'<' if self.bytes[self.at..].starts_with(b"!--") => return None,
                b'-' if self.bytes[self.at..].starts_with(b"->") => return None,
                b'{' | b'[' | b'(' => {
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return None;
                    }
                    if byte == b'(' || last == Last::Value {
                        self.other()?;
                    }
                    Last::Open
                }
                b'}' | b']' | b')' => {
                    self.depth = self.depth.checked_sub(1)?;
                    Last::Value
                }
                b',' => Last::Open,
                b':' => Last::Colon,
                b'-' | b'+' if last != Last::Value && self.bytes.get(self.at)?.is_ascii_digit() => last,
                b'0'..=b'9' => {
                    // Behind a second dot follow members of the number.
                    if self.word().iter().filter(|byte| **byte == b'.').count() > 1 {
                        return None;
                    }
                    Last::Value
                }
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => {
                    self.key_or_other(last)?;
                    Last::Value
                }
                // Refused: regular expressions, escapes in names, private names, decorators, letters that are not
                // ASCII.
                b'\\' | b'#' | b'@' | 0x80.. | ..b' ' | 0x7F => return None,
                _ => {
                    self.other()?;
                    Last::Open
                }
            };
        }
        (self.depth == 0).then_some(())
    }

    fn other(&mut self) -> Option<()> {
        self.others += 1;
        (self.others <= MAX_OTHER).then_some(())
    }

    /// Takes the rest of a word or a number.
    fn word(&mut self) -> &[u8] {
        let start = self.at - 1;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
        let is_number = self.bytes[start].is_ascii_digit();
        while let Some(byte) = self.bytes.get(self.at)
            && is_part(byte)
            && (is_number || *byte != b'.')
        {
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }

    /// Takes a word: the key of a member, a literal such as `true`, or something else.
    fn key_or_other(&mut self, last: Last) -> Option<()> {
        let word = self.word();
        let is_literal = matches!(word, b"true" | b"false" | b"null" | b"undefined");
        // An enum is no call, and its members' values can be much longer than its text.
        let is_enum = word == b"enum";
        let next = self.bytes[self.at..].iter().find(|byte| !byte.is_ascii_whitespace());
        // In `a: b: c` the words are labels, which nest.
        let is_key = next == Some(&b':') && last == Last::Open;
        if is_key || is_literal && last != Last::Value {
            return Some(());
        }
        if is_enum { None } else { self.other() }
    }

    fn comment(&mut self) -> Option<()> {
        let rest = &self.bytes[self.at..];
        let length = match rest.first()? {
            b'/' => memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
            b'*' => memchr::memmem::find(&rest[1..], b"*/")? + 3,
            _ => return None,
        };
        // U+2028 and U+2029 end a comment, too, and begin with this byte.
        let may_end_earlier = rest.first() == Some(&b'/') && memchr::memchr(0xE2, &rest[..length]).is_some();
        self.at += length;
        (!may_end_earlier).then_some(())
    }

    /// Takes the rest of a string or of a template without substitutions.
    fn string(&mut self, quote: u8) -> Option<()> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                // A line break is an error, or ends the string.
                b'\n' | b'\r' if quote != b'`' => return None,
                b'$' if quote == b'`' && self.bytes.get(self.at) == Some(&b'{') => return None,
                _ if byte == quote => return Some(()),
                _ => {}
            }
        }
    }
}
