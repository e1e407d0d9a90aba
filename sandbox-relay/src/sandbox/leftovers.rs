//! Warns about open calls and unhandled rejections that the code leaves behind when it ends.

use std::cell::RefCell;

use relay_proto::code::warning;

use super::channel::message;
use super::{bridge, inspect, local, notes};

/// Maximum number of rejected promises that are remembered.
const MAX_REJECTIONS: usize = 100;
/// Maximum number of tools that a warning names.
const MAX_NAMED: usize = 5;
/// Maximum length in bytes of the text of a rejection.
const MAX_REASON_BYTES: usize = 300;

thread_local! {
    static REJECTIONS: RefCell<Rejections> = const { RefCell::new(Rejections { known: Vec::new(), more: 0 }) };
}

/// Promises that were rejected and have no handler.
#[derive(Default)]
struct Rejections {
    known: Vec<v8::Global<v8::Promise>>,
    /// Number of those over [`MAX_REJECTIONS`].
    more: usize,
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    REJECTIONS.take();
}

/// Notes a promise that is rejected without a handler, and forgets one that gets a handler after all.
pub(super) extern "C" fn promise_rejected(event: v8::PromiseRejectMessage<'_>) {
    v8::callback_scope!(unsafe scope, &event);
    let promise = v8::Global::new(scope, event.get_promise());
    REJECTIONS.with_borrow_mut(|Rejections { known, more }| match event.get_event() {
        v8::PromiseRejectEvent::PromiseRejectWithNoHandler if known.len() < MAX_REJECTIONS => known.push(promise),
        v8::PromiseRejectEvent::PromiseRejectWithNoHandler => *more += 1,
        v8::PromiseRejectEvent::PromiseHandlerAddedAfterReject => match known.iter().position(|it| *it == promise) {
            Some(at) => drop(known.remove(at)),
            None => *more = more.saturating_sub(1),
        },
        _ => {}
    });
}

/// Returns the warnings. The program's `own` promise is not among the rejections.
pub(super) fn warnings<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    own: Option<v8::Local<'s, v8::Promise>>,
) -> Vec<message::Warning> {
    let mut warnings: Vec<_> = open_calls().into_iter().chain(unhandled_rejections(scope, own)).collect();
    warnings.extend(notes::take());
    warnings
}

fn open_calls() -> Option<message::Warning> {
    let mut names = bridge::unsettled();
    names.extend(local::open());
    let count = names.len();
    if count == 0 {
        return None;
    }
    names.sort();
    names.dedup();
    let more = if names.len() > MAX_NAMED { ", …" } else { "" };
    names.truncate(MAX_NAMED);
    Some(message::Warning {
        code: warning::TOOL_CALLS_CANCELLED.into(),
        message: format!(
            "{count} tool call(s) were open when the code ended and were cancelled: {}{more}; await every call",
            names.join(", ")
        ),
    })
}

fn unhandled_rejections<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    own: Option<v8::Local<'s, v8::Promise>>,
) -> Option<message::Warning> {
    let mut texts = Vec::new();
    let Rejections { known, mut more } = REJECTIONS.take();
    let is_rejected = |own: v8::Local<'s, v8::Promise>| own.state() == v8::PromiseState::Rejected;
    if let Some(own) = own
        && is_rejected(own)
        && !known.iter().any(|it| *it == own)
    {
        more = more.saturating_sub(1);
    }
    for promise in known {
        let promise = v8::Local::new(scope, promise);
        if own.is_some_and(|own| own == promise) {
            continue;
        }
        let reason = promise.result(scope);
        texts.push(inspect::excerpt(scope, reason, MAX_REASON_BYTES));
    }
    let (count, first) = (texts.len() + more, texts.first()?);
    Some(message::Warning {
        code: warning::UNHANDLED_REJECTION.into(),
        message: format!("{count} promise(s) were rejected and nobody looked, the first with: {first}"),
    })
}
