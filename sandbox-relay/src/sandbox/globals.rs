//! What JavaScript may see: ECMAScript, the frozen `mcp`, and the bindings that an execution asks for.

use std::cell::RefCell;

use relay_proto::wire::OutputKind;

use super::channel::message;
use super::{bridge, inspect, worker};

/// Globals that V8 adds and that a script must not have: they are no ECMAScript, share memory between threads, or
/// differ between builds of V8.
const REMOVED: [&str; 6] = ["console", "SharedArrayBuffer", "Atomics", "WebAssembly", "Temporal", "ShadowRealm"];

/// Removes what must not be there and adds `mcp` and our `Math.random`. Before the fork, once.
pub(super) fn install<'s>(scope: &mut v8::PinScope<'s, '_>, context: v8::Local<'s, v8::Context>) {
    let global = context.global(scope);
    for name in REMOVED {
        if let Some(key) = v8::String::new(scope, name) {
            global.delete(scope, key.into());
        }
    }
    // Text that stands in JSON as it is could be what no reader takes.
    if let Some(json) = built_in(scope, global, "JSON") {
        for name in ["rawJSON", "isRawJSON"] {
            if let Some(key) = v8::String::new(scope, name) {
                json.delete(scope, key.into());
            }
        }
    }
    let mcp = v8::Object::new(scope);
    if let Some(call) = function(scope, "call", bridge::call) {
        call.set_integrity_level(scope, v8::IntegrityLevel::Frozen);
        define(scope, mcp, "call", call.into());
    }
    mcp.set_integrity_level(scope, v8::IntegrityLevel::Frozen);
    if let Some(key) = v8::String::new(scope, "mcp") {
        let fixed = v8::PropertyAttribute::READ_ONLY | v8::PropertyAttribute::DONT_DELETE;
        global.define_own_property(scope, key.into(), mcp.into(), fixed);
    }
    if let Some(math) = built_in(scope, global, "Math") {
        add_function(scope, math, "random", random);
    }
}

fn built_in<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    global: v8::Local<'s, v8::Object>,
    name: &str,
) -> Option<v8::Local<'s, v8::Object>> {
    let key = v8::String::new(scope, name)?;
    global.get(scope, key.into())?.try_into().ok()
}

/// The bindings, made before the fork and given to the scripts that ask for them.
pub(super) struct Bindings {
    console: v8::Global<v8::Object>,
    read_input: v8::Global<v8::Function>,
    emit: v8::Global<v8::Function>,
}

impl Bindings {
    /// Makes all of them, in the context in which scripts run.
    pub(super) fn new(scope: &mut v8::PinScope<'_, '_>) -> Option<Self> {
        let console = v8::Object::new(scope);
        add_function(scope, console, "debug", debug);
        add_function(scope, console, "trace", debug);
        add_function(scope, console, "log", log);
        add_function(scope, console, "dir", log);
        add_function(scope, console, "table", log);
        add_function(scope, console, "info", info);
        add_function(scope, console, "warn", warn);
        add_function(scope, console, "error", error);
        let read_input = function(scope, "read_input", read_input)?;
        let emit = function(scope, "emit", emit)?;
        Some(Self {
            console: v8::Global::new(scope, console),
            read_input: v8::Global::new(scope, read_input),
            emit: v8::Global::new(scope, emit),
        })
    }

    /// Adds those that this execution asked for.
    pub(super) fn bind<'s>(
        &self,
        scope: &mut v8::PinScope<'s, '_>,
        context: v8::Local<'s, v8::Context>,
        start: &message::Start,
    ) {
        let global = context.global(scope);
        if start.console {
            let console = v8::Local::new(scope, &self.console);
            define(scope, global, "console", console.into());
        }
        if start.io {
            INPUT.set(start.input.clone());
            let read_input = v8::Local::new(scope, &self.read_input);
            define(scope, global, "read_input", read_input.into());
            let emit = v8::Local::new(scope, &self.emit);
            define(scope, global, "emit", emit.into());
        }
    }
}

fn define<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    object: v8::Local<'s, v8::Object>,
    name: &str,
    value: v8::Local<'s, v8::Value>,
) {
    if let Some(key) = v8::String::new(scope, name) {
        object.define_own_property(scope, key.into(), value, v8::PropertyAttribute::DONT_ENUM);
    }
}

fn function<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    name: &str,
    callback: impl v8::MapFnTo<v8::FunctionCallback>,
) -> Option<v8::Local<'s, v8::Function>> {
    let function = v8::Function::builder(callback).constructor_behavior(v8::ConstructorBehavior::Throw).build(scope)?;
    function.set_name(v8::String::new(scope, name)?);
    Some(function)
}

fn add_function<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    object: v8::Local<'s, v8::Object>,
    name: &str,
    callback: impl v8::MapFnTo<v8::FunctionCallback>,
) {
    if let Some(function) = function(scope, name, callback) {
        define(scope, object, name, function.into());
    }
}

thread_local! {
    static INPUT: RefCell<String> = const { RefCell::new(String::new()) };
    static RANDOM: RefCell<Xoshiro> = const { RefCell::new(Xoshiro([1, 2, 3, 4])) };
}

/// Makes room for the state of the bindings in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    INPUT.set(String::new());
}

/// Gives this process's `Math.random` a state of its own: a fork inherits its parent's.
///
/// # Errors
/// The kernel gives no random bytes.
pub(super) fn seed_random() -> std::io::Result<()> {
    let mut state = [0_u64; 4];
    for word in &mut state {
        let mut bytes = [0_u8; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        *word = u64::from_le_bytes(bytes);
    }
    // The one state that the generator cannot leave.
    state[0] |= 1;
    RANDOM.set(Xoshiro(state));
    Ok(())
}

/// The generator xoshiro256++ of Blackman and Vigna. Good for sampling, not for secrets, like every `Math.random`.
struct Xoshiro([u64; 4]);

impl Xoshiro {
    fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }
}

fn random(
    _: &mut v8::PinScope<'_, '_>,
    _: v8::FunctionCallbackArguments<'_>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    // The upper 53 bits, which a double holds exactly, as a fraction.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    let fraction = RANDOM.with_borrow_mut(|random| (random.next() >> 11) as f64) / (1_u64 << 53) as f64;
    returned.set_double(fraction);
}

fn read_input<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    _: v8::FunctionCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let input = INPUT.with_borrow(|input| v8::String::new(scope, input));
    if let Some(input) = input {
        returned.set(input.into());
    }
}

fn emit<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let text = texts(scope, &arguments);
    write(OutputKind::Emit, text);
}

macro_rules! console_function {
    ($($name:ident: $kind:expr;)*) => {
        $(fn $name<'s>(
            scope: &mut v8::PinScope<'s, '_>,
            arguments: v8::FunctionCallbackArguments<'s>,
            _: v8::ReturnValue<v8::Value>,
        ) {
            let text = texts(scope, &arguments);
            write($kind, text);
        })*
    };
}

console_function! {
    debug: OutputKind::Debug;
    log: OutputKind::Log;
    info: OutputKind::Info;
    warn: OutputKind::Warn;
    error: OutputKind::Error;
}

/// The arguments' texts, with a space between, no longer than the output that is left and a little: what is over shows.
fn texts<'s>(scope: &mut v8::PinScope<'s, '_>, arguments: &v8::FunctionCallbackArguments<'s>) -> String {
    let most = bridge::output_room() + 1;
    let mut text = String::new();
    for index in 0..arguments.length() {
        if index > 0 {
            text.push(' ');
        }
        let room = most.saturating_sub(text.len());
        let value = arguments.get(index);
        text.push_str(&inspect::inspect(scope, value, room));
    }
    text
}

fn write(kind: OutputKind, text: String) {
    if let Err(full) = bridge::output(kind.into(), text) {
        worker::fail_output_limit(full.limit);
    }
}
