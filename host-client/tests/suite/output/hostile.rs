//! Results made to be large, deep or no text.

use std::time::{Duration, Instant};

use host_client::output::{OutputConfig, OutputStore};
use relay_test_support::results;

/// The longest that a shown text may be: the limit in characters of four bytes, and notes.
const MOST: usize = 200_000 * 4 + 1_000;
/// Much more than it takes, for a build without optimization on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn any_result_is_shown_in_bounds_and_in_time() {
    for (what, json) in results::hard(512 << 10) {
        for intent in [None, Some("words that are wanted, a or 1")] {
            let (start, store) = (Instant::now(), OutputStore::default());
            let shown = OutputConfig::default().show(&json, intent, Some(&store));
            assert!(shown.text.len() <= MOST, "{what}: {}", shown.text.len());
            assert!(shown.attachments.len() <= 8, "{what}");
            for path in ["", "[0]", "[0][0][0]", "a.a.a", "/key 5000", "[1]"] {
                // Whether there is such a part is not the point.
                if let Some(Ok(page)) = shown.handle.as_ref().map(|handle| store.read(handle, path, 0, None)) {
                    assert!(page.text.len() < 30_000, "{what}: {}", page.text.len());
                }
            }
            assert!(start.elapsed() < PATIENCE, "{what}: {:?}", start.elapsed());
        }
    }
}
