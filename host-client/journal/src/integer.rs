//! Conversion of numbers for databases, which have signed ones of 64 bits.

use host_client_core::JournalError;

/// Converts a number for a database. A larger one than it can store becomes the largest, which no entry or call has.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number from a database.
///
/// # Errors
/// [`JournalError::Damaged`]: it is negative.
pub(crate) fn unsigned(number: i64) -> Result<u64, JournalError> {
    u64::try_from(number).map_err(|_| JournalError::Damaged(format!("it has the number {number}")))
}
