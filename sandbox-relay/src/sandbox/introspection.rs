//! Binding `introspection`: asks the host about its tools. Each question is a call of a tool of the server `mcp`, which
//! the host answers itself.

use relay_proto::ErrorCode;
use relay_proto::id::MAX_TOOL_NAME_BYTES;

use super::make::{add_function, define, function};
use super::promise::tool_error;
use super::{bridge, make};

/// Adds `search` and `describe` to the object `mcp`.
pub(super) fn add_to_mcp<'s>(scope: &mut v8::PinScope<'s, '_>, mcp: v8::Local<'s, v8::Object>) {
    add_function(scope, mcp, "search", search);
    add_function(scope, mcp, "describe", describe);
}

/// Adds `__interfaces` and `__getToolInterface` to the global object.
pub(super) fn bind<'s>(scope: &mut v8::PinScope<'s, '_>, global: v8::Local<'s, v8::Object>) {
    let key = make::string(scope, "__interfaces").into();
    let data = v8::undefined(scope).into();
    let (hidden, reads, writes) =
        (v8::PropertyAttribute::DONT_ENUM, v8::SideEffectType::HasNoSideEffect, v8::SideEffectType::HasSideEffect);
    global.set_lazy_data_property_with_data(scope, key, interfaces, data, hidden, reads, writes);
    if let Some(get) = function(scope, "__getToolInterface", tool_interface) {
        define(scope, global, "__getToolInterface", get.into());
    }
}

/// Implements `mcp.search(query, limit)`: the tools that fit, best first.
fn search<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    returned: v8::ReturnValue<v8::Value>,
) {
    let limit = Some(("limit", arguments.get(1))).filter(|(_, limit)| !limit.is_undefined());
    question(scope, "mcp.search", ("query", arguments.get(0)), limit, returned);
}

/// Implements `mcp.describe(name)`: one tool.
fn describe<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    returned: v8::ReturnValue<v8::Value>,
) {
    question(scope, "mcp.describe", ("name", arguments.get(0)), None, returned);
}

type Field<'s> = (&'static str, v8::Local<'s, v8::Value>);

fn question<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    tool: &str,
    first: Field<'s>,
    second: Option<Field<'s>>,
    returned: v8::ReturnValue<v8::Value>,
) {
    // One object holds all arguments by their names.
    let given = if first.1.is_object() { first.1 } else { object(scope, [Some(first), second]) };
    bridge::call_tool(scope, Ok(tool.to_owned()), given, returned);
}

fn object<'s>(scope: &mut v8::PinScope<'s, '_>, fields: [Option<Field<'s>>; 2]) -> v8::Local<'s, v8::Value> {
    let object = v8::Object::new(scope);
    for (name, value) in fields.into_iter().flatten() {
        let key = make::string(scope, name);
        object.create_data_property(scope, key.into(), value);
    }
    object.into()
}

/// Implements `__interfaces`, which asks the host when it is first read.
fn interfaces<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    _key: v8::Local<'s, v8::Name>,
    _: v8::PropertyCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    match bridge::ask(scope, "mcp.interfaces", b"{}".into()) {
        Ok(interfaces) => returned.set(interfaces),
        Err(error) => {
            scope.throw_exception(error);
        }
    }
}

/// Implements `__getToolInterface(name)`: one tool, or `null`.
fn tool_interface<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let answer = match make::text(scope, arguments.get(0), MAX_TOOL_NAME_BYTES) {
        Some(name) => {
            let name = serde_json::json!({ "name": name });
            bridge::ask(scope, "mcp.interface", name.to_string().into())
        }
        None => {
            let text = "__getToolInterface takes the name of a tool as a short string, such as \"server.tool\"";
            Err(tool_error(scope, ErrorCode::InvalidArguments.as_str(), text, "mcp.interface"))
        }
    };
    match answer {
        Ok(interface) => returned.set(interface),
        Err(error) => {
            scope.throw_exception(error);
        }
    }
}
