//! Binding `console`: captured, and streamed to the host as output.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use relay_proto::wire::OutputKind;

use super::make::{add_function, define};
use super::value;
use super::{clock, inspect, make, numerals, output, table};

/// Maximum number of counters, and of stop-watches.
const MAX_LABELS: usize = 1_000;
/// Maximum depth of groups.
const MAX_GROUPS: usize = 32;
/// Maximum length in bytes of a label.
const MAX_LABEL_BYTES: usize = 200;
/// Maximum number of frames that `console.trace` shows.
const MAX_FRAMES: usize = 10;

thread_local! {
    static CONSOLE: RefCell<Console> = RefCell::default();
}

#[derive(Default)]
struct Console {
    groups: usize,
    counts: HashMap<String, u64>,
    started: HashMap<String, Duration>,
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    CONSOLE.take();
}

/// Makes the object. Called before the fork.
pub(super) fn object<'s>(scope: &mut v8::PinScope<'s, '_>) -> v8::Local<'s, v8::Object> {
    let object = v8::Object::new(scope);
    add_function(scope, object, "debug", debug);
    add_function(scope, object, "log", log);
    add_function(scope, object, "info", info);
    add_function(scope, object, "warn", warn);
    add_function(scope, object, "error", error);
    add_function(scope, object, "trace", trace);
    add_function(scope, object, "dir", dir);
    add_function(scope, object, "table", print_table);
    add_function(scope, object, "assert", assert);
    add_function(scope, object, "group", group);
    add_function(scope, object, "groupCollapsed", group);
    add_function(scope, object, "groupEnd", group_end);
    add_function(scope, object, "count", count);
    add_function(scope, object, "countReset", count_reset);
    add_function(scope, object, "time", time);
    add_function(scope, object, "timeLog", time_log);
    add_function(scope, object, "timeEnd", time_end);
    object
}

/// Adds `console` to the global object.
pub(super) fn bind<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    global: v8::Local<'s, v8::Object>,
    object: v8::Local<'s, v8::Object>,
) {
    define(scope, global, "console", object.into());
}

macro_rules! levels {
    ($($name:ident: $kind:expr;)*) => {
        $(fn $name<'s>(
            scope: &mut v8::PinScope<'s, '_>,
            arguments: v8::FunctionCallbackArguments<'s>,
            _: v8::ReturnValue<v8::Value>,
        ) {
            let text = formatted(scope, &arguments, 0);
            print($kind, text);
        })*
    };
}

levels! {
    debug: OutputKind::Debug;
    log: OutputKind::Log;
    info: OutputKind::Info;
    warn: OutputKind::Warn;
    error: OutputKind::Error;
}

/// Writes one piece of output, indented as the groups are.
fn print(kind: OutputKind, text: String) {
    let groups = CONSOLE.with_borrow(|console| console.groups);
    if groups == 0 {
        return output::write(kind, text);
    }
    let indent = "  ".repeat(groups);
    output::write(kind, format!("{indent}{}", text.replace('\n', &format!("\n{indent}"))));
}

/// Joins the texts of the arguments with spaces. It is cut a little behind the end of the output that is left, so that
/// the limit is noticed.
pub(super) fn joined<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: &v8::FunctionCallbackArguments<'s>,
    from: i32,
) -> String {
    let mut text = String::new();
    join(scope, arguments, from, &mut text);
    text
}

/// Appends the texts of the arguments, with a space before each but the first.
fn join<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: &v8::FunctionCallbackArguments<'s>,
    from: i32,
    text: &mut String,
) {
    for index in from..arguments.length() {
        if !text.is_empty() || index > from {
            text.push(' ');
        }
        let room = room_after(text);
        if room == 0 {
            return;
        }
        text.push_str(&inspect::inspect(scope, arguments.get(index), room));
    }
}

/// Returns how many bytes may follow a text: one character more than there is room for. A text that is cut to so many
/// bytes, between characters, is longer than the room in any script, which is how the limit is noticed.
fn room_after(text: &str) -> usize {
    (output::room() + char::MAX_LEN_UTF8).saturating_sub(text.len())
}

/// Joins the arguments as [`joined`] does, but marks in a first text say where the others go: `%s`, `%d`, `%i`, `%f`,
/// `%j`, `%o`, `%O` and `%c`.
fn formatted<'s>(scope: &mut v8::PinScope<'s, '_>, arguments: &v8::FunctionCallbackArguments<'s>, from: i32) -> String {
    // A text that is longer than the output that is left ends there, with or without marks.
    let format = make::text(scope, arguments.get(from), room_after("")).filter(|text| text.contains('%'));
    let Some(format) = format else {
        return joined(scope, arguments, from);
    };
    let (mut text, mut next, mut rest) = (String::new(), from + 1, format.as_str());
    while let Some(at) = rest.find('%') {
        let (before, mark) = rest.split_at(at);
        text.push_str(before);
        let kind = mark.as_bytes().get(1).copied().unwrap_or(0);
        rest = match kind {
            b'%' => {
                text.push('%');
                &mark[2..]
            }
            b's' | b'd' | b'i' | b'f' | b'j' | b'o' | b'O' | b'c' if next < arguments.length() => {
                let room = room_after(&text);
                let value = arguments.get(next);
                next += 1;
                if room > 0 {
                    text.push_str(&placed(scope, kind, value, room));
                }
                &mark[2..]
            }
            _ => {
                text.push('%');
                &mark[1..]
            }
        };
    }
    text.push_str(rest);
    join(scope, arguments, next, &mut text);
    text
}

/// Returns the text in the place of one mark.
fn placed<'s>(scope: &mut v8::PinScope<'s, '_>, kind: u8, value: v8::Local<'s, v8::Value>, room: usize) -> String {
    match kind {
        b'c' => String::new(),
        b'd' | b'i' | b'f' => number(scope, value, kind),
        b'j' => match value::to_json(scope, value, "undefined", room) {
            Ok(json) => String::from_utf8_lossy(&json).into_owned(),
            Err(_) => inspect::inspect(scope, value, room),
        },
        _ => inspect::inspect(scope, value, room),
    }
}

/// Returns a value as the text of a number, as `Number` reads it for `%d`, `parseInt` for `%i` and `parseFloat` for
/// `%f`. An object is not converted: that could run code of the script's.
fn number<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>, kind: u8) -> String {
    if value.is_big_int() {
        return inspect::excerpt(scope, value, MAX_LABEL_BYTES);
    }
    let number = if value.is_object() || value.is_symbol() {
        None
    } else if kind != b'd' && !value.is_number() {
        let text = inspect::inspect(scope, value, MAX_LABEL_BYTES);
        Some(numerals::leading(&text, kind == b'i'))
    } else {
        value.number_value(scope)
    };
    let number = number.unwrap_or(f64::NAN);
    let number = v8::Number::new(scope, if kind == b'i' { number.trunc() + 0.0 } else { number });
    inspect::inspect(scope, number.into(), MAX_LABEL_BYTES)
}

/// Returns the label of a counter or a stop-watch; `default` without one.
fn label<'s>(scope: &mut v8::PinScope<'s, '_>, arguments: &v8::FunctionCallbackArguments<'s>) -> String {
    let label = arguments.get(0);
    if label.is_undefined() { "default".into() } else { inspect::excerpt(scope, label, MAX_LABEL_BYTES) }
}

fn trace<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let mut text = formatted(scope, &arguments, 0);
    text.insert_str(0, if text.is_empty() { "Trace" } else { "Trace: " });
    if let Some(stack) = v8::StackTrace::current_stack_trace(scope, MAX_FRAMES) {
        for frame in (0..stack.get_frame_count()).filter_map(|index| stack.get_frame(scope, index)) {
            let name = frame.get_function_name(scope).map(|name| name.to_rust_string_lossy(scope));
            let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "(anonymous)".into());
            text += &format!("\n    at {name} ({}:{})", frame.get_line_number(), frame.get_column());
        }
    }
    print(OutputKind::Debug, text);
}

fn dir<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let text = inspect::inspect(scope, arguments.get(0), room_after(""));
    print(OutputKind::Log, text);
}

fn print_table<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let text = table::table(scope, arguments.get(0), arguments.get(1));
    let text = text.unwrap_or_else(|| formatted(scope, &arguments, 0));
    print(OutputKind::Log, text);
}

fn assert<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    if !arguments.get(0).boolean_value(scope) {
        let text = formatted(scope, &arguments, 1);
        let colon = if arguments.length() > 1 { ": " } else { "" };
        print(OutputKind::Error, format!("Assertion failed{colon}{text}"));
    }
}

fn group<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    if arguments.length() > 0 {
        let text = formatted(scope, &arguments, 0);
        print(OutputKind::Log, text);
    }
    CONSOLE.with_borrow_mut(|console| console.groups = (console.groups + 1).min(MAX_GROUPS));
}

fn group_end(_: &mut v8::PinScope<'_, '_>, _: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<v8::Value>) {
    CONSOLE.with_borrow_mut(|console| console.groups = console.groups.saturating_sub(1));
}

fn count<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let label = label(scope, &arguments);
    let count = CONSOLE.with_borrow_mut(|Console { counts, .. }| {
        if counts.len() >= MAX_LABELS && !counts.contains_key(&label) {
            return None;
        }
        let count = counts.entry(label.clone()).or_default();
        *count += 1;
        Some(*count)
    });
    match count {
        Some(count) => print(OutputKind::Log, format!("{label}: {count}")),
        None => print(OutputKind::Warn, format!("{label}: there are {MAX_LABELS} counters already")),
    }
}

fn count_reset<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let label = label(scope, &arguments);
    CONSOLE.with_borrow_mut(|console| console.counts.remove(&label));
}

fn time<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let label = label(scope, &arguments);
    CONSOLE.with_borrow_mut(|Console { started, .. }| {
        if started.len() < MAX_LABELS {
            started.entry(label).or_insert_with(clock::elapsed);
        }
    });
}

fn time_log<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let label = label(scope, &arguments);
    let started = CONSOLE.with_borrow(|console| console.started.get(&label).copied());
    let mut text = stopped(&label, started);
    join(scope, &arguments, 1, &mut text);
    print(OutputKind::Log, text);
}

fn time_end<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    let label = label(scope, &arguments);
    let started = CONSOLE.with_borrow_mut(|console| console.started.remove(&label));
    print(OutputKind::Log, stopped(&label, started));
}

/// Returns the text of a stop-watch.
fn stopped(label: &str, started: Option<Duration>) -> String {
    match started {
        Some(started) => {
            let ms = clock::elapsed().saturating_sub(started).as_secs_f64() * 1_000.0;
            format!("{label}: {ms:.3} ms")
        }
        None => format!("{label}: no console.time({label:?}) came before"),
    }
}
