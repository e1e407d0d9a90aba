//! Promise of a tool call, and the error that it rejects with. Both are made natively: a patched `Promise` or `Error`
//! changes nothing.

use super::make;

/// Promise of one tool call.
#[derive(Debug)]
pub(super) struct ToolPromise {
    resolver: v8::Global<v8::PromiseResolver>,
    pub(super) tool: String,
}

impl ToolPromise {
    /// Keeps the resolver of the promise for a call of `tool`.
    pub(super) fn new<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        resolver: v8::Local<'s, v8::PromiseResolver>,
        tool: String,
    ) -> Self {
        Self { resolver: v8::Global::new(scope, resolver), tool }
    }

    /// Resolves or rejects the promise.
    pub(super) fn settle<'s>(
        &self,
        scope: &mut v8::PinScope<'s, '_>,
        outcome: Result<v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>>,
    ) {
        let resolver = v8::Local::new(scope, &self.resolver);
        match outcome {
            Ok(result) => resolver.resolve(scope, result),
            Err(error) => resolver.reject(scope, error),
        };
    }
}

/// Makes the `Error` of a failed call. It carries a mark that the script can neither see nor forge, by which an
/// uncaught one is recognized.
pub(super) fn tool_error<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    code: &str,
    message: &str,
    tool: &str,
) -> v8::Local<'s, v8::Value> {
    let text = make::string(scope, message);
    let error = v8::Exception::error(scope, text);
    if let Ok(object) = v8::Local::<v8::Object>::try_from(error) {
        for (key, text) in [("code", code), ("tool", tool)] {
            if let (Some(key), Some(text)) = (v8::String::new(scope, key), v8::String::new(scope, text)) {
                object.create_data_property(scope, key.into(), text.into());
                let mark = v8::Private::for_api(scope, Some(key));
                object.set_private(scope, mark, text.into());
            }
        }
    }
    error
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
