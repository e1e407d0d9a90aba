//! Properties that hold for every result.

use host_client::output::{CutConfig, IntentConfig, OutputConfig, OutputStore, SummaryConfig};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Small numbers, so that small values do what only large ones do.
fn small() -> OutputConfig {
    OutputConfig {
        intent: Some(IntentConfig { over_bytes: 60, paragraph_bytes: 80, group_lines: 2, percent: 30 }),
        summary: Some(SummaryConfig { over_bytes: 200, bytes: 400, first_items: 2 }),
        cut: Some(CutConfig { characters: 500, head_percent: 60 }),
        ..OutputConfig::default()
    }
}

fn only_cut(characters: usize) -> OutputConfig {
    let cut = Some(CutConfig { characters, head_percent: 60 });
    OutputConfig { cut, intent: None, summary: None, attachments: None, footer: None }
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::collection::vec("(\\PC|\r\n|\n|é|🙂| |[a-z]{1,9}){0,30}", 0..60).prop_map(|lines| lines.join("\n")),
        "(\\PC|\r\n|\r|\n|[a-z]){0,900}",
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,60}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 200, 12, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
            proptest::collection::vec(("(id|name|items|[a-z\\.\\[\\]/~\"]{0,6})", inner.clone()), 0..12)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
            (inner, 2_usize..30).prop_map(|(item, count)| (0..count).map(|n| json!({"id": n, "it": item})).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn a_cut_text_is_its_head_a_marker_and_its_tail(text in texts(), limit in 0_usize..300) {
        let shown = only_cut(limit).show(json!(text).to_string().as_bytes(), None, None);
        let count = text.chars().count();
        if count <= limit {
            prop_assert!(shown.is_whole && shown.text == text);
        } else if let (false, true) = (shown.is_whole, text.matches("… [").count() == 0) {
            let (head, rest) = shown.text.split_once("… [").unwrap();
            let (marker, tail) = rest.split_once("] …\n").unwrap();
            prop_assert!(marker.chars().count() < 150);
            let is_inner = marker.starts_with("truncated middle — ");
            let head = if is_inner { head.strip_suffix('\n').unwrap() } else { head };
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(head.chars().count() <= limit * 60 / 100 && tail.chars().count() <= limit - limit * 60 / 100);
            prop_assert!(head.len() + tail.len() <= text.len());
            prop_assert!(!(text[..head.len()].ends_with('\r') && text[head.len()..].starts_with('\n')));
            prop_assert!(!(text[..text.len() - tail.len()].ends_with('\r') && tail.starts_with('\n')));
            let again = only_cut(limit).show(json!(shown.text).to_string().as_bytes(), None, None);
            prop_assert!(again.is_whole, "what was cut is not cut again");
        }
    }

    #[test]
    fn everything_that_is_shown_is_bounded_and_says_the_truth(
        value in values(), intent in proptest::option::of("[a-z ]{0,30}"), as_text in any::<bool>(),
    ) {
        let value = if as_text { json!(serde_json::to_string_pretty(&value).unwrap()) } else { value };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let store = OutputStore::default();
        let shown = small().show(value.to_string().as_bytes(), intent.as_deref(), Some(&store));
        prop_assert_eq!(shown.is_whole, shown.handle.is_none());
        if shown.is_whole {
            prop_assert_eq!(&shown.text, &text);
            return Ok(());
        }
        prop_assert!(shown.text.chars().count() < 500 + 400, "{}", shown.text);
        if let Some((body, footer)) = shown.text.rsplit_once("\n[Output: ") {
            let percent = (text.len() - body.len()) * 100 / text.len();
            prop_assert!(text.len() - body.len() > 200, "{}", shown.text);
            prop_assert!(footer.ends_with(&format!(" processed, {percent}% reduced]")), "{}", footer);
        }
        let whole = store.read(shown.handle.as_deref().unwrap(), "", 0, None).unwrap();
        let is_page_of_parts = whole.text.starts_with("[items") || whole.text.starts_with("[members");
        if whole.next_offset.is_none() && !is_page_of_parts {
            prop_assert_eq!(whole.text.trim(), text.trim());
        }
    }

    #[test]
    fn every_part_has_a_path(value in values(), picks in proptest::collection::vec(0_usize..12, 0..6)) {
        let filled = json!({"it": value, "fill": "x".repeat(600), "more": [1, 2]});
        let store = OutputStore::default();
        let shown = small().show(filled.to_string().as_bytes(), None, Some(&store));
        let (mut at, mut pointer) = (&filled["it"], "/it".to_owned());
        for pick in picks {
            let (step, next) = match at {
                Value::Array(items) if !items.is_empty() => {
                    (format!("{}", pick % items.len()), &items[pick % items.len()])
                }
                Value::Object(members) if !members.is_empty() => {
                    let (key, member) = members.iter().nth(pick % members.len()).unwrap();
                    (key.replace('~', "~0").replace('/', "~1"), member)
                }
                _ => break,
            };
            pointer = format!("{pointer}/{step}");
            at = next;
        }
        let page = store.read(shown.handle.as_deref().unwrap(), &pointer, 0, None).unwrap();
        let expected = at.as_str().map_or_else(|| at.to_string(), str::to_owned);
        if page.next_offset.is_none() {
            prop_assert_eq!(page.text, expected, "{}", pointer);
        }
    }

    #[test]
    fn no_handle_and_no_path_does_any_harm(path in "\\PC{0,40}|[a\\[\\]\\.\"'0-9\\\\/~]{0,20}", offset in any::<usize>(), limit in any::<usize>()) {
        let store = OutputStore::default();
        let value = json!({"a": [0, {"b": "c"}], "fill": ["x".repeat(600), "é".repeat(300)]});
        let handle = small().show(value.to_string().as_bytes(), None, Some(&store)).handle.unwrap();
        // Either a page or an error, in few words.
        match store.read(&handle, &path, offset, Some(limit)) {
            Ok(page) => prop_assert!(page.text.len() < 2_000),
            Err(error) => prop_assert!(error.to_string().len() < 600),
        }
        prop_assert!(store.read(&path, "", offset, Some(limit)).is_err());
    }
}
