//! Globals of the script: ECMAScript, the frozen `mcp`, and the bindings that its execution asked for.

use std::cell::RefCell;

use relay_proto::wire::OutputKind;

use super::channel::message;
use super::make::{add_function, define, function};
use super::{bridge, console, introspection, local, make, output, random, servers, storage, timers, tools, value};

/// Globals of V8 that a script must not have: they are no ECMAScript, share memory between threads, or differ between
/// builds of V8.
const REMOVED: [&str; 6] = ["console", "SharedArrayBuffer", "Atomics", "WebAssembly", "Temporal", "ShadowRealm"];

/// Globals that a durable execution must not have: what they tell depends on when memory is collected.
const UNREPEATABLE: [&str; 2] = ["WeakRef", "FinalizationRegistry"];

/// Removes [`REMOVED`] and adds our `Math.random`. Called once, before the fork.
pub(super) fn install<'s>(scope: &mut v8::PinScope<'s, '_>, context: v8::Local<'s, v8::Context>) {
    let global = context.global(scope);
    remove(scope, global, &REMOVED);
    // Raw JSON could be text that no reader takes.
    if let Some(json) = built_in(scope, global, "JSON") {
        remove(scope, json, &["rawJSON", "isRawJSON"]);
        value::install(scope, json);
    }
    if let Some(math) = built_in(scope, global, "Math") {
        add_function(scope, math, "random", random::random);
    }
}

fn remove<'s>(scope: &mut v8::PinScope<'s, '_>, object: v8::Local<'s, v8::Object>, names: &[&str]) {
    for name in names {
        if let Some(key) = v8::String::new(scope, name) {
            object.delete(scope, key.into());
        }
    }
}

/// Returns a global object by its name.
fn built_in<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    global: v8::Local<'s, v8::Object>,
    name: &str,
) -> Option<v8::Local<'s, v8::Object>> {
    let key = v8::String::new(scope, name)?;
    global.get(scope, key.into())?.try_into().ok()
}

/// Objects of `mcp` and of the bindings, made before the fork.
pub(super) struct Bindings {
    mcp: v8::Global<v8::Object>,
    /// `mcp` with `search` and `describe`.
    searchable_mcp: v8::Global<v8::Object>,
    console: v8::Global<v8::Object>,
    store: v8::Global<v8::Object>,
    read_input: v8::Global<v8::Function>,
    emit: v8::Global<v8::Function>,
}

impl Bindings {
    /// Makes all of them, in the context in which scripts run; `None`: V8 cannot make a function.
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

    /// Adds the bindings that the execution asked for, and takes what they need out of `start`.
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
        if start.durable.is_some() {
            remove(scope, global, &UNREPEATABLE);
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
        tools::begin(std::mem::take(&mut start.tools));
        // The last: a server gets no name that another global has.
        if start.servers {
            servers::bind(scope, global);
        }
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
    tools::prepare_thread();
    storage::prepare_thread();
    local::prepare_thread();
}

/// Implements `read_input()`.
fn read_input<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    _: v8::FunctionCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let input = INPUT.with_borrow(|input| make::string(scope, input));
    returned.set(input.into());
}

/// Implements `emit(...texts)`.
fn emit<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let text = console::joined(scope, &arguments, 0);
    output::write(OutputKind::Emit, text);
}
