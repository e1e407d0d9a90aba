//! The order in which a relay is sent the answers to calls that were made before it had the code: that in which they came. A
//! race between them then ends as it did, or as it would have.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

/// The turns of answers, in one execution of the code.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns(Arc<watch::Sender<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    /// The number of the newest call that was made before the execution. Answers to later ones have no turn.
    newest: u64,
    /// The calls whose answers are not sent, in the order of the answers.
    unsent: VecDeque<u64>,
    /// The calls whose answers are not sent at all.
    left_out: HashSet<u64>,
}

/// The turn of one answer. The next one has its turn when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    call: u64,
    turns: Turns,
}

impl Turns {
    /// Creates the turns of an execution. `newest` is the number of the newest call that was made before, and `answered` are
    /// the calls whose answers the code has not got before, in the order of the answers.
    pub(super) fn new(newest: u64, answered: Vec<u64>) -> Self {
        let queue = Queue { newest, unsent: answered.into(), left_out: HashSet::new() };
        Self(Arc::new(watch::Sender::new(queue)))
    }

    /// Adds a call that was answered just now.
    pub(super) fn add(&self, call: u64) {
        self.0.send_if_modified(|queue| {
            let has_turn = call <= queue.newest && !queue.left_out.contains(&call);
            if has_turn {
                queue.unsent.push_back(call);
            }
            has_turn
        });
    }

    /// Leaves out the answer to a call: the code has another one from its relay.
    pub(super) fn leave_out(&self, call: u64) {
        self.0.send_modify(|queue| {
            queue.left_out.insert(call);
            queue.unsent.retain(|it| *it != call);
        });
    }

    /// Takes the turn of a call's answer. One that has no turn may be sent at any time.
    pub(super) fn take(&self, call: u64) -> Turn {
        Turn { call, turns: self.clone() }
    }
}

impl Turn {
    /// Waits until the answer may be sent.
    pub(super) fn comes(&self) -> impl Future<Output = ()> + Send + use<> {
        let (call, mut changes) = (self.call, self.turns.0.subscribe());
        let may_be_sent = move |queue: &Queue| queue.unsent.front() == Some(&call) || !queue.unsent.contains(&call);
        // The sender is dropped only with the execution, whose answers nobody needs then.
        async move { drop(changes.wait_for(may_be_sent).await) }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.0.send_if_modified(|queue| {
            let before = queue.unsent.len();
            queue.unsent.retain(|call| *call != self.call);
            queue.unsent.len() != before
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn may_be_sent(turns: &Turns, calls: &[u64]) -> Vec<bool> {
        let comes = |call: &u64| {
            let turn = std::mem::ManuallyDrop::new(turns.take(*call));
            turn.comes().now_or_never().is_some()
        };
        calls.iter().map(comes).collect()
    }

    #[test]
    fn answers_have_their_turns_in_the_order_in_which_they_came() {
        let turns = Turns::new(9, vec![7, 3, 5]);
        assert_eq!(may_be_sent(&turns, &[7, 3, 5]), [true, false, false]);
        assert_eq!(may_be_sent(&turns, &[4, 10]), [true, true], "they have no turn");
        // One came while the code was on its way, and one to a call that is new.
        turns.add(4);
        turns.add(10);
        assert_eq!(may_be_sent(&turns, &[4, 10]), [false, true]);
        drop(turns.take(7));
        assert_eq!(may_be_sent(&turns, &[3, 5, 4]), [true, false, false]);
        turns.leave_out(3);
        assert_eq!(may_be_sent(&turns, &[5, 4]), [true, false]);
        drop(turns.take(5));
        assert_eq!(may_be_sent(&turns, &[4]), [true]);
    }

    #[test]
    fn an_answer_that_is_left_out_holds_nobody_up() {
        let turns = Turns::new(2, Vec::new());
        turns.leave_out(1);
        turns.add(1);
        turns.add(2);
        assert_eq!(may_be_sent(&turns, &[2]), [true]);
    }
}
