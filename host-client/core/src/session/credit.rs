//! Credit: how much a peer may send. The relay gets it for tool calls, the host for executions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use relay_proto::wire;
use tokio::sync::{Mutex as Turn, watch};

use super::SessionFault;
use super::delivery::Delivery;

/// The number of ended calls after which the relay gets their credit back.
const RETURN_CALLS: u64 = 64;
/// The number of bytes of ended calls after which the relay gets their credit back.
const RETURN_BYTES: u64 = 1 << 20;
/// The minimum number of bytes of a relay's credit: the largest arguments fit, beside what is returned later.
const MIN_BYTES: u64 = 12 << 20;

/// The tool calls that a relay may have sent at a time, in a session whose relay counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCapacity {
    /// The maximum number of calls that wait or run at a time; 1,024 by default, and at least 1.
    pub calls: u32,
    /// The maximum number of bytes of their arguments; 32 MiB by default, and at least 12 MiB, so that the largest arguments fit.
    pub bytes: u64,
}

impl Default for CallCapacity {
    fn default() -> Self {
        Self { calls: 1_024, bytes: 32 << 20 }
    }
}

impl CallCapacity {
    /// Returns the credit that hello grants.
    pub(super) fn credit(self) -> wire::Credit {
        wire::Credit { count: u64::from(self.calls.max(1)), bytes: self.bytes.max(MIN_BYTES) }
    }
}

/// The credit of a relay for tool calls.
#[derive(Debug)]
pub(super) struct CallCredit {
    start: wire::Credit,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    /// What the relay may still send.
    left: wire::Credit,
    /// What is free again and the relay was not told of.
    owed: wire::Credit,
}

/// The credit of one call, which the relay gets back when this is dropped: its answer is queued, or nobody waits for it.
#[derive(Debug)]
pub(super) struct CallCreditGuard {
    delivery: Weak<Delivery>,
    bytes: u64,
}

impl CallCredit {
    pub(super) fn new(start: wire::Credit) -> Arc<Self> {
        let counts = Mutex::new(Counts { left: start, owed: wire::Credit::default() });
        Arc::new(Self { start, counts })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the credit of a call with this number of bytes of arguments.
    ///
    /// # Errors
    /// [`SessionFault`]: the relay has not that much left.
    fn take(&self, bytes: u64) -> Result<(), SessionFault> {
        let mut counts = self.lock();
        match (counts.left.count.checked_sub(1), counts.left.bytes.checked_sub(bytes)) {
            (Some(count), Some(left)) => counts.left = wire::Credit { count, bytes: left },
            _ => return Err(SessionFault::new("the relay sent more tool calls than it had credit for".into())),
        }
        Ok(())
    }

    /// Gives back the credit of a call; returns `true` if the relay is to be told at once.
    fn give_back(&self, bytes: u64) -> bool {
        let mut counts = self.lock();
        counts.owed = wire::Credit { count: counts.owed.count + 1, bytes: counts.owed.bytes + bytes };
        self.is_due(&counts)
    }

    fn is_due(&self, counts: &Counts) -> bool {
        counts.owed.count >= RETURN_CALLS.min(self.start.count.div_ceil(4)) || counts.owed.bytes >= RETURN_BYTES
    }

    /// Returns the credit that the relay is told of now; `None`: it is too little for a message.
    pub(super) fn due(&self) -> Option<wire::Credit> {
        let mut counts = self.lock();
        if !self.is_due(&counts) {
            return None;
        }
        let owed = std::mem::take(&mut counts.owed);
        counts.left = wire::Credit { count: counts.left.count + owed.count, bytes: counts.left.bytes + owed.bytes };
        Some(owed)
    }
}

impl Delivery {
    /// Takes the credit of a call with this number of bytes of arguments; `None`: the relay's calls are not counted.
    ///
    /// # Errors
    /// [`SessionFault`]: the relay has not that much left.
    pub(super) fn admit(self: &Arc<Self>, bytes: usize) -> Result<Option<CallCreditGuard>, SessionFault> {
        let Some(calls) = &self.calls else { return Ok(None) };
        let bytes = bytes as u64;
        calls.take(bytes)?;
        Ok(Some(CallCreditGuard { delivery: Arc::downgrade(self), bytes }))
    }
}

impl Drop for CallCreditGuard {
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.upgrade()
            && let Some(calls) = &delivery.calls
            && calls.give_back(self.bytes)
        {
            delivery.wake();
        }
    }
}

/// The credit of this host for executions.
#[derive(Debug)]
pub(super) struct ExecutionCredit {
    left: watch::Sender<wire::Credit>,
    /// Held by the execution that waits for credit: later ones do not overtake it.
    turn: Turn<()>,
}

impl ExecutionCredit {
    pub(super) fn new(start: wire::Credit) -> Self {
        Self { left: watch::Sender::new(start), turn: Turn::default() }
    }

    /// Waits for the credit of an execution with this number of bytes of code and input, and takes it.
    pub(super) async fn take(&self, bytes: u64) {
        let _turn = self.turn.lock().await;
        let mut changes = self.left.subscribe();
        // The sender is ours: this cannot fail.
        let _ = changes.wait_for(|left| left.count >= 1 && left.bytes >= bytes).await;
        self.left.send_modify(|left| {
            *left = wire::Credit { count: left.count.saturating_sub(1), bytes: left.bytes.saturating_sub(bytes) };
        });
    }

    /// Adds what the relay grants.
    pub(super) fn grant(&self, more: wire::Credit) {
        self.left.send_modify(|left| {
            let (count, bytes) = (left.count.saturating_add(more.count), left.bytes.saturating_add(more.bytes));
            *left = wire::Credit { count, bytes };
        });
    }
}
