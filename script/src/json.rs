//! Writes JSON as V8 does, without V8: the result of `JSON.stringify(JSON.parse(text))`.

use std::collections::HashMap;
use std::ops::Range;

/// Maximum nesting of a value; the relay's worker has the same limit.
pub const MAX_DEPTH: usize = 100;

/// Returns the bytes of V8's `JSON.stringify(JSON.parse(json))`, with U+FFFD for lone surrogates, as in all values that
/// leave a worker.
///
/// `None`: the bytes are no JSON, or nest more than [`MAX_DEPTH`] levels, to which the worker answers
/// `NOT_SERIALIZABLE`.
///
/// ```
/// use relay_script::json::normalize;
///
/// assert_eq!(normalize(br#" {"b": 1.0, "1": 2e0} "#).as_deref(), Some(&br#"{"1":2,"b":1}"#[..]));
/// assert_eq!(normalize(b"{]"), None);
/// ```
#[must_use]
pub fn normalize(json: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(json).ok()?;
    let mut writer = Normalizer {
        json: text.as_bytes(),
        at: 0,
        written: Vec::with_capacity(json.len()),
        depth: 0,
        members: Vec::new(),
        lone_surrogates: false,
    };
    writer.skip_space();
    writer.value()?;
    writer.skip_space();
    if writer.at != json.len() {
        return None;
    }
    if writer.lone_surrogates {
        replace_surrogates(&mut writer.written);
    }
    Some(writer.written)
}

/// Returns a number as JavaScript prints it, `NaN` and `Infinity` included.
pub(crate) fn number_text(number: f64) -> String {
    ryu_js::Buffer::new().format(number).to_owned()
}

/// Appends a number; `NaN` and `Infinity` are `null`.
pub(crate) fn push_number(json: &mut String, number: f64) {
    if number.is_finite() {
        json.push_str(ryu_js::Buffer::new().format_finite(number));
    } else {
        json.push_str("null");
    }
}

/// Appends a string in quotes.
pub(crate) fn push_string(json: &mut String, string: &str) {
    json.push('"');
    for c in string.chars() {
        match escape(c) {
            Some(escaped) => json.push_str(&escaped),
            None => json.push(c),
        }
    }
    json.push('"');
}

/// Returns the escape of a character; `None`: it stands for itself.
fn escape(c: char) -> Option<String> {
    Some(match c {
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '\u{8}' => "\\b".into(),
        '\u{C}' => "\\f".into(),
        '\n' => "\\n".into(),
        '\r' => "\\r".into(),
        '\t' => "\\t".into(),
        c if u32::from(c) < 0x20 => format!("\\u{:04x}", u32::from(c)),
        _ => return None,
    })
}

/// Returns the array index that a key is, which JavaScript sorts before other keys; `None`: it is none.
pub(crate) fn array_index(key: &[u8]) -> Option<u32> {
    let canonical = match key {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.len() < 10 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let index = canonical.then(|| std::str::from_utf8(key).ok()?.parse::<u32>().ok()).flatten()?;
    (index != u32::MAX).then_some(index)
}

/// Reads a text and writes its normal form in one pass. Surrogates are written like characters of three bytes and
/// replaced at the end: keys that differ only in them are different keys.
struct Normalizer<'j> {
    json: &'j [u8],
    at: usize,
    written: Vec<u8>,
    depth: usize,
    /// Members of all open objects.
    members: Vec<Member>,
    lone_surrogates: bool,
}

/// Place of a member in the output: its key without quotes, and its value.
#[derive(Clone)]
struct Member {
    key: Range<usize>,
    value: Range<usize>,
}

impl Normalizer<'_> {
    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes this byte; `None`: another one follows.
    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string(),
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Option<()>) -> Option<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        self.at += 1;
        self.skip_space();
        read(self)?;
        self.depth -= 1;
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.json[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            self.written.extend_from_slice(word);
        })
    }

    fn array(&mut self) -> Option<()> {
        self.written.push(b'[');
        if self.peek()? != b']' {
            loop {
                self.value()?;
                self.skip_space();
                if self.peek()? != b',' {
                    break;
                }
                self.at += 1;
                self.written.push(b',');
                self.skip_space();
            }
        }
        self.expect(b']')?;
        self.written.push(b']');
        Some(())
    }

    fn object(&mut self) -> Option<()> {
        self.written.push(b'{');
        let (start, first) = (self.written.len(), self.members.len());
        if self.peek()? != b'}' {
            loop {
                let key = self.written.len() + 1;
                self.string()?;
                let key = key..self.written.len() - 1;
                self.skip_space();
                self.expect(b':')?;
                self.written.push(b':');
                self.skip_space();
                let value = self.written.len();
                self.value()?;
                self.members.push(Member { key, value: value..self.written.len() });
                self.skip_space();
                if self.peek()? != b',' {
                    break;
                }
                self.at += 1;
                self.written.push(b',');
                self.skip_space();
            }
        }
        self.expect(b'}')?;
        if let Some(order) = self.other_order(&self.members[first..]) {
            let old = self.written.split_off(start);
            for (number, member) in order.iter().enumerate() {
                if number > 0 {
                    self.written.push(b',');
                }
                let (key, value) = (&member.key, &member.value);
                self.written.extend_from_slice(&old[key.start - 1 - start..=key.end - start]);
                self.written.push(b':');
                self.written.extend_from_slice(&old[value.start - start..value.end - start]);
            }
        }
        self.members.truncate(first);
        self.written.push(b'}');
        Some(())
    }

    /// Puts the members in JavaScript's order, if they are in another: array indices first, in ascending order, and of
    /// equal keys the last value in the place of the first.
    fn other_order(&self, members: &[Member]) -> Option<Vec<Member>> {
        const FEW: usize = 16;
        let key = |member: &Member| &self.written[member.key.clone()];
        let mut last = None;
        let in_order = members.iter().map(|member| array_index(key(member))).all(|index| {
            // `None` sorts after every index.
            let place = (index.is_none(), index);
            let follows = last.is_none_or(|last| last < place || index.is_none());
            last = Some(place);
            follows
        });
        let all_differ = if members.len() <= FEW {
            members.iter().enumerate().all(|(n, member)| members[..n].iter().all(|other| key(other) != key(member)))
        } else {
            let mut seen = std::collections::HashSet::with_capacity(members.len());
            members.iter().all(|member| seen.insert(key(member)))
        };
        if in_order && all_differ {
            return None;
        }
        let mut places: HashMap<&[u8], usize> = HashMap::with_capacity(members.len());
        let mut order: Vec<Member> = Vec::with_capacity(members.len());
        for member in members {
            let place = *places.entry(key(member)).or_insert(order.len());
            match order.get_mut(place) {
                Some(earlier) => earlier.value = member.value.clone(),
                None => order.push(member.clone()),
            }
        }
        // The sort is stable: names keep their order.
        order.sort_by_key(|member| array_index(key(member)).map_or((true, 0), |index| (false, index)));
        Some(order)
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        let digits = |this: &mut Self| {
            let from = this.at;
            while this.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                this.at += 1;
            }
            this.at - from
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = digits(self);
        if whole == 0 || (leading_zero && whole > 1) {
            return None;
        }
        let mut plain = whole <= 15;
        if self.peek() == Some(b'.') {
            self.at += 1;
            plain = false;
            if digits(self) == 0 {
                return None;
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            plain = false;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if digits(self) == 0 {
                return None;
            }
        }
        let number = &self.json[start..self.at];
        if plain && number != b"-0" {
            self.written.extend_from_slice(number);
        } else {
            let mut text = String::new();
            push_number(&mut text, std::str::from_utf8(number).ok()?.parse().ok()?);
            self.written.extend_from_slice(text.as_bytes());
        }
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        self.written.push(b'"');
        loop {
            let rest = &self.json[self.at..];
            let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20))?;
            self.written.extend_from_slice(&rest[..length]);
            self.at += length + 1;
            match rest[length] {
                b'"' => break,
                b'\\' => self.escaped()?,
                _ => return None,
            }
        }
        self.written.push(b'"');
        Some(())
    }

    /// Takes an escape behind its backslash and writes it as V8 does.
    fn escaped(&mut self) -> Option<()> {
        let escape = self.peek()?;
        self.at += 1;
        match escape {
            b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => self.written.extend_from_slice(&[b'\\', escape]),
            b'/' => self.written.push(b'/'),
            b'u' => {
                let unit = self.four_digits()?;
                self.unit(unit)?;
            }
            _ => return None,
        }
        Some(())
    }

    fn four_digits(&mut self) -> Option<u16> {
        let digits = self.json.get(self.at..self.at + 4)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        self.at += 4;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }

    /// Takes one UTF-16 code unit, with the second half of its pair if it has one.
    fn unit(&mut self, unit: u16) -> Option<()> {
        if let 0xD800..0xDC00 = unit
            && self.json[self.at..].starts_with(b"\\u")
        {
            let before = self.at;
            self.at += 2;
            let low = self.four_digits()?;
            if let Some(Ok(pair)) = char::decode_utf16([unit, low]).next() {
                self.character(pair);
                return Some(());
            }
            self.at = before;
        }
        match char::from_u32(unit.into()) {
            Some(c) => self.character(c),
            None => {
                self.lone_surrogates = true;
                let [high, low] = unit.to_be_bytes();
                let middle = 0x80 | ((high & 0x0F) << 2) | (low >> 6);
                self.written.extend_from_slice(&[SURROGATE_LEAD, middle, 0x80 | (low & 0x3F)]);
            }
        }
        Some(())
    }

    fn character(&mut self, c: char) {
        match escape(c) {
            Some(escaped) => self.written.extend_from_slice(escaped.as_bytes()),
            None => self.written.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// First byte that a surrogate would have in UTF-8.
const SURROGATE_LEAD: u8 = 0xED;

fn replace_surrogates(written: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = memchr::memchr(SURROGATE_LEAD, &written[at..]) {
        at += found;
        // U+D000 to U+D7FF begin with the same byte.
        if let Some(character @ [_, 0xA0..=0xBF, _]) = written.get_mut(at..at + 3) {
            character.copy_from_slice("\u{FFFD}".as_bytes());
        }
        at += 1;
    }
}
