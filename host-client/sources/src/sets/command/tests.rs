//! Real programs, started as the dispatcher starts them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{CommandSet, CommandTool};
use host_client_core::tool::validate::Schema;
use host_client_core::tool::{CallContext, Effect, Mode, ToolError};
use host_client_core::tools::{Mount, Tools};

/// `/bin/sh` as the program: the script is the template's, the values are the code's.
fn shell(folder: &Path, schema: Value, template: &[&str]) -> (Tools, Mount) {
    let tool = CommandTool::new("run", "Runs.", schema, template.iter().copied());
    mount(CommandSet::new("sh").program("/bin/sh").folder(folder).tool(tool))
}

fn mount(set: CommandSet) -> (Tools, Mount) {
    let tools = Tools::new();
    let mount = set.mount(&tools).unwrap();
    (tools, mount)
}

async fn call(tools: &Tools, arguments: Value, time: Duration) -> Result<Value, ToolError> {
    let spec = tools.specs().remove(0);
    let schema = Schema::compile(&spec.input_schema).unwrap();
    let arguments = schema.check(arguments).map_err(ToolError::new)?.into_inner();
    let context = CallContext::by_hand(spec.name.clone().try_into().unwrap(), time);
    let result = tools.tool_by_name(&spec.name).unwrap().call(arguments, context).await?;
    Ok(serde_json::from_slice(&result).unwrap())
}

const MINUTE: Duration = Duration::from_secs(60);

/// Returns whether a process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    status.is_ok_and(|status| !status.rsplit_once(')').unwrap().1.trim_start().starts_with(['Z', 'X']))
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_program_gets_its_arguments_as_they_are_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let schema = json!({"properties": {"words": {"type": "array", "items": {"type": "string"}}}});
    let script = r#"for word in "$@"; do printf '<%s>' "$word"; done; printf ' %s' "$(pwd)" "$(env)" >&2; exit 3"#;
    let (tools, _mount) = shell(folder.path(), schema, &["-c", script, "sh", "{words}"]);
    let result = call(&tools, json!({"words": ["a b", "$(id)", "`id`", ";", "*", ""]}), MINUTE).await.unwrap();
    assert_eq!((&result["status"], &result["truncated"]), (&json!(3), &json!(false)));
    assert_eq!(result["stdout"], "<a b><$(id)><`id`><;><*><>");
    let real = folder.path().canonicalize().unwrap();
    let stderr = result["stderr"].as_str().unwrap();
    assert!(
        stderr.contains(real.to_str().unwrap()) && !stderr.contains("HOME") && !stderr.contains("CARGO"),
        "{stderr}"
    );
    let spec = tools.spec("sh.run").unwrap();
    assert_eq!((spec.manifest.effect, spec.manifest.mode), (Some(Effect::Privileged), Mode::Privileged));
    let error = call(&tools, json!({"words": ["-x"]}), MINUTE).await.unwrap_err();
    assert!(error.to_string().contains("begins with `-`"), "{error}");
    assert!(call(&tools, json!({"other": 1}), MINUTE).await.is_err());
}

#[tokio::test]
async fn environment_input_and_signals() {
    let folder = tempfile::tempdir().unwrap();
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let script = "read line; printf '%s %s' \"$line\" \"$SECRET\"; kill -TERM $$";
    let tool = CommandTool::new("run", "Runs.", schema, ["-c", script]).stdin("text");
    let set = CommandSet::new("sh").program("/bin/sh").folder(folder.path()).env("SECRET", "x y").tool(tool);
    let (tools, _mount) = mount(set.inherit_env(["PATH", "NO_SUCH_VARIABLE"]));
    let result = call(&tools, json!({"text": "one\ntwo"}), MINUTE).await.unwrap();
    assert_eq!(result, json!({"status": null, "signal": 15, "stdout": "one x y", "stderr": "", "truncated": false}));
    // A program that does not read what it is given, and one that is given nothing.
    let result = call(&tools, json!({"text": "x".repeat(1 << 20)}), MINUTE).await.unwrap();
    assert_eq!(result["signal"], 15);
    let result = call(&tools, json!({}), MINUTE).await.unwrap();
    assert_eq!(result["stdout"], " x y");
}

#[tokio::test]
async fn outputs_are_cut_and_the_program_still_ends() {
    let folder = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 2000 ]; do echo ééééééééééééééé;  i=$((i + 1)); done; echo done >&2";
    let tool = CommandTool::new("run", "Runs.", json!({"type": "object"}), ["-c", script]);
    let set = CommandSet::new("sh").program("/bin/sh").folder(folder.path()).output_bytes(1001).tool(tool);
    let (tools, _mount) = mount(set);
    let result = call(&tools, json!({}), MINUTE).await.unwrap();
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.ends_with("\n[cut: the first 1000 of 62000 bytes]") && !stdout.contains('\u{fffd}'), "{stdout}");
    assert_eq!(
        (&result["stderr"], &result["truncated"], &result["status"]),
        (&json!("done\n"), &json!(true), &json!(0))
    );
}

#[tokio::test]
async fn the_whole_group_dies_with_the_call_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let pid = || fs::read_to_string(folder.path().join("pid")).ok().filter(|pid| pid.ends_with('\n'));
    let schema = json!({"type": "object", "properties": {"then": {"type": "string"}}});
    // A grandchild that ignores what can be ignored and holds the outputs open.
    let script = "rm -f pid; (trap '' TERM HUP INT; sleep 1000) & echo $! > new; mv new pid; eval \"$1\"";
    let (tools, _mount) = shell(folder.path(), schema, &["-c", script, "sh", "{then}"]);

    // The program ends by itself.
    let started = Instant::now();
    let result = call(&tools, json!({"then": "exit 0"}), MINUTE).await.unwrap();
    assert_eq!(result["status"], 0);
    assert!(started.elapsed() < Duration::from_secs(20));
    let child = pid().unwrap();
    until("the grandchild is gone after the end", || !is_alive(&child)).await;

    // It takes too long.
    let error = call(&tools, json!({"then": "wait"}), Duration::from_millis(500)).await.unwrap_err();
    assert_eq!(error.code(), host_client_core::ErrorCode::OutcomeUnknown);
    assert!(error.to_string().contains("was killed"), "{error}");
    let child = pid().unwrap();
    until("the grandchild is gone after the deadline", || !is_alive(&child)).await;

    // The call is dropped.
    fs::remove_file(folder.path().join("pid")).unwrap();
    let arguments = json!({"then": "wait"});
    let dropped = tokio::spawn({
        let tools = tools.clone();
        async move { call(&tools, arguments, MINUTE).await }
    });
    until("the program runs", || pid().is_some()).await;
    let child = pid().unwrap();
    assert!(is_alive(&child));
    dropped.abort();
    until("the grandchild is gone after the drop", || !is_alive(&child)).await;
}

#[tokio::test]
async fn a_process_that_leaves_the_group_does_not_hold_up_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let script = "setsid sleep 30 & echo $!";
    let (tools, _mount) = shell(folder.path(), json!({"type": "object"}), &["-c", script]);
    let started = Instant::now();
    let result = call(&tools, json!({}), MINUTE).await.unwrap();
    assert_eq!(result["status"], 0);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn git_shows_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let git = String::from_utf8(
        std::process::Command::new("/bin/sh").args(["-c", "command -v git"]).output().unwrap().stdout,
    );
    let git = git.unwrap().trim().to_owned();
    let run = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let run = std::process::Command::new(&git).current_dir(folder.path()).args(identity).args(arguments).output();
        assert!(run.as_ref().unwrap().status.success(), "{run:?}");
    };
    run(&["init", "-q"]);
    run(&["commit", "-q", "--allow-empty", "-m", "first"]);
    run(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let schema = json!({"type": "object", "properties": {"count": {"type": "integer"}}});
    let tool = CommandTool::new("log", "Shows commits.", schema, ["log", "--format=%s", "--max-count={count}"]);
    let set = CommandSet::new("git").program(&git).folder(folder.path()).env("HOME", folder.path()).tool(tool);
    let (tools, mounted) = mount(set.inherit_env(["PATH"]));
    assert_eq!(mounted.server(), "git");
    assert_eq!(call(&tools, json!({"count": 1}), MINUTE).await.unwrap()["stdout"], "second\n");
    assert_eq!(call(&tools, json!({}), MINUTE).await.unwrap()["stdout"], "second\nfirst\n");
}

#[test]
fn what_cannot_work_is_refused_when_it_is_mounted() {
    let refused = |set: CommandSet| set.mount(&Tools::new()).unwrap_err().to_string();
    let set = || CommandSet::new("x").program("/bin/sh");
    let tool = |schema, item: &str| CommandTool::new("run", "", schema, [item]);
    let object = || json!({"type": "object"});
    assert!(refused(CommandSet::new("x")).contains("absolute path"));
    assert!(refused(CommandSet::new("x").program("sh")).contains("absolute path"));
    assert!(refused(CommandSet::new("x").program("/no/such/program")).contains("/no/such/program"));
    assert!(refused(CommandSet::new("x").program("/etc/passwd")).contains("cannot be executed"));
    assert!(refused(CommandSet::new("x").program("/bin")).contains("cannot be executed"));
    assert!(refused(set().folder("/no/such/folder")).contains("is no folder"));
    assert!(refused(set().env("A=B", "c")).contains("cannot be a variable"));
    assert!(refused(set().env("A", "\0")).contains("cannot be a variable"));
    assert!(refused(set().tool(tool(object(), "{a}"))).contains("no property"));
    assert!(refused(set().tool(tool(json!(true), "a"))).contains("not that of an object"));
    assert!(refused(set().tool(tool(object(), "a")).tool(tool(object(), "a"))).contains("already"));
    assert!(refused(CommandSet::new("a.b").program("/bin/sh")).contains("has a dot"));
}
