//! Footer of a shortened result: how much of the result is shown.

/// Condition of the footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FooterConfig {
    /// The footer is added if more than this number of bytes was saved. Default: 200.
    pub over_saved_bytes: usize,
}

impl Default for FooterConfig {
    fn default() -> Self {
        Self { over_saved_bytes: 200 }
    }
}

/// Returns the footer of a text of `returned` bytes (without the footer) that replaces `processed` bytes; `None` if too
/// little was saved. The share is rounded down, so that it never says more than was saved.
pub(super) fn footer(returned: usize, processed: usize, config: FooterConfig) -> Option<String> {
    let saved = processed.checked_sub(returned).filter(|saved| *saved > config.over_saved_bytes)?;
    let share = saved.saturating_mul(100) / processed.max(1);
    Some(format!("[Output: {} returned, {} processed, {share}% reduced]", kilobytes(returned), kilobytes(processed)))
}

/// Formats a size in KB of 1,024 bytes, such as `1.5KB`.
pub(super) fn kilobytes(bytes: usize) -> String {
    let tenths = bytes.saturating_mul(10).saturating_add(512) / 1024;
    format!("{}.{}KB", tenths / 10, tenths % 10)
}
