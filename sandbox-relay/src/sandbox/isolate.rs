//! Prepares V8 before any code arrives: the platform, one isolate, one context with the globals, and a warm parser.

use std::sync::OnceLock;

use super::{globals, stack};

/// Maximum number of frames that V8 keeps of where an error was made.
const MAX_FRAMES: i32 = 4;

/// Isolate in which one script can run. A forking process makes it once, and every fork copies it.
pub(super) struct Warm {
    pub(super) isolate: v8::OwnedIsolate,
    pub(super) context: v8::Global<v8::Context>,
    pub(super) bindings: globals::Bindings,
    /// Context for warm-ups, in which no author's code runs; `None`: there is no warm-up.
    pub(super) scratch: Option<v8::Global<v8::Context>>,
}

/// Code that touches what scripts commonly use, so that its pages are initialized before the fork.
const WARM_UP: &str = r#"
    Math.random(); new Date(0).toString(); Date.now();
    new Intl.DateTimeFormat("en-US", { timeZone: "UTC" }).format(0);
    new Intl.NumberFormat("de-DE").format(1234.5);
    "\u00e9".normalize("NFD"); "a-b".replace(/[a-z]-(.)/u, "$1"); "b,a".split(",").sort((a, b) => a.localeCompare(b));
    JSON.parse(JSON.stringify({ a: [1, 2.5, "x", null, { b: true }] }));
    [...new Map([[1, 2]])].map(([k, v]) => k + v).filter(Boolean).reduce((a, b) => a + b, 0);
    (async () => { await null; try { throw new Error("x"); } catch (e) { return e.stack; } })();
    class A { #b = 1; get b() { return this.#b; } } new A().b; `${[1, 2].includes(2)}`;
"#;

const WARM_UP_SOURCE: &str = "const r = await Promise.all([1, 2].map((n) => mcp.call('a.b', {n})));\n\
    for (const { x, ...rest } of r) { if (x > 1 && !rest) return `${x}`; }\nreturn { a: r.length, b: [/x/u, null] };";

/// Starts V8 and prepares an isolate whose heap can grow to `heap_bytes`, for processes that are copies of this one.
/// Each execution lowers the heap for itself. `None`: V8 cannot start or make the globals.
pub(super) fn warm(heap_bytes: usize, jit: bool) -> Option<Warm> {
    let mut warm = cold(heap_bytes, jit)?;
    {
        v8::scope!(let scope, &mut warm.isolate);
        let scratch = v8::Context::new(scope, v8::ContextOptions::default());
        warm.scratch = Some(v8::Global::new(scope, scratch));
        let scope = &mut v8::ContextScope::new(scope, scratch);
        if let Some(script) = v8::String::new(scope, WARM_UP).and_then(|code| v8::Script::compile(scope, code, None)) {
            script.run(scope);
        }
        scope.perform_microtask_checkpoint();
    }
    // Only the touched pages matter, not the result.
    drop(relay_script::prepare(WARM_UP_SOURCE));
    Some(warm)
}

/// Prepares an isolate as [`warm`] does, without the warm-up, for a process that runs only one script.
pub(super) fn cold(heap_bytes: usize, jit: bool) -> Option<Warm> {
    if !start_v8(jit) {
        return None;
    }
    let params = v8::CreateParams::default().heap_limits(0, heap_bytes);
    let mut isolate = v8::Isolate::new(params);
    isolate.set_microtasks_policy(v8::MicrotasksPolicy::Explicit);
    // V8 tells the place inside of a text that it was given to read; the frames tell the call that gave it.
    isolate.set_capture_stack_trace_for_uncaught_exceptions(true, MAX_FRAMES);
    isolate.set_prepare_stack_trace_callback(stack::prepare);
    let (context, bindings) = {
        v8::scope!(let scope, &mut isolate);
        let context = v8::Context::new(scope, v8::ContextOptions::default());
        context.set_allow_generation_from_strings(false);
        let scope = &mut v8::ContextScope::new(scope, context);
        globals::install(scope, context);
        (v8::Global::new(scope, context), globals::Bindings::new(scope)?)
    };
    Some(Warm { isolate, context, bindings, scratch: None })
}

/// Starts V8, once in a process. Returns `false` if it does not know the time zone UTC.
fn start_v8(jit: bool) -> bool {
    static STARTED: OnceLock<bool> = OnceLock::new();
    *STARTED.get_or_init(|| {
        // One thread, since a fork copies only one.
        v8::V8::set_flags_from_string("--single-threaded --no-harmony-shadow-realm");
        // No compilers, since no memory may become executable, unless the relay and the token both allow it.
        if !jit {
            v8::V8::set_flags_from_string("--jitless");
        }
        v8::V8::initialize_platform(v8::new_single_threaded_default_platform(false).make_shared());
        v8::V8::initialize();
        // Scripts see the same on every machine.
        v8::icu::set_default_locale("en-US");
        v8::icu::set_default_time_zone("UTC")
    })
}
