//! Converts values between V8 and JSON bytes, by V8's own native reader and writer: no function that a script patched
//! is called, but for the `toJSON` of its own values.

use super::channel::MAX_FRAME_BYTES;

/// Maximum nesting of a value.
pub(super) const MAX_DEPTH: usize = 100;

/// Reports a value without a JSON form that may cross.
pub(super) enum ValueError<'s> {
    /// The value at `path` has no JSON form, for `reason`.
    NotSerializable { path: String, reason: &'static str },
    /// The JSON is longer than the limit; the number of bytes is a lower bound.
    TooLarge { bytes: usize },
    /// A `toJSON` or a getter of the script threw this.
    Thrown(v8::Local<'s, v8::Value>),
}

/// Writes a value as UTF-8 JSON of at most `limit` bytes. `undefined` becomes `absent`.
pub(super) fn to_json<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
    absent: &'static str,
    limit: usize,
) -> Result<Vec<u8>, ValueError<'s>> {
    if value.is_undefined() {
        return Ok(absent.into());
    }
    if let Some(reason) = unserializable(value) {
        return Err(ValueError::NotSerializable { path: "$".into(), reason });
    }
    // A string's JSON is at least as long as the string: one that is too long need not be built.
    if let Ok(string) = v8::Local::<v8::String>::try_from(value)
        && string.length() > limit
    {
        return Err(ValueError::TooLarge { bytes: string.length() });
    }
    if let Some(reason) = promise(value) {
        return Err(ValueError::NotSerializable { path: "$".into(), reason });
    }
    v8::tc_scope!(let scope, scope);
    let Some(text) = v8::json::stringify(scope, value) else {
        let thrown = scope.exception();
        scope.reset();
        return Err(match (find_unserializable(scope, value), thrown) {
            (Some((path, reason)), _) => ValueError::NotSerializable { path, reason },
            (None, Some(thrown)) => ValueError::Thrown(thrown),
            (None, None) => ValueError::NotSerializable { path: "$".into(), reason: "it cannot be written as JSON" },
        });
    };
    if text.length() > limit.min(MAX_FRAME_BYTES) {
        return Err(ValueError::TooLarge { bytes: text.length() });
    }
    let json = utf8(scope, text);
    // V8 returns this text if a `toJSON` returned `undefined`.
    if json == b"undefined" {
        return Ok(absent.into());
    }
    let (json, depth) = replace_lone_surrogates(json);
    if depth > MAX_DEPTH {
        let path = find_unserializable(scope, value).map_or_else(|| "$".into(), |(path, _)| path);
        return Err(ValueError::NotSerializable { path, reason: TOO_DEEP });
    }
    if json.len() > limit {
        return Err(ValueError::TooLarge { bytes: json.len() });
    }
    // The JSON of a promise is an empty object: mostly an `await` was forgotten, and the value would be lost.
    if memchr::memmem::find(&json, b"{}").is_some()
        && let Some((path, reason)) = find(scope, value, MAX_PROMISE_VISITS, promise)
        && reason == PROMISE
    {
        return Err(ValueError::NotSerializable { path, reason });
    }
    Ok(json)
}

/// Reads UTF-8 JSON. An empty text is `null`. `None`: the text is no JSON.
pub(super) fn from_json<'s>(scope: &mut v8::PinScope<'s, '_>, json: &[u8]) -> Option<v8::Local<'s, v8::Value>> {
    if json.is_empty() {
        return Some(v8::null(scope).into());
    }
    v8::tc_scope!(let scope, scope);
    let text = if json.is_ascii() {
        v8::String::new_from_one_byte(scope, json, v8::NewStringType::Normal)
    } else {
        v8::String::new_from_utf8(scope, json, v8::NewStringType::Normal)
    };
    v8::json::parse(scope, text?)
}

/// Returns a string as UTF-8; a lone surrogate becomes U+FFFD.
pub(super) fn utf8<'s>(scope: &mut v8::PinScope<'s, '_>, string: v8::Local<'s, v8::String>) -> Vec<u8> {
    let view = v8::ValueView::new(scope, string);
    match view.as_str() {
        Some(ascii) => ascii.as_bytes().to_vec(),
        None => view.to_cow_lossy().into_owned().into_bytes(),
    }
}

const TOO_DEEP: &str = "it nests more than 100 levels";

fn unserializable(value: v8::Local<'_, v8::Value>) -> Option<&'static str> {
    if value.is_function() {
        Some("a function has no JSON form")
    } else if value.is_symbol() {
        Some("a symbol has no JSON form")
    } else {
        big_int(value)
    }
}

fn big_int(value: v8::Local<'_, v8::Value>) -> Option<&'static str> {
    let found = value.is_big_int() || value.is_big_int_object();
    found.then_some("a BigInt has no JSON form; use Number() or String()")
}

const PROMISE: &str = "there is a Promise that nobody awaited; write await before the call";

fn promise(value: v8::Local<'_, v8::Value>) -> Option<&'static str> {
    value.is_promise().then_some(PROMISE)
}

/// Maximum number of values that are searched for one that JSON cannot hold, after writing has failed.
const MAX_VISITS: usize = 100_000;
/// Maximum number of values that are searched for a promise, after writing has worked.
const MAX_PROMISE_VISITS: usize = 10_000;

fn find_unserializable<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    root: v8::Local<'s, v8::Value>,
) -> Option<(String, &'static str)> {
    find(scope, root, MAX_VISITS, big_int)
}

/// Searches depth first, through at most `most` values, for one that is refused, for cycles and for too deep nesting.
/// Returns its path and the reason; `None`: none was found.
fn find<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    root: v8::Local<'s, v8::Value>,
    most: usize,
    refused: impl Fn(v8::Local<'s, v8::Value>) -> Option<&'static str>,
) -> Option<(String, &'static str)> {
    let mut path = String::from("$");
    // One entry for each open level: the object, its keys, the next key, the length of the path before it.
    let mut levels: Vec<(v8::Local<v8::Object>, v8::Local<v8::Array>, u32, usize)> = Vec::new();
    let mut value = root;
    for _ in 0..most {
        if let Some(reason) = refused(value) {
            return Some((path, reason));
        }
        if let Ok(object) = v8::Local::<v8::Object>::try_from(value)
            && !value.is_function()
        {
            if levels.iter().any(|(open, ..)| open.strict_equals(value)) {
                return Some((path, "it contains itself"));
            }
            if levels.len() >= MAX_DEPTH {
                return Some((path, TOO_DEEP));
            }
            let keys = object.get_own_property_names(scope, v8::GetPropertyNamesArgs::default())?;
            levels.push((object, keys, 0, path.len()));
        }
        // On to the next value: that of the next key of the innermost level that has one.
        loop {
            let (object, keys, next, path_length) = levels.last_mut()?;
            path.truncate(*path_length);
            if *next == keys.length() {
                levels.pop();
                continue;
            }
            let key = keys.get_index(scope, *next)?;
            *next += 1;
            let text = key.to_rust_string_lossy(scope);
            let text: String = text.chars().take(64).collect();
            if key.is_number() || object.is_array() {
                path.push_str(&format!("[{text}]"));
            } else {
                path.push_str(&format!(".{text}"));
            }
            value = object.get(scope, key)?;
            break;
        }
    }
    None
}

/// Replaces the escapes of lone surrogates, which readers of JSON refuse, by U+FFFD. Also counts the nesting.
fn replace_lone_surrogates(json: Vec<u8>) -> (Vec<u8>, usize) {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let mut surrogates = Vec::new();
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = end_of_string(&json, at + 1, &mut surrogates),
            _ => {}
        }
        at += 1;
    }
    if surrogates.is_empty() {
        return (json, deepest);
    }
    let mut replaced = Vec::with_capacity(json.len());
    let mut copied = 0;
    for at in surrogates {
        replaced.extend_from_slice(&json[copied..at]);
        replaced.extend_from_slice("\u{FFFD}".as_bytes());
        copied = at + SURROGATE_ESCAPE_BYTES;
    }
    replaced.extend_from_slice(&json[copied..]);
    (replaced, deepest)
}

/// Length of `\ud800`.
const SURROGATE_ESCAPE_BYTES: usize = 6;

/// Returns the end of the string that began before `at`, and notes the places of its lone surrogates.
fn end_of_string(json: &[u8], mut at: usize, surrogates: &mut Vec<usize>) -> usize {
    while let Some(skip) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += skip;
        if json[at] == b'"' {
            return at;
        }
        // `\uD800` to `\uDFFF`, which V8 writes in lower case, and never as a pair.
        if matches!(json.get(at + 1..at + 4), Some([b'u', b'd', b'8' | b'9' | b'a'..=b'f'])) {
            surrogates.push(at);
            at += SURROGATE_ESCAPE_BYTES;
        } else {
            at += 2;
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::replace_lone_surrogates;

    #[test]
    fn lone_surrogates_are_replaced_and_escaped_backslashes_are_left() {
        let (json, depth) = replace_lone_surrogates(br#"{"a\ud800":["\\ud800","\udfff\n"]}"#.to_vec());
        assert_eq!(String::from_utf8_lossy(&json), "{\"a\u{FFFD}\":[\"\\\\ud800\",\"\u{FFFD}\\n\"]}");
        assert_eq!(depth, 2);
    }
}
