//! Makes reports of what the code threw: any value at all.

use relay_proto::{ErrorCode, LimitName};

use super::channel::message;
use super::ending::failure;
use super::promise::tool_error_marks;
use super::{inspect, leftovers, stack};

/// Maximum length in bytes of any text in an error.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// Text of V8's error about a buffer for which there is no memory.
const NO_BUFFER: &str = "RangeError: Array buffer allocation failed";

/// Makes the report of what a `TryCatch` caught, with the position that V8 noted.
pub(super) fn caught_failure<'s>(
    scope: &mut v8::PinnedRef<'_, v8::TryCatch<'_, 's, v8::HandleScope<'_>>>,
    code: ErrorCode,
) -> message::Failed {
    let message = scope.message();
    let exception = scope.exception();
    scope.reset();
    let Some(exception) = exception else {
        return failure(code, "the code was stopped".into());
    };
    let mut failed = thrown_failure(scope, exception, None);
    failed.code = code.as_str().into();
    if let Some(message) = message {
        (failed.line, failed.column) = position(scope, message, exception);
    }
    failed
}

/// Makes the report of a value that the script threw: any value at all.
pub(super) fn thrown_failure<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    thrown: v8::Local<'s, v8::Value>,
    own: Option<v8::Local<'s, v8::Promise>>,
) -> message::Failed {
    let text = inspect::excerpt(scope, thrown, MAX_MESSAGE_BYTES);
    let mut failed = failure(ErrorCode::EvalError, text);
    if thrown.is_native_error() {
        let message = v8::Exception::create_message(scope, thrown);
        (failed.line, failed.column) = position(scope, message, thrown);
    }
    if let Some((code, tool)) = tool_error_marks(scope, thrown) {
        if let Some((limit, hint)) = code.parse().ok().and_then(ErrorCode::limit) {
            (failed.limit, failed.hint) = (limit.as_str().into(), hint.into());
        }
        failed.tool_code = code;
        failed.tool = tool;
    } else if failed.message.starts_with(NO_BUFFER) && thrown.is_native_error() {
        failed.limit = LimitName::MemoryBytes.as_str().into();
        failed.hint = "keep less at once: use smaller buffers, or work in parts".into();
    }
    failed.warnings = leftovers::warnings(scope, own);
    failed
}

/// Returns line and column, both counted from 1; 0 is unknown.
fn position<'s>(
    scope: &v8::PinScope<'s, '_>,
    message: v8::Local<'_, v8::Message>,
    thrown: v8::Local<'s, v8::Value>,
) -> (u32, u32) {
    let place = if message.get_script_resource_name(scope).is_some_and(|name| name.is_string()) {
        let line = message.get_line_number(scope).unwrap_or_default();
        stack::author_place(line, message.get_start_column() + 1)
    } else {
        // The place is in a text without a name that the code gave V8 to read, such as JSON: the call of it is told.
        stack::error_place(scope, thrown)
    };
    place.unwrap_or_default()
}
