//! Makes values for the bindings: texts, errors, properties, native functions.

/// Makes an error of a message, as `v8::Exception::type_error` does.
type MakeError = for<'s, 'i> fn(&v8::PinScope<'s, 'i>, v8::Local<'s, v8::String>) -> v8::Local<'s, v8::Value>;

/// Makes a text; an empty one if V8 has no room for it.
pub(super) fn string<'s>(scope: &v8::PinScope<'s, '_>, text: &str) -> v8::Local<'s, v8::String> {
    v8::String::new(scope, text).unwrap_or_else(|| v8::String::empty(scope))
}

/// Throws the error that `make` makes of a text.
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

/// Adds a property that does not show when properties are listed.
pub(super) fn define<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    object: v8::Local<'s, v8::Object>,
    name: &str,
    value: v8::Local<'s, v8::Value>,
) {
    if let Some(key) = v8::String::new(scope, name) {
        object.define_own_property(scope, key.into(), value, v8::PropertyAttribute::DONT_ENUM);
    }
}

/// Makes a native function that is no constructor; `None`: V8 has no room for it.
pub(super) fn function<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    name: &str,
    callback: impl v8::MapFnTo<v8::FunctionCallback>,
) -> Option<v8::Local<'s, v8::Function>> {
    let function = v8::Function::builder(callback).constructor_behavior(v8::ConstructorBehavior::Throw).build(scope)?;
    function.set_name(v8::String::new(scope, name)?);
    Some(function)
}

/// Adds a native function that does not show when properties are listed.
pub(super) fn add_function<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    object: v8::Local<'s, v8::Object>,
    name: &str,
    callback: impl v8::MapFnTo<v8::FunctionCallback>,
) {
    if let Some(function) = function(scope, name, callback) {
        define(scope, object, name, function.into());
    }
}
