//! Reads the rest of a worker's messages after the relay has ended its run: output and writes to the store that had
//! arrived and were not read yet.

use std::ops::ControlFlow;

use relay_proto::wire::OutputItem;

use super::{MAX_OUTPUT_ITEMS, Run};
use crate::execution::link::Reader;
use crate::execution::{Event, EventSink};
use crate::sandbox::channel::message::report::Kind as Report;

/// Maximum number of bytes that are read: more than a socket holds. A worker that goes on writing is not heard out.
const MAX_BYTES: usize = 8 << 20;

impl Run<'_> {
    /// Takes the output and the writes to the store that have arrived, within their limits, and waits for nothing.
    /// Returns all output that no event carries yet.
    pub(in crate::execution) fn take_rest(&mut self, reader: &mut Reader, sink: &impl EventSink) -> Vec<Event> {
        let mut left = MAX_BYTES;
        while let Some(report) = reader.try_next(&mut left) {
            let flow = match report {
                Report::Output(output) => self.output(output).map_continue(|item| self.unsent.push(item)),
                Report::Stored(value) => self.stored(value, sink),
                // Nobody waits for a call of a run that has ended, nor for what came after the end.
                Report::Call(_) => ControlFlow::Continue(()),
                Report::Ready(_) | Report::Done(_) | Report::Failed(_) => break,
            };
            if flow.is_break() {
                break;
            }
        }
        let mut items = std::mem::take(&mut self.unsent).into_iter();
        let next = || {
            let some: Vec<OutputItem> = items.by_ref().take(MAX_OUTPUT_ITEMS).collect();
            (!some.is_empty()).then_some(Event::Output(some))
        };
        std::iter::from_fn(next).collect()
    }
}
