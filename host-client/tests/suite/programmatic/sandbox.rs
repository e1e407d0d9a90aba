//! `sandbox_execute`: objectives about the files of a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use host_client::{Approval, CallbackApprover, Client, LocalRelay, SandboxExecute};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Scripted, within};

/// A folder with files, a relay, and the tool over both.
struct Sandbox {
    relay: Arc<LocalRelay>,
    folder: TempDir,
}

impl Sandbox {
    async fn new() -> Self {
        let sandbox =
            Self { relay: Arc::new(LocalRelay::start().await.unwrap()), folder: tempfile::tempdir().unwrap() };
        for (path, text) in [
            ("src/a.ts", "export const a = 1;\n"),
            ("src/b.ts", "export const b = 2;\n"),
            ("dist/a.js", "var a = 1;\n"),
            ("app/src/c.ts", "export const c = 3;\n"),
            (".env", "KEY=secret\n"),
        ] {
            let path = sandbox.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        sandbox
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn tool(&self, model: &Scripted) -> SandboxExecute {
        let relay = Arc::clone(&self.relay);
        let connect = move |host| {
            let relay = Arc::clone(&relay);
            async move { Client::connect(relay.client_config().await?, host).await }
        };
        SandboxExecute::new(model.clone(), self.folder.path(), connect).unwrap().hide([".env"]).unwrap()
    }

    async fn run(&self, program: &str, input: Value) -> Value {
        let model = Scripted::new([program, program]);
        call(&self.tool(&model).allow_writes(true), input).await
    }
}

async fn call(tool: &SandboxExecute, mut input: Value) -> Value {
    if input.get("objective").is_none() {
        input["objective"] = "look".into();
    }
    let report = within(tool.call(input)).await;
    let output = report.structured.unwrap();
    assert_eq!(
        (report.is_error, serde_json::from_str::<Value>(&report.text).unwrap()),
        (output["success"] == false, output.clone())
    );
    output
}

const LOOK: &str = "
const {paths} = await mcp.call('workspace.glob', {pattern: '**/*.ts'});
const {files} = await mcp.call('workspace.read', {paths: [...paths, 'src/none']});
await mcp.call('workspace.read', {path: './src//a.ts'});
await mcp.call('workspace.ls', {});
return {
  summary: `${paths.length} files, ${files.filter((file) => file.error).length} not there`,
  proposedEdits: [{path: 'src/new.ts', action: 'create', reason: 'it is missing'}],
  needsEscalation: null,
  patch: '*** Begin Patch',
};";

#[tokio::test]
async fn discovering_gives_a_summary_and_what_the_host_saw() {
    let sandbox = Sandbox::new().await;
    let mut output = sandbox.run(LOOK, json!({"phase": "discover"})).await;
    assert!(output["toolUsage"]["durationMs"].take().as_u64().unwrap() > 0);
    let expected = json!({
        "success": true,
        "phase": "discover",
        "summary": "3 files, 1 not there",
        "filesRead": ["app/src/c.ts", "src/a.ts", "src/b.ts"],
        "toolUsage": {"totalCalls": 4, "byTool": {"glob": 1, "ls": 1, "read": 2}, "durationMs": null, "truncated": false},
        "patch": null,
        "proposedEdits": [{"path": "src/new.ts", "action": "create", "reason": "it is missing"}],
        "error": null,
        "needsEscalation": null,
    });
    assert_eq!(output, expected);
    let output = sandbox.run(LOOK, json!({"phase": "discover", "outputMode": "summary_and_patch"})).await;
    assert_eq!(output["patch"], json!("*** Begin Patch"));
}

#[tokio::test]
async fn globs_and_the_root_narrow_what_is_there() {
    let sandbox = Sandbox::new().await;
    let list = "return (await mcp.call('workspace.glob', {pattern: '**', ignored: true})).paths.join(' ')";
    let app = sandbox.path("app");
    for (workspace, found) in [
        (json!({}), "app/src/c.ts dist/a.js src/a.ts src/b.ts"),
        (json!({"includeGlobs": ["src/**"]}), "src/a.ts src/b.ts"),
        (json!({"includeGlobs": ["*.ts"], "excludeGlobs": ["src/b.ts", "app/**"]}), "src/a.ts"),
        (json!({"root": app}), "src/c.ts"),
        (json!({"root": "app", "includeGlobs": []}), "src/c.ts"),
    ] {
        let output = sandbox.run(list, json!({"phase": "discover", "workspace": workspace})).await;
        assert_eq!(output["summary"], json!(found), "{workspace}");
    }
    let outside =
        "try { return (await mcp.call('workspace.read', {path: 'dist/a.js'})).text } catch (e) { return e.code }";
    let only = json!({"phase": "discover", "workspace": {"includeGlobs": ["src/**"]}});
    assert_eq!(sandbox.run(outside, only).await["summary"], json!("TOOL_DENIED"));
}

const WRITE: &str = "
const patch = `*** Begin Patch
*** Update File: src/a.ts
@@
-export const a = 1;
+export const a = 10;
*** End Patch`;
await mcp.call('workspace.apply_patch', {patch, dry_run: true});
await mcp.call('workspace.apply_patch', {patch});
return {summary: 'done'};";

fn writing(allowed: &[&str]) -> Value {
    json!({"phase": "write", "outputMode": "summary_and_patch", "writePolicy": {"allowedPaths": allowed}})
}

#[tokio::test]
async fn writing_gives_the_patch_that_was_applied() {
    let sandbox = Sandbox::new().await;
    let output = sandbox.run(WRITE, writing(&["src/**"])).await;
    assert_eq!((&output["success"], &output["summary"]), (&json!(true), &json!("done")), "{output:#}");
    let patch = output["patch"].as_str().unwrap();
    assert_eq!(patch.matches("*** Begin Patch\n*** Update File: src/a.ts").count(), 1, "{patch}");
    assert_eq!(output["toolUsage"]["byTool"], json!({"apply_patch": 2}));
    assert_eq!(std::fs::read_to_string(sandbox.path("src/a.ts")).unwrap(), "export const a = 10;\n");
}

/// The program does not wait for its patch: whether it was applied nobody knows, whatever the program says.
#[tokio::test]
async fn a_patch_that_nobody_waited_for_is_no_success() {
    let sandbox = Sandbox::new().await;
    let patch =
        "*** Begin Patch\n*** Update File: src/b.ts\n@@\n-export const b = 2;\n+export const b = 20;\n*** End Patch";
    let program = format!(
        "mcp.call('workspace.apply_patch', {{patch: {}}}); await mcp.call('workspace.ls', {{}}); return {{summary: 'nothing changed'}}",
        json!(patch)
    );
    let output = sandbox.run(&program, writing(&["src/**"])).await;
    // It may have been quick enough to be known: then it is told as what it is.
    let is_known = output["patch"].as_str().is_some_and(|patch| patch.contains("src/b.ts"));
    let is_unknown = output["success"] == false && output["error"]["code"] == "OUTCOME_UNKNOWN";
    assert!(is_known != is_unknown, "{output}");
}

#[tokio::test]
async fn nothing_is_written_that_is_not_allowed() {
    let sandbox = Sandbox::new().await;
    let before = || std::fs::read_to_string(sandbox.path("src/a.ts")).unwrap();
    // Not by these paths, not in this phase, not without a policy, not by this application.
    let output = sandbox.run(WRITE, writing(&["app/**"])).await;
    assert_eq!((&output["success"], &output["error"]["code"]), (&json!(false), &json!("EVAL_ERROR")), "{output:#}");
    assert!(output["error"]["message"].as_str().unwrap().contains("may not be written"), "{output:#}");
    let output = sandbox.run(WRITE, json!({"phase": "discover", "writePolicy": {"allowedPaths": ["**"]}})).await;
    assert_eq!((&output["success"], &output["patch"]), (&json!(false), &Value::Null), "{output:#}");
    for input in [json!({"phase": "write"}), writing(&[])] {
        let output = sandbox.run(WRITE, input).await;
        assert!(output["error"]["message"].as_str().unwrap().contains("writePolicy.allowedPaths"), "{output:#}");
    }
    let model = Scripted::new([WRITE]);
    let output = call(&sandbox.tool(&model), writing(&["**"])).await;
    assert_eq!((&output["success"], output["needsEscalation"].is_string()), (&json!(false), true), "{output:#}");
    assert_eq!((before(), model.asked().len()), ("export const a = 1;\n".into(), 0));
}

#[tokio::test]
async fn a_person_may_be_asked_about_each_patch() {
    let sandbox = Sandbox::new().await;
    let model = Scripted::new([WRITE]);
    let nobody = CallbackApprover::new("nobody", |_| async { Approval::deny() });
    let output = call(&sandbox.tool(&model).allow_writes(true).approver(nobody), writing(&["**"])).await;
    assert_eq!((&output["success"], model.asked().len()), (&json!(false), 1), "a person's no is final");
    assert!(output["needsEscalation"].as_str().unwrap().contains("apply_patch"), "{output:#}");
    assert_eq!(std::fs::read_to_string(sandbox.path("src/a.ts")).unwrap(), "export const a = 1;\n");
}

#[tokio::test]
async fn limits_hold_for_the_whole_run() {
    let sandbox = Sandbox::new().await;
    let many = "for (let i = 0; i < 9; i++) await mcp.call('workspace.read', {path: 'src/a.ts'}); return 'all'";
    let output = sandbox.run(many, json!({"phase": "discover", "limits": {"maxToolCalls": 3}})).await;
    assert_eq!((&output["success"], &output["toolUsage"]["totalCalls"]), (&json!(false), &json!(3)), "{output:#}");
    let output = sandbox.run(many, json!({"phase": "discover", "limits": {"maxReadBytes": 300}})).await;
    assert_eq!((&output["success"], &output["toolUsage"]["truncated"]), (&json!(false), &json!(true)), "{output:#}");
    let long = "return 'x'.repeat(1000)";
    let output = sandbox.run(long, json!({"phase": "discover", "limits": {"maxResultBytes": 500}})).await;
    assert_eq!(output["error"]["code"], json!("RESULT_LIMIT"), "{output:#}");
    let slow =
        call(&sandbox.tool(&Scripted::default()), json!({"phase": "discover", "limits": {"maxDurationMs": 50}})).await;
    assert_eq!(slow["error"]["code"], json!("TIMEOUT"), "{slow:#}");
}

#[tokio::test]
async fn what_the_program_returns_otherwise_is_the_summary() {
    let sandbox = Sandbox::new().await;
    for (program, summary) in [
        ("return 'text'", "text"),
        ("return [1, 2]", "[1,2]"),
        ("return {summary: 1}", "{\"summary\":1}"),
        ("return {summary: 'a', filesRead: ['/etc/passwd']}", "{\"summary\":\"a\",\"filesRead\":[\"/etc/passwd\"]}"),
        ("const nothing = 1;", "null"),
    ] {
        let output = sandbox.run(program, json!({"phase": "discover"})).await;
        assert_eq!((&output["summary"], &output["filesRead"]), (&json!(summary), &json!([])), "{program}");
    }
    let output =
        sandbox.run("return {summary: 'a', needsEscalation: 'write access'}", json!({"phase": "discover"})).await;
    assert_eq!((&output["success"], &output["needsEscalation"]), (&json!(true), &json!("write access")));
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_and_nothing_is_run() {
    let sandbox = Sandbox::new().await;
    let model = Scripted::default();
    let tool = sandbox.tool(&model).allow_writes(true);
    let file = sandbox.path("src/a.ts");
    for (input, says) in [
        (json!({"objective": "x"}), "phase"),
        (json!({"phase": "plan"}), "plan"),
        (json!({"phase": "discover", "objective": " "}), "objective"),
        (json!({"phase": "discover", "objective": "x".repeat(20_001)}), "objective"),
        (json!({"phase": "discover", "shell": true}), "shell"),
        (json!({"phase": "discover", "limits": {"maxToolcalls": 1}}), "maxToolcalls"),
        (json!({"phase": "discover", "limits": {"maxToolCalls": -1}}), "maxToolCalls"),
        (json!({"phase": "discover", "workspace": {"include_globs": []}}), "include_globs"),
        (json!({"phase": "discover", "workspace": {"root": "none"}}), "no folder \"none\""),
        (json!({"phase": "discover", "workspace": {"root": "/etc"}}), "no folder \"/etc\""),
        (json!({"phase": "discover", "workspace": {"root": ".."}}), "no folder \"..\""),
        (json!({"phase": "discover", "workspace": {"root": file}}), "no folder"),
        (json!({"phase": "discover", "workspace": {"includeGlobs": ["src/["]}}), "src/["),
        (json!({"phase": "discover", "workspace": {"excludeGlobs": vec!["a"; 10_000]}}), "globs"),
        (json!({"phase": "write", "writePolicy": {"allowedPaths": ["{"]}}), "{"),
        (json!({"phase": "discover", "outputMode": "patch"}), "outputMode"),
    ] {
        let output = call(&tool, input.clone()).await;
        assert_eq!(output["error"]["code"], json!("INVALID_INPUT"), "{input}: {output:#}");
        assert!(output["error"]["message"].as_str().unwrap().contains(says), "{input}: {output:#}");
    }
    assert!(model.asked().is_empty());
    let missing = SandboxExecute::new(model, Path::new("/none"), |_| async { unreachable!() });
    assert!(missing.unwrap_err().to_string().contains("/none"));
}

#[tokio::test]
async fn the_definition_names_what_it_takes() {
    let sandbox = Sandbox::new().await;
    let definition = sandbox.tool(&Scripted::default()).definition();
    let properties = definition.parameters["properties"].as_object().unwrap();
    for name in ["objective", "phase", "limits", "workspace", "writePolicy", "outputMode"] {
        assert!(properties.contains_key(name), "{name}");
    }
    assert_eq!(definition.openai_chat()["function"]["name"], json!("sandbox_execute"));
    let strict = definition.clone().strict().parameters;
    for left_out in ["oneOf", "default", "format", "$ref"] {
        assert!(!strict.to_string().contains(&format!("\"{left_out}\"")), "{strict:#}");
    }
    let text = definition.parameters.to_string();
    for name in [
        "maxToolCalls",
        "maxDurationMs",
        "maxReadBytes",
        "maxResultBytes",
        "includeGlobs",
        "allowedPaths",
        "summary_and_patch",
    ] {
        assert!(text.contains(name), "{name}");
    }
}

#[cfg(feature = "rig")]
#[tokio::test]
async fn an_agent_of_rig_has_it_as_its_tool() {
    use rig_core::tool::{PortableTool, Tool, ToolContext, tool_definition};
    let sandbox = Sandbox::new().await;
    let tool = sandbox.tool(&Scripted::new(["return 'found'"]));
    assert_eq!(tool_definition(&tool).name, "sandbox_execute");
    let input = json!({"objective": "look", "phase": "discover"});
    let output = Tool::call(&tool, &mut ToolContext::default(), input).await.unwrap().render();
    assert!(output.contains("\"summary\":\"found\""), "{output}");
    let failed = PortableTool::call(&tool, json!({})).await.unwrap_err();
    let told = PortableTool::map_error(&tool, failed);
    assert!(told.model_feedback().unwrap().contains("INVALID_INPUT"), "{told:?}");
}
