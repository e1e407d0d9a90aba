//! The last line of what is shown: how much of the result it is.

/// When the footer stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FooterConfig {
    /// It is left out unless more than so many bytes were saved: 200.
    pub over_saved_bytes: usize,
}

impl Default for FooterConfig {
    fn default() -> Self {
        Self { over_saved_bytes: 200 }
    }
}

/// The footer of a text of `returned` bytes, itself not counted, that stands for `processed` bytes. The share is rounded down:
/// it never says more than was saved.
pub(super) fn footer(returned: usize, processed: usize, config: FooterConfig) -> Option<String> {
    let saved = processed.checked_sub(returned).filter(|saved| *saved > config.over_saved_bytes)?;
    let share = saved.saturating_mul(100) / processed.max(1);
    Some(format!("[Output: {} returned, {} processed, {share}% reduced]", kilobytes(returned), kilobytes(processed)))
}

/// A size as `1.5KB`, which is 1,536 bytes.
pub(super) fn kilobytes(bytes: usize) -> String {
    let tenths = bytes.saturating_mul(10).saturating_add(512) / 1024;
    format!("{}.{}KB", tenths / 10, tenths % 10)
}
