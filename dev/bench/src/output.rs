//! Measures how long it takes to shorten the most difficult results for a model.

use std::time::{Duration, Instant};

use host_client::output::{OutputConfig, OutputStore};
use relay_test_support::results;

use crate::report::{Table, millis};

const BYTES: usize = 10 << 20;
/// Intent of a model; its words are searched for in the whole result.
const INTENT: &str = "words that are wanted, a or 1";

/// Shows each result with and without an intent; adds a row for each, and the longest of them. No relay takes part.
pub(crate) fn output(scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let mut longest = Duration::ZERO;
    for (what, json) in results::hard(BYTES / scale) {
        for (how, intent) in [("", None), (", filtered", Some(INTENT))] {
            let (started, store) = (Instant::now(), OutputStore::default());
            let shown = OutputConfig::default().show(&json, intent, Some(&store));
            let time = started.elapsed();
            anyhow::ensure!(!shown.text.is_empty(), "nothing is shown of {what}");
            table.note(&format!("{what}{how}"), format!("{:.1} ms", millis(time)));
            longest = longest.max(time);
        }
    }
    table.note(&format!("the longest of all, {} bytes each", BYTES / scale), format!("{:.1} ms", millis(longest)));
    Ok(())
}
