//! Times as the numbers that the wire carries.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns a time in whole milliseconds. A part of a millisecond is dropped; a time that no `u64` holds is `u64::MAX`.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the present in ms since 1970, by the system's clock.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_millisecond_is_dropped_and_a_time_too_long_is_the_maximum() {
        assert_eq!(millis(Duration::from_micros(1_999)), 1);
        assert_eq!(millis(Duration::from_millis(u64::MAX)), u64::MAX);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
