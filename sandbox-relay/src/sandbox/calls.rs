//! Queue of an execution's tool calls: which wait, which are with the relay, whose answers have arrived. It knows no
//! V8.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::channel::message;

/// Tool calls of one execution, each of which carries a `C`.
#[derive(Debug)]
pub(super) struct CallQueue<C> {
    /// Maximum number of calls that the relay has not answered.
    in_flight: usize,
    /// Number of the call that was made last; 0: none was. Calls are numbered in the order in which they are made.
    made: u64,
    /// Sent calls whose answers the code has not seen, in the order in which they were sent.
    open: BTreeMap<u64, C>,
    /// Number of sent calls that the relay has not answered.
    unanswered: usize,
    /// Answers that have arrived and that the code has not seen, in the order in which they arrived.
    arrived: VecDeque<message::Settle>,
    waiting: VecDeque<WaitingCall<C>>,
    waiting_bytes: usize,
}

/// A call that was made and not yet sent: it waits for its turn, or for the script to yield.
#[derive(Debug)]
struct WaitingCall<C> {
    number: u64,
    of: C,
    tool: String,
    arguments: Bytes,
    line: u32,
}

impl<C> CallQueue<C> {
    /// Makes an empty queue, of whose calls at most `in_flight` are with the relay.
    pub(super) fn new(in_flight: usize) -> Self {
        Self {
            in_flight,
            made: 0,
            open: BTreeMap::new(),
            unanswered: 0,
            arrived: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Returns the number of calls made so far, sent or not.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Appends a call that waits to be sent. Returns the bytes of arguments that wait.
    pub(super) fn push(&mut self, of: C, tool: String, arguments: Bytes, line: u32) -> usize {
        self.made += 1;
        self.waiting_bytes += arguments.len();
        self.waiting.push_back(WaitingCall { number: self.made, of, tool, arguments, line });
        self.waiting_bytes
    }

    /// Gives `put` the waiting calls that may be sent, in their order.
    pub(super) fn send(&mut self, put: impl Fn(message::Call)) {
        while !self.is_full()
            && let Some(WaitingCall { number, of, tool, arguments, line }) = self.waiting.pop_front()
        {
            self.waiting_bytes -= arguments.len();
            self.unanswered += 1;
            put(message::Call { call: number, tool, arguments, line, ..message::Call::default() });
            self.open.insert(number, of);
        }
    }

    /// Makes the message of the next call, which has to be sent. Its answer is not kept for the code.
    pub(super) fn next_call(&mut self, tool: String, arguments: Bytes) -> message::Call {
        self.made += 1;
        self.unanswered += 1;
        message::Call { call: self.made, tool, arguments, ..message::Call::default() }
    }

    /// Returns whether as many calls are with the relay as may be.
    pub(super) fn is_full(&self) -> bool {
        self.unanswered >= self.in_flight
    }

    /// Counts the answer to a call of [`next_call`](Self::next_call).
    pub(super) fn answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// Keeps an answer until the code sees it.
    pub(super) fn arrive(&mut self, settle: message::Settle) {
        self.answered();
        self.arrived.push_back(settle);
    }

    /// Returns whether an answer is there that the code has not seen.
    pub(super) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Takes all answers that have arrived, in the order of their calls.
    pub(super) fn take_arrived(&mut self) -> Vec<message::Settle> {
        let mut arrived = Vec::from(std::mem::take(&mut self.arrived));
        arrived.sort_by_key(|settle| settle.call);
        arrived
    }

    /// Returns the number of the call whose answer arrived first of those that the code has not seen; `None`: there is none.
    pub(super) fn first_arrived(&self) -> Option<u64> {
        self.arrived.front().map(|settle| settle.call)
    }

    /// Returns the number of the first open call; `None`: none is open.
    pub(super) fn first_open(&self) -> Option<u64> {
        self.open.first_key_value().map(|(number, _)| *number)
    }

    /// Returns whether the code has made a call with this number and has not seen its answer.
    pub(super) fn is_unsettled(&self, call: u64) -> bool {
        self.open.contains_key(&call) || self.waiting.binary_search_by_key(&call, |it| it.number).is_ok()
    }

    /// Returns whether the answer to a call has arrived and the code has not seen it.
    pub(super) fn has_answer(&self, call: u64) -> bool {
        self.arrived.iter().any(|settle| settle.call == call)
    }

    /// Takes the answer to one call; `None`: it has not arrived.
    pub(super) fn take_answer(&mut self, call: u64) -> Option<message::Settle> {
        let place = self.arrived.iter().position(|settle| settle.call == call)?;
        self.arrived.remove(place)
    }

    /// Closes a call; `None`: it is not open.
    pub(super) fn close(&mut self, call: u64) -> Option<C> {
        self.open.remove(&call)
    }

    /// Returns the open and the waiting calls.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = &C> {
        self.open.values().chain(self.waiting.iter().map(|it| &it.of))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn settle(call: u64) -> message::Settle {
        message::Settle { call, ..message::Settle::default() }
    }

    #[test]
    fn calls_go_out_in_their_order_and_only_so_many_at_once() {
        let (mut queue, sent) = (CallQueue::new(2), RefCell::new(Vec::new()));
        let put = |call: message::Call| sent.borrow_mut().push((call.call, call.tool));
        for tool in ["a", "b", "c", "d"] {
            queue.push(tool, tool.into(), Bytes::from_static(b"{}"), 0);
        }
        queue.send(put);
        assert_eq!(sent.take(), [(1, "a".into()), (2, "b".into())]);
        assert_eq!((queue.made(), queue.is_full(), queue.waiting_bytes), (4, true, 4));
        queue.send(put);
        assert!(sent.take().is_empty(), "the relay has answered none");
        queue.arrive(settle(2));
        queue.send(put);
        assert_eq!(sent.take(), [(3, "c".into())], "the answer need not have been seen");
        assert_eq!(queue.unsettled().copied().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        // A call that does not wait for its turn has the number of its place in the program all the same.
        assert_eq!((queue.next_call("e".into(), Bytes::new()).call, queue.is_unsettled(4)), (5, true));
    }

    #[test]
    fn answers_are_seen_in_the_order_of_the_calls() {
        let mut queue = CallQueue::new(8);
        for tool in ["a", "b", "c"] {
            queue.push(tool, tool.into(), Bytes::new(), 0);
        }
        queue.send(|_| {});
        queue.arrive(settle(3));
        assert_eq!((queue.first_open(), queue.take_answer(1)), (Some(1), None));
        queue.arrive(settle(1));
        assert_eq!((queue.first_arrived(), queue.has_answer(1), queue.has_answer(2)), (Some(3), true, false));
        assert_eq!([1, 3, 4].map(|call| queue.is_unsettled(call)), [true, true, false]);
        assert_eq!(queue.take_arrived().iter().map(|settle| settle.call).collect::<Vec<_>>(), [1, 3]);
        assert_eq!([queue.close(1), queue.close(3), queue.close(3)], [Some("a"), Some("c"), None]);
        assert_eq!((queue.has_arrived(), queue.first_open()), (false, Some(2)));
    }
}
