//! Counts a peer's faults, too many of which end its session.

use std::time::Duration;

use tokio::time::Instant;

use super::Violation;

/// Budget for messages that were refused or have no effect. Some are nobody's fault, such as those of a newer peer.
pub(super) struct Faults {
    left: u32,
    filled_up: Instant,
}

impl Faults {
    /// Size of the budget.
    const MOST: u32 = 1_000;
    /// Time in which the budget grows by one.
    const REFILL: Duration = Duration::from_millis(100);

    /// Starts with a full budget.
    pub(super) fn new() -> Self {
        Self { left: Self::MOST, filled_up: Instant::now() }
    }

    /// Takes one fault from the budget.
    ///
    /// # Errors
    /// [`Violation`]: the budget is used up.
    pub(super) fn count(&mut self) -> Result<(), Violation> {
        let periods = self.filled_up.elapsed().as_millis() / Self::REFILL.as_millis();
        if periods > 0 {
            let more = u32::try_from(periods).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(more).min(Self::MOST);
            self.filled_up += Self::REFILL.saturating_mul(more);
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| Violation("too many messages were refused".into()))?;
        Ok(())
    }
}
