//! Name of the relay's build, as far as the outcome of code depends on it.

/// Returns the name: versions of the relay and of V8, and a fingerprint of the sources that the sandbox is made of.
pub(crate) fn name() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("sandbox-relay/{version} v8/{} sandbox/{}", v8::V8::get_version(), env!("SANDBOX_FINGERPRINT"))
}
