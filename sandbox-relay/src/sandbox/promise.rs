//! Promise of a tool call, and the error that it rejects with. Both are made natively: a patched `Promise` or `Error`
//! changes nothing.

use super::{make, stack};

/// Promise of one tool call.
#[derive(Debug)]
pub(super) struct ToolPromise {
    resolver: v8::Global<v8::PromiseResolver>,
    /// Error that the call fails with, if it does. It is made with the call, so that its stack and its place are those
    /// of the call.
    error: v8::Global<v8::Value>,
    pub(super) tool: String,
    /// Line of the author's code that makes the call, from 1; 0 is unknown.
    pub(super) line: u32,
}

impl ToolPromise {
    /// Keeps the resolver of the promise for a call of `tool`, which the running native function was called for.
    pub(super) fn new<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        resolver: v8::Local<'s, v8::PromiseResolver>,
        tool: String,
    ) -> Self {
        let error = v8::Exception::error(scope, v8::String::empty(scope));
        let line = stack::calling_line(scope, error);
        Self { resolver: v8::Global::new(scope, resolver), error: v8::Global::new(scope, error), tool, line }
    }

    /// Resolves the promise.
    pub(super) fn resolve<'s>(&self, scope: &mut v8::PinScope<'s, '_>, result: v8::Local<'s, v8::Value>) {
        v8::Local::new(scope, &self.resolver).resolve(scope, result);
    }

    /// Rejects the promise with the error of a failed call, and returns it.
    pub(super) fn reject<'s>(
        &self,
        scope: &mut v8::PinScope<'s, '_>,
        code: &str,
        message: &str,
    ) -> v8::Local<'s, v8::Value> {
        let error = v8::Local::new(scope, &self.error);
        complete(scope, error, code, message, &self.tool);
        v8::Local::new(scope, &self.resolver).reject(scope, error);
        error
    }
}

/// Makes the `Error` of a call that fails where it is made.
pub(super) fn tool_error<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    code: &str,
    message: &str,
    tool: &str,
) -> v8::Local<'s, v8::Value> {
    let error = v8::Exception::error(scope, v8::String::empty(scope));
    complete(scope, error, code, message, tool);
    error
}

/// Gives an error `message`, `code` and `tool`, which JSON shows too: the code may return the error. It also gets marks
/// that the script can neither see nor forge, by which an uncaught one is recognized.
fn complete<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    error: v8::Local<'s, v8::Value>,
    code: &str,
    message: &str,
    tool: &str,
) {
    let Ok(object) = v8::Local::<v8::Object>::try_from(error) else { return };
    for (key, text) in [("message", message), ("code", code), ("tool", tool)] {
        let (key, text) = (make::string(scope, key), make::string(scope, text));
        object.define_own_property(scope, key.into(), text.into(), v8::PropertyAttribute::NONE);
    }
    for (key, text) in [("code", code), ("tool", tool)] {
        let (key, text) = (make::string(scope, key), make::string(scope, text));
        let mark = v8::Private::for_api(scope, Some(key));
        object.set_private(scope, mark, text.into());
    }
}

/// Returns the code and the tool of an error that [`tool_error`] made; `None`: it is another value.
pub(super) fn tool_error_marks<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    error: v8::Local<'s, v8::Value>,
) -> Option<(String, String)> {
    let object = v8::Local::<v8::Object>::try_from(error).ok()?;
    let mark = |key: &str| {
        let key = v8::String::new(scope, key)?;
        let mark = v8::Private::for_api(scope, Some(key));
        let value = object.get_private(scope, mark)?;
        value.is_string().then(|| value.to_rust_string_lossy(scope))
    };
    Some((mark("code")?, mark("tool")?))
}
