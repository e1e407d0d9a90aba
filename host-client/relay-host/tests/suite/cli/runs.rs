//! `run`: scripts from files and standard input, with tools from everywhere.

use std::process::Stdio;

use host_client::LocalRelay;
use serde_json::{Value, json};

use super::folder::{Folder, finish};
use crate::servers;

#[tokio::test]
async fn the_value_goes_to_standard_output_and_the_rest_to_standard_error() {
    let folder = Folder::new();
    folder.file("x.js", "console.log('one'); console.warn('two\\u001b[2J'); return {b: [1, 2.5], a: 'ä'}");
    let ended = folder.run(&["run", "x.js"]).await;
    assert_eq!((ended.status, &*ended.out), (Some(0), "{\"b\":[1,2.5],\"a\":\"ä\"}\n"), "{ended:?}");
    assert_eq!(ended.err, "one\ntwo\u{1b}[2J\n", "a program gets what the code wrote");
    let ended = folder.run_with("const a = 6; return a * 7", &["run", "-"]).await;
    assert_eq!(ended.value(), 42);
    assert!(folder.processes().is_empty(), "{:?}", folder.processes());
}

#[tokio::test]
async fn scripts_call_tools_of_servers_and_of_a_workspace() {
    let folder = Folder::new();
    let root = folder.path("root");
    std::fs::create_dir(&root).unwrap();
    folder.file("root/note.txt", "remember the milk");
    let (everything, files) = (servers::program("mcp-server-everything"), servers::program("mcp-server-filesystem"));
    folder.servers(json!({
        "everything": {"command": everything, "args": ["stdio"]},
        "fs": {"command": files, "args": [root]},
    }));
    let code = format!(
        "const [sum, file, found] = await Promise.all([
            mcp.call('everything.get-sum', {{a: 2, b: 40}}),
            mcp.call('fs.read_text_file', {{path: {:?}}}),
            mcp.call('workspace.grep', {{pattern: 'milk'}}),
        ]);
        return {{sum, file: file.content, found: JSON.stringify(found).includes('note.txt')}}",
        root.join("note.txt")
    );
    let value = folder.run_with(&code, &["run", "-", "--mcp", "mcp.json", "--workspace", "root"]).await.value();
    assert_eq!((&value["file"], &value["found"]), (&json!("remember the milk"), &json!(true)), "{value}");
    assert!(value["sum"].to_string().contains("42"), "{value}");
    assert!(folder.processes().is_empty(), "{:?}", folder.processes());
}

#[tokio::test]
async fn a_relay_that_runs_is_used_with_its_token() {
    let relay = LocalRelay::start().await.unwrap();
    let (url, token) = (format!("ws://{}/ws", relay.address()), relay.token(&["--subject", "me"]).await.unwrap());
    let folder = Folder::new();
    let named = ["run", "-", "--relay", &url, "--token", &token];
    assert_eq!(folder.run_with("1 + 1", &named).await.value(), 2);
    let mut command = folder.command(&["run", "-"]);
    command.env("RELAY_URL", &url).env("RELAY_TOKEN", &token);
    assert_eq!(finish(command, "2 + 2").await.value(), 4);
    assert!(!folder.run(&["run", "--help"]).await.out.contains(&token));

    let narrow = relay.token(&["--subject", "me", "--limit", "wall_ms=100"]).await.unwrap();
    let named = ["run", "-", "--relay", &url, "--token", &narrow, "--json"];
    let ended = folder.run_with("for (;;);", &named).await;
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.status, &object["error"]["limit"]), (Some(1), &json!("wall_ms")), "{ended:?}");
}

#[tokio::test]
async fn json_says_everything_of_success_and_of_failure() {
    let folder = Folder::new();
    let code = "console.error('no'); console.log('yes'); return {a: 1}";
    let value = folder.run_with(code, &["run", "-", "--json"]).await.value();
    let output = json!([{"kind": "error", "text": "no"}, {"kind": "log", "text": "yes"}]);
    assert_eq!((&value["result"], &value["output"], &value["warnings"]), (&json!({"a": 1}), &output, &json!([])));
    assert!(value["usage"]["output_bytes"].as_u64().unwrap() >= 5 && value["usage"]["tool_calls"] == 0, "{value}");

    let ordered = folder.run_with("return {b: 1, a: [0.5, {z: 1, y: 2}]}", &["run", "-", "--json"]).await;
    assert!(ordered.out.starts_with(r#"{"result":{"b":1,"a":[0.5,{"z":1,"y":2}]},"#), "{ordered:?}");

    let code = "console.log('before');\nawait mcp.call('fake.refuse')";
    folder.fake_server("plain").file("allow.toml", "[default]\nunknown = \"allow\"");
    let ended = folder.run_with(code, &["run", "-", "--json", "--mcp", "mcp.json", "--policy", "allow.toml"]).await;
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    let (error, printed) = (&object["error"], &object["output"][0]["text"]);
    assert_eq!((ended.status, &*ended.err, printed), (Some(1), "", &json!("before")), "{ended:?}");
    assert_eq!(error["code"], "EVAL_ERROR", "{object}");
    assert_eq!(error["tool"], json!({"name": "fake.refuse", "code": "TOOL_FAILED"}), "{object}");
    assert_eq!(&object["usage"]["tool_calls"], 1, "{object}");

    for (arguments, status) in [(["run", "nothing.js", "--json"], 2), (["run", "-", "--json"], 3)] {
        let mut command = folder.command(&arguments);
        command.env("SANDBOX_RELAY_BIN", "/nowhere/sandbox-relay");
        let ended = finish(command, "1").await;
        let object: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!((ended.status, &*ended.err, &object["error"]["code"]), (Some(status), "", &Value::Null));
        assert!(object["error"]["message"].as_str().unwrap().contains("nothing.js") || status == 3, "{object}");
    }
}

#[tokio::test]
async fn limits_tools_and_phase_hold_for_the_code() {
    let folder = Folder::new();
    folder.fake_server("plain").file("allow.toml", "[default]\nunknown = \"allow\"\nmutating = \"allow\"");
    let run = async |code: &str, more: &[&str]| {
        let usual = ["run", "-", "--mcp", "mcp.json", "--policy", "allow.toml"];
        folder.run_with(code, &[&usual[..], more].concat()).await
    };
    run("for (;;);", &["--limit", "wall_ms=2_00"]).await.says(1, &["TIMEOUT", "200"]);
    let two = "await mcp.call('fake.echo'); await mcp.call('fake.echo')";
    run(two, &["--limit", "tool_calls=1"]).await.says(1, &["TOOL_CALL_LIMIT"]);
    let code = |tool: &str| {
        format!(
            "try {{ return (await mcp.call('fake.{tool}', {{a: 1}})).arguments }} catch (error) {{ return error.code }}"
        )
    };
    assert_eq!(run(&code("echo"), &["--tool", "fake.ec*"]).await.value(), json!({"a": 1}));
    assert_eq!(run(&code("echo"), &["--tool", "fake.d*", "--tool", "x.*"]).await.value(), "UNKNOWN_TOOL");
    assert_eq!(run(&code("echo"), &["--phase", "discover"]).await.value(), "TOOL_DENIED");
}

#[tokio::test]
async fn a_server_that_does_not_start_is_named_and_the_others_work() {
    let folder = Folder::new();
    let policy = "[default]\nunknown = \"allow\"";
    folder.file("allow.toml", policy).servers(json!({
        "dead": folder.fake("dies"),
        "hung": folder.fake("hangs"),
        "missing": {"command": "/nowhere/server"},
        "fake": folder.fake("plain"),
    }));
    let arguments = ["run", "-", "--mcp", "mcp.json", "--policy", "allow.toml", "--start-timeout", "5"];
    let code =
        "return [(await mcp.call('fake.echo', {a: 1})).arguments, await mcp.call('dead.x').catch((e) => e.code)]";
    let ended = folder.run_with(code, &arguments).await;
    assert_eq!((ended.status, &*ended.out), (Some(0), "[{\"a\":1},\"UNKNOWN_SERVER\"]\n"), "{ended:?}");
    let lines: Vec<_> = ended.err.lines().collect();
    assert_eq!(lines.len(), 3, "each is named once: {ended:?}");
    for (line, words) in lines.iter().zip([
        ["\"dead\"", "missing"],
        ["\"hung\"", "still starting, since 5 s"],
        ["\"missing\"", "/nowhere"],
    ]) {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
    let ended = folder.run_with("throw new Error('mine')", &arguments).await;
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(folder.processes().is_empty(), "{:?}", folder.processes());
}

#[tokio::test]
async fn a_pipe_that_nobody_reads_is_no_failure_and_a_full_disk_is() {
    let folder = Folder::new();
    folder.fake_server("plain");
    let workspace = ["--workspace", "."];
    for arguments in [&["run", "-"][..], &["tools"], &["completions", "bash"], &["call", "workspace.ls"], &["--help"]] {
        let arguments = match arguments[0] {
            "tools" | "call" => [arguments, &workspace].concat(),
            _ => arguments.to_vec(),
        };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = folder.command(&arguments);
        let child = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let ended = super::within(child.wait_with_output()).await.unwrap();
        let err = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), &*err), (Some(0), ""), "{arguments:?}");
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = folder.command(&["call", "workspace.ls", "--workspace", "."]);
    let child = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let ended = super::within(child.wait_with_output()).await.unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.code() == Some(1) && err.contains("standard output cannot be written"), "{err}");

    // Nobody reads what it has to say, either.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = folder.command(&["run", "nothing.js"]);
    let mut child = command.stdin(Stdio::null()).stderr(writer).spawn().unwrap();
    assert_eq!(super::within(child.wait()).await.unwrap().code(), Some(2));
}

#[tokio::test]
async fn fit_prints_what_a_model_would_read() {
    let folder = Folder::new();
    let code = "return Array.from({length: 900}, (_, id) => ({id, text: id === 7 ? 'a deadlock' : 'all is well'}))";
    assert_eq!(folder.run_with(code, &["run", "-"]).await.value().as_array().map(Vec::len), Some(900));
    let ended = folder.run_with(code, &["run", "-", "--fit"]).await;
    assert!(
        ended.out.starts_with("[Summary: an array of 900 items, ") && !ended.out.contains("read_output"),
        "{ended:?}"
    );
    assert!(ended.out.ends_with("% reduced]\n") && ended.err.is_empty(), "{ended:?}");
    let ended = folder.run_with(code, &["run", "--fit=deadlocks", "-"]).await;
    assert!(ended.out.starts_with("[Filtered by intent: 1 of ") && ended.out.contains("a deadlock"), "{ended:?}");
    assert_eq!(folder.run_with("return 'as it is'", &["run", "-", "--fit"]).await.out, "as it is\n");
    assert!(folder.run(&["run", "-", "--fit", "--json"]).await.error(2).contains("cannot be used with"));
}
