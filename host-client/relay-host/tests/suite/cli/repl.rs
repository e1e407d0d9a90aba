//! `repl`: lines at a terminal, and lines from a pipe.

use rustix::process::{Pid, Signal, kill_process};

use super::folder::Folder;
use super::terminal::Terminal;

#[tokio::test]
async fn lines_are_programs_and_commands() {
    let folder = Folder::new();
    let mut terminal = Terminal::start(&folder, &["repl", "--workspace", "."]);
    terminal.sees(".exit or Ctrl-D ends").await;
    for (line, answer) in [
        ("1 + 41", "42\r\n"),
        (".5 + 1", "1.5\r\n"),
        ("const a = 7; console.log('said'); return a", "7\r\n"),
        ("return a", "EVAL_ERROR: ReferenceError: a is not defined"),
        ("return 1 +", "SYNTAX_ERROR: "),
        (".tools", "workspace.grep("),
        (".what", "There is no .what; .help shows what there is."),
        (".help", ".exit or Ctrl-D ends"),
        ("", "> "),
    ] {
        terminal.sees("> ").await;
        terminal.types(&format!("{line}\r"));
        terminal.sees(answer).await;
    }
    // The last line that was not empty, and the one before it.
    terminal.types("\u{1b}[A\u{1b}[A\u{1b}[A\u{1b}[A\u{1b}[A\u{1b}[A\u{1b}[A\u{1b}[A\r");
    terminal.sees("42\r\n").await;
    terminal.types(".exit\r");
    assert_eq!(terminal.ends().await.0, Some(0));
    let mut terminal = Terminal::start(&folder, &["repl"]);
    terminal.sees("> ").await;
    terminal.types("\u{4}");
    assert_eq!(terminal.ends().await.0, Some(0));
    assert!(folder.processes().is_empty(), "{:?}", folder.processes());
}

#[tokio::test]
async fn ctrl_c_cancels_a_line_and_not_the_session() {
    let folder = Folder::new();
    folder.fake_server("plain").file("allow.toml", "rule = [{tools = [\"fake.wait\"], decision = \"allow\"}]");
    let mut terminal = Terminal::start(&folder, &["repl", "--mcp", "mcp.json", "--policy", "allow.toml"]);
    terminal.sees("> ").await;
    terminal.types("half a line\u{3}");
    terminal.sees("> ").await;
    terminal.types("await mcp.call('fake.wait')\r");
    terminal.sees("in flight: fake.wait").await;
    terminal.types("\u{3}");
    terminal.sees("CANCELLED: the execution was cancelled\r\n").await;
    terminal.sees("> ").await;
    terminal.types("await mcp.call('fake.echo', {a: 1})\r");
    terminal.sees("[n] no\r\nRun ").await;
    terminal.types("y\n");
    terminal.sees("\"a\": 1").await;
    terminal.sees("> ").await;
    // While a line is edited.
    terminal.types("half");
    terminal.sees("half").await;
    kill_process(Pid::from_raw(terminal.id()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(terminal.ends().await.0, Some(1));
    super::eventually(|| "nothing is left".into(), || folder.processes().is_empty()).await;
}

#[tokio::test]
async fn lines_can_come_from_a_pipe() {
    let folder = Folder::new();
    let ended = folder.run_with("1 + 1\nthrow new Error('mine')\n\n'three'\n.exit\n4\n", &["repl"]).await;
    assert_eq!((ended.status, &*ended.out), (Some(0), "2\n\"three\"\n"), "{ended:?}");
    assert!(ended.err.starts_with("EVAL_ERROR: Error: mine"), "{ended:?}");
}
