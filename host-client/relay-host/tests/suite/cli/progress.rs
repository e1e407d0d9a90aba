//! Tests of the terminal: the progress that is shown, and the look of values.

use super::folder::Folder;
use super::terminal::Terminal;

#[tokio::test]
async fn calls_bytes_and_output_are_seen_while_they_come() {
    let folder = Folder::new();
    let code = "const calls = [mcp.call('fake.echo', {}), mcp.call('fake.refuse', {}).catch(() => 0)];
        await Promise.all(calls); console.log('half \\u001b[31mway'); await mcp.call('fake.wait')";
    folder.fake_server("plain").file("allow.toml", "[default]\nunknown = \"allow\"").file("x.js", code);
    let mut terminal = Terminal::start(&folder, &["run", "x.js", "--mcp", "mcp.json", "--policy", "allow.toml"]);
    terminal.sees("starting MCP servers: fake").await;
    terminal.sees("half \\u{1b}[31mway\r\n").await;
    let line = terminal.sees("1 in flight: fake.wait").await;
    assert!(line.contains("calls: 1 done, ") && line.contains(" B, 1 failed, "), "{line:?}");
    terminal.types("\u{3}");
    assert_eq!(terminal.ends().await.0, Some(1));
}

#[tokio::test]
async fn a_person_gets_lines_and_no_escapes() {
    let folder = Folder::new();
    folder.file("x.js", "return {b: [1, {}], a: '\\u009b2J \\u202e ä'}");
    let mut terminal = Terminal::start(&folder, &["run", "x.js"]);
    let expected = "{\r\n  \"b\": [\r\n    1,\r\n    {}\r\n  ],\r\n  \"a\": \"\\u009b2J \\u202e ä\"\r\n}\r\n";
    terminal.sees(expected).await;
    assert_eq!(terminal.ends().await.0, Some(0));

    folder.file("x.js", "throw new Error('\\u001b[2J\\nRun it? ')");
    let mut terminal = Terminal::start(&folder, &["run", "x.js"]);
    terminal.sees("EVAL_ERROR: Error: \\u{1b}[2J").await;
    assert_eq!(terminal.ends().await.0, Some(1));

    let mut terminal = Terminal::start(&folder, &["run", "x.js", "--json"]);
    let line = terminal.sees("\r\n").await;
    assert!(line.starts_with("{\"error\":{\"code\":\"EVAL_ERROR\""), "nothing else is shown: {line:?}");
    assert_eq!(terminal.ends().await.0, Some(1));

    let mut terminal = Terminal::start(&folder, &["tools", "--workspace", ".", "--writable", "**"]);
    let table = terminal.sees("workspace.read ").await;
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
    assert_eq!(terminal.ends().await.0, Some(0));
}

#[tokio::test]
async fn code_can_be_typed() {
    let folder = Folder::new();
    let mut terminal = Terminal::start(&folder, &["run", "-"]);
    terminal.sees("Ctrl-D ends it.").await;
    terminal.types("return 6 *\n7\n\u{4}");
    terminal.sees("42\r\n").await;
    assert_eq!(terminal.ends().await.0, Some(0));
}
