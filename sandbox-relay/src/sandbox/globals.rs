//! What JavaScript may see: ECMAScript, the frozen `mcp`, and the bindings that an execution asks for.

use std::cell::RefCell;

use relay_proto::wire::OutputKind;

use super::channel::message;
use super::{bridge, console, introspection, local, make, random, servers, storage, timers};

/// Globals that V8 adds and that a script must not have: they are no ECMAScript, share memory between threads, or
/// differ between builds of V8.
const REMOVED: [&str; 6] = ["console", "SharedArrayBuffer", "Atomics", "WebAssembly", "Temporal", "ShadowRealm"];

/// Removes what must not be there and adds our `Math.random`. Before the fork, once.
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
    if let Some(math) = built_in(scope, global, "Math") {
        add_function(scope, math, "random", random::random);
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

/// `mcp` and the bindings, made before the fork and given to the scripts that ask for them.
pub(super) struct Bindings {
    mcp: v8::Global<v8::Object>,
    /// The same with `search` and `describe`.
    searchable_mcp: v8::Global<v8::Object>,
    console: v8::Global<v8::Object>,
    store: v8::Global<v8::Object>,
    read_input: v8::Global<v8::Function>,
    emit: v8::Global<v8::Function>,
}

impl Bindings {
    /// Makes all of them, in the context in which scripts run.
    pub(super) fn new(scope: &mut v8::PinScope<'_, '_>) -> Option<Self> {
        let call = function(scope, "call", bridge::call)?;
        call.set_integrity_level(scope, v8::IntegrityLevel::Frozen);
        let [mcp, searchable_mcp] = [false, true].map(|is_searchable| {
            let mcp = v8::Object::new(scope);
            define(scope, mcp, "call", call.into());
            if is_searchable {
                introspection::add_to_mcp(scope, mcp);
            }
            mcp.set_integrity_level(scope, v8::IntegrityLevel::Frozen);
            v8::Global::new(scope, mcp)
        });
        let console = console::object(scope);
        let store = storage::object(scope);
        let read_input = function(scope, "read_input", read_input)?;
        let emit = function(scope, "emit", emit)?;
        Some(Self {
            mcp,
            searchable_mcp,
            console: v8::Global::new(scope, console),
            store: v8::Global::new(scope, store),
            read_input: v8::Global::new(scope, read_input),
            emit: v8::Global::new(scope, emit),
        })
    }

    /// Adds those that this execution asked for, and takes what they need out of its start.
    pub(super) fn bind<'s>(
        &self,
        scope: &mut v8::PinScope<'s, '_>,
        context: v8::Local<'s, v8::Context>,
        start: &mut message::Start,
    ) {
        let global = context.global(scope);
        let mcp = if start.introspection { &self.searchable_mcp } else { &self.mcp };
        let mcp = v8::Local::new(scope, mcp);
        if let Some(key) = v8::String::new(scope, "mcp") {
            let fixed = v8::PropertyAttribute::READ_ONLY | v8::PropertyAttribute::DONT_DELETE;
            global.define_own_property(scope, key.into(), mcp.into(), fixed);
        }
        if start.console {
            let console = v8::Local::new(scope, &self.console);
            console::bind(scope, global, console);
        }
        if start.timers {
            timers::bind(scope, global);
        }
        if start.io {
            INPUT.set(std::mem::take(&mut start.input));
            let read_input = v8::Local::new(scope, &self.read_input);
            define(scope, global, "read_input", read_input.into());
            let emit = v8::Local::new(scope, &self.emit);
            define(scope, global, "emit", emit.into());
        }
        if start.store {
            let store = v8::Local::new(scope, &self.store);
            storage::bind(scope, global, store, std::mem::take(&mut start.stored));
        }
        if start.introspection {
            introspection::bind(scope, global);
        }
        servers::begin(std::mem::take(&mut start.tools));
        // The last, since a server has no name that anything else has.
        if start.servers {
            servers::bind(scope, global);
        }
    }
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

/// A native function, which is no constructor.
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

thread_local! {
    static INPUT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Makes room for the state of the bindings in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    INPUT.set(String::new());
    console::prepare_thread();
    timers::prepare_thread();
    servers::prepare_thread();
    storage::prepare_thread();
    local::prepare_thread();
}

fn read_input<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    _: v8::FunctionCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let input = INPUT.with_borrow(|input| make::string(scope, input));
    returned.set(input.into());
}

fn emit<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let text = console::joined(scope, &arguments, 0);
    console::write(OutputKind::Emit, text);
}
