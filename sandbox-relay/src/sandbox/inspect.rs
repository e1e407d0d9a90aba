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
            let mut quoted = String::new();
            // Rust's quoting resembles that of JavaScript.
            let _ = write!(quoted, "{text:?}");
            self.push(&quoted);
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
            self.push(&value.to_rust_string_lossy(scope));
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
            return self.push(&error_text(scope, object, self.limit));
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
