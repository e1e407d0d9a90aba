//! Credit: how much a peer may send. The relay gets it for tool calls, the host for executions.

use std::sync::{Mutex, MutexGuard, PoisonError};

use relay_proto::credit::{Allowance, Credit, TooMuchCredit};
use relay_proto::wire;
use tokio::sync::{Mutex as Turn, watch};

use super::SessionFault;

/// The tool calls that a relay may have sent at a time, in a session whose relay counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCapacity {
    /// The maximum number of calls that wait or run at a time; 1,024 by default, and at least 1.
    pub calls: u32,
    /// The number of bytes of their arguments after which no further call is sent until some have ended; 32 MiB by default, and
    /// at least 1.
    pub bytes: u32,
}

impl Default for CallCapacity {
    fn default() -> Self {
        Self { calls: 1_024, bytes: 32 << 20 }
    }
}

impl CallCapacity {
    /// Returns the credit that hello grants.
    pub(super) fn credit(self) -> wire::Credit {
        wire::Credit { count: u64::from(self.calls.max(1)), bytes: u64::from(self.bytes.max(1)) }
    }
}

/// The credit of a relay for tool calls.
#[derive(Debug)]
pub(super) struct CallCredit(Mutex<Calls>);

#[derive(Debug)]
struct Calls {
    allowance: Allowance,
    /// What the relay is granted with the next message of credit.
    granted: Option<wire::Credit>,
}

impl CallCredit {
    /// # Errors
    /// [`TooMuchCredit`]: the credit at the start is over the maximum.
    pub(super) fn new(start: wire::Credit) -> Result<Self, TooMuchCredit> {
        Ok(Self(Mutex::new(Calls { allowance: Allowance::new(start)?, granted: None })))
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call with this number of bytes of arguments.
    ///
    /// # Errors
    /// [`SessionFault`]: the relay had no credit for it.
    pub(super) fn spend(&self, bytes: usize) -> Result<(), SessionFault> {
        let spent = self.lock().allowance.spend(bytes);
        spent.map_err(|_overspent| SessionFault::new("the relay sent a tool call without credit for it".into()))
    }

    /// Gives back the credit of a call; returns `true` if the relay is to be told at once.
    pub(super) fn give_back(&self, bytes: usize) -> bool {
        let mut calls = self.lock();
        let Some(more) = calls.allowance.give_back(bytes) else { return false };
        let granted = calls.granted.get_or_insert_default();
        granted.count += more.count;
        granted.bytes += more.bytes;
        true
    }

    /// Takes the credit that the relay is told of now; `None`: there is none.
    pub(super) fn take_granted(&self) -> Option<wire::Credit> {
        self.lock().granted.take()
    }
}

/// The credit of one execution that is about to be sent. If this is dropped before, the host has the credit again: the relay
/// does not give back what it never saw.
#[derive(Debug)]
pub(crate) struct ExecutionCreditGuard<'a> {
    left: &'a watch::Sender<Credit>,
    bytes: usize,
    is_spent: bool,
}

impl ExecutionCreditGuard<'_> {
    /// Leaves the credit to the relay, which gives it back when the execution has ended.
    pub(crate) fn spend(mut self) {
        self.is_spent = true;
    }
}

impl Drop for ExecutionCreditGuard<'_> {
    fn drop(&mut self) {
        if !self.is_spent {
            let own = wire::Credit { count: 1, bytes: self.bytes as u64 };
            // It was there before, so that it is not too much.
            self.left.send_modify(|left| {
                let _ = left.add(&own);
            });
        }
    }
}

/// The credit of this host for executions.
#[derive(Debug)]
pub(super) struct ExecutionCredit {
    left: watch::Sender<Credit>,
    /// Held by the execution that waits for credit: later ones do not overtake it.
    turn: Turn<()>,
}

impl ExecutionCredit {
    /// # Errors
    /// [`TooMuchCredit`]: the credit at the start is over the maximum.
    pub(super) fn new(start: wire::Credit) -> Result<Self, TooMuchCredit> {
        Ok(Self { left: watch::Sender::new(Credit::new(&start)?), turn: Turn::default() })
    }

    /// Waits for the credit of an execution with this number of bytes of code and input, and takes it.
    pub(super) async fn take(&self, bytes: usize) -> ExecutionCreditGuard<'_> {
        let _turn = self.turn.lock().await;
        // The sender is ours: this cannot fail.
        let _ = self.left.subscribe().wait_for(Credit::lasts).await;
        // Nobody else spends: this has the turn.
        self.left.send_modify(|left| {
            let _ = left.spend(bytes);
        });
        ExecutionCreditGuard { left: &self.left, bytes, is_spent: false }
    }

    /// Adds what the relay grants.
    ///
    /// # Errors
    /// [`SessionFault`]: it is more than anybody may have.
    pub(super) fn grant(&self, more: &wire::Credit) -> Result<(), SessionFault> {
        let mut granted = Ok(());
        self.left.send_modify(|left| granted = left.add(more));
        granted.map_err(|error| SessionFault::new(error.to_string()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn credit_of_an_execution_that_is_not_sent_is_there_again() {
        let credit = ExecutionCredit::new(wire::Credit { count: 1, bytes: 10 }).unwrap();
        let before = credit.left.borrow().clone();
        // More bytes than there are: the last execution may overdraw.
        let not_sent = credit.take(25).now_or_never().unwrap();
        assert!(credit.take(1).now_or_never().is_none(), "there is one");
        drop(not_sent);
        assert_eq!(*credit.left.borrow(), before);
        credit.take(25).now_or_never().unwrap().spend();
        assert!(credit.take(1).now_or_never().is_none(), "it is the relay's");
        credit.grant(&wire::Credit { count: 1, bytes: 25 }).unwrap();
        assert_eq!(*credit.left.borrow(), before);
    }
}
