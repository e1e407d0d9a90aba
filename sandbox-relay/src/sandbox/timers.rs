//! Binding `timers`: `setTimeout`, `setInterval` and their counterparts. Timers that are set count as pending work,
//! which the code may wait for.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::make::{define, function};
use super::{clock, make, record};

/// Maximum number of timers that are set.
const MAX_TIMERS: usize = 10_000;
/// Maximum delay in ms, as in every `setTimeout`.
const MAX_DELAY_MS: f64 = 2_147_483_647.0;

thread_local! {
    static TIMERS: RefCell<Timers> = RefCell::default();
}

/// Time at which a timer is due, and its place among those that are due together.
type Due = (Duration, u64);

#[derive(Default)]
struct Timers {
    last_id: u64,
    set: u64,
    by_time: BTreeMap<Due, u64>,
    by_id: HashMap<u64, (Due, Timer)>,
}

struct Timer {
    callback: v8::Global<v8::Function>,
    arguments: Vec<v8::Global<v8::Value>>,
    /// Interval after which it is due again; `None`: it is due once.
    every: Option<Duration>,
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    TIMERS.take();
}

/// Adds the functions to the global object.
pub(super) fn bind<'s>(scope: &mut v8::PinScope<'s, '_>, global: v8::Local<'s, v8::Object>) {
    for (name, made) in [
        ("setTimeout", function(scope, "setTimeout", set_timeout)),
        ("setInterval", function(scope, "setInterval", set_interval)),
        ("clearTimeout", function(scope, "clearTimeout", clear)),
        ("clearInterval", function(scope, "clearInterval", clear)),
    ] {
        if let Some(made) = made {
            define(scope, global, name, made.into());
        }
    }
}

impl Timers {
    fn set(&mut self, id: u64, timer: Timer, due: Duration) {
        self.set += 1;
        let due = (due, self.set);
        self.by_time.insert(due, id);
        self.by_id.insert(id, (due, timer));
    }

    fn remove(&mut self, id: u64) -> Option<Timer> {
        let (due, timer) = self.by_id.remove(&id)?;
        self.by_time.remove(&due);
        Some(timer)
    }
}

fn set_timeout<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    returned: v8::ReturnValue<v8::Value>,
) {
    set(scope, &arguments, returned, false);
}

fn set_interval<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    returned: v8::ReturnValue<v8::Value>,
) {
    set(scope, &arguments, returned, true);
}

fn set<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: &v8::FunctionCallbackArguments<'s>,
    mut returned: v8::ReturnValue<v8::Value>,
    repeats: bool,
) {
    let Ok(callback) = v8::Local::<v8::Function>::try_from(arguments.get(0)) else {
        let text = "the first argument of a timer has to be a function; a text is not run as code";
        return make::throw(scope, v8::Exception::type_error, text);
    };
    // Converting to a number may run code of the script's, which may throw.
    let Some(asked) = arguments.get(1).number_value(scope) else { return };
    let least = if repeats { 1.0 } else { 0.0 };
    let delay_ms = if asked.is_nan() || asked > MAX_DELAY_MS { least } else { asked.max(least) };
    let delay = Duration::from_secs_f64(delay_ms.trunc() / 1_000.0);
    let rest = (2..arguments.length()).map(|index| v8::Global::new(scope, arguments.get(index))).collect();
    let timer = Timer { callback: v8::Global::new(scope, callback), arguments: rest, every: repeats.then_some(delay) };
    let id = TIMERS.with_borrow_mut(|timers| {
        if timers.by_id.len() >= MAX_TIMERS {
            return None;
        }
        timers.last_id += 1;
        let id = timers.last_id;
        timers.set(id, timer, record::timers_count_from() + delay);
        Some(id)
    });
    match id {
        #[expect(clippy::cast_precision_loss, reason = "nobody sets so many timers")]
        Some(id) => returned.set_double(id as f64),
        None => {
            let text = format!("{MAX_TIMERS} timers are set already; wait for some of them");
            make::throw(scope, v8::Exception::range_error, &text);
        }
    }
}

fn clear<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    _: v8::ReturnValue<v8::Value>,
) {
    // A value that is no timer's number is ignored, as everywhere.
    if let Some(id) = arguments.get(0).integer_value(scope).and_then(|id| u64::try_from(id).ok()) {
        TIMERS.with_borrow_mut(|timers| timers.remove(id));
    }
}

/// Returns the time until the next timer is due; `None`: none is set.
pub(super) fn next() -> Option<Duration> {
    first().map(|(_, left)| left)
}

/// Returns the timer that is due next, and the time until then; `None`: none is set.
pub(super) fn first() -> Option<(u64, Duration)> {
    let ((due, _), id) = TIMERS.with_borrow(|timers| timers.by_time.first_key_value().map(|(due, id)| (*due, *id)))?;
    Some((id, due.saturating_sub(clock::elapsed_for_timers())))
}

/// Returns whether a timer is set.
pub(super) fn is_set(id: u64) -> bool {
    TIMERS.with_borrow(|timers| timers.by_id.contains_key(&id))
}

/// Returns the timers that are due, in their order. With a given clock it is the first timer alone, to whose time the
/// clock moves.
pub(super) fn due() -> Vec<u64> {
    TIMERS.with_borrow(|timers| {
        if clock::is_given() {
            let first = timers.by_time.first_key_value();
            if let Some(((at, _), _)) = first {
                clock::advance_to(*at);
            }
            return first.map(|(_, id)| *id).into_iter().collect();
        }
        let now = clock::elapsed();
        timers.by_time.iter().take_while(|((at, _), _)| *at <= now).map(|(_, id)| *id).collect()
    })
}

/// Calls the function of a timer, unless it was cleared meanwhile. `None`: the function threw.
pub(super) fn fire(scope: &mut v8::PinScope<'_, '_>, id: u64) -> Option<()> {
    let Some(Timer { callback, arguments, every }) = TIMERS.with_borrow_mut(|timers| timers.remove(id)) else {
        return Some(());
    };
    v8::scope!(let scope, scope);
    let called = v8::Local::new(scope, &callback);
    let given: Vec<_> = arguments.iter().map(|value| v8::Local::new(scope, value)).collect();
    if let Some(every) = every {
        let timer = Timer { callback, arguments, every: Some(every) };
        TIMERS.with_borrow_mut(|timers| timers.set(id, timer, record::timers_count_from() + every));
    }
    let receiver = v8::undefined(scope).into();
    called.call(scope, receiver, &given).map(drop)
}
