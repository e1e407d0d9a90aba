//! `--commands`: programs of this machine as tools.

use serde_json::json;

use super::folder::Folder;
use super::terminal::Terminal;

const COMMANDS: &str = r#"
[text]
program = "/usr/bin/printf"
env = { LC_ALL = "C" }

[text.tools.number]
description = "Prints a number, and words"
args = ["%s\\n", "{number}", "{words}"]
required = ["number"]
timeout_s = 10

[text.tools.number.arguments]
number = { type = "integer", minimum = 1 }
words = { type = "array", items = { type = "string" } }

[lines]
program = "/usr/bin/wc"
folder = "sub"
inherit_env = ["PATH"]
output_bytes = 1000

[lines.tools.count]
description = "Counts the lines of a text"
args = ["-l"]
arguments = { text = { type = "string" } }
stdin = "text"
"#;

#[tokio::test]
async fn programs_become_tools_that_a_person_approves() {
    let folder = Folder::new();
    folder.file("commands.toml", COMMANDS);
    std::fs::create_dir(folder.path("sub")).unwrap();
    let tool = folder.run(&["tools", "text.number", "--commands", "commands.toml"]).await.value();
    assert_eq!(tool["input_schema"]["required"], json!(["number"]), "{tool}");
    assert_eq!(tool["input_schema"]["additionalProperties"], false, "{tool}");
    // A rule is not enough: it could not know what the program does.
    folder.file("allow.toml", "rule = [{tools = [\"text.*\", \"lines.*\"], decision = \"allow\"}]");
    let usual = ["--commands", "commands.toml", "--policy", "allow.toml"];
    let arguments = [&["call", "text.number", "{\"number\": 7, \"words\": [\"a\", \"b c\"]}"], &usual[..]].concat();
    folder.run(&arguments).await.says(1, &["APPROVAL_DENIED"]);
    for (tool, given, stdout) in [
        ("text.number", json!({"number": 7, "words": ["a", "b c"]}), "7\na\nb c\n"),
        ("lines.count", json!({"text": "one\ntwo\n"}), "2\n"),
    ] {
        let given = given.to_string();
        let mut terminal = Terminal::start(&folder, &[&["call", tool, &given], &usual[..]].concat());
        terminal.sees(&format!("Run {tool}? ")).await;
        terminal.types("y\r");
        let (status, seen) = terminal.ends().await;
        assert_eq!(status, Some(0), "{seen}");
        assert!(seen.contains(&json!(stdout).to_string()), "{seen}");
    }
    let wrong = [&["call", "text.number", "{\"number\": 0}"], &usual[..]].concat();
    folder.run(&wrong).await.says(1, &["INVALID_ARGUMENTS", "/number"]);
}

#[tokio::test]
async fn a_file_that_is_wrong_says_where_and_what_to_do() {
    let folder = Folder::new();
    let tool = |rest: &str| format!("[a]\nprogram = \"/usr/bin/wc\"\n[a.tools.b]\ndescription = \"x\"\n{rest}");
    for (file, expected) in [
        ("".to_owned(), "it names no program; write [NAME] with program"),
        ("[a]\ntools = {}".into(), "missing field `program`"),
        ("[a]\nprogram = \"/usr/bin/wc\"\ntools = {}".into(), "a: it has no tools; write [a.tools.NAME]"),
        ("[a]\nprogram = \"wc\"\n[a.tools.b]\ndescription = \"x\"\nargs = []".into(), "not named by an absolute path"),
        ("[a]\nprogram = \"/no/such\"\n[a.tools.b]\ndescription = \"x\"\nargs = []".into(), "the program /no/such"),
        ("[mcp]\nprogram = \"/usr/bin/wc\"\n[mcp.tools.b]\ndescription = \"x\"\nargs = []".into(), "mcp"),
        (tool("arg = []"), "unknown field `arg`"),
        (tool("args = [\"{path}\"]"), "\"path\", which is no property of the schema"),
        (
            tool("args = []\narguments = { path = { type = \"string\" } }"),
            "\"path\" of the schema is not in the template",
        ),
        (tool("args = [\"{\"]"), "write {{ or }} for a brace itself"),
        (tool("args = []\nrequired = [\"path\"]"), "a: b: \"path\" is required and not among its arguments"),
        (tool("args = []\nstdin = \"text\""), "a: b: \"text\" is its stdin and not among its arguments"),
        (tool("args = []\ntimeout_s = 0"), "a: b: timeout_s = 0 leaves it no time"),
        (tool("args = []\ntimeout_s = -1"), "invalid value"),
    ] {
        folder.file("commands.toml", &file);
        folder.run(&["tools", "--commands", "commands.toml"]).await.says(2, &["commands.toml: ", expected]);
    }
    folder.run(&["tools", "--commands", "gone.toml"]).await.says(2, &["gone.toml cannot be read"]);
    let found = folder.run(&["doctor", "--commands", "gone.toml", "--json"]).await;
    assert!(found.out.contains("gone.toml cannot be read"), "{found:?}");
}
