//! Questions at a terminal, and their answers.

use serde_json::json;

use super::folder::Folder;
use super::terminal::Terminal;

const PROMPT: &str = "[n] no\r\nRun fake.echo? ";
const ASK: &str = "const ask = (args) => mcp.call('fake.echo', args).then(() => 'ran', (error) => error.code);\n";

/// A script with `ask(arguments)`, at a terminal.
fn start(folder: &Folder, code: &str, more: &[&str]) -> Terminal {
    folder.fake_server("plain").file("x.js", format!("{ASK}{code}"));
    Terminal::start(folder, &[&["run", "x.js", "--mcp", "mcp.json"], more].concat())
}

#[tokio::test]
async fn a_question_is_shown_whole_and_each_answer_means_what_it_says() {
    let code = "const a = []; for (const n of [1, 2, 3]) a.push(await ask({n})); return a.join()";
    for (answers, result) in [
        (&["y", "n", ""][..], "ran,APPROVAL_DENIED,APPROVAL_DENIED"),
        (&["y", "Y", "yes"], "ran,ran,ran"),
        (&["e"], "ran,ran,ran"),
        (&["n", "s"], "APPROVAL_DENIED,ran,ran"),
    ] {
        let folder = Folder::new();
        let mut terminal = start(&folder, code, &[]);
        for (number, answer) in (1..).zip(answers) {
            let question = terminal.sees(PROMPT).await;
            let question = &question[question.find("The code wants").unwrap()..];
            let expected = format!(
                "The code wants to call fake.echo (nobody said what it does).\r\n\
                 The rule that asks: default: ask unknown effects\r\n\
                 The arguments:\r\n  | {{\r\n  |   \"n\": {number}\r\n  | }}\r\n\
                 Line 1 of the code calls it, as the relay says:\r\n"
            );
            assert!(question.starts_with(&expected), "{question}");
            assert!(!question.contains('\u{1b}'), "nothing comes in between: {question:?}");
            assert!(question.contains("\r\nNo answer within 9m 59s is a no.\r\n[y] once  [e]"), "{question}");
            terminal.types(&format!("{answer}\n"));
        }
        terminal.sees(&format!("\"{result}\"\r\n")).await;
        assert_eq!(terminal.ends().await.0, Some(0));
    }
}

#[tokio::test]
async fn everything_can_be_seen_before_the_answer() {
    let folder = Folder::new();
    let comments = "// a comment\n".repeat(60);
    let code = format!(
        "const text = Array.from({{length: 300}}, (_, n) => 'item ' + n);\n{comments}return await ask({{text}})"
    );
    let mut terminal = start(&folder, &code, &[]);
    let question = terminal.sees(PROMPT).await;
    // The line that calls is in the function `ask`, the first of the file.
    assert!(question.contains(">    1 | const ask = (args) => mcp.call('fake.echo', args)"), "{question}");
    assert!(question.contains("NOT ALL of the arguments is shown: v shows it."), "{question}");
    terminal.types("v\n");
    let mut seen = String::new();
    while !seen.contains("y, e, s, v or n: ") {
        let page = terminal.sees_one_of(&["Enter shows more, q goes back: ", "y, e, s, v or n: "]).await;
        seen.push_str(&page);
        if page.ends_with("back: ") {
            terminal.types("\n");
        }
    }
    for number in 0..300 {
        assert!(seen.contains(&format!("\"item {number}\"")), "{number}: {seen}");
    }
    assert_eq!(seen.matches("// a comment").count(), 60, "{seen}");
    // Another look ends early; nothing of it is an answer.
    terminal.types("v\n");
    terminal.sees("q goes back: ").await;
    terminal.types("q\n");
    terminal.sees("y, e, s, v or n: ").await;
    terminal.types("y\n");
    terminal.sees("\"ran\"").await;
    assert_eq!(terminal.ends().await.0, Some(0));
}

#[tokio::test]
async fn the_deadline_ends_the_look_as_well() {
    let folder = Folder::new();
    let code = "return await ask({text: Array.from({length: 300}, (_, n) => n)})";
    let mut terminal = start(&folder, code, &["--limit", "approval_ms=3000"]);
    terminal.sees(PROMPT).await;
    terminal.types("v\n");
    terminal.sees("q goes back: ").await;
    terminal.sees("(nobody waits for the answer any more: the call does not run)").await;
    terminal.sees("\"APPROVAL_TIMEOUT\"").await;
    assert_eq!(terminal.ends().await.0, Some(0));
}

#[tokio::test]
async fn what_is_no_answer_is_asked_again() {
    let folder = Folder::new();
    let mut terminal = start(&folder, "return await ask({})", &[]);
    terminal.sees(PROMPT).await;
    for junk in ["maybe", "y e", &format!("y{}z", " ".repeat(3_000)), "\u{ff59}"] {
        // What is pasted behind it is no answer, either.
        terminal.types(&format!("{junk}\ny\n"));
        terminal.sees("y, e, s, v or n: ").await;
    }
    terminal.types("y\n");
    terminal.sees("\"ran\"").await;
    assert_eq!(terminal.ends().await.0, Some(0));
}

#[tokio::test]
async fn only_what_is_typed_after_the_question_answers_it_and_silence_is_a_no() {
    let folder = Folder::new();
    let mut terminal = start(&folder, "return await ask({})", &["--limit", "approval_ms=1000"]);
    terminal.types("y\ny\n");
    terminal.sees("No answer within 0s is a no.").await;
    terminal.sees(PROMPT).await;
    // Half an answer, which nobody is to find later.
    terminal.types("y");
    terminal.sees("(nobody waits for the answer any more: the call does not run)").await;
    terminal.sees("\"APPROVAL_TIMEOUT\"").await;
    let (status, rest) = terminal.ends().await;
    assert_eq!((status, &*rest), (Some(0), "\r\n"));
}

#[tokio::test]
async fn the_end_of_the_input_is_a_no() {
    let folder = Folder::new();
    let mut terminal = start(&folder, "return await ask({})", &[]);
    terminal.sees(PROMPT).await;
    terminal.types("\u{4}");
    terminal.sees("\"APPROVAL_DENIED\"").await;
    assert_eq!(terminal.ends().await.0, Some(0));
}

#[tokio::test]
async fn questions_of_one_moment_are_asked_one_after_the_other() {
    let folder = Folder::new();
    let code = "return (await Promise.all([ask({a: 1}), ask({a: 2})])).join()";
    let mut terminal = start(&folder, code, &[]);
    let first = terminal.sees(PROMPT).await;
    let is_about = |question: &str, number: u8| question.contains(&format!("\"a\": {number}\r\n"));
    assert_ne!(is_about(&first, 1), is_about(&first, 2), "{first}");
    terminal.types("n\n");
    let second = terminal.sees(PROMPT).await;
    assert_eq!((is_about(&first, 1), is_about(&first, 2)), (is_about(&second, 2), is_about(&second, 1)), "{second}");
    terminal.types("y\n");
    terminal.sees(if is_about(&first, 1) { "\"APPROVAL_DENIED,ran\"" } else { "\"ran,APPROVAL_DENIED\"" }).await;
    assert_eq!(terminal.ends().await.0, Some(0));
}

#[tokio::test]
async fn hostile_arguments_do_not_fake_a_question() {
    let folder = Folder::new();
    let code = "const fake = '\\u001b[2J\\u001b[H\\r\\nRun it? [y] once: \\u202e\\u009b2K\\u200b';
        return await ask({[fake]: fake, list: [fake], large: 'x'.repeat(900_000), small: 7})";
    let mut terminal = start(&folder, code, &[]);
    let question = terminal.sees(PROMPT).await;
    let question = &question[question.find("The code wants").unwrap()..];
    assert!(question.chars().all(|it| !it.is_control() || it == '\r' || it == '\n'), "{question:?}");
    assert!(!question.contains(['\u{202e}', '\u{200b}']), "{question:?}");
    assert_eq!(question.lines().filter(|line| line.starts_with("Run fake.echo?")).count(), 1, "{question}");
    assert!(question.contains("\"small\": 7") && question.contains("NOT ALL of the arguments is shown"), "{question}");
    assert!(question.lines().count() < 50, "{question}");
    terminal.types("n\n");
    terminal.sees("\"APPROVAL_DENIED\"").await;
    assert_eq!(terminal.ends().await.0, Some(0));
}

#[tokio::test]
async fn ctrl_c_at_the_question_ends_it_all() {
    let folder = Folder::new();
    let mut terminal = start(&folder, "return await ask({})", &[]);
    terminal.sees(PROMPT).await;
    terminal.types("\u{3}");
    terminal.sees("CANCELLED: the execution was cancelled").await;
    assert_eq!(terminal.ends().await.0, Some(1));
    assert!(folder.processes().is_empty(), "{:?}", folder.processes());

    let mut terminal = Terminal::start(&folder, &["call", "fake.echo", "--mcp", "mcp.json"]);
    terminal.sees(PROMPT).await;
    terminal.types("\u{3}");
    terminal.sees("relay-host: interrupted").await;
    assert_eq!(terminal.ends().await.0, Some(1));
}

#[tokio::test]
async fn what_is_printed_and_ends_meanwhile_waits_for_the_answer() {
    let folder = Folder::new();
    folder.file("allow.toml", "rule = [{tools = [\"fake.wait\"], decision = \"allow\"}]").servers(json!({}));
    let code = "const asked = ask({});
        while (!JSON.stringify(await mcp.call('workspace.ls')).includes('\"shown\"'));
        console.log('from the code');
        await mcp.call('workspace.grep', {pattern: 'nothing'});
        return await asked";
    let mut terminal = start(
        &folder,
        code,
        &["--workspace", ".", "--audit", "log", "--policy", "allow.toml", "--limit", "tool_calls=100000"],
    );
    terminal.sees(PROMPT).await;
    folder.file("shown", "");
    super::eventually(|| "the code has printed".into(), || folder.read("log").contains("workspace.grep")).await;
    terminal.types("y\n");
    let between = terminal.sees("from the code").await;
    assert!(between.starts_with("y\r\n"), "{between:?}");
    terminal.sees("\"ran\"").await;
    assert_eq!(terminal.ends().await.0, Some(0));
}
