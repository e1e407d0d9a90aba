//! The order in which entries of `[manifest]` in a policy file apply: where entries overlap, the more careful one wins.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::tool::{ManifestChange, Overflow};

/// One field of an entry, ordered by when it applies: later changes win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    /// `true` for the name of one tool. It applies after all patterns, so that it can make an exception from them.
    is_name: bool,
    care: Care,
}

/// Change of a field, ordered by care: the greater value of the same field is the more careful one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Care {
    Effect(crate::tool::Effect),
    TimeoutMs(Reverse<u64>),
    ResultBytes(Reverse<usize>),
    /// `true` if a result that is too long fails the call, in the place of being cut.
    Overflow(bool),
    Concurrency(Reverse<usize>),
    CallableFromCode(Reverse<bool>),
    Idempotent(Reverse<bool>),
}

/// Splits entries into changes of one field each, in an order in which the right one is applied last: the entry of
/// one tool's name before all patterns, and among patterns the more careful change of a field, wherever it stands.
pub(super) fn careful_last(entries: BTreeMap<String, ManifestChange>) -> Vec<(String, ManifestChange)> {
    let mut changes: Vec<(Order, String, ManifestChange)> = Vec::new();
    for (pattern, change) in entries {
        let is_name = !pattern.contains('*');
        let fields = fields(&change).into_iter().flatten();
        changes.extend(fields.map(|(care, change)| (Order { is_name, care }, pattern.clone(), change)));
    }
    changes.sort_by_key(|(order, _, _)| *order);
    changes.into_iter().map(|(_, pattern, change)| (pattern, change)).collect()
}

/// Returns each field that a change sets as a change of its own.
fn fields(change: &ManifestChange) -> [Option<(Care, ManifestChange)>; 7] {
    let ManifestChange { effect, timeout_ms, result_bytes, overflow, concurrency, callable_from_code, idempotent } =
        *change;
    let none = ManifestChange::default;
    [
        effect.map(|it| (Care::Effect(it), ManifestChange { effect, ..none() })),
        timeout_ms.map(|it| (Care::TimeoutMs(Reverse(it)), ManifestChange { timeout_ms, ..none() })),
        result_bytes.map(|it| (Care::ResultBytes(Reverse(it)), ManifestChange { result_bytes, ..none() })),
        overflow.map(|it| (Care::Overflow(it == Overflow::Fail), ManifestChange { overflow, ..none() })),
        concurrency.map(|it| (Care::Concurrency(Reverse(it)), ManifestChange { concurrency, ..none() })),
        callable_from_code
            .map(|it| (Care::CallableFromCode(Reverse(it)), ManifestChange { callable_from_code, ..none() })),
        idempotent.map(|it| (Care::Idempotent(Reverse(it)), ManifestChange { idempotent, ..none() })),
    ]
}
