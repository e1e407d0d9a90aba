//! Converts values between V8 and JSON bytes, by V8's own native reader and writer: no function that a script patched
//! is called, but for the `toJSON` of its own values. `looked` finds what may not cross.

mod large;
mod looked;

use std::cell::{Cell, RefCell};

use super::channel::MAX_FRAME_BYTES;
use super::notes;
use looked::{Loss, Written};
use relay_proto::code::warning;
use relay_proto::wire::LargeIntegers;

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

thread_local! {
    /// `true`: an object of the script's may have a `toJSON`.
    static HAS_HOOKS: Cell<bool> = const { Cell::new(false) };
    /// Parts that the value written last has lost.
    static LOSSES: RefCell<Vec<Loss>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    HAS_HOOKS.set(false);
    LOSSES.take();
    looked::prepare_thread();
}

/// Notes the source of the script, or of a function that runs with it.
pub(super) fn note_source(source: &str) {
    // One that makes the name of pieces gets the same outcome, but its hooks may be called twice.
    HAS_HOOKS.set(HAS_HOOKS.get() || memchr::memmem::find(source.as_bytes(), b"toJSON").is_some());
}

/// Notes `JSON.stringify` of the context in which scripts run. Called before the fork.
pub(super) fn install<'s>(scope: &mut v8::PinScope<'s, '_>, json: v8::Local<'s, v8::Object>) {
    looked::install(scope, json);
}

/// Warns about the parts that the value written last has lost. `of` says which value it was.
pub(super) fn warn_of_losses(of: &str) {
    for (path, lost) in LOSSES.take() {
        let instead = match lost {
            "Map" => "use Object.fromEntries(map)",
            "Set" => "use [...set]",
            "Error" => "use its message",
            "RegExp" => "use String(it)",
            _ => "use [...new Uint8Array(it)] or text",
        };
        let message = format!("in {of}, the {lost} at {path} became an object without its content: {instead}");
        notes::add(warning::VALUE_CHANGED, message);
    }
}

/// Writes a value as UTF-8 JSON of at most `limit` bytes. `undefined` becomes `absent`.
pub(super) fn to_json<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
    absent: &'static str,
    limit: usize,
) -> Result<Vec<u8>, ValueError<'s>> {
    LOSSES.take();
    if value.is_undefined() {
        return Ok(absent.into());
    }
    let refuse = |path: String, reason| Err(ValueError::NotSerializable { path, reason });
    if let Some(reason) = unserializable(value) {
        return refuse("$".into(), reason);
    }
    // A string's JSON is at least as long as the string: one that is too long need not be built.
    if let Ok(string) = v8::Local::<v8::String>::try_from(value)
        && string.length() > limit
    {
        return Err(ValueError::TooLarge { bytes: string.length() });
    }
    let text = if HAS_HOOKS.get() {
        let (written, losses) = looked::stringify(scope, value);
        LOSSES.set(losses);
        match written {
            Written::Json(Some(text)) => text,
            Written::Json(None) => return Ok(absent.into()),
            Written::Refused { path, reason } => return refuse(path, reason),
            Written::Thrown(thrown) => return Err(ValueError::Thrown(thrown)),
        }
    } else {
        match plain(scope, value) {
            Ok(text) => text,
            // Once more, to find out which part it was.
            Err(thrown) => {
                return match (looked::stringify(scope, value).0, thrown) {
                    (Written::Refused { path, reason }, _) => refuse(path, reason),
                    (_, Some(thrown)) => Err(ValueError::Thrown(thrown)),
                    (_, None) => refuse("$".into(), "it cannot be written as JSON"),
                };
            }
        }
    };
    let most = limit.min(MAX_FRAME_BYTES);
    // The escape of a lone surrogate has six units, and what stands for it three bytes.
    if text.length() / 2 > most {
        return Err(ValueError::TooLarge { bytes: text.length() / 2 });
    }
    let json = utf8(scope, text);
    // V8 returns this text if a `toJSON` returned `undefined`.
    if json == b"undefined" {
        return Ok(absent.into());
    }
    let Checked { json, depth, has_empty_object } = checked(json);
    if json.len() > most {
        return Err(ValueError::TooLarge { bytes: json.len() });
    }
    // An empty object may have been a promise, whose `await` was forgotten, or something else that JSON cannot hold.
    if !HAS_HOOKS.get() && (depth > MAX_DEPTH || has_empty_object) {
        let (written, losses) = looked::stringify(scope, value);
        LOSSES.set(losses);
        if let Written::Refused { path, reason } = written {
            return refuse(path, reason);
        }
    }
    if depth > MAX_DEPTH {
        return refuse("$".into(), TOO_DEEP);
    }
    Ok(json)
}

/// Writes a value as V8 does.
///
/// # Errors
/// The exception; `None`: V8 gives none.
fn plain<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
) -> Result<v8::Local<'s, v8::String>, Option<v8::Local<'s, v8::Value>>> {
    v8::tc_scope!(let scope, scope);
    let written = v8::json::stringify(scope, value);
    let thrown = scope.exception();
    scope.reset();
    written.ok_or(thrown)
}

/// Sets the form of integers that no number holds, before any code runs.
pub(super) fn begin(large_integers: LargeIntegers) {
    large::begin(large_integers);
}

/// Reads the result of a tool as [`from_json`] does, with its large integers in the form of the execution. Warns about
/// those that change.
pub(super) fn from_tool<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    tool: &str,
    json: &[u8],
) -> Option<v8::Local<'s, v8::Value>> {
    large::read(scope, tool, json)
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

/// Reason why a value is refused whose nesting is deeper than [`MAX_DEPTH`].
pub(super) const TOO_DEEP: &str = "it nests more than 100 levels";
/// Reason why a value is refused that is a part of itself.
pub(super) const CYCLE: &str = "it contains itself";

fn unserializable(value: v8::Local<'_, v8::Value>) -> Option<&'static str> {
    if value.is_function() {
        Some("a function has no JSON form")
    } else if value.is_symbol() {
        Some("a symbol has no JSON form")
    } else {
        promise(value).or_else(|| big_int(value))
    }
}

/// Returns why a BigInt is refused; `None`: the value is none.
pub(super) fn big_int(value: v8::Local<'_, v8::Value>) -> Option<&'static str> {
    let found = value.is_big_int() || value.is_big_int_object();
    found.then_some("a BigInt has no JSON form; use Number() or String()")
}

/// Returns why a Promise is refused; `None`: the value is none.
pub(super) fn promise(value: v8::Local<'_, v8::Value>) -> Option<&'static str> {
    value.is_promise().then_some("there is a Promise that nobody awaited; write await before the call")
}

/// JSON that was looked through.
struct Checked {
    /// The JSON, with U+FFFD in the place of lone surrogates.
    json: Vec<u8>,
    /// Nesting.
    depth: usize,
    /// `true`: an object in it has no member.
    has_empty_object: bool,
}

/// Replaces the escapes of lone surrogates, which readers of JSON refuse, by U+FFFD. Also looks at the nesting and for
/// empty objects.
fn checked(json: Vec<u8>) -> Checked {
    let (mut depth, mut deepest, mut has_empty_object) = (0_usize, 0_usize, false);
    let mut surrogates = Vec::new();
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
                has_empty_object |= json[at..].starts_with(b"{}");
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = end_of_string(&json, at + 1, &mut surrogates),
            _ => {}
        }
        at += 1;
    }
    if surrogates.is_empty() {
        return Checked { json, depth: deepest, has_empty_object };
    }
    let mut replaced = Vec::with_capacity(json.len());
    let mut copied = 0;
    for at in surrogates {
        replaced.extend_from_slice(&json[copied..at]);
        replaced.extend_from_slice("\u{FFFD}".as_bytes());
        copied = at + SURROGATE_ESCAPE_BYTES;
    }
    replaced.extend_from_slice(&json[copied..]);
    Checked { json: replaced, depth: deepest, has_empty_object }
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
    use super::{Checked, checked};

    #[test]
    fn lone_surrogates_are_replaced_and_escaped_backslashes_are_left() {
        let Checked { json, depth, has_empty_object } = checked(br#"{"a\ud800":["\\ud800","\udfff\n{}"]}"#.to_vec());
        assert_eq!(String::from_utf8_lossy(&json), "{\"a\u{FFFD}\":[\"\\\\ud800\",\"\u{FFFD}\\n{}\"]}");
        assert_eq!((depth, has_empty_object), (2, false));
        assert!(checked(br#"[{"a":{}}]"#.to_vec()).has_empty_object);
    }
}
