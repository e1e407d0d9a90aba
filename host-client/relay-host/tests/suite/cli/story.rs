//! The story of fifty calls once more, as a person at a terminal sees it.

use super::folder::Folder;
use super::terminal::Terminal;
use crate::scene;

#[tokio::test]
async fn the_progress_and_the_audit_of_fifty_calls_tell_the_same_story() {
    let folder = Folder::new();
    let root = folder.path("").canonicalize().unwrap();
    scene::prepare(&root);
    // The code gets its folder, and goes on long enough after its calls to be looked at.
    let given = format!("const folder = {:?};", root.to_str().unwrap());
    let code = scene::CODE.replace("const { folder } = JSON.parse(read_input());", &given);
    let code = code.replace("\nreturn {", "\nfor (const end = Date.now() + 700; Date.now() < end; );\nreturn {");
    folder.file("story.js", code).file("policy.toml", scene::POLICY).servers(scene::servers(&root));
    let arguments = ["run", "story.js", "--mcp", "mcp.json", "--policy", "policy.toml", "--audit", "audit.jsonl"];
    let mut terminal = Terminal::start(&folder, &arguments);
    for answer in ["y\n", "n\n"] {
        terminal.sees("Run files.write_file? ").await;
        terminal.types(answer);
    }
    terminal.sees("calls: 48 done, ").await;
    terminal.sees(", 2 failed").await;
    let (status, rest) = terminal.ends().await;
    assert_eq!(status, Some(0), "{rest}");
    let value = &rest[rest.find("{\r\n").unwrap()..];
    assert_eq!(serde_json::from_str::<serde_json::Value>(value).unwrap(), scene::result());
    assert!(!rest.contains("calls: 49 done"), "{rest}");
    let shown = folder.run(&["audit", "show", "audit.jsonl"]).await.out;
    let ends =
        |outcome: &str| shown.lines().filter(|line| line.contains(" completion ") && line.contains(outcome)).count();
    assert_eq!((ends(" ok "), ends(" APPROVAL_DENIED "), ends(" TOOL_DENIED ")), (48, 1, 1), "{shown}");
    let verified = folder.run(&["audit", "verify", "audit.jsonl"]).await;
    assert!(verified.status == Some(0) && verified.out.contains("1 executions, 50 calls"), "{verified:?}");
}
