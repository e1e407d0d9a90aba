//! A look at the tokens of a text before it is parsed: lets through only what nests so little that the parser is safe.

/// The most bytes that are parsed.
pub(crate) const MAX_BYTES: usize = 64 << 10;
/// How deeply brackets may nest.
const MAX_DEPTH: usize = 110;
/// How many tokens there may be that are no part of a literal. Only these can make the parser recurse without brackets.
const MAX_OTHER: usize = 48;

/// What the token before was, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// An operator or an opening bracket: a value comes next.
    Open,
    Colon,
    /// The end of a value: a word, a literal, a closing bracket.
    Value,
}

/// Whether the text may be one call with literal arguments. What is let through nests at most `MAX_DEPTH` brackets and
/// `MAX_OTHER` other tokens deep, as JavaScript and as TypeScript, whose tokens are the same; as JSX it may nest deeper.
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
    /// `None` where the text cannot be a call, or is not worth a look.
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
                // Comments of HTML, which hide the rest of their line from some parsers.
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
                    // With more dots, members of the number follow.
                    if self.word().iter().filter(|byte| **byte == b'.').count() > 1 {
                        return None;
                    }
                    Last::Value
                }
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => {
                    self.key_or_other(last)?;
                    Last::Value
                }
                // No regular expression, no escape in a name, no private name, no decorator, no letter that is not
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

    /// The rest of a word or a number.
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

    /// A word: the key of a member, one of the words that are literals, or something else.
    fn key_or_other(&mut self, last: Last) -> Option<()> {
        let word = self.word();
        let is_literal = matches!(word, b"true" | b"false" | b"null" | b"undefined");
        // An enum is no call, and the values of its members can be much longer than its text.
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
        // Two line breaks of Unicode end a comment too, and begin with this byte.
        let may_end_earlier = rest.first() == Some(&b'/') && memchr::memchr(0xE2, &rest[..length]).is_some();
        self.at += length;
        (!may_end_earlier).then_some(())
    }

    /// The rest of a string or of a template without parts.
    fn string(&mut self, quote: u8) -> Option<()> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                // Where it is no error, it ends the string.
                b'\n' | b'\r' if quote != b'`' => return None,
                b'$' if quote == b'`' && self.bytes.get(self.at) == Some(&b'{') => return None,
                _ if byte == quote => return Some(()),
                _ => {}
            }
        }
    }
}
