//! Results of tools that are hard to show: large, deep or no text.

/// Makes results of about `many` bytes, each with what it is.
pub fn hard(many: usize) -> Vec<(&'static str, Vec<u8>)> {
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
