//! Reads the rest of a worker's messages after the relay has ended its run: output and writes to the store that had
//! arrived and were not read yet.

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
                // Nobody waits for a call of a run that has ended, but the steps before it count.
                Report::Call(call) => self.take_steps(&call.steps),
                Report::Steps(it) => self.take_steps(&it.steps),
                Report::Waiting(it) => self.take_steps(&it.steps),
                // Nor for what came after the end.
                Report::Ready(_) | Report::Done(_) | Report::Failed(_) => break,
            };
            if flow.is_break() {
                break;
            }
        }
        let mut items = std::mem::take(&mut self.unsent).into_iter();
        let mut news = self.news();
        let next = || {
            let some: Vec<OutputItem> = items.by_ref().take(MAX_OUTPUT_ITEMS).collect();
            let news = std::mem::take(&mut news);
            (!some.is_empty() || !news.is_empty()).then_some(Event::Output(some, news))
        };
        std::iter::from_fn(next).collect()
    }
}
