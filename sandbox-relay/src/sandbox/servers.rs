//! Binding `servers`: one object for each server with one async function for each tool, on `servers` and on the global
//! object.
//!
//! A name that is no identifier is a property as it is and as an identifier: `globalThis["my-backend"]` is
//! `my_backend`. Calls carry the original name. Objects are made when they are first read: most code reads few of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use relay_proto::ErrorCode;
use relay_proto::spelling::sanitize;

use super::make::define;
use super::promise::tool_error;
use super::{bridge, make, tools};

/// Methods that JavaScript calls by itself.
const HOOKS: [&str; 5] = ["constructor", "then", "toJSON", "toString", "valueOf"];

thread_local! {
    static MADE: RefCell<HashMap<String, v8::Global<v8::Object>>> = RefCell::default();
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    MADE.take();
}

/// Returns the spellings of names, each with the names that it may mean.
fn spellings<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<String, BTreeSet<&'a str>> {
    let mut meanings: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for name in names {
        meanings.entry(name.clone()).or_default().insert(name);
        meanings.entry(sanitize(name)).or_default().insert(name);
    }
    meanings
}

/// Adds `servers`, and each server as a global unless another global has its name.
pub(super) fn bind<'s>(scope: &mut v8::PinScope<'s, '_>, global: v8::Local<'s, v8::Object>) {
    let spelled = tools::with(|tools| {
        let own =
            |(spelling, names): (String, BTreeSet<&str>)| (spelling, names.into_iter().map(str::to_owned).collect());
        spellings(tools.keys()).into_iter().map(own).collect::<Vec<(String, Vec<String>)>>()
    });
    let null = v8::null(scope).into();
    let all = v8::Object::with_prototype_and_properties(scope, null, &[], &[]);
    for (spelling, names) in spelled {
        let key = make::string(scope, &spelling).into();
        add_server(scope, all, key, &names, v8::PropertyAttribute::NONE);
        if global.has(scope, key.into()) == Some(false) {
            add_server(scope, global, key, &names, v8::PropertyAttribute::DONT_ENUM);
        }
    }
    define(scope, global, "servers", all.into());
}

fn add_server<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    object: v8::Local<'s, v8::Object>,
    key: v8::Local<'s, v8::Name>,
    names: &[String],
    attributes: v8::PropertyAttribute,
) {
    if let [name] = names {
        let data = make::string(scope, name).into();
        let (reads, writes) = (v8::SideEffectType::HasNoSideEffect, v8::SideEffectType::HasSideEffect);
        object.set_lazy_data_property_with_data(scope, key, server, data, attributes, reads, writes);
    } else {
        let data = make::string(scope, &ambiguous("server", names, "tool")).into();
        let refuse = v8::AccessorConfiguration::new(refuse_server).data(data).property_attribute(attributes);
        object.set_accessor_with_configuration(scope, key, refuse);
    }
}

/// Makes the message about a spelling that could mean several names.
fn ambiguous(what: &str, names: &[String], rest: &str) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    let first = names.first().map_or("", String::as_str);
    let call = if what == "server" { format!("{first}.{rest}") } else { format!("{rest}.{first}") };
    format!("this could be the {what} {}; say which: mcp.call({call:?}, args)", quoted.join(" or "))
}

fn refuse_server<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    _key: v8::Local<'s, v8::Name>,
    arguments: v8::PropertyCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let text = arguments.data().to_rust_string_lossy(scope);
    make::throw(scope, v8::Exception::type_error, &text);
}

/// Makes the object of a server, when it is first read.
fn server<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    _key: v8::Local<'s, v8::Name>,
    arguments: v8::PropertyCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let name = arguments.data().to_rust_string_lossy(scope);
    let made = MADE.with_borrow(|made| made.get(&name).cloned());
    if let Some(made) = made {
        return returned.set(v8::Local::new(scope, made).into());
    }
    let object = v8::Object::new(scope);
    let tools = tools::with(|tools| tools.get(&name).cloned().unwrap_or_default());
    for (spelling, names) in spellings(tools.iter()) {
        // A method that the language would call by itself has its other name alone.
        if HOOKS.contains(&&*spelling) {
            continue;
        }
        let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
        let made = if let [tool] = &*names {
            let data = make::string(scope, &format!("{name}.{tool}"));
            v8::Function::builder(call).data(data.into())
        } else {
            let data = make::string(scope, &ambiguous("tool", &names, &name));
            v8::Function::builder(refuse_tool).data(data.into())
        };
        let key = make::string(scope, &spelling);
        if let Some(made) = made.constructor_behavior(v8::ConstructorBehavior::Throw).build(scope) {
            made.set_name(key);
            object.create_data_property(scope, key.into(), made.into());
        }
    }
    object.set_integrity_level(scope, v8::IntegrityLevel::Frozen);
    let kept = v8::Global::new(scope, object);
    MADE.with_borrow_mut(|made| made.insert(name, kept));
    returned.set(object.into());
}

/// Implements `exa.search(args = {})`: `mcp.call` with the name that the function stands for.
fn call<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    returned: v8::ReturnValue<v8::Value>,
) {
    let tool = arguments.data().to_rust_string_lossy(scope);
    bridge::call_tool(scope, Ok(tool), arguments.get(0), returned);
}

fn refuse_tool<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    returned: v8::ReturnValue<v8::Value>,
) {
    let text = arguments.data().to_rust_string_lossy(scope);
    let error = tool_error(scope, ErrorCode::InvalidToolName.as_str(), &text, "");
    bridge::call_tool(scope, Err(error), arguments.get(0), returned);
}
