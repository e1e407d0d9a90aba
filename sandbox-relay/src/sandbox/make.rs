//! Values that the bindings make.

/// What makes an error of a message: `v8::Exception::type_error` and its like.
type MakeError = for<'s, 'i> fn(&v8::PinScope<'s, 'i>, v8::Local<'s, v8::String>) -> v8::Local<'s, v8::Value>;

/// A text; an empty one where V8 has no room for it.
pub(super) fn string<'s>(scope: &v8::PinScope<'s, '_>, text: &str) -> v8::Local<'s, v8::String> {
    v8::String::new(scope, text).unwrap_or_else(|| v8::String::empty(scope))
}

/// Throws an error of this kind.
pub(super) fn throw(scope: &mut v8::PinScope<'_, '_>, make: MakeError, text: &str) {
    let text = string(scope, text);
    let error = make(scope, text);
    scope.throw_exception(error);
}

/// The value of a primitive string of at most so many units. What is longer is not copied, and what is none is not
/// converted: that could run code of the script's.
pub(super) fn text<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
    most: usize,
) -> Option<String> {
    let string = v8::Local::<v8::String>::try_from(value).ok()?;
    (string.length() <= most).then(|| string.to_rust_string_lossy(scope))
}
