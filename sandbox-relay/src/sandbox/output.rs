//! Output of the code: counted against its limits and streamed to the relay.

use std::cell::Cell;

use relay_proto::wire::OutputKind;

use super::channel::message;
use super::channel::message::report::Kind as Report;
use super::{ending, inspect, link, record};

thread_local! {
    static LEFT: Cell<OutputLeft> = const { Cell::new(OutputLeft { bytes: 0, count: 0 }) };
}

/// Rest of the limits on output.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputLeft {
    /// Bytes of UTF-8.
    pub(super) bytes: usize,
    /// Pieces.
    pub(super) count: u64,
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    LEFT.set(OutputLeft { bytes: 0, count: 0 });
}

/// Sets the limits of the execution, before any code runs.
pub(super) fn begin(limits: OutputLeft) {
    LEFT.set(limits);
}

/// Returns how many bytes of output are left.
pub(super) fn room() -> usize {
    LEFT.get().bytes
}

/// Writes one piece of output. Over a limit, it writes what fits and ends the execution.
pub(super) fn write(kind: OutputKind, mut text: String) {
    let left = LEFT.get();
    if left.count == 0 {
        ending::fail_output_limit("output_count");
    }
    let fits = text.len() <= left.bytes;
    inspect::cut(&mut text, left.bytes);
    LEFT.set(OutputLeft { bytes: left.bytes - text.len(), count: left.count - 1 });
    let (kind, steps) = (i32::from(kind).unsigned_abs(), record::take_unreported());
    link::write(Report::Output(message::Output { kind, text, steps }));
    if !fits {
        ending::fail_output_limit("output_bytes");
    }
}
