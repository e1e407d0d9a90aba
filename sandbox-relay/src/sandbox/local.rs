//! Local tools: functions that the host sends along and that run in the worker, as `mcp.call("local.name", args)`.
//!
//! They run in the script's context and inside its limits, and are no boundary. Their arguments and results are JSON,
//! as with every other tool.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use relay_proto::spelling::nearest;
use relay_proto::{ErrorCode, LOCAL_SERVER};

use super::promise::ToolPromise;
use super::value::{self, ValueError};
use super::{inspect, make};

/// Maximum length in bytes of a failure's text.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

thread_local! {
    static LOCAL: RefCell<Local> = RefCell::default();
    /// Number of calls so far; readable in the middle of anything.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

#[derive(Default)]
struct Local {
    functions: HashMap<String, v8::Global<v8::Function>>,
    /// Calls whose functions have not ended.
    open: HashMap<u64, ToolPromise>,
    last: u64,
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    LOCAL.take();
    CALLS.set(0);
}

/// Returns the number of calls made of local tools.
pub(super) fn calls() -> u64 {
    CALLS.get()
}

/// Adds the function of a tool.
pub(super) fn add(tool: String, function: v8::Global<v8::Function>) {
    LOCAL.with_borrow_mut(|local| local.functions.insert(tool, function));
}

/// Returns whether a tool is a local one.
pub(super) fn is_one(tool: &str) -> bool {
    LOCAL.with_borrow(|local| local.functions.contains_key(tool))
}

/// Returns the message about an unknown local tool; `None`: the tool exists, or there are no local tools, or it is of
/// another server.
pub(super) fn unknown(tool: &str) -> Option<String> {
    let own = tool.strip_prefix(LOCAL_SERVER)?.strip_prefix('.')?;
    LOCAL.with_borrow(|local| {
        if local.functions.is_empty() || local.functions.contains_key(tool) {
            return None;
        }
        let known = local.functions.keys().filter_map(|name| name.split_once('.')).map(|(_, own)| own);
        let meant = nearest(own, known).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
        Some(format!("there is no local tool {own:?}{meant}"))
    })
}

/// Returns the tools of the calls whose functions have not ended.
pub(super) fn open() -> Vec<String> {
    LOCAL.with_borrow(|local| local.open.values().map(|call| call.tool.clone()).collect())
}

/// Runs the function of a tool. The call's promise is settled when the function's is.
pub(super) fn call(scope: &mut v8::PinScope<'_, '_>, call: ToolPromise, arguments: &[u8]) {
    CALLS.set(CALLS.get() + 1);
    let function = LOCAL.with_borrow(|local| local.functions.get(&call.tool).cloned());
    let (Some(function), Some(arguments)) = (function, value::from_json(scope, arguments)) else { return };
    let function = v8::Local::new(scope, function);
    let returned = {
        v8::tc_scope!(let scope, scope);
        let receiver = v8::undefined(scope).into();
        match function.call(scope, receiver, &[arguments]) {
            Some(returned) => Ok(returned),
            None => Err(scope.exception().unwrap_or(receiver)),
        }
    };
    let (id, returned) = match returned {
        Ok(returned) => {
            let id = LOCAL.with_borrow_mut(|local| {
                local.last += 1;
                local.open.insert(local.last, call);
                local.last
            });
            (id, returned)
        }
        Err(thrown) => return reject(scope, &call, thrown),
    };
    // A resolver takes any value and calls its `then`, if it has one.
    let Some(resolver) = v8::PromiseResolver::new(scope) else { return };
    resolver.resolve(scope, returned);
    #[expect(clippy::cast_precision_loss, reason = "no execution makes so many calls")]
    let data: v8::Local<v8::Value> = v8::Number::new(scope, id as f64).into();
    let done = v8::Function::builder(fulfilled).data(data).build(scope);
    let failed = v8::Function::builder(rejected).data(data).build(scope);
    if let (Some(done), Some(failed)) = (done, failed) {
        resolver.get_promise(scope).then2(scope, done, failed);
    }
}

fn ended(scope: &mut v8::PinScope<'_, '_>, arguments: &v8::FunctionCallbackArguments<'_>) -> Option<ToolPromise> {
    let id = u64::try_from(arguments.data().integer_value(scope)?).ok()?;
    LOCAL.with_borrow_mut(|local| local.open.remove(&id))
}

fn fulfilled<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let Some(call) = ended(scope, &arguments) else { return };
    // The heap bounds it, as all values that stay in the worker.
    match value::to_json(scope, arguments.get(0), "null", usize::MAX) {
        Ok(json) => {
            if let Some(copy) = value::from_json(scope, &json) {
                call.resolve(scope, copy);
            }
        }
        Err(ValueError::Thrown(thrown)) => reject(scope, &call, thrown),
        Err(ValueError::NotSerializable { path, reason }) => {
            let text = format!("the result of {} cannot be returned as JSON: at {path}, {reason}", call.tool);
            reject_with(scope, &call, ErrorCode::NotSerializable, &text);
        }
        Err(ValueError::TooLarge { bytes }) => {
            let text = format!("the result of {} has {bytes} bytes, which is too much to copy", call.tool);
            reject_with(scope, &call, ErrorCode::ToolResultLimit, &text);
        }
    }
}

fn rejected<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    if let Some(call) = ended(scope, &arguments) {
        reject(scope, &call, arguments.get(0));
    }
}

fn reject<'s>(scope: &mut v8::PinScope<'s, '_>, call: &ToolPromise, thrown: v8::Local<'s, v8::Value>) {
    let Origin { depth, tool, text } = origin(scope, thrown).unwrap_or_else(|| Origin {
        depth: 0,
        tool: call.tool.clone(),
        text: inspect::excerpt(scope, thrown, MAX_MESSAGE_BYTES),
    });
    // However many functions it passed, the first error comes through.
    let text_of_all = match depth {
        0 => format!("{} failed: {text}", call.tool),
        1 => format!("{} failed: {tool} failed: {text}", call.tool),
        _ => format!("{} failed: {depth} calls below, {tool} failed: {text}", call.tool),
    };
    let error = call.reject(scope, ErrorCode::ToolFailed.as_str(), &text_of_all);
    let Ok(error) = v8::Local::<v8::Object>::try_from(error) else { return };
    let depth = (depth + 1).to_string();
    for (name, value) in [(DEPTH, &depth), (TOOL, &tool), (TEXT, &text)] {
        let (mark, value) = (mark(scope, name), make::string(scope, value));
        error.set_private(scope, mark, value.into());
    }
}

/// Names of the marks of an error that a function failed with.
const DEPTH: &str = "depth";
const TOOL: &str = "origin";
const TEXT: &str = "text";

/// The first error of those that functions failed with, one by the other.
struct Origin {
    /// Number of functions that failed by it.
    depth: u32,
    /// The first of them.
    tool: String,
    text: String,
}

/// Returns the origin of an error that [`reject`] made; `None`: it is another value.
fn origin<'s>(scope: &mut v8::PinScope<'s, '_>, thrown: v8::Local<'s, v8::Value>) -> Option<Origin> {
    let object = v8::Local::<v8::Object>::try_from(thrown).ok()?;
    let mut read = |name: &str| {
        let mark = mark(scope, name);
        let value = object.get_private(scope, mark)?;
        value.is_string().then(|| value.to_rust_string_lossy(scope))
    };
    Some(Origin { depth: read(DEPTH)?.parse().ok()?, tool: read(TOOL)?, text: read(TEXT)? })
}

fn mark<'s>(scope: &mut v8::PinScope<'s, '_>, name: &str) -> v8::Local<'s, v8::Private> {
    let key = make::string(scope, name);
    v8::Private::for_api(scope, Some(key))
}

fn reject_with(scope: &mut v8::PinScope<'_, '_>, call: &ToolPromise, code: ErrorCode, text: &str) {
    call.reject(scope, code.as_str(), text);
}
