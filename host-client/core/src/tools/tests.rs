use serde_json::json;

use super::*;

fn tool(name: &str) -> Arc<dyn Tool> {
    let spec = ToolSpec::new(name, "", json!({"type": "object"}));
    Arc::new(FunctionTool { spec, function: |_, _| async { Ok(Bytes::new()) }, is_typed: false })
}

#[test]
fn a_server_has_one_origin_and_both_are_named() {
    let tools = Tools::new();
    let mount = tools.mount("git", "the MCP server git of mcp.json").unwrap();
    let error = tools.mount("git", "the OpenAPI document git.yaml").unwrap_err().to_string();
    assert!(error.contains("mcp.json") && error.contains("git.yaml"), "{error}");
    let none = |(): ()| async { Ok::<_, ToolError>(()) };
    let error = tools.add("git.log", "", Effect::ReadOnly, none).unwrap_err().to_string();
    assert!(error.contains("mcp.json") && error.contains("the application"), "{error}");
    drop(mount);
    tools.add("git.log", "", Effect::ReadOnly, none).unwrap();
    assert!(tools.mount("git", "the OpenAPI document git.yaml").is_err());
    for name in ["", "a.b"] {
        assert!(tools.mount(name, "x").is_err(), "{name:?}");
    }
    for name in ["mcp", "local"] {
        let mounted = tools.mount(name, "the MCP server of mcp.json").unwrap_err().to_string();
        let added = tools.add(&format!("{name}.log"), "", Effect::ReadOnly, none).unwrap_err().to_string();
        assert!(mounted.contains("reserved: ") && added.contains("reserved: "), "{mounted} {added}");
    }
}

#[test]
fn tools_come_and_go_with_their_mount_and_bad_ones_are_left_out() {
    let tools = Tools::new();
    let mut changes = tools.changes();
    let mount = tools.mount("a", "a test").unwrap();
    let refused = mount.replace([tool("a.one"), tool("a.one"), tool("b.two"), tool("a.three")]);
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!(tools.specs().len(), 2);
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    drop(mount);
    assert!(changes.has_changed().unwrap() && tools.specs().is_empty() && tools.servers().is_empty());
}

#[test]
fn a_handle_with_other_manifests_leaves_the_others_as_they_are() {
    let tools = Tools::new();
    let mount = tools.mount("a", "a test").unwrap();
    assert!(mount.replace([tool("a.one")]).is_empty());
    let change = ManifestChange { effect: Some(Effect::ReadOnly), concurrency: Some(1), ..ManifestChange::default() };
    let view = tools.amended(&[(ToolPatterns::checked(["a.*"]).unwrap(), change)]);
    let effect = |tools: &Tools, name: &str| tools.spec(name).unwrap().manifest.effect;
    assert_eq!((effect(&tools, "a.one"), effect(&view, "a.one")), (None, Some(Effect::ReadOnly)));
    let held = view.get("a.one").unwrap();
    let place = held.places.as_ref().unwrap().try_acquire().unwrap();
    // Tools that are added later are in both, and a call that runs keeps its place.
    mount.replace([tool("a.one"), tool("a.two")]);
    assert_eq!((effect(&tools, "a.two"), effect(&view, "a.two")), (None, Some(Effect::ReadOnly)));
    assert!(view.get("a.one").unwrap().places.as_ref().unwrap().try_acquire().is_err());
    drop(place);
    assert!(view.get("a.one").unwrap().places.as_ref().unwrap().try_acquire().is_ok());
    assert_ne!(tools.get("a.one").unwrap().digest, view.get("a.one").unwrap().digest);
}

#[test]
fn manifests_can_be_amended_before_and_after() {
    let tools = Tools::new();
    let mount = tools.mount("a", "a test").unwrap();
    assert!(mount.replace([tool("a.one")]).is_empty());
    let change = ManifestChange { effect: Some(Effect::ReadOnly), ..ManifestChange::default() };
    tools.amend(["a.*"], change).unwrap();
    let hide = ManifestChange { callable_from_code: Some(false), ..ManifestChange::default() };
    tools.amend(["a.two"], hide).unwrap();
    assert_eq!(tools.spec("a.one").unwrap().manifest.effect, Some(Effect::ReadOnly));
    mount.replace([tool("a.one"), tool("a.two")]);
    assert_eq!(tools.spec("a.two").unwrap().manifest.effect, Some(Effect::ReadOnly));
    assert!(tools.get("a.two").is_none() && tools.get("a.one").is_some() && tools.specs().len() == 2);
}
