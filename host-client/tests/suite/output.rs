//! Tests of results as a model reads them: each step by itself, the texts that others rely on, and hostile results.

mod attachments;
mod cut;
mod handles;
mod hostile;
mod intent;
mod properties;
mod summary;

use host_client::output::{OutputConfig, OutputStore, Shown};
use serde_json::Value;

/// As a model reads it that can read on.
fn shown(value: &Value) -> Shown {
    shown_for(value, None)
}

fn shown_for(value: &Value, intent: Option<&str>) -> Shown {
    OutputConfig::default().show(value.to_string().as_bytes(), intent, Some(&OutputStore::default()))
}

/// A text and its footer, whose numbers have to be true of the text.
fn without_footer(shown: &Shown, processed: usize) -> &str {
    let (text, footer) = shown.text.rsplit_once('\n').unwrap();
    let kilobytes = |bytes: usize| format!("{:.1}KB", bytes as f64 / 1024.0);
    let percent = (processed - text.len()) * 100 / processed;
    let (returned, processed) = (kilobytes(text.len()), kilobytes(processed));
    assert_eq!(footer, format!("[Output: {returned} returned, {processed} processed, {percent}% reduced]"));
    text
}
