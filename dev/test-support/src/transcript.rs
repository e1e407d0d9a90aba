//! Sessions that were recorded between a host and a relay of an older version, to be replayed against either end.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;

use crate::fault::Way;

/// Session between host and relay of the commit before sessions could be resumed. The host has the tools `t.add`, which
/// adds the numbers `a` and `b`, and `t.fail`, which fails with "it is broken"; it runs [`CODES`], one after the other.
const BEFORE_RESUME: &str = include_str!("transcript/before_resume.txt");

/// Code that the recorded host runs, with the text of the outcome: the value as JSON, or the error.
pub const CODES: [(&str, &str); 3] = [
    (
        "console.log('hello'); const a = await mcp.call('t.add', {a: 20, b: 22}); const b = await mcp.call('t.add', {a, b: 1}); return {a, b, text: 'ä漢'}",
        r#"{"a":42,"b":43,"text":"ä漢"}"#,
    ),
    (
        "try { await mcp.call('t.fail') } catch (error) { return [error.code, error.message] }",
        r#"["TOOL_FAILED","it is broken"]"#,
    ),
    (
        "await mcp.call('t.add', {a: 1, b: 2}); throw new RangeError('too far')",
        "EVAL_ERROR: RangeError: too far (line 1, column 46)",
    ),
];

/// Returns the encoded messages of the session between host and relay of the commit before sessions could be resumed, in the order
/// in which they were sent.
///
/// # Panics
/// The recording is damaged.
pub fn before_resume() -> Vec<(Way, Bytes)> {
    BEFORE_RESUME.lines().filter(|line| !line.starts_with('#')).map(message).collect()
}

fn message(line: &str) -> (Way, Bytes) {
    let way = if line.starts_with('>') { Way::ToRelay } else { Way::ToHost };
    let digits = line.as_bytes().get(2..).unwrap_or_default();
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("hexadecimal digits");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    };
    (way, digits.chunks(2).map(byte).collect())
}
