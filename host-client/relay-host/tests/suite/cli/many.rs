//! Ten real servers of npm and PyPI in one file.

use std::process::Command;

use serde_json::json;

use super::folder::Folder;
use crate::servers::program;

/// A program that calls one tool of each server that needs no network, and counts the tools of all.
const CODE: &str = r#"
const repo = FOLDER;
const [echo, listing, graph, thought, status, now] = await Promise.all([
  everything.echo({message: "hi"}),
  files.list_directory({path: repo}),
  memory.read_graph({}),
  thinking.sequentialthinking({thought: "one", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1}),
  git.git_status({repo_path: repo}),
  time.get_current_time({timezone: "Asia/Tokyo"}),
]);
const counts = Object.fromEntries(Object.entries(__interfaces).map(([name, tools]) => [name, Object.keys(tools).length]));
return {echo, listing, graph, thought, status, time: now.timezone, counts};
"#;

#[tokio::test]
async fn ten_real_servers_start_from_one_file_and_answer_one_program() {
    let folder = Folder::new();
    let place = folder.path("repo");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("a.txt"), "first line\n").unwrap();
    let output = Command::new("git").args(["init", "--quiet"]).current_dir(&place).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let place = place.canonicalize().unwrap();
    folder.servers(json!({
        "everything": {"command": program("mcp-server-everything"), "args": ["stdio"]},
        "files": {"command": program("mcp-server-filesystem"), "args": [place]},
        "memory": {"command": program("mcp-server-memory"), "env": {"MEMORY_FILE_PATH": folder.path("memory.json")}},
        "thinking": {"command": program("mcp-server-sequential-thinking")},
        "notion": {"command": program("notion-mcp-server"), "env": {"NOTION_TOKEN": "ntn_none"}},
        "browser": {"command": program("playwright-mcp"), "args": ["--headless"]},
        "library": {"command": program("context7-mcp")},
        "git": {"command": program("mcp-server-git"), "args": ["--repository", place]},
        "time": {"command": program("mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        "fetch": {"command": program("mcp-server-fetch")},
    }));
    folder.file("allow.toml", "[default]\nunknown = \"allow\"\nmutating = \"allow\"\n");
    let code = CODE.replace("FOLDER", &json!(place).to_string());
    let arguments = ["run", "-", "--mcp", "mcp.json", "--policy", "allow.toml", "--start-timeout", "120"];
    let ended = folder.run_with(&code, &arguments).await;
    assert!(!ended.err.contains("left out") && !ended.err.contains("failed"), "{}", ended.err);
    let value = ended.value();
    assert_eq!((&value["echo"], &value["time"]), (&json!("Echo: hi"), &json!("Asia/Tokyo")), "{value}");
    assert!(value["listing"].to_string().contains("a.txt") && value["status"].to_string().contains("a.txt"), "{value}");
    assert!(value["graph"]["entities"].is_array() && value["thought"].is_object(), "{value}");
    let counts = value["counts"].as_object().unwrap();
    assert_eq!(counts.len(), 10, "{value}");
    assert!(counts.values().all(|count| count.as_u64().unwrap() > 0), "{value}");
    assert!(counts["notion"].as_u64().unwrap() > 10 && counts["browser"].as_u64().unwrap() > 10, "{value}");
}
