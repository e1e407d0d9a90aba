//! How much a peer may do wrong before its session ends.

use std::time::Duration;

use tokio::time::Instant;

use super::Violation;

/// How many messages a peer sent that were refused or mean nothing. It may go on as long as they are few.
pub(super) struct Faults {
    left: u32,
    filled_up: Instant,
}

impl Faults {
    /// A newer peer's messages, a queue that was full: some are nobody's fault.
    const MOST: u32 = 1_000;
    const REFILL: Duration = Duration::from_millis(100);

    pub(super) fn new() -> Self {
        Self { left: Self::MOST, filled_up: Instant::now() }
    }

    /// # Errors
    /// There were too many.
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
