//! `error.stack`: written here, so that it is bounded, shows nothing but the script's own frames, and no hook of the
//! script's gets to see how it is made.

use super::inspect;
use super::program::SCRIPT_NAME;

/// The most frames of one stack, and the most bytes of its text.
const MAX_FRAMES: u32 = 50;
const MAX_BYTES: usize = 16 << 10;
/// The most bytes of the error's own message in it.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// The text of a call site. Sites are V8's own objects, which no script has ever held; their own `toString` is called,
/// and no conversion that a script could have a say in.
fn site_text<'s>(scope: &mut v8::PinScope<'s, '_>, sites: v8::Local<'s, v8::Array>, index: u32) -> Option<String> {
    let site: v8::Local<v8::Object> = sites.get_index(scope, index)?.try_into().ok()?;
    let name = v8::String::new(scope, "toString")?;
    let write: v8::Local<v8::Function> = site.get(scope, name.into())?.try_into().ok()?;
    let text: v8::Local<v8::String> = write.call(scope, site.into(), &[])?.try_into().ok()?;
    Some(text.to_rust_string_lossy(scope))
}

/// V8 asks for it when a script reads `stack`. `Error.prepareStackTrace` of the script's is not asked any more.
pub(super) fn prepare<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    error: v8::Local<v8::Value>,
    sites: v8::Local<v8::Array>,
) -> v8::Local<'s, v8::Value> {
    let (error, sites) = (v8::Local::new(scope, error), v8::Local::new(scope, sites));
    v8::tc_scope!(let scope, scope);
    let mut text = match v8::Local::<v8::Object>::try_from(error) {
        Ok(error) if error.is_native_error() => inspect::error_text(scope, error, MAX_MESSAGE_BYTES),
        _ => inspect::inspect(scope, error, MAX_MESSAGE_BYTES),
    };
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
