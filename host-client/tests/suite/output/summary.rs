//! Summaries of large JSON.

use host_client::output::{OutputConfig, SummaryConfig};
use serde_json::{Value, json};

use super::{shown, without_footer};

fn issues(count: usize) -> Value {
    let issue =
        |n: usize| json!({"id": n, "title": format!("Issue number {n}"), "body": "b".repeat(80), "open": n < 9});
    (0..count).map(issue).collect()
}

#[test]
fn a_uniform_array_is_its_count_its_keys_its_first_items_and_the_names_of_the_rest() {
    let value = issues(1_000);
    let json = value.to_string();
    let shown = shown(&value);
    let text = without_footer(&shown, json.len());
    let size = format!("{:.1}KB", json.len() as f64 / 1024.0);
    let first = format!(
        "[Summary: an array of 1000 items, {size}; each item has the keys \"body\", \"id\", \"open\", \"title\"]"
    );
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines[0], lines[1]), (&*first, "The first:"), "{text}");
    for n in 0..3 {
        assert_eq!(lines[2 + n], format!("[{n}] {}", value[n]));
    }
    assert_eq!(lines[5], "The others:");
    assert_eq!(lines[6], "[3] {\"id\": 3, \"title\": \"Issue number 3\"}");
    let listed = lines[6..].iter().filter(|line| line.contains("Issue number")).count();
    assert!(text.contains(&format!("\n({} more items are not listed)\n[All of it: ", 1_000 - 3 - listed)), "{text}");
    assert!(listed > 50 && text.len() < 6_300, "{listed} {}", text.len());
    assert!(shown.handle.is_some() && text.contains(shown.handle.as_deref().unwrap()));
}

#[test]
fn items_may_lack_keys_as_long_as_most_have_them() {
    let items = |lacking: usize| -> Value {
        (0..300)
            .map(|n| if n % 10 < lacking { json!({"id": n}) } else { json!({"id": n, "text": "t".repeat(50)}) })
            .collect()
    };
    let text = shown(&items(3)).text;
    assert!(
        text.starts_with("[Summary: an array of 300 items") && text.contains("the keys \"id\", \"text\"?]"),
        "{text}"
    );
    let text = shown(&items(9)).text;
    assert!(text.starts_with("[Summary: an array, ") || text.len() < 10_240, "{text}");
}

#[test]
fn other_values_are_chunks_by_key_path_with_what_they_are_called() {
    let value = json!({
        "status": "ok",
        "results": {"items": issues(200), "next": null},
        "notes": (0..2_000).collect::<Vec<_>>(),
    });
    let text = shown(&value).text;
    assert!(text.starts_with("[Summary: an object, ") && text.lines().next().unwrap().ends_with(" parts]"), "{text}");
    assert!(text.contains("\nresults > items > [0-"), "{text}");
    assert!(text.contains("{\"id\": 0, \"title\": \"Issue number 0\"}, {\"id\": 1,"), "{text}");
    assert!(text.contains("\nnotes > [0-") && text.contains("status"), "{text}");
    assert!(text.len() < 6_500, "{}", text.len());
    for key in ["id", "name", "title", "slug", "key", "label"] {
        let items: Vec<_> = (0..100).map(|n| json!({key: format!("it {n}"), "x": "y".repeat(150)})).collect();
        let text = shown(&json!({"deep": {"er": items}})).text;
        assert!(text.contains("\ndeep > er > [0-4] (5 items, 0.8KB): {\""), "{text}");
        assert!(text.contains(&format!("{{\"{key}\": \"it 4\"}}")), "{text}");
    }
}

#[test]
fn one_large_string_is_its_head_and_its_tail() {
    let text = format!("first line\n{}last line", "x\n".repeat(60_000));
    for (value, path) in [
        (json!({"content": text}), "content"),
        (json!({"": text}), "[\"\"]"),
        (json!([text]), "[0]"),
        (json!({"a": [{"b": text}]}), "a > [0] > b"),
        (json!({"content": text, "path": "/x"}), "content"),
    ] {
        let shown = shown(&value);
        let processed = value.to_string().len();
        let shown_text = without_footer(&shown, processed);
        assert!(shown_text.contains(&format!("\n{path} (175.8KB):\nfirst line\nx\nx\n")), "{shown_text}");
        let middle = shown_text.split_once("KB are not shown] …\n").unwrap();
        assert!(middle.1.contains("x\nx\nlast line\n"), "{shown_text}");
        assert!(shown.handle.is_some() && shown_text.len() < 6_200, "{}", shown_text.len());
    }
}

#[test]
fn a_text_alone_is_left_to_the_cut() {
    let shown_one = shown(&json!("x".repeat(150_000)));
    assert!(shown_one.is_whole && shown_one.handle.is_none());
    let shown = shown(&json!("x".repeat(300_000)));
    assert!(shown.text.contains("… [truncated middle — 97.7KB omitted] …"));
}

#[test]
fn only_large_json_is_summarized() {
    let text = |bytes: usize| {
        let item = json!({"id": 1, "n": "é"});
        let mut json = serde_json::to_string(&vec![item; 400]).unwrap();
        json.push_str(&" ".repeat(bytes - json.len()));
        let shown = OutputConfig::default().show(json.trim_end().as_bytes(), None, None);
        (json.trim_end().len(), shown)
    };
    let (bytes, shown) = text(12_000);
    assert_eq!(shown.is_whole, bytes <= 10_240, "{bytes}");
    let exactly = format!("[{}]", vec!["1234567890"; 10_240 / 11].join(","));
    let filled = format!("{}{}]", &exactly[..exactly.len() - 1], "0".repeat(10_240 - exactly.len()));
    assert_eq!(filled.len(), 10_240);
    assert!(OutputConfig::default().show(filled.as_bytes(), None, None).is_whole);
    let over = filled.replace(']', "0]");
    assert!(!OutputConfig::default().show(over.as_bytes(), None, None).is_whole);
    let off = OutputConfig { summary: None, ..OutputConfig::default() };
    assert!(off.show(over.as_bytes(), None, None).is_whole);
}

#[test]
fn a_stringified_value_is_the_value() {
    let value = issues(500);
    assert!(shown(&json!(value.to_string())).text.starts_with("[Summary: an array of 500 items"));
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    assert!(shown(&json!(pretty)).text.starts_with("[Summary: an array of 500 items"));
}

#[test]
fn the_room_is_a_setting() {
    let config = SummaryConfig { bytes: 600, first_items: 1, ..SummaryConfig::default() };
    let config = OutputConfig { summary: Some(config), footer: None, ..OutputConfig::default() };
    let text = config.show(issues(500).to_string().as_bytes(), None, None).text;
    assert!(text.len() <= 600 && text.contains("\n[0] {") && !text.contains("\n[1] {\"body"), "{text}");
}
