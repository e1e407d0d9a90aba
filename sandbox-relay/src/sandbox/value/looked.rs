//! Writes a value as JSON while it looks at each part, as V8 comes to it: after a `toJSON`, once, with its path. V8's
//! `JSON.stringify` does both, with a native replacer, whatever the script has patched.
//!
//! It takes many times as long as writing alone: the parent asks for it where there can be something to find.

use std::cell::RefCell;
use std::fmt::Write as _;

use super::{CYCLE, MAX_DEPTH, TOO_DEEP, big_int, promise};
use crate::sandbox::make;

/// Maximum number of parts of one value that are reported as lost.
const MAX_LOSSES: usize = 5;
/// Maximum number of characters of one key in a path.
const MAX_KEY_CHARS: usize = 64;

thread_local! {
    /// The script's own `JSON.stringify`, as it was before any code ran.
    static STRINGIFY: RefCell<Option<v8::Global<v8::Function>>> = const { RefCell::new(None) };
    /// Values that are being written. A `toJSON` can write another one meanwhile.
    static LOOKS: RefCell<Vec<Look>> = const { RefCell::new(Vec::new()) };
}

/// Result of writing a value.
pub(super) enum Written<'s> {
    /// The JSON; `None`: the value has none, as `undefined` has not.
    Json(Option<v8::Local<'s, v8::String>>),
    /// The part at `path` may not cross, for `reason`.
    Refused { path: String, reason: &'static str },
    /// Code of the script's threw this.
    Thrown(v8::Local<'s, v8::Value>),
}

/// A part that JSON loses: its path, and what it was.
pub(super) type Loss = (String, &'static str);

#[derive(Default)]
struct Look {
    path: String,
    /// Objects around the part that comes next, each with the length of its path.
    open: Vec<(v8::Global<v8::Object>, usize)>,
    refused: Option<(String, &'static str)>,
    losses: Vec<Loss>,
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    LOOKS.take();
}

/// Notes `JSON.stringify` of the context in which scripts run. Called before the fork.
pub(super) fn install<'s>(scope: &mut v8::PinScope<'s, '_>, json: v8::Local<'s, v8::Object>) {
    let key = make::string(scope, "stringify");
    let stringify = json.get(scope, key.into()).and_then(|value| v8::Local::<v8::Function>::try_from(value).ok());
    STRINGIFY.set(stringify.map(|stringify| v8::Global::new(scope, stringify)));
}

/// Writes a value, and returns what is lost in its JSON, as far as it came.
pub(super) fn stringify<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
) -> (Written<'s>, Vec<Loss>) {
    let stringify = STRINGIFY.with_borrow(Clone::clone).map(|stringify| v8::Local::new(scope, stringify));
    let (Some(stringify), Some(replacer)) = (stringify, v8::Function::new(scope, look)) else {
        return (Written::Json(None), Vec::new());
    };
    LOOKS.with_borrow_mut(|looks| looks.push(Look { path: "$".into(), ..Look::default() }));
    v8::tc_scope!(let scope, scope);
    let receiver = v8::undefined(scope).into();
    let written = stringify.call(scope, receiver, &[value, replacer.into()]);
    let look = LOOKS.with_borrow_mut(Vec::pop).unwrap_or_default();
    let written = match (written, look.refused) {
        (Some(written), _) => Written::Json(written.try_into().ok()),
        (None, Some((path, reason))) => Written::Refused { path, reason },
        (None, None) => match scope.exception() {
            Some(thrown) => Written::Thrown(thrown),
            None => Written::Json(None),
        },
    };
    scope.reset();
    (written, look.losses)
}

/// Looks at one part of the value that is being written, as the replacer of `JSON.stringify`, and gives it back.
fn look<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let (holder, key, value) = (arguments.this(), arguments.get(0), arguments.get(1));
    returned.set(value);
    // No code of the script's runs from here on.
    let refused = LOOKS.with_borrow_mut(|looks| {
        let look = looks.last_mut()?;
        look.enter(scope, holder, key);
        let reason = look.part(scope, value)?;
        look.refused = Some((look.path.clone(), reason));
        Some(reason)
    });
    if let Some(reason) = refused {
        make::throw(scope, v8::Exception::type_error, reason);
    }
}

impl Look {
    /// Sets the path to that of a part.
    fn enter<'s>(
        &mut self,
        scope: &mut v8::PinScope<'s, '_>,
        holder: v8::Local<'s, v8::Object>,
        key: v8::Local<'s, v8::Value>,
    ) {
        while self.open.pop_if(|(open, _)| *open != holder).is_some() {}
        // The holder of the whole value is V8's own.
        let Some((_, length)) = self.open.last() else { return };
        self.path.truncate(*length);
        let key = key.to_rust_string_lossy(scope);
        let key = key.chars().take(MAX_KEY_CHARS).collect::<String>();
        // Writing to a text cannot fail.
        let _ = if holder.is_array() || holder.is_typed_array() {
            write!(self.path, "[{key}]")
        } else {
            write!(self.path, ".{key}")
        };
    }

    /// Looks at a part. Returns why it may not cross; `None`: it may.
    fn part<'s>(&mut self, scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>) -> Option<&'static str> {
        if let Some(reason) = promise(value).or_else(|| big_int(value)) {
            return Some(reason);
        }
        let object = v8::Local::<v8::Object>::try_from(value).ok().filter(|_| !value.is_function())?;
        if self.open.iter().any(|(open, _)| *open == object) {
            return Some(CYCLE);
        }
        if self.open.len() >= MAX_DEPTH {
            return Some(TOO_DEEP);
        }
        if let Some(lost) = lost(value)
            && self.losses.len() < MAX_LOSSES
        {
            self.losses.push((self.path.clone(), lost));
        }
        self.open.push((v8::Global::new(scope, object), self.path.len()));
        None
    }
}

/// Returns the kind of an object whose content JSON does not hold; `None`: JSON holds it, or it has none.
fn lost(value: v8::Local<'_, v8::Value>) -> Option<&'static str> {
    Some(if value.is_map() {
        "Map"
    } else if value.is_set() {
        "Set"
    } else if value.is_native_error() {
        "Error"
    } else if value.is_reg_exp() {
        "RegExp"
    } else if value.is_array_buffer() {
        "ArrayBuffer"
    } else if value.is_data_view() {
        "DataView"
    } else {
        return None;
    })
}
