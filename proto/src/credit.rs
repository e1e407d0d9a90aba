//! Credit: how many messages of a kind, and how many bytes in them, a peer may still send. The sender keeps a [`Credit`],
//! the receiver an [`Allowance`]; both count alike. Pure code.
//!
//! A message may be sent while at least one message and one byte are left, however large it is: the bytes may fall below
//! zero, and are then made up for before the next message.

use crate::wire;

/// Returns the bytes that an execution takes from the credit: those of its code, its input, its local tools, and what is
/// recorded of a durable one.
pub fn execution_bytes(execute: &wire::Execute) -> usize {
    let local: usize = execute.local_tools.iter().map(|(name, source)| name.len() + source.len()).sum();
    execute.code.len() + execute.input.len() + local + execute.durable.as_ref().map_or(0, recorded_bytes)
}

/// Returns the bytes of what is recorded of a durable execution.
pub fn recorded_bytes(durable: &wire::Durable) -> usize {
    let failures: usize = durable.failures.iter().map(|failure| failure.code.len() + failure.message.len()).sum();
    let store: usize = durable.store.iter().map(|(key, json)| key.len() + json.len()).sum();
    let tools: usize = durable.tools.iter().map(String::len).sum();
    durable.steps.len() + failures + store + tools
}

/// Maximum number of messages, and of bytes, that a peer may have left. A grant beyond it is a fault.
pub const MAX_CREDIT: u64 = 1 << 40;

/// Messages and bytes that may still be sent.
///
/// ```
/// use relay_proto::credit::Credit;
/// use relay_proto::wire;
///
/// let mut credit = Credit::new(&wire::Credit { count: 2, bytes: 100 })?;
/// assert!(credit.spend(150), "the first message may be larger than what is left");
/// assert!(!credit.spend(1), "then the bytes have to be made up for");
/// credit.add(&wire::Credit { count: 0, bytes: 51 })?;
/// assert!(credit.spend(1));
/// # Ok::<_, relay_proto::credit::TooMuchCredit>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credit {
    count: u64,
    bytes: i64,
}

/// Reports a grant after which a peer would have more than [`MAX_CREDIT`] messages or bytes left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a credit of more than {MAX_CREDIT} messages or bytes is not taken")]
pub struct TooMuchCredit;

/// Reports a message that was sent without credit for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message was sent without credit for it")]
pub struct Overspent;

impl Credit {
    /// Creates the credit that a peer grants at the start.
    ///
    /// # Errors
    /// [`TooMuchCredit`]: it is over [`MAX_CREDIT`].
    pub fn new(granted: &wire::Credit) -> Result<Self, TooMuchCredit> {
        let mut credit = Self { count: 0, bytes: 0 };
        credit.add(granted)?;
        Ok(credit)
    }

    /// Adds what a peer grants.
    ///
    /// # Errors
    /// [`TooMuchCredit`]: the sum is over [`MAX_CREDIT`]. Nothing has changed.
    pub fn add(&mut self, granted: &wire::Credit) -> Result<(), TooMuchCredit> {
        let fits = |sum: u64| if sum <= MAX_CREDIT { Ok(sum) } else { Err(TooMuchCredit) };
        let count = fits(self.count.saturating_add(granted.count))?;
        let bytes = i64::try_from(fits(granted.bytes)?).map_err(|_| TooMuchCredit)?;
        let bytes = self.bytes + bytes;
        if bytes > 0 {
            fits(bytes.unsigned_abs())?;
        }
        (self.count, self.bytes) = (count, bytes);
        Ok(())
    }

    /// Returns whether a message may be sent.
    pub fn lasts(&self) -> bool {
        self.count > 0 && self.bytes > 0
    }

    /// Takes one message of `bytes` bytes from the credit. Returns `false` if none may be sent; nothing has changed then.
    #[must_use]
    pub fn spend(&mut self, bytes: usize) -> bool {
        let lasts = self.lasts();
        if lasts {
            self.count -= 1;
            self.bytes = self.bytes.saturating_sub_unsigned(bytes as u64);
        }
        lasts
    }
}

/// Credit that was granted to a peer, and what it gets back.
#[derive(Debug)]
pub struct Allowance {
    start: wire::Credit,
    left: Credit,
    /// Messages and bytes that the peer is still to be granted again.
    owed: wire::Credit,
}

impl Allowance {
    /// Creates the allowance of a peer that was granted this much at the start.
    ///
    /// # Errors
    /// [`TooMuchCredit`]: it is over [`MAX_CREDIT`].
    pub fn new(start: wire::Credit) -> Result<Self, TooMuchCredit> {
        let left = Credit::new(&start)?;
        Ok(Self { start, left, owed: wire::Credit::default() })
    }

    /// Counts a message of `bytes` bytes that came.
    ///
    /// # Errors
    /// [`Overspent`]: the peer had no credit for it.
    pub fn spend(&mut self, bytes: usize) -> Result<(), Overspent> {
        if self.left.spend(bytes) { Ok(()) } else { Err(Overspent) }
    }

    /// Gives a message of `bytes` bytes back that is done with. Returns what the peer is to be granted now; `None`: too little
    /// to be worth a message.
    #[must_use]
    pub fn give_back(&mut self, bytes: usize) -> Option<wire::Credit> {
        self.owed.count += 1;
        self.owed.bytes += bytes as u64;
        if self.owed.count * 4 < self.start.count && self.owed.bytes * 4 < self.start.bytes {
            return None;
        }
        let granted = std::mem::take(&mut self.owed);
        // It was spent before: the sum is at most what the peer had at the start.
        let _ = self.left.add(&granted);
        Some(granted)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::VecDeque;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The sender never sends what the receiver takes for too much, and is never stuck once everything is given back.
        #[test]
        fn both_peers_count_alike(count in 1..8_u64, bytes in 1..1_000_u64, steps in vec((0..2_000_usize, any::<bool>()), 0..200)) {
            let start = wire::Credit { count, bytes };
            let (mut sender, mut receiver) = (Credit::new(&start).unwrap(), Allowance::new(start).unwrap());
            let mut open = VecDeque::new();
            for (bytes, gives_back) in steps {
                if sender.spend(bytes) {
                    receiver.spend(bytes).unwrap();
                    open.push_back(bytes);
                }
                prop_assert!(open.len() as u64 <= count);
                if gives_back && let Some(bytes) = open.pop_front() && let Some(granted) = receiver.give_back(bytes) {
                    sender.add(&granted).unwrap();
                }
            }
            while let Some(bytes) = open.pop_front() {
                if let Some(granted) = receiver.give_back(bytes) {
                    sender.add(&granted).unwrap();
                }
            }
            prop_assert!(sender.lasts());
        }
    }

    #[test]
    fn what_was_not_granted_is_noticed() {
        let mut receiver = Allowance::new(wire::Credit { count: 1, bytes: 1 }).unwrap();
        assert_eq!((receiver.spend(10), receiver.spend(0)), (Ok(()), Err(Overspent)));
        let huge = wire::Credit { count: MAX_CREDIT + 1, bytes: 0 };
        assert_eq!(Credit::new(&huge), Err(TooMuchCredit));
        let mut credit = Credit::new(&wire::Credit { count: 1, bytes: MAX_CREDIT }).unwrap();
        let before = credit.clone();
        for more in [wire::Credit { count: u64::MAX, bytes: 0 }, wire::Credit { count: 0, bytes: u64::MAX }] {
            assert_eq!(credit.add(&more), Err(TooMuchCredit));
        }
        assert_eq!(credit.add(&wire::Credit { count: 0, bytes: 1 }), Err(TooMuchCredit));
        assert_eq!(credit, before);
    }
}
