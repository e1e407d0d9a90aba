//! Writes values as text, for `console` and for errors about thrown values.

use std::fmt::Write as _;

const MAX_DEPTH: usize = 5;
const MAX_ENTRIES: u32 = 100;

/// Returns the text of a value, at most `limit` bytes long: a string as it is, other values as in code.
pub(super) fn inspect<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>, limit: usize) -> String {
    let mut inspector = Inspector { text: String::new(), limit, open: Vec::new() };
    if value.is_string() {
        inspector.push(&bounded(scope, value, limit));
    } else {
        inspector.value(scope, value);
    }
    inspector.text
}

/// Returns the text of a value as [`inspect`] does, with `…` at the end of one that is cut.
pub(super) fn excerpt<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>, limit: usize) -> String {
    let mut text = inspect(scope, value, limit + char::MAX_LEN_UTF8);
    shorten(&mut text, limit);
    text
}

/// Cuts `text` to at most `limit` bytes, never inside a character. One that is cut ends with `…`.
pub(super) fn shorten(text: &mut String, limit: usize) {
    const MARK: &str = "…";
    if text.len() > limit {
        cut(text, limit.saturating_sub(MARK.len()));
        text.push_str(MARK);
    }
}

/// Cuts `text` to at most `limit` bytes, never inside a character.
pub(super) fn cut(text: &mut String, limit: usize) {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
    }
}

struct Inspector<'s> {
    text: String,
    limit: usize,
    /// Objects around the current value, to notice cycles.
    open: Vec<v8::Local<'s, v8::Value>>,
}

impl<'s> Inspector<'s> {
    fn push(&mut self, text: &str) {
        let room = self.limit.saturating_sub(self.text.len());
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
    }

    fn is_full(&self) -> bool {
        self.text.len() >= self.limit
    }

    fn value(&mut self, scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>) {
        // First of all: V8 calls a proxy of a function a function, too.
        if value.is_proxy() {
            self.push("[Proxy]");
        } else if value.is_string() {
            let text = bounded(scope, value, self.limit);
            self.push(&quoted(&text));
        } else if value.is_big_int() {
            self.push(&format!("{}n", value.to_rust_string_lossy(scope)));
        } else if let Ok(symbol) = v8::Local::<v8::Symbol>::try_from(value) {
            let description = symbol.description(scope).to_rust_string_lossy(scope);
            self.push(&format!("Symbol({description})"));
        } else if value.is_function() {
            let name =
                v8::Local::<v8::Function>::try_from(value).map(|it| it.get_name(scope).to_rust_string_lossy(scope));
            let name = name.ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "(anonymous)".into());
            self.push(&format!("[Function: {name}]"));
        } else if let Ok(object) = v8::Local::<v8::Object>::try_from(value) {
            self.object(scope, object, value);
        } else {
            let is_negative_zero = value.is_number() && value.number_value(scope).is_some_and(is_negative_zero);
            self.push(&if is_negative_zero { "-0".into() } else { value.to_rust_string_lossy(scope) });
        }
    }

    fn object(
        &mut self,
        scope: &mut v8::PinScope<'s, '_>,
        object: v8::Local<'s, v8::Object>,
        value: v8::Local<'s, v8::Value>,
    ) {
        v8::tc_scope!(let scope, scope);
        if value.is_promise() {
            return self.push("[Promise]");
        }
        if value.is_native_error() {
            let text = error_with_causes(scope, object, self.limit);
            return self.push(&text);
        }
        if value.is_date() || value.is_reg_exp() {
            let text = value.to_string(scope).map(|text| text.to_rust_string_lossy(scope));
            return self.push(text.as_deref().unwrap_or("[Object]"));
        }
        if self.open.iter().any(|open| open.strict_equals(value)) {
            return self.push("[Circular]");
        }
        let is_list = value.is_array() || value.is_set();
        if self.open.len() >= MAX_DEPTH {
            return self.push(if is_list { "[Array]" } else { "[Object]" });
        }
        self.open.push(value);
        if let Ok(map) = v8::Local::<v8::Map>::try_from(value) {
            let entries = map.as_array(scope);
            self.push("Map ");
            self.pairs(scope, entries);
        } else if let Ok(set) = v8::Local::<v8::Set>::try_from(value) {
            let entries = set.as_array(scope);
            self.push("Set ");
            self.list(scope, entries);
        } else if let Ok(array) = v8::Local::<v8::Array>::try_from(value) {
            self.list(scope, array);
        } else if let Ok(typed) = v8::Local::<v8::TypedArray>::try_from(value) {
            // The names of all indices of a large one would use up the heap.
            let length = u32::try_from(typed.length()).unwrap_or(u32::MAX);
            self.entries("[", "]", length, |this, index| {
                if let Some(item) = object.get_index(scope, index) {
                    this.value(scope, item);
                }
            });
        } else {
            self.properties(scope, object);
        }
        self.open.pop();
    }

    fn list(&mut self, scope: &mut v8::PinScope<'s, '_>, array: v8::Local<'s, v8::Array>) {
        self.entries("[", "]", array.length(), |this, index| {
            if let Some(item) = array.get_index(scope, index) {
                this.value(scope, item);
            }
        });
    }

    /// Writes the entries of a Map, which V8 gives as one array of keys and values in turn.
    fn pairs(&mut self, scope: &mut v8::PinScope<'s, '_>, array: v8::Local<'s, v8::Array>) {
        self.entries("{", "}", array.length() / 2, |this, index| {
            if let (Some(key), Some(item)) = (array.get_index(scope, index * 2), array.get_index(scope, index * 2 + 1))
            {
                this.value(scope, key);
                this.push(" => ");
                this.value(scope, item);
            }
        });
    }

    fn properties(&mut self, scope: &mut v8::PinScope<'s, '_>, object: v8::Local<'s, v8::Object>) {
        let Some(keys) = object.get_own_property_names(scope, v8::GetPropertyNamesArgs::default()) else {
            return self.push("[Object]");
        };
        self.entries("{", "}", keys.length(), |this, index| {
            let Some(key) = keys.get_index(scope, index) else { return };
            let name = bounded(scope, key, this.limit);
            this.push(&format!("{name}: "));
            match object.get(scope, key) {
                Some(item) => this.value(scope, item),
                None => this.push("[Getter threw]"),
            }
        });
    }

    fn entries(&mut self, start: &str, end: &str, count: u32, mut entry: impl FnMut(&mut Self, u32)) {
        self.push(start);
        for index in 0..count.min(MAX_ENTRIES) {
            if self.is_full() {
                return;
            }
            self.push(if index == 0 { " " } else { ", " });
            entry(self, index);
        }
        if count > MAX_ENTRIES {
            self.push(&format!(", … {} more", count - MAX_ENTRIES));
        }
        self.push(if count == 0 { "" } else { " " });
        self.push(end);
    }
}

/// Returns `Name: message` of an error object, read from the object itself.
pub(super) fn error_text<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    error: v8::Local<'s, v8::Object>,
    limit: usize,
) -> String {
    v8::tc_scope!(let scope, scope);
    let mut read = |key: &str| {
        let key = v8::String::new(scope, key)?;
        let value = error.get(scope, key.into())?;
        value.is_string().then(|| bounded(scope, value, limit))
    };
    let name = read("name").filter(|name| !name.is_empty()).unwrap_or_else(|| "Error".into());
    let message = read("message").unwrap_or_default();
    let mut text = if message.is_empty() { name } else { format!("{name}: {message}") };
    cut(&mut text, limit);
    text
}

/// Maximum number of errors of an `AggregateError` that are shown.
const MAX_ERRORS: u32 = 5;
/// Maximum number of causes behind one another that are shown.
const MAX_CAUSES: usize = 5;
/// Maximum length in bytes of one of them.
const MAX_CAUSE_BYTES: usize = 1_000;

/// Returns the text of an error as [`error_text`] does, with those that it gathers and with its causes.
fn error_with_causes<'s>(scope: &mut v8::PinScope<'s, '_>, error: v8::Local<'s, v8::Object>, limit: usize) -> String {
    let mut text = error_text(scope, error, limit);
    v8::tc_scope!(let scope, scope);
    let mut errors = Vec::new();
    if let Some(gathered) = own(scope, error, "errors").and_then(|it| v8::Local::<v8::Array>::try_from(it).ok()) {
        for index in 0..gathered.length().min(MAX_ERRORS) {
            let Some(one) = gathered.get_index(scope, index) else { continue };
            errors.push(cause_text(scope, one));
        }
        let more = gathered.length().saturating_sub(MAX_ERRORS);
        if more > 0 {
            errors.push(format!("… {more} more"));
        }
    }
    if !errors.is_empty() {
        text.push_str(&format!(": [{}]", errors.join("; ")));
    }
    let mut at = error;
    for _ in 0..MAX_CAUSES {
        let Some(cause) = own(scope, at, "cause").filter(|cause| !cause.is_undefined()) else { break };
        text.push_str(&format!("; caused by {}", cause_text(scope, cause)));
        match v8::Local::<v8::Object>::try_from(cause) {
            Ok(next) if next.is_native_error() && !next.strict_equals(error.into()) => at = next,
            _ => break,
        }
    }
    cut(&mut text, limit);
    text
}

/// Returns the text of an error behind another one: of an object, no more than what an error says.
fn cause_text<'s>(scope: &mut v8::PinScope<'s, '_>, cause: v8::Local<'s, v8::Value>) -> String {
    let mut text = match v8::Local::<v8::Object>::try_from(cause) {
        Ok(object) if object.is_native_error() => error_text(scope, object, MAX_CAUSE_BYTES + 1),
        _ => inspect(scope, cause, MAX_CAUSE_BYTES + 1),
    };
    shorten(&mut text, MAX_CAUSE_BYTES);
    text
}

/// Returns an own property of an object; `None`: it has none of this name, or reading it threw.
fn own<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    object: v8::Local<'s, v8::Object>,
    key: &str,
) -> Option<v8::Local<'s, v8::Value>> {
    let key = v8::String::new(scope, key)?;
    (object.has_own_property(scope, key.into()) == Some(true)).then(|| object.get(scope, key.into())).flatten()
}

fn is_negative_zero(number: f64) -> bool {
    number == 0.0 && number.is_sign_negative()
}

/// Returns a string as in code: in quotes, with escapes for quotes, backslashes and what is no character to see.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            it if it.is_control() || matches!(it, '\u{2028}' | '\u{2029}') => {
                // Writing to a text cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(it));
            }
            it => quoted.push(it),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the first `limit` bytes of a string, without copying the rest.
fn bounded<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>, limit: usize) -> String {
    let Ok(string) = v8::Local::<v8::String>::try_from(value) else {
        return value.to_rust_string_lossy(scope);
    };
    if string.length() <= limit {
        let mut text = string.to_rust_string_lossy(scope);
        cut(&mut text, limit);
        return text;
    }
    let mut bytes = vec![0; limit];
    let written = string.write_utf8_v2(scope, &mut bytes, v8::WriteFlags::kReplaceInvalidUtf8, None);
    bytes.truncate(written);
    String::from_utf8_lossy(&bytes).into_owned()
}
