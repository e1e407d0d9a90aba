//! `tools`: a table, one tool in full, the tools of a server, and those that words fit.

use serde_json::{Value, json};

use super::folder::Folder;
use crate::servers;

const SHOP: &str = r#"
openapi: 3.1.0
info: {title: Shop, version: "1"}
servers: [{url: "https://shop.example"}]
paths:
  /orders/{id}:
    get:
      operationId: getOrder
      summary: Gets an order
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
"#;

#[tokio::test]
async fn tools_of_all_kinds_are_in_one_table() {
    let folder = Folder::new();
    let files = servers::program("mcp-server-filesystem");
    folder.file("shop.yaml", SHOP).servers(json!({"fs": {"command": files, "args": ["."]}}));
    let from = ["--mcp", "mcp.json", "--openapi", "shop=shop.yaml", "--workspace", ".", "--fetch", "example.com"];
    let tools = async |words: &[&str]| folder.run(&[&["tools"], words, &from].concat()).await;
    let all = tools(&[]).await;
    assert_eq!((all.status, &*all.err), (Some(0), ""), "{all:?}");
    let columns = |line: &str| line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = all.out.lines().map(columns).collect();
    for row in [
        ["fs.read_text_file", "read_only"],
        ["fs.write_file", "mutating"],
        ["http.fetch", "mutating"],
        ["shop.getOrder", "read_only"],
        ["workspace.read", "read_only"],
    ] {
        assert!(rows.iter().any(|it| it[0] == row[0]), "{row:?} is not in {}", all.out);
        assert!(row[0] == "http.fetch" || rows.contains(&row.map(str::to_owned).to_vec()), "{row:?}: {}", all.out);
    }
    assert!(rows.is_sorted(), "{}", all.out);
    let of_server = tools(&["shop"]).await;
    assert_eq!(of_server.out.lines().count(), 1, "{of_server:?}");
    assert!(
        of_server.out.starts_with("shop.getOrder  read_only")
            && of_server.out.ends_with("Gets an order (GET /orders/{id})\n")
    );

    let one = tools(&["shop.getOrder"]).await;
    assert!(one.out.starts_with("{\n  \""), "{one:?}");
    let one = one.value();
    assert_eq!((&one["name"], &one["effect"]), (&json!("shop.getOrder"), &json!("read_only")), "{one}");
    assert!(one["input_schema"]["properties"].is_object() && one["timeout_ms"].is_u64(), "{one}");
    let list = tools(&["--json"]).await.value();
    assert_eq!(list.as_array().map(Vec::len), Some(rows.len()));
    assert!(list.as_array().unwrap().contains(&one), "{list}");

    let found = tools(&["read", "text", "file"]).await;
    assert!(found.out.starts_with("fs.read_text_file "), "{found:?}");
    tools(&["zeppelin"]).await.says(1, &["no tool is named \"zeppelin\"", "these words"]);
    let none: Value = tools(&["--json", "order"]).await.value();
    assert_eq!(none[0]["name"], "shop.getOrder");
}

#[tokio::test]
async fn what_an_entry_of_the_policy_says_of_a_tool_is_shown() {
    let folder = Folder::new();
    folder.fake_server("plain").file("policy.toml", "[manifest.\"fake.e*\"]\neffect = \"read_only\"\ntimeout_ms = 5");
    let one = folder.run(&["tools", "fake.echo", "--mcp", "mcp.json", "--policy", "policy.toml"]).await.value();
    assert_eq!((&one["effect"], &one["timeout_ms"]), (&json!("read_only"), &json!(5)), "{one}");
    assert_eq!(one["effect_from"], "the rules of this host");
    for (tool, from) in [("fake.reads", "the server's readOnlyHint"), ("fake.change", "unknown: the server has no")] {
        let one = folder.run(&["tools", tool, "--mcp", "mcp.json"]).await.value();
        assert!(one["effect_from"].as_str().unwrap().starts_with(from), "{one}");
    }
    let table = folder.run(&["tools", "fake", "--mcp", "mcp.json"]).await.out;
    let echo = table.lines().find(|line| line.starts_with("fake.echo")).unwrap();
    assert!(echo.contains("  ?  "), "nobody said what it does: {echo}");
}

#[tokio::test]
async fn what_is_left_out_or_not_checked_is_said() {
    let folder = Folder::new();
    folder.fake_server("zod");
    let table = folder.run(&["tools", "--mcp", "mcp.json"]).await;
    assert_eq!((table.out.lines().count(), &*table.err), (4, ""), "{table:?}");
    let email = table.out.lines().find(|line| line.starts_with("fake.t_email")).unwrap();
    assert!(email.contains("not checked against patterns"), "{email}");
    let one = folder.run(&["tools", "fake.t_email", "--mcp", "mcp.json"]).await.value();
    assert!(one["notes"][0].as_str().unwrap().contains("not checked"), "{one}");

    let folder = Folder::new();
    folder.fake_server("odd");
    folder
        .run(&["tools", "fake.elsewhere", "--mcp", "mcp.json"])
        .await
        .says(1, &["fake.elsewhere is left out: its schema"]);
    let table = folder.run(&["tools", "--mcp", "mcp.json"]).await;
    for name in ["fake.elsewhere", "\"yes\"", "\"schemaless\""] {
        assert!(table.err.contains(name), "{table:?}");
    }
}

#[tokio::test]
async fn without_any_source_it_says_which_there_are() {
    let folder = Folder::new();
    folder.run(&["tools"]).await.says(1, &["--mcp", "--openapi", "--workspace", "--fetch"]);
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_reported_once() {
    let folder = Folder::new();
    folder.servers(json!({"gone": {"command": "/nonexistent/server"}}));
    let listed = folder.run(&["tools", "--mcp", "mcp.json", "--workspace", "."]).await;
    assert_eq!(listed.status, Some(0), "{listed:?}");
    let lines: Vec<_> = listed.err.lines().collect();
    assert!(matches!(&lines[..], [line] if line.contains("the MCP server \"gone\" failed: ")), "{listed:?}");
}

#[tokio::test]
async fn names_and_descriptions_of_strangers_forge_no_row_and_reach_no_terminal() {
    let folder = Folder::new();
    folder.fake_server("hostile");
    let listed = folder.run(&["tools", "--mcp", "mcp.json"]).await;
    assert_eq!(listed.status, Some(0), "{listed:?}");
    let rows: Vec<_> = listed.out.lines().collect();
    assert_eq!(rows.len(), 3, "{listed:?}");
    assert!(rows.iter().all(|row| !row.starts_with("fake.forged")), "{listed:?}");
    let printed = format!("{}{}", listed.out, listed.err);
    assert!(!printed.contains(['\u{1b}', '\u{7}', '\u{202e}', '\r']), "{listed:?}");
    assert!(rows[0].starts_with("fake.described ") && rows[0].contains("  ?           \\u{1b}]0;owned"), "{listed:?}");
}

#[tokio::test]
async fn types_of_results_are_learned_unless_a_flag_turns_that_off() {
    let folder = Folder::new();
    folder.fake_server("plain").file("allow.toml", "rule = [{tools = [\"fake.echo\"], decision = \"allow\"}]");
    let code = "for (const n of [1, 2]) await mcp.call('fake.echo', {n});\n\
                return (await mcp.describe('fake.echo')).typescript";
    let usual = ["run", "-", "--mcp", "mcp.json", "--policy", "allow.toml"];
    let learned = folder.run_with(code, &usual).await.value();
    let learned = learned.as_str().unwrap();
    assert!(learned.contains("observed in 2 results, not promised") && learned.contains("n: number"), "{learned}");
    let unlearned = folder.run_with(code, &[&usual[..], &["--no-learned-types"]].concat()).await.value();
    assert!(unlearned.as_str().unwrap().contains("Promise<unknown>"), "{unlearned}");
}
