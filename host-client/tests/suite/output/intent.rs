//! Filtering by intent.

use host_client::output::{IntentConfig, OutputConfig};
use serde_json::{Value, json};

use super::{shown, shown_for, without_footer};

/// Forty paragraphs, three of them about failures of the login.
fn log() -> String {
    let paragraph = |n: usize| match n {
        7 | 21 | 33 => format!("{n}: the login of user {n} failed:\n{}", "wrong password ".repeat(10)),
        n => format!("{n}: nothing to see\n{}", "here are other words ".repeat(10)),
    };
    (0..40).map(paragraph).collect::<Vec<_>>().join("\n\n")
}

fn filtered(text: &str, intent: &str) -> Option<String> {
    let shown = shown_for(&json!(text), Some(intent));
    (!shown.is_whole).then(|| without_footer(&shown, text.len()).to_owned())
}

#[test]
fn sections_in_which_the_terms_occur_are_kept() {
    let log = log();
    for intent in ["login failures", "Why did the LOGIN fail?", "failed logins of users, by password"] {
        let text = filtered(&log, intent).expect(intent);
        assert!(
            text.starts_with("[Filtered by intent: 3 of 40 sections are shown]\n\n7: the login of user 7"),
            "{text}"
        );
        assert!(text.contains("\n\n33: the login") && !text.contains("nothing to see"), "{text}");
    }
}

#[test]
fn what_no_section_fits_and_what_is_no_intent_changes_nothing() {
    let log = log();
    for intent in
        ["zebra crossings", "", "the of and is to", "?!", "\u{0}", "the login of zebras on the moons of jupiter"]
    {
        assert_eq!(filtered(&log, intent), None, "{intent:?}");
    }
    assert_eq!(filtered(&log, "words password"), None, "all sections fit");
    assert_eq!(filtered(&log[..4_990], "login failures"), None, "it is short");
    assert!(filtered(&log[..5_010], "login failures").is_some());
    assert!(shown(&json!(log)).is_whole, "there is no intent");
}

#[test]
fn three_terms_of_ten_are_enough_and_two_are_not() {
    let section = |words: &str| format!("{words} {}", "filler ".repeat(80));
    let intent = "alpha bravo charlie delta echo foxtrot golf hotel india juliett";
    let sections = [section("alpha bravo charlie"), section("alpha bravo"), section("juliett golf bravo")];
    let text = [&sections[..], &vec![section(""); 20]].concat().join("\n\n");
    let text = filtered(&text, intent).unwrap();
    assert!(text.starts_with("[Filtered by intent: 2 of 23 sections are shown]"), "{text}");
    let text = [&sections[1..2], &vec![section(""); 20]].concat().join("\n\n");
    assert_eq!(filtered(&text, intent), None);
}

#[test]
fn terms_are_words_whatever_their_ending_and_spelling() {
    let text = |words: &str| format!("{words}\n\n{}", "filler of no use\n\n".repeat(400));
    for (intent, words, is_kept) in [
        ("repositories", "one repository", true),
        ("repository", "all REPOSITORIES", true),
        ("issue", "listOpenIssues", true),
        ("user name", "the user_name is", true),
        ("cat", "cats", true),
        ("cities", "one city", true),
        ("city", "many cities", true),
        ("cat", "concatenate the category", false),
        ("port", "a report is supported", false),
        ("Straße", "die STRASSE und die straße", true),
        ("天気", "今日の天気は晴れ", true),
        ("don't", "don't", false),
    ] {
        assert_eq!(filtered(&text(words), intent).is_some(), is_kept, "{intent} in {words}");
    }
}

#[test]
fn every_word_fits_itself() {
    let words = "city body copy dry settings logging mapping running added tagged used dying tied repository was_used";
    for word in words.split(' ') {
        let text = format!("the {word} is here\n\n{}", "filler of no kind\n\n".repeat(400));
        assert!(filtered(&text, word).is_some(), "{word}");
    }
}

#[test]
fn without_paragraphs_there_are_groups_of_lines() {
    let text: String = (0..1_000).map(|n| format!("{n} {}\n", if n == 503 { "needle" } else { "hay" })).collect();
    let text = filtered(&text, "needle").unwrap();
    assert!(text.starts_with("[Filtered by intent: 1 of 100 sections are shown]\n\n500 hay\n"), "{text}");
    assert!(text.contains("\n503 needle\n") && text.contains("\n509 hay\n[All of it: "), "{text}");
    assert_eq!(filtered(&"needle ".repeat(10_000), "needle"), None, "it is one section");
}

#[test]
fn sections_of_json_are_its_parts() {
    let item =
        |n: usize| json!({"id": n, "text": if n == 42 { "a \"deadlock\"\nin it" } else { "all is well, or so" }});
    let value = json!({"results": {"items": (0..500).map(item).collect::<Vec<_>>()}});
    let shown = shown_for(&value, Some("deadlocks"));
    assert!(shown.text.starts_with("[Filtered by intent: 1 of "), "{}", shown.text);
    assert!(shown.text.contains("\n\nresults > items > ["), "{}", shown.text);
    assert!(shown.text.contains("{\"id\":42,\"text\":\"a \\\"deadlock\\\"\\nin it\"}") && shown.text.len() < 2_000);
    assert!(shown_for(&value, Some("in")).text.starts_with("[Summary: "), "a stop word filters nothing");
    let escaped: Value = vec![json!("first\nlogin"); 1].into_iter().chain(vec![json!("other words"); 900]).collect();
    assert!(shown_for(&escaped, Some("login")).text.starts_with("[Filtered by intent: 1 of "));
}

#[test]
fn an_intent_that_fits_much_does_not_make_the_answer_longer_than_a_summary_may_be() {
    let item =
        |n: usize| json!({"id": n, "text": format!("{} {}", if n == 7 { "other" } else { "issue" }, "x".repeat(250))});
    let value = json!((0..3_000).map(item).collect::<Vec<_>>());
    let shown = shown_for(&value, Some("issue"));
    let (header, body) = shown.text.split_once("]\n\n").unwrap();
    let numbers: Vec<usize> = header.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [kept, all, more] = numbers[..] else { panic!("{header}") };
    assert_eq!(body.lines().filter(|line| line.starts_with('[') && line.ends_with(":")).count(), kept, "{header}");
    assert!(kept > 5 && kept + more < all && kept + more + 2 > all, "{header}");
    assert!(shown.text.len() < 10_500, "{}", shown.text.len());
}

#[test]
fn of_a_text_so_many_sections_are_shown_as_the_header_says() {
    let paragraph =
        |n: usize| format!("{n} {} {}", if n.is_multiple_of(2) { "needle" } else { "hay" }, "words ".repeat(50));
    let text = (0..3_000).map(paragraph).collect::<Vec<_>>().join("\n\n");
    let text = filtered(&text, "needle").unwrap();
    let shown = text.matches(" needle ").count();
    let header = format!("[Filtered by intent: {shown} of 3000 sections are shown; {} more fit", 1_500 - shown);
    assert!(text.starts_with(&header) && !text.contains("truncated"), "{}", &text[..200]);
    assert!(shown > 600 && text.len() < 200_200, "{shown} {}", text.len());
}

#[test]
fn a_long_string_in_json_has_sections_too() {
    let log = log();
    let shown = shown_for(&json!({"content": log, "path": "/log"}), Some("login failures"));
    assert!(shown.text.starts_with("[Filtered by intent: 3 of 41 sections are shown]\n\ncontent:\n7: the login"));
    assert!(shown.text.contains("\n\ncontent:\n33: the login") && !shown.text.contains("nothing to see"));
    let shown = shown_for(&json!({"content": log}), Some("content of the login"));
    assert!(shown.text.starts_with("[Filtered by intent: 3 of 40 "), "{}", shown.text);
}

#[test]
fn it_can_be_turned_off_and_set() {
    let log = json!(log()).to_string();
    let off = OutputConfig { intent: None, ..OutputConfig::default() };
    assert!(off.show(log.as_bytes(), Some("login failures"), None).is_whole);
    let strict = OutputConfig {
        intent: Some(IntentConfig { percent: 100, ..IntentConfig::default() }),
        ..OutputConfig::default()
    };
    assert!(strict.show(log.as_bytes(), Some("login failures of zebras"), None).is_whole);
    let short = IntentConfig { over_bytes: 10, ..IntentConfig::default() };
    let short = OutputConfig { intent: Some(short), footer: None, ..OutputConfig::default() };
    let text = short
        .show(b"\"red\\n\\ngreen and some more words to make it long enough to be worth it\"", Some("red"), None)
        .text;
    assert_eq!(text, "[Filtered by intent: 1 of 2 sections are shown]\n\nred");
}
