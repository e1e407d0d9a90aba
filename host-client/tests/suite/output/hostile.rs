//! Results made to be large, deep or no text.

use std::time::{Duration, Instant};

use host_client::output::{OutputConfig, OutputStore};

/// The longest that a shown text may be: the limit in characters of four bytes, and notes.
const MOST: usize = 200_000 * 4 + 1_000;
/// Much more than it takes, for a build without optimization on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Results of about so many bytes.
fn results(many: usize) -> Vec<(&'static str, Vec<u8>)> {
    let repeat = |start: &str, unit: &str, end: &str, bytes: usize| {
        [start, &unit.repeat(bytes / unit.len()), end].concat().into_bytes()
    };
    let keys: Vec<_> = (0..many / 20).map(|n| format!("\"key {n}\":{n}")).collect();
    let deep =
        |bytes: usize| ["[".repeat(100), format!("\"{}\"", "x".repeat(bytes)), "]".repeat(100)].concat().into_bytes();
    let objects = "{\"a\":".repeat(99);
    let wide = format!("{objects}[{}1]{}", "1,".repeat(many / 2), "}".repeat(99)).into_bytes();
    vec![
        ("one string", repeat("\"", "x", "\"", many)),
        ("one string in an array", repeat("[\"", "x", "\"]", many)),
        ("characters of four bytes", repeat("\"", "🙂", "\"", many)),
        ("nothing but NULs", repeat("\"", "\\u0000", "\"", many)),
        ("nothing but line ends", repeat("\"", "\\r\\n", "\"", many)),
        ("halves of surrogate pairs", repeat("[\"", "\\ud800", "\"]", many)),
        ("half of a surrogate pair as text", repeat("\"", "\\udc00 ", "\"", many)),
        ("a million numbers", repeat("[", "1,", "1]", many)),
        ("empty arrays", repeat("[", "[],", "[]]", many)),
        ("tiny objects", repeat("[", "{\"a\":1},", "{\"a\":2}]", many)),
        ("many keys", format!("{{{}}}", keys.join(",")).into_bytes()),
        ("many keys in items", format!("[{{{}}},{{}}]", keys.join(",")).into_bytes()),
        ("a long key", repeat("{\"", "k", "\":[1,2,3]}", many)),
        ("a deep string", deep(many)),
        ("deep and wide", wide),
        ("deeper than can be", repeat("", "[", "", many)),
        ("deeper than should be", ["[".repeat(100_000), "]".repeat(100_000)].concat().into_bytes()),
        ("no JSON", repeat("", "words ", "", many)),
        ("no text", vec![0xff; many]),
        ("starts of data URLs", repeat("\"", "data:", "\"", many)),
        ("data URLs", repeat("[", "\"data:a/b;base64,QUJD\",", "1]", many)),
        ("blobs", repeat("[", "{\"blob\":\"QUJD\"},", "1]", many)),
        ("quotation marks", repeat("\"", "\\\"", "\"", many)),
        ("markers", repeat("\"", "… [truncated middle — 1.0KB omitted] …\\n", "\"", many)),
        ("white space", repeat("[1,", " ", "2]", many)),
        ("paragraphs", repeat("\"", "a\\n\\n", "\"", many)),
        ("line separators", repeat("\"", "\u{2028}\u{85}\u{0b}", "\"", many)),
    ]
}

#[test]
fn any_result_is_shown_in_bounds_and_in_time() {
    for (what, json) in results(512 << 10) {
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

/// How long the largest results take; run it with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "it measures, and a build without optimization says nothing"]
#[allow(clippy::print_stdout, reason = "what was measured")]
fn how_long_it_takes() {
    for (what, json) in results(10 << 20) {
        for intent in [None, Some("words that are wanted, a or 1")] {
            let (start, store) = (Instant::now(), OutputStore::default());
            let shown = OutputConfig::default().show(&json, intent, Some(&store));
            let (bytes, elapsed) = (json.len(), start.elapsed());
            println!("{elapsed:>12.1?} for {bytes} bytes: {what}, {} shown", shown.text.len());
        }
    }
}
