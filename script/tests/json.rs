//! JSON as node writes it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod node;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use relay_script::json::{MAX_DEPTH, normalize};

fn normalized(json: &str) -> Option<String> {
    normalize(json.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Asks node about all of them.
fn compare(texts: &[String]) {
    for (text, expected) in texts.iter().zip(node::normalize(texts)) {
        let expected = (!expected.is_empty()).then(|| without_lone_surrogates(&expected));
        assert_eq!(normalized(text), expected, "{text}");
    }
}

/// Applies the worker's change to JSON that V8 wrote.
fn without_lone_surrogates(json: &str) -> String {
    let mut replaced = String::new();
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        replaced.push_str(before);
        let length = if escape.starts_with("\\ud") { 6 } else { 2 };
        replaced.push_str(if length == 6 { "\u{FFFD}" } else { &escape[..2] });
        rest = &escape[length..];
    }
    replaced + rest
}

#[test]
fn hard_documents_are_as_node_writes_them() {
    compare(
        &[
            "{}",
            "[]",
            " { } ",
            "\t[\r\n]\n",
            "null",
            "true",
            "false",
            "\"\"",
            "0",
            "-0",
            "0.0",
            "-0.0",
            "1e400",
            "-1e400",
            "1E+2",
            "1e-7",
            "123456789012345678901234567890",
            "9007199254740993",
            "999999999999999",
            "1000000000000000",
            "0.1",
            "1.10",
            "5e-324",
            "1e21",
            "100000000000000000000",
            "[1,2,3]",
            "{\"b\":1,\"a\":2}",
            "{\"b\":1,\"2\":2,\"10\":3,\"1\":4,\"01\":5}",
            "{\"a\":1,\"b\":2,\"a\":3}",
            "{\"1\":1,\"2\":2}",
            "{\"1\":1,\"a\":2,\"0\":3}",
            "{\"4294967294\":1,\"4294967295\":2,\"0\":3}",
            "{\"__proto__\":{\"a\":1},\"__proto__\":2}",
            "\"\\u0041\\u00e9\\u2028\\/\\b\\f\\n\\r\\t\\\"\\\\\\u0000\\u001f\\u007f\"",
            "\"\\ud83d\\ude00\"",
            "\"\\ud83d\"",
            "\"\\ude00\\ud83d\"",
            "\"\\ud83d\\ud83d\\ude00\"",
            "\"\\ud83dx\"",
            "\"\\ud83d\\n\"",
            "\"\\ud83d\\u0041\"",
            "{\"\\ud800\":1,\"\\ud801\":2}",
            "{\"\\ud800\":1,\"\\ud800\":2}",
            "{\"\\u0061\":1,\"a\":2}",
            "\"\u{d7ff}\u{e000}\\ud800\u{d000}\"",
            "{\"a\":{\"1\":1,\"0\":[{\"b\":1,\"b\":{\"5\":1,\"4\":2}}]}}",
            "{\"a\":1,\"a\":{\"z\":1,\"0\":2}}",
            "é",
            "",
            " ",
            "[1,]",
            "{\"a\":1,}",
            "[1 2]",
            "{a:1}",
            "'a'",
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "1e",
            "1e+",
            "nul",
            "nulll",
            "tru",
            "\"a",
            "\"\n\"",
            "\"\t\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u+123\"",
            "[",
            "]",
            "{",
            "}",
            "[1]]",
            "1 1",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1 \"b\":2}",
            "{1:1}",
            "\u{feff}1",
            "\u{a0}1",
            "[1,\u{b}2]",
            "NaN",
            "Infinity",
            "undefined",
            "// a\n1",
            "\"\u{2028}\"",
            "\"\u{7f}\"",
            "-1",
            "--1",
            "1-1",
            "0x1",
            "1_0",
            "{\"\":1}",
        ]
        .map(str::to_owned),
    );
    assert_eq!(normalize(b"\"\xff\""), None);
}

#[test]
fn nesting_ends_at_the_limit() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(normalized(&nested(MAX_DEPTH)), Some(nested(MAX_DEPTH)));
    assert_eq!(normalized(&nested(MAX_DEPTH + 1)), None);
    assert_eq!(normalized(&"[".repeat(1 << 20)), None);
    assert_eq!(normalized(&"{\"a\":".repeat(1 << 18)), None);
}

#[test]
fn a_thousand_keys_keep_the_order_of_javascript() {
    let key = |n: usize| if n.is_multiple_of(3) { format!("{}", n * 7919 % 1_000) } else { format!("k{}", n % 300) };
    let members: Vec<String> = (0..1_000).map(|n| format!("\"{}\" : {n}", key(n))).collect();
    compare(&[format!("{{ {} }}", members.join(" , "))]);
}

/// Documents with everything that changes on the way, and some that are none.
fn documents() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        "[a-c]{0,2}",
        "[0-9]{1,2}",
        Just("__proto__".to_owned()),
        Just("\\u0061".to_owned()),
        Just("\\ud800".to_owned()),
        Just("4294967295".to_owned()),
    ];
    let text = prop_oneof![
        "[a-zé😀 ]{0,6}",
        Just("\\u00e9\\/\\n".to_owned()),
        Just("\\ud83d\\ude00".to_owned()),
        Just("\\udc00\\ud800".to_owned()),
        Just("\\u001F".to_owned()),
    ];
    let number = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("JSON has none", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
        any::<f64>().prop_filter("JSON has none", |n| n.is_finite()).prop_map(|n| n.to_string()),
        "-?[0-9]{1,20}(\\.[0-9]{1,5})?(e[+-]?[0-9]{1,3})?",
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        number,
        text.prop_map(|text| format!("\"{text}\""))
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let space = "[ \n]{0,2}";
        let list = (prop::collection::vec(inner.clone(), 0..6), space)
            .prop_map(|(items, space)| format!("[{space}{}]", items.join(&format!("{space},"))));
        let members = prop::collection::vec((key.clone(), inner), 0..20);
        let object = (members, space).prop_map(|(members, space)| {
            let members: Vec<String> =
                members.iter().map(|(key, value)| format!("\"{key}\"{space}:{space}{value}")).collect();
            format!("{{{}{space}}}", members.join(","))
        });
        prop_oneof![list, object]
    })
}

#[test]
fn generated_documents_are_as_node_writes_them() {
    let mut runner = TestRunner::deterministic();
    let strategy = documents();
    let mut texts: Vec<String> = (0..3_000).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    // And cut short, or with something missing.
    for n in 0..1_500 {
        let text = &texts[n];
        let at =
            (0..text.len()).filter(|at| text.is_char_boundary(*at)).nth(n % text.chars().count().max(1)).unwrap_or(0);
        texts.push(if n.is_multiple_of(2) {
            text[..at].to_owned()
        } else {
            text.chars().enumerate().filter(|(i, _)| *i != at).map(|(_, c)| c).collect()
        });
    }
    compare(&texts);
}
