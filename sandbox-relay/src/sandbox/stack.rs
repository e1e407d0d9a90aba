//! Writes `error.stack`: bounded, of the script's own frames alone, and without any hook of the script's.

use super::inspect;

/// Name of the script in stacks and positions.
pub(super) const SCRIPT_NAME: &str = "script.js";

/// Number of frames to capture to find the author's first: functions of V8's own may stand above it.
const MAX_CALLING_FRAMES: usize = 4;
/// Maximum number of frames of one stack.
const MAX_FRAMES: u32 = 50;
/// Maximum length in bytes of a stack's text.
const MAX_BYTES: usize = 16 << 10;
/// Maximum length in bytes of the error's own message in it.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// Returns the text of a call site. Sites are V8's own objects, which no script has held: calling their own `toString`
/// runs no code of the script's.
fn site_text<'s>(scope: &mut v8::PinScope<'s, '_>, sites: v8::Local<'s, v8::Array>, index: u32) -> Option<String> {
    let site: v8::Local<v8::Object> = sites.get_index(scope, index)?.try_into().ok()?;
    let name = v8::String::new(scope, "toString")?;
    let write: v8::Local<v8::Function> = site.get(scope, name.into())?.try_into().ok()?;
    let text: v8::Local<v8::String> = write.call(scope, site.into(), &[])?.try_into().ok()?;
    Some(text.to_rust_string_lossy(scope))
}

/// Returns the line of the author's code that calls the running native function, from 1; 0 is unknown. `error` was made
/// in that function, so that its stack is the one that V8 has captured already.
pub(super) fn calling_line<'s>(scope: &mut v8::PinScope<'s, '_>, error: v8::Local<'s, v8::Value>) -> u32 {
    let captured = error_place(scope, error).or_else(|| {
        // A script can set `Error.stackTraceLimit` to 0.
        let stack = v8::StackTrace::current_stack_trace(scope, MAX_CALLING_FRAMES)?;
        first_place(scope, stack)
    });
    captured.map(|(line, _)| line).unwrap_or_default()
}

/// Returns line and column, both counted from 1, of the author's code that stands highest in the stack of an error.
/// `None`: none does, or the value has no stack.
pub(super) fn error_place<'s>(scope: &v8::PinScope<'s, '_>, error: v8::Local<'s, v8::Value>) -> Option<(u32, u32)> {
    first_place(scope, v8::Exception::get_stack_trace(scope, error)?)
}

/// Returns the place of the author's first frame in a stack.
fn first_place<'s>(scope: &v8::PinScope<'s, '_>, stack: v8::Local<'s, v8::StackTrace>) -> Option<(u32, u32)> {
    let mut frames = (0..stack.get_frame_count()).filter_map(|index| stack.get_frame(scope, index));
    let frame = frames.find(|frame| {
        let name = frame.get_script_name(scope);
        name.is_some_and(|name| name.to_rust_string_lossy(scope) == SCRIPT_NAME)
    })?;
    author_place(frame.get_line_number(), frame.get_column())
}

/// Returns a place that V8 states, if it is one of the author's. `None`: code before the author's first line, which has
/// a line far above all others, or no code at all.
pub(super) fn author_place(line: usize, column: usize) -> Option<(u32, u32)> {
    let is_authors = (1..1 << 30).contains(&line);
    is_authors.then(|| (u32::try_from(line).unwrap_or(0), u32::try_from(column).unwrap_or(0)))
}

/// Makes the value of `stack`, when a script first reads it. V8 then does not ask the script's
/// `Error.prepareStackTrace`.
pub(super) fn prepare<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    error: v8::Local<v8::Value>,
    sites: v8::Local<v8::Array>,
) -> v8::Local<'s, v8::Value> {
    let (error, sites) = (v8::Local::new(scope, error), v8::Local::new(scope, sites));
    v8::tc_scope!(let scope, scope);
    let mut text = match v8::Local::<v8::Object>::try_from(error) {
        Ok(error) if error.is_native_error() => {
            inspect::error_text(scope, error, MAX_MESSAGE_BYTES + char::MAX_LEN_UTF8)
        }
        _ => inspect::inspect(scope, error, MAX_MESSAGE_BYTES + char::MAX_LEN_UTF8),
    };
    inspect::shorten(&mut text, MAX_MESSAGE_BYTES);
    let mut frames = 0;
    for index in 0..sites.length() {
        if frames == MAX_FRAMES || text.len() > MAX_BYTES {
            break;
        }
        let Some(site) = site_text(scope, sites, index) else { continue };
        if site.contains(SCRIPT_NAME) {
            text.push_str("\n    at ");
            text.push_str(&site);
            frames += 1;
        }
    }
    inspect::cut(&mut text, MAX_BYTES);
    v8::String::new(scope, &text).unwrap_or_else(|| v8::String::empty(scope)).into()
}
