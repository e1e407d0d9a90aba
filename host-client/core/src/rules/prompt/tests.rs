//! Tests of the question's text and of its answers.

use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use super::*;

const CODE: &str = "const a = 1\n// two\n// three\n// four\nawait mcp.call('bank.pay', {a})\nreturn a";

fn question(arguments: &Value) -> Question<'_> {
    Question {
        tool: "bank.pay",
        effect: Some(Effect::Mutating),
        rule: "ask bank.*",
        arguments,
        script: Some((CODE, Some(5))),
        remaining: Duration::from_millis(90_500),
    }
}

fn rendered(question: &Question<'_>) -> String {
    render(question, Space::default())
}

#[test]
fn a_question_says_what_where_why_and_how_long() {
    let expected = "\
The code wants to call bank.pay (it changes something).
The rule that asks: ask bank.*
The arguments:
  | {
  |   \"a\": 1
  | }
Line 5 of the code calls it, as the relay says:
     1 | const a = 1
     2 | // two
     3 | // three
     4 | // four
>    5 | await mcp.call('bank.pay', {a})
     6 | return a
No answer within 1m 30s is a no.
[y] once  [e] tool, this execution  [s] tool, this session  [v] view all  [n] no
Run bank.pay? ";
    assert_eq!(rendered(&question(&json!({"a": 1}))), expected);
    let arguments = json!([]);
    let bare = Question { effect: None, script: Some(("one", None)), ..question(&arguments) };
    assert!(rendered(&bare).contains("(nobody said what it does)") && rendered(&bare).contains("The code:\n"));
    for at in [0, 99, usize::MAX] {
        let odd = Question { script: Some(("one\ntwo", Some(at))), ..question(&arguments) };
        let text = rendered(&odd);
        assert!(text.contains("The code:\n     1 | one\n     2 | two\n") && text.ends_with("Run bank.pay? "), "{text}");
    }
}

#[test]
fn nothing_that_the_code_writes_can_look_like_the_question_or_hide() {
    let fake = "\r\u{1b}[2K\nRun it? [y] once: y\n\u{202e}\u{200b}\u{2028}\u{9b}2J\u{feff}";
    let arguments = json!({ fake: fake, "list": [fake] });
    let hostile = Question { tool: fake, rule: fake, script: Some((fake, Some(2))), ..question(&arguments) };
    for text in [rendered(&hostile), whole(&hostile, 80)] {
        assert!(text.chars().all(|it| it == '\n' || !it.is_control()), "{text}");
        assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{2028}', '\u{feff}']), "{text}");
    }
    let text = rendered(&hostile);
    let asking = text.lines().filter(|line| line.starts_with("[y] once  [e]") || line.starts_with("Run ")).count();
    assert_eq!((asking, text.lines().last().map(|line| line.ends_with("? "))), (2, Some(true)), "{text}");
    // No row of a terminal of 80 columns begins with what the code wrote, however wide its characters are.
    let wide = json!({"漢".repeat(200): "Run it? ".repeat(30)});
    let wide = Question { tool: "bank.pay", rule: "r", arguments: &wide, ..hostile };
    for text in [rendered(&wide), whole(&wide, 80)] {
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        assert!(text.lines().all(|line| !line.starts_with("Run it?") && !line.starts_with('漢')), "{text}");
    }
}

#[test]
fn a_question_fits_a_screen_and_says_when_something_is_not_shown() {
    let long = json!({"aa": "x".repeat(1 << 20), "amount": 5});
    let many = json!((0..10_000).collect::<Vec<_>>());
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let fits = json!({"a": "x".repeat(800), "b": "y".repeat(200)});
    for (arguments, is_cut) in [(long, true), (many, true), (deep, true), (fits, false)] {
        for space in [Space::new(80, 24), Space::default(), Space::new(200, 60)] {
            let text = render(&question(&arguments), space);
            assert!(text.lines().count() <= space.rows + MIN_ARGUMENT_ROWS, "{text}");
            assert!(text.lines().all(|line| line.width() <= space.columns), "{text}");
            let is_told = text.contains("NOT ALL of the arguments is shown: v shows it. Say no unless");
            assert_eq!(is_told, is_cut || space.rows == 24, "{text}");
            assert_eq!(describe(&question(&arguments), space, "x").is_whole, !is_told, "{text}");
        }
        // Everything is in the whole question, in whatever rows.
        let rows = whole(&question(&arguments), 80).replace("\n  + ", "");
        let lines: Vec<_> = rows.lines().filter_map(|row| row.strip_prefix("  | ")).collect();
        assert_eq!(serde_json::from_str::<Value>(&lines.join("\n")).unwrap(), arguments);
    }
    let long = json!({"aa": "x".repeat(1 << 20), "amount": 5});
    assert!(rendered(&question(&long)).contains("\"amount\": 5"), "a large member does not push out a small one");
}

#[test]
fn the_line_that_calls_is_shown_whatever_stands_around_it() {
    let comments = "// nothing of interest\n".repeat(60);
    let code =
        format!("const first = 1;\n{comments}const before = 2;\n{comments}await call()\nconst after = 3;\n{comments}");
    let arguments = json!({});
    let at = Question { script: Some((&code, Some(123))), ..question(&arguments) };
    let text = rendered(&at);
    for row in
        ["     1 | const first = 1;", "    62 | const before = 2;", ">  123 | await call()", "   124 | const after"]
    {
        assert!(text.contains(row), "{row} is not in {text}");
    }
    assert!(text.contains("Not all 184 lines of the code are shown: v shows it.\n"), "{text}");
    assert_eq!(whole(&at, 80).matches("nothing of interest").count(), 180);
    let unknown = Question { script: Some((&code, None)), ..question(&arguments) };
    assert!(
        rendered(&unknown).contains("The code begins:\n     1 | const first = 1;\n    62 | const before"),
        "{text}"
    );
    // One endless line.
    let code = format!("await call('{}')", "x".repeat(100_000));
    let text = rendered(&Question { script: Some((&code, Some(1))), ..question(&arguments) });
    assert!(text.lines().count() < 50 && text.contains("…\nNot all 1 lines"), "{text}");
}

#[test]
fn a_name_that_does_not_fit_is_no_name_that_was_shown() {
    let (arguments, name) = (json!({}), format!("bank.{}", "pay_".repeat(30)));
    let long = Question { tool: &name, ..question(&arguments) };
    let shown = describe(&long, Space::default(), "v shows it");
    assert!(
        !shown.is_whole && shown.text.contains("NOT ALL of the tool's name is shown: v shows it."),
        "{}",
        shown.text
    );
    assert!(whole(&long, 80).replace("\n  + ", "").contains(&name));
}

#[test]
fn an_answer_is_one_of_five_or_asked_again() {
    for (typed, answer) in [
        ("y\n", Some(Answer::Once)),
        (" YES ", Some(Answer::Once)),
        ("e", Some(Answer::Execution)),
        ("S\r\n", Some(Answer::Session)),
        ("v", Some(Answer::View)),
        ("n", Some(Answer::No)),
        ("", Some(Answer::No)),
        ("\n", Some(Answer::No)),
        ("yep", None),
        ("y e", None),
        ("\u{1b}y", None),
        ("ｙ", None),
    ] {
        assert_eq!(parse_answer(typed), answer, "{typed:?}");
    }
}
