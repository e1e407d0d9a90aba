//! Programs over the tools of ten real servers: such as must pass, and such as are certain to fail.

mod right;
mod wrong;

use relay_test_support::catalogue;
use serde_json::{Map, Value, json};

use super::*;
use crate::client::MODEL_BINDINGS;
use crate::tool::ToolSpec;

struct Scene {
    tools: Tools,
    policy: Policy,
}

impl Scene {
    /// Makes tools of names, the properties of their arguments, and the names of those that are required.
    fn of<const N: usize>(named: [(&str, serde_json::Value, serde_json::Value); N]) -> Self {
        let tools = Tools::new();
        for (name, properties, required) in named {
            let schema = json!({"type": "object", "properties": properties, "required": required,
                                "additionalProperties": false});
            tools.add_with(ToolSpec::new(name, "", schema), |_, _| std::future::pending()).unwrap();
        }
        Self { tools, policy: Policy::new().allow(["*"]) }
    }

    fn new() -> Self {
        let tools = Tools::new();
        for listed in catalogue::tools() {
            let spec = ToolSpec::new(listed.name, listed.description, listed.input_schema);
            tools.add_with(spec, |_, _| std::future::pending()).unwrap();
        }
        let shape = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["title"],
            "properties": {
                "title": {"type": "string"},
                "count": {"type": "integer", "nullable": true},
                "level": {"enum": ["low", "high"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "place": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
                "either": {"type": ["string", "null"]},
            },
        });
        tools.add_with(ToolSpec::new("my-notes.add.one", "", shape), |_, _| std::future::pending()).unwrap();
        let loose = json!({"type": "object", "patternProperties": {"^x-": {}}, "additionalProperties": false});
        tools.add_with(ToolSpec::new("my-notes.loose", "", loose), |_, _| std::future::pending()).unwrap();
        let none = json!({"type": ["object", "null"], "required": ["a"]});
        tools.add_with(ToolSpec::new("my-notes.none", "", none), |_, _| std::future::pending()).unwrap();
        let policy = Policy::new().deny(["slack.*"], "nobody is told").allow(["*"]);
        Self { tools, policy }
    }

    fn check(&self, code: &str) -> Vec<Mistake> {
        self.check_for(code, &ToolPatterns::default())
    }

    fn check_for(&self, code: &str, patterns: &ToolPatterns) -> Vec<Mistake> {
        let request = ExecuteRequest::new(code).bindings(MODEL_BINDINGS);
        mistakes(&request, &Surroundings::new(&self.tools, &self.policy, patterns))
    }
}

/// A value that fits a part of a schema.
fn sample(schema: &Value, root: &Value) -> Value {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return sample(root.pointer(target.strip_prefix('#').unwrap()).unwrap(), root);
    }
    let first = |keyword: &str| schema.get(keyword).and_then(Value::as_array).and_then(|them| them.first());
    if let Some(value) = schema.get("const").or_else(|| first("enum")) {
        return value.clone();
    }
    if let Some(branch) = first("anyOf").or_else(|| first("oneOf")) {
        return sample(branch, root);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => members(schema, root, |_, is_required| is_required),
        Some("array") => json!([sample(&schema["items"], root)]),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        _ => json!("text"),
    }
}

fn members(schema: &Value, root: &Value, is_wanted: impl Fn(&str, bool) -> bool) -> Value {
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = schema["properties"].as_object().into_iter().flatten();
    let wanted = all.filter(|(name, _)| is_wanted(name, required.contains(&name.as_str())));
    wanted.map(|(name, schema)| (name.clone(), sample(schema, root))).collect::<Map<_, _>>().into()
}

/// The programs around a call of each real tool, with the arguments that it takes.
#[test]
fn calls_that_fit_the_schemas_pass() {
    let (scene, mut programs) = (Scene::new(), 0);
    for listed in catalogue::tools().into_iter().filter(|tool| !tool.name.starts_with("slack.")) {
        let schema = &listed.input_schema;
        for arguments in [members(schema, schema, |_, is_required| is_required), members(schema, schema, |_, _| true)] {
            let (server, tool) = listed.name.split_once('.').unwrap();
            for code in [
                format!("const a = 1;\nconst r = await mcp.call({:?}, {arguments});\nreturn [a, r];", listed.name),
                format!(
                    "const r = await {}.{}({arguments})\nconsole.log(r)\nreturn r",
                    sanitize(server),
                    sanitize(tool)
                ),
            ] {
                assert_eq!(scene.check(&code), [], "{code}");
                programs += 1;
            }
        }
    }
    assert!(programs > 400, "{programs}");
}

/// The same, with a required argument left out, and with one of another type.
#[test]
fn calls_that_fit_no_schema_are_found() {
    let (scene, mut programs) = (Scene::new(), 0);
    for listed in catalogue::tools().into_iter().filter(|tool| !tool.name.starts_with("slack.")) {
        let schema = &listed.input_schema;
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let without = members(schema, schema, |member, is_required| is_required && member != name);
            let mut wrong = members(schema, schema, |_, is_required| is_required);
            wrong[name] = json!({"of": ["another", "kind"]});
            let kinds = &schema["properties"][name]["type"];
            let is_object = kinds == "object" || kinds.is_null();
            for (arguments, expected) in [(without, format!("{name} is missing")), (wrong, format!("{name} has to be"))]
            {
                if is_object && expected.ends_with("be") {
                    continue;
                }
                let code = format!("const a = 1;\nreturn [a, await mcp.call({:?}, {arguments})];", listed.name);
                let found = scene.check(&code);
                assert!(found.len() == 1 && found[0].message.contains(&expected), "{code}: {found:?}");
                assert_eq!((found[0].line, found[0].column), (2, 18), "{code}");
                assert!(found[0].declaration.is_some(), "{code}");
                programs += 1;
            }
        }
    }
    assert!(programs > 150, "{programs}");
}

#[test]
fn programs_that_may_be_meant_so_pass() {
    let scene = Scene::new();
    let told: Vec<_> = right::PROGRAMS.map(|code| (code, scene.check(code))).into();
    let told: Vec<_> = told.into_iter().filter(|(_, found)| !found.is_empty()).collect();
    assert!(told.is_empty(), "{told:#?}");
    assert!(right::PROGRAMS.len() >= 100, "{}", right::PROGRAMS.len());
}

/// Checks the programs of the study, as they are and as the study sends them, and those of the examples.
#[test]
fn the_programs_of_study_and_examples_pass() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let scene = Scene::new();
    let mut programs = 0;
    for entry in std::fs::read_dir(format!("{root}/dev/study/src/tasks/programs")).unwrap() {
        let code = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let called_by_members =
            code.split("mcp.call(\"").enumerate().map(|(index, part)| match part.split_once("\", ") {
                Some((tool, rest)) if index > 0 => format!("{}({rest}", tool.replace('-', "_")),
                _ => part.to_owned(),
            });
        let called_by_members: String = called_by_members.collect();
        assert_eq!(scene.check(&code), [], "{code}");
        assert_eq!(scene.check(&called_by_members), [], "{called_by_members}");
        programs += 1;
    }
    assert!(programs >= 30, "{programs}");

    // The program that the example plays back for a model.
    assert_passes(&scene, &part(root, "programmatic/model.rs", "```js\n", "```"), ("git.git_log(", "git.git_lgo("));
    let text = json!({"type": "string"});
    let scene = Scene::of([
        ("files.list", json!({"folder": text, "suffix": text}), json!([])),
        ("files.read", json!({"paths": {"type": "array", "items": text}}), json!([])),
    ]);
    let code = std::fs::read_to_string(format!("{root}/examples/quickstart/audit.js")).unwrap();
    assert_passes(&scene, &code, ("mcp.call(\"files.list\")", "mcp.call(\"files.lst\")"));
    let scene = Scene::of([
        ("notes.keep", json!({"title": text, "text": text}), json!(["title", "text"])),
        ("notes.search", json!({"words": text, "limit": {"type": "integer"}}), json!(["words"])),
    ]);
    let code = part(root, "in_container/test.rs", "let code = \"", "\";");
    assert_passes(&scene, &code, ("mcp.call('notes.search',", "mcp.call('notes.serch',"));
}

/// Returns the part of an example's file that stands between two texts.
fn part(root: &str, file: &str, before: &str, behind: &str) -> String {
    let text = std::fs::read_to_string(format!("{root}/examples/{file}")).unwrap();
    let (_, rest) = text.split_once(before).unwrap();
    rest.split_once(behind).unwrap().0.to_owned()
}

/// Fails unless code passes, and does not with a misspelled name in one of its calls.
#[track_caller]
fn assert_passes(scene: &Scene, code: &str, (call, misspelled): (&str, &str)) {
    assert_eq!(scene.check(code), [], "{code}");
    assert!(code.contains(call), "{code}");
    assert_eq!(scene.check(&code.replacen(call, misspelled, 1)).len(), 1, "the check looks at it");
}

#[test]
fn programs_that_are_certain_to_fail_are_found_with_place_and_hint() {
    let scene = Scene::new();
    let mut other = Vec::new();
    for (code, line, says) in wrong::PROGRAMS {
        let found = scene.check(code);
        if !found.first().is_some_and(|first| first.line == line && first.message.contains(says)) {
            other.push((code, line, says, found));
        }
    }
    assert!(other.is_empty(), "{other:#?}");
    assert!(wrong::PROGRAMS.len() >= 50, "{}", wrong::PROGRAMS.len());
}

#[test]
fn all_mistakes_are_told_at_once_with_declarations() {
    let scene = Scene::new();
    let code = "const log = await git.git_lgo({repo_path: '.'});\nconst status = await mcp.call('git.git_status', {});\n\
                return [log.length, status, mcp.call('files.read_text_file', {path: 'a'}).length]";
    let error = refusal(&scene.check(code)).unwrap();
    assert_eq!((error.line, error.column), (Some(1), Some(19)));
    assert_eq!(error.code, ErrorCode::CheckFailed);
    for says in [
        "- line 1, column 19: the server \"git\" has no tool \"git_lgo\"; did you mean \"git_log\"?\n  git.git_log(args: { repo_path: string;",
        "- line 2, column 22: the arguments of git.git_status do not fit: repo_path is missing\n  git.git_status(args: {",
        "- line 3, column 29: .length is used on the Promise of files.read_text_file",
    ] {
        assert!(error.message.contains(says), "{}", error.message);
    }
    assert_eq!(refusal(&[]).map(|error| error.message), None);
    let many = "await git.git_lgo();\n".repeat(100);
    assert_eq!(scene.check(&many).len(), MAX_MISTAKES);
}

#[test]
fn tools_that_the_code_may_not_call_are_named_without_their_types() {
    let scene = Scene::new();
    let code = "const a = 1;\nawait mcp.call('git.git_log', {repo_path: '.'});\nreturn a";
    let found = scene.check_for(code, &ToolPatterns::new(Some(vec!["files.*".into()])));
    assert_eq!(found[0].message, "git.git_log is not among the tools that this code may call");
    assert_eq!(found[0].declaration, None);
    // A server without tools may still be starting.
    let mount = scene.tools.mount("late", "a server that starts").unwrap();
    assert_eq!(scene.check("const a = 1; await late.find({}); return a"), []);
    assert_eq!(scene.check("const a = 1; await mcp.call('late.find', {}); return a"), []);
    drop(mount);
    assert_eq!(scene.check("const a = 1; await mcp.call('late.find', {}); return a").len(), 1);
}
