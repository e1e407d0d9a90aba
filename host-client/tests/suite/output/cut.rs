//! Texts that are too long.

use host_client::output::{CutConfig, OutputConfig};
use serde_json::{Value, json};

use super::{shown, without_footer};

/// Without handles, whose line stands between text and footer.
fn cut(text: &str) -> String {
    let shown = OutputConfig::default().show(json!(text).to_string().as_bytes(), None, None);
    assert!(!shown.is_whole && shown.handle.is_none());
    without_footer(&shown, text.len()).to_owned()
}

#[test]
fn long_texts_keep_their_head_and_tail_at_line_boundaries() {
    let text: String = (0..60_000).map(|n| format!("line {n:05}\n")).collect();
    let marker = "… [41818 lines / 449.2KB truncated — showing first 10909 + last 7272 lines] …";
    let lines = (60_000, 120_000 / 11, 80_000 / 11);
    assert_eq!(lines, (60_000, 10_909, 7_272));
    let middle = lines.0 - lines.1 - lines.2;
    let marker =
        marker.replace("41818", &middle.to_string()).replace("449.2", &format!("{:.1}", middle as f64 * 11.0 / 1024.0));
    let expected = format!("{}{marker}\n{}", &text[..lines.1 * 11], &text[text.len() - lines.2 * 11..]);
    assert_eq!(cut(&text), expected);
}

#[test]
fn a_text_without_lines_loses_its_middle() {
    let text = "x".repeat(300_000);
    let expected = format!("{}\n… [truncated middle — 97.7KB omitted] …\n{}", &text[..120_000], &text[..80_000]);
    assert_eq!(cut(&text), expected);
    // Lines so long that whole ones would be a waste of room.
    let text = format!("first\n{}\nlast\n", "x".repeat(300_000));
    let cut = cut(&text);
    assert!(cut.starts_with("first\nxxx") && cut.ends_with("xxx\nlast\n") && cut.contains("… [truncated middle — "));
}

#[test]
fn no_character_and_no_line_end_is_split() {
    for unit in ["é", "東", "🙂", "a\u{301}", "\r\n", "x\r\n", "ab\r\n", "🙂\r\n"] {
        let text = unit.repeat(150_000);
        let text = format!("{text}y");
        if text.chars().count() <= 200_000 {
            continue;
        }
        let cut = cut(&text);
        let (head, rest) = cut.split_once("… [").unwrap();
        let (_, tail) = rest.split_once("] …\n").unwrap();
        let head = head.strip_suffix('\n').filter(|head| !head.ends_with('\r')).unwrap_or(head);
        assert!(text.starts_with(head) && text.ends_with(tail), "{unit:?}");
        assert!(!tail.starts_with('\n'), "{unit:?}");
        assert!(head.chars().count() <= 120_000 && tail.chars().count() <= 80_000, "{unit:?}");
        assert!(head.chars().count() > 60_000 && tail.chars().count() > 40_000, "{unit:?}");
    }
}

#[test]
fn the_limit_counts_characters_and_is_a_setting() {
    for unit in ["x", "é", "🙂"] {
        let (fits, more) = (unit.repeat(200_000), unit.repeat(200_001));
        let whole = shown(&json!(fits));
        assert!(whole.is_whole && whole.text == fits && whole.handle.is_none());
        assert!(!shown(&json!(more)).is_whole);
    }
    let show = |config: &OutputConfig| config.show(json!("0123456789").to_string().as_bytes(), None, None).text;
    let mut config =
        OutputConfig { cut: Some(CutConfig { characters: 5, head_percent: 60 }), ..OutputConfig::default() };
    assert_eq!(show(&config), "012\n… [truncated middle — 0.0KB omitted] …\n89");
    config.cut = Some(CutConfig { characters: 5, head_percent: 1_000 });
    assert_eq!(show(&config), "01234\n… [truncated middle — 0.0KB omitted] …\n");
    config.cut = Some(CutConfig { characters: 0, head_percent: 60 });
    assert_eq!(show(&config), "\n… [truncated middle — 0.0KB omitted] …\n");
    config.cut = None;
    assert_eq!(show(&config), "0123456789");
}

#[test]
fn what_is_short_is_shown_as_it_came() {
    for (json, text) in [
        ("\"a \\\"text\\\"\\nof lines\"", "a \"text\"\nof lines"),
        ("{\"b\":1.50,\"a\":[ ]}", "{\"b\":1.50,\"a\":[ ]}"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("null", "null"),
        ("\"\"", ""),
        ("", ""),
        ("no json", "no json"),
    ] {
        let shown = OutputConfig::default().show(json.as_bytes(), Some("any words"), None);
        assert_eq!((&*shown.text, shown.is_whole), (text, true), "{json}");
    }
    assert_eq!(shown(&Value::Null).attachments, []);
}
