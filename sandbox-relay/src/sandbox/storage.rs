//! Binding `store`: a small JSON key-value store that lives as long as the session.
//!
//! The code reads the session's values as they were when it began, and its own writes. Each write goes to the session
//! at once.

use std::cell::RefCell;

use bytes::Bytes;

use super::channel::message;
use super::channel::message::report::Kind as Report;
use super::make::{add_function, define};
use super::value::{self, ValueError};
use super::{link, make};
use crate::store::{self, Store};

thread_local! {
    static STORE: RefCell<(Store, u64)> = RefCell::default();
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    STORE.take();
}

/// Makes the object. Called before the fork.
pub(super) fn object<'s>(scope: &mut v8::PinScope<'s, '_>) -> v8::Local<'s, v8::Object> {
    let object = v8::Object::new(scope);
    add_function(scope, object, "get", get);
    add_function(scope, object, "set", set);
    add_function(scope, object, "has", has);
    add_function(scope, object, "delete", delete);
    add_function(scope, object, "keys", keys);
    object.set_integrity_level(scope, v8::IntegrityLevel::Frozen);
    object
}

/// Takes the session's values and adds `store` to the global object.
pub(super) fn bind<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    global: v8::Local<'s, v8::Object>,
    object: v8::Local<'s, v8::Object>,
    stored: Vec<message::StoredValue>,
) {
    STORE.with_borrow_mut(|(store, _)| {
        for message::StoredValue { key, json } in stored {
            // They fit: the relay's store has the same limits.
            let _ = store.put(key, Some(json));
        }
    });
    define(scope, global, "store", object.into());
}

/// Returns a key; `None`: the value is none, and an exception is thrown.
fn key<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>) -> Option<String> {
    let key = make::text(scope, value, store::MAX_KEY_BYTES).filter(|key| key.len() <= store::MAX_KEY_BYTES);
    if key.is_none() {
        let text = format!("a key of the store is a string of at most {} bytes", store::MAX_KEY_BYTES);
        make::throw(scope, v8::Exception::type_error, &text);
    }
    key
}

/// Implements `store.get(key)`: a fresh copy of the value, or `undefined`.
fn get<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let Some(key) = key(scope, arguments.get(0)) else { return };
    let json = STORE.with_borrow(|(store, _)| store.get(&key).cloned());
    if let Some(value) = json.and_then(|json| value::from_json(scope, &json)) {
        returned.set(value);
    }
}

/// Implements `store.has(key)`.
fn has<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let Some(key) = key(scope, arguments.get(0)) else { return };
    returned.set_bool(STORE.with_borrow(|(store, _)| store.get(&key).is_some()));
}

/// Implements `store.set(key, value)` for any value that has a JSON form. `undefined` is `null`.
fn set<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let Some(key) = key(scope, arguments.get(0)) else { return };
    let json = value::to_json(scope, arguments.get(1), "null", store::MAX_BYTES);
    value::warn_of_losses("a stored value");
    match json {
        Ok(json) => write(scope, key, Some(json.into())),
        Err(ValueError::Thrown(thrown)) => {
            scope.throw_exception(thrown);
        }
        Err(ValueError::NotSerializable { path, reason }) => {
            let text = format!("the value cannot be stored as JSON: at {path}, {reason}");
            make::throw(scope, v8::Exception::type_error, &text);
        }
        Err(ValueError::TooLarge { .. }) => throw_full(scope),
    }
}

/// Implements `store.delete(key)`, which returns whether there was a value.
fn delete<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let Some(key) = key(scope, arguments.get(0)) else { return };
    let was_there = STORE.with_borrow(|(store, _)| store.get(&key).is_some());
    if was_there {
        write(scope, key, None);
    }
    returned.set_bool(was_there);
}

/// Implements `store.keys()`, sorted.
fn keys<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    _: v8::FunctionCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let keys: Vec<_> = STORE.with_borrow(|(store, _)| store.iter().map(|(key, _)| key.clone()).collect());
    let keys: Vec<_> = keys.iter().map(|key| make::string(scope, key).into()).collect();
    returned.set(v8::Array::new_with_elements(scope, &keys).into());
}

fn write(scope: &mut v8::PinScope<'_, '_>, key: String, json: Option<Bytes>) {
    enum Written {
        Done,
        Full,
        TooOften,
    }
    let written = STORE.with_borrow_mut(|(store, writes)| {
        if *writes >= store::MAX_WRITES {
            return Written::TooOften;
        }
        if !store.put(key.clone(), json.clone()) {
            return Written::Full;
        }
        *writes += 1;
        Written::Done
    });
    match written {
        Written::Done => {
            link::write(Report::Stored(message::StoredValue { key, json: json.unwrap_or_default() }));
        }
        Written::Full => throw_full(scope),
        Written::TooOften => {
            let text = format!(
                "this execution has written to the store {} times; keep values in variables",
                store::MAX_WRITES
            );
            make::throw(scope, v8::Exception::range_error, &text);
        }
    }
}

fn throw_full(scope: &mut v8::PinScope<'_, '_>) {
    let text = format!(
        "the store is full: it holds {} keys and {} bytes, keys included; delete some",
        store::MAX_KEYS,
        store::MAX_BYTES
    );
    make::throw(scope, v8::Exception::range_error, &text);
}
