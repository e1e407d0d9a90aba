//! Paths, links and files that are there to get out, to get at something, or to make a call hang.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Workspace;
use crate::sets::workspace::failure::Failure;
use crate::sets::workspace::root::Root;
use crate::sets::workspace::tool::{Cancel, CancelGuard, WorkspaceTool};
use crate::sets::workspace::{WorkspaceSet, search};
use host_client_core::tool::Effect;
use host_client_core::tool::Tool;

const SECRET: &str = "a secret outside";

#[tokio::test]
async fn paths_that_climb_or_are_absolute_or_hold_control_characters_are_denied() {
    let workspace = Workspace::new();
    workspace.write("a/b", "text");
    for path in ["..", "../x", "a/../../x", "a/../a/b", "/etc/passwd", "a\0b", "a\nb", "\u{7f}"] {
        for tool in ["ls", "read"] {
            let error = workspace.error(tool, json!({"path": path})).await;
            assert!(error.starts_with("TOOL_DENIED: the path "), "{tool} {path:?}: {error}");
        }
        let error = workspace.error("glob", json!({"path": path, "pattern": "**"})).await;
        assert!(error.starts_with("TOOL_DENIED"), "{path:?}: {error}");
        if !path.contains('\n') {
            let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n");
            let error = workspace.patch_error(&patch).await;
            assert!(error.starts_with("TOOL_DENIED: the path "), "{path:?}: {error}");
        }
    }
    let found = workspace.call("glob", json!({"pattern": "../**"})).await.unwrap();
    assert_eq!(found["paths"], json!([]));
}

#[tokio::test]
async fn links_that_lead_out_are_not_followed_and_links_inside_are_only_read() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), SECRET).unwrap();
    let workspace = Workspace::new();
    workspace.write("real/file", "inside\n");
    symlink(outside.path(), workspace.path("out")).unwrap();
    symlink(outside.path().join("secret"), workspace.path("out-file")).unwrap();
    symlink("../../../../../../../../etc/passwd", workspace.path("relative")).unwrap();
    symlink("/proc/self/root", workspace.path("magic")).unwrap();
    symlink("loop", workspace.path("loop")).unwrap();
    symlink("real", workspace.path("inside")).unwrap();
    symlink("real/file", workspace.path("inside-file")).unwrap();
    for path in ["out/secret", "out-file", "relative", "magic/etc/passwd"] {
        let error = workspace.error("read", json!({"path": path})).await;
        assert!(error.starts_with("TOOL_DENIED") && error.contains("leads out"), "{path}: {error}");
    }
    assert!(workspace.error("read", json!({"path": "loop"})).await.contains("loop"));
    for path in ["inside/file", "inside-file"] {
        assert_eq!(workspace.call("read", json!({"path": path})).await.unwrap()["text"], "inside\n");
    }
    let found = workspace.call("grep", json!({"pattern": "."})).await.unwrap();
    assert_eq!(found["files_searched"], 1);
    let before = workspace.snapshot();
    for path in ["inside/file", "inside-file", "out-file"] {
        let patch = format!("--- a/{path}\n+++ b/{path}\n@@\n-inside\n+changed\n");
        let error = workspace.patch_error(&patch).await;
        assert!(error.starts_with("TOOL_DENIED") && error.contains("symbolic link"), "{path}: {error}");
    }
    for path in ["inside/new", "out/new", "inside"] {
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
        assert!(workspace.patch(&patch).await.is_err(), "{path}");
    }
    assert_eq!(workspace.snapshot(), before);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn what_is_excluded_is_not_there_by_any_way() {
    let workspace = Workspace::with(|set| {
        set.exclude(["secrets", "*.pem"]).unwrap().writable(["**"]).unwrap().allow_create(true).allow_delete(true)
    });
    workspace.write("secrets/a", SECRET).write("x/y.pem", SECRET).write(".git/config", SECRET).write("a", "text");
    symlink("secrets", workspace.path("link")).unwrap();
    symlink("x/y.pem", workspace.path("plain")).unwrap();
    symlink(".git", workspace.path("g")).unwrap();
    for path in ["secrets/a", "x/y.pem", ".git/config", "link/a", "plain", "g/config", "secrets/none", ".GIT/config"] {
        let error = workspace.error("read", json!({"path": path})).await;
        assert!(error.starts_with("TOOL_DENIED") && error.contains("not a part"), "{path}: {error}");
    }
    for path in ["secrets/new", "new.pem", ".git/hooks/pre-commit", ".Git/config", "a/.git", "sub/.git/x"] {
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
        assert!(workspace.patch_error(&patch).await.starts_with("TOOL_DENIED"), "{path}");
    }
    let found = workspace.call("grep", json!({"pattern": "secret", "ignored": true})).await.unwrap();
    assert_eq!((&found["matches"], &found["files_searched"]), (&json!([]), &json!(1)));
    assert!(workspace.call("ls", json!({"path": "link"})).await.is_err());
    let root = workspace.call("ls", json!({"ignored": true})).await.unwrap().to_string();
    assert!(!root.contains("secrets\"") && !root.contains(".git"), "{root}");
}

#[tokio::test]
async fn what_is_not_included_is_not_there_by_any_way() {
    let workspace = Workspace::with(|set| {
        let set = set.include(["src/**", "docs", "*.md"]).unwrap().exclude(["src/keys"]).unwrap();
        set.writable(["**"]).unwrap().allow_create(true).allow_delete(true)
    });
    workspace.write("src/a", "text").write("docs/b/c", "text").write("x/README.md", "text");
    workspace.write("other/a", SECRET).write("a", SECRET).write("src/keys/k", SECRET);
    symlink("../other/a", workspace.path("src/link")).unwrap();
    for path in ["src/a", "docs/b/c", "x/README.md"] {
        workspace.call("read", json!({"path": path})).await.unwrap();
    }
    for path in ["other/a", "a", "src/keys/k", "src/link", "none", "other/none"] {
        let error = workspace.error("read", json!({"path": path})).await;
        assert!(error.starts_with("TOOL_DENIED") && error.contains("not a part"), "{path}: {error}");
    }
    for path in ["other/new", "new"] {
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
        assert!(workspace.patch_error(&patch).await.starts_with("TOOL_DENIED"), "{path}");
    }
    let delete = "*** Begin Patch\n*** Delete File: a\n*** End Patch";
    assert!(workspace.patch_error(delete).await.starts_with("TOOL_DENIED"));
    let found = workspace.call("grep", json!({"pattern": "", "ignored": true})).await.unwrap();
    assert_eq!(found["files_searched"], json!(3), "{found}");
    let found = workspace.call("glob", json!({"pattern": "**", "ignored": true})).await.unwrap();
    assert_eq!(found["paths"], json!(["docs/b/c", "src/a", "x/README.md"]));
    let root = workspace.call("ls", json!({"ignored": true})).await.unwrap();
    let names: Vec<_> = root["entries"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["docs", "other", "src", "x"]);
}

#[tokio::test]
async fn only_writable_paths_are_written_as_they_are_spelled() {
    let workspace = Workspace::with(|set| set.writable(["src/**", "*.md"]).unwrap());
    workspace.write("src/a", "x\n").write("other/a", "x\n").write("README.md", "x\n").write("d/README.md", "x\n");
    let patch = |path: &str| format!("--- a/{path}\n+++ b/{path}\n@@\n-x\n+y\n");
    for path in ["other/a", "d/README.md", "SRC/a", "src/../other/a"] {
        assert!(workspace.patch_error(&patch(path)).await.starts_with("TOOL_DENIED"), "{path}");
    }
    workspace.patch(&patch("./src//a")).await.unwrap();
    workspace.patch(&patch("README.md")).await.unwrap();
    assert_eq!((workspace.text("src/a"), workspace.text("README.md")), ("y\n".into(), "y\n".into()));
    let error = workspace.patch_error("*** Begin Patch\n*** Add File: src/b\n+x\n*** End Patch").await;
    assert!(error.contains("may not be created"), "{error}");
    let error = workspace.patch_error("*** Begin Patch\n*** Delete File: src/a\n*** End Patch").await;
    assert!(error.contains("may not be deleted"), "{error}");
    let error =
        workspace.patch_error("*** Begin Patch\n*** Update File: src/a\n*** Move to: src/b\n*** End Patch").await;
    assert!(error.contains("may not be renamed"), "{error}");
}

#[tokio::test]
async fn pipes_sockets_and_devices_neither_hang_nor_are_read() {
    let workspace = Workspace::new();
    let mknod = |name: &str, kind, device| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, workspace.path(name), kind, mode, device)
    };
    mknod("pipe", rustix::fs::FileType::Fifo, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(workspace.path("socket")).unwrap();
    // Only root may make one, and not everywhere; the others are enough then.
    let zero = mknod("zero", rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 5)).is_ok();
    for name in ["pipe", "socket"].into_iter().chain(zero.then_some("zero")) {
        let error = tokio::time::timeout(Duration::from_secs(10), workspace.error("read", json!({"path": name}))).await;
        assert!(error.unwrap().contains("a pipe, socket or device"), "{name}");
        let patch = format!("--- a/{name}\n+++ b/{name}\n@@\n-x\n+y\n");
        assert!(workspace.patch_error(&patch).await.contains("a pipe, socket or device"), "{name}");
    }
    let found = workspace.call("grep", json!({"pattern": "."})).await.unwrap();
    assert_eq!(found["files_searched"], 0);
    mknod(".gitignore", rustix::fs::FileType::Fifo, 0).unwrap();
    workspace.call("glob", json!({"pattern": "**"})).await.unwrap();
}

#[tokio::test]
async fn names_that_are_no_text_are_counted_not_shown() {
    let workspace = Workspace::new();
    fs::write(workspace.folder.path().join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    fs::write(workspace.path("line\nfeed"), "").unwrap();
    fs::write(workspace.path("fine"), "").unwrap();
    let found = workspace.call("glob", json!({"pattern": "**"})).await.unwrap();
    assert_eq!(found, json!({"paths": ["fine"], "truncated": false, "skipped": 2}));
}

#[tokio::test]
async fn a_folder_that_is_too_deep_ends_somewhere() {
    let workspace = Workspace::new();
    let mut path = workspace.folder.path().to_owned();
    for _ in 0..100 {
        path.push("d");
        fs::create_dir(&path).unwrap();
    }
    let found = workspace.call("glob", json!({"pattern": "**"})).await.unwrap();
    assert_eq!(found["skipped"], 1);
}

#[test]
fn a_walk_that_nobody_waits_for_stops() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "text").unwrap();
    let root = WorkspaceSet::open(folder.path()).unwrap().root;
    let cancel = Cancel::default();
    let grep = |cancel: &Cancel| {
        let arguments = serde_json::from_value(json!({"pattern": "text"})).unwrap();
        search::grep(&root, arguments, cancel).map(drop)
    };
    assert!(grep(&cancel).is_ok());
    drop(CancelGuard(cancel.clone()));
    assert!(matches!(grep(&cancel), Err(Failure::Cancelled)));
}

#[tokio::test]
async fn a_dropped_call_tells_its_work() {
    static HEARD: AtomicBool = AtomicBool::new(false);
    let wait = |_: &Root, (): (), cancel: &Cancel| {
        while cancel.check().is_ok() {
            std::thread::yield_now();
        }
        HEARD.store(true, Ordering::Relaxed);
        Ok(())
    };
    let folder = tempfile::tempdir().unwrap();
    let root = Arc::new(WorkspaceSet::open(folder.path()).unwrap().root);
    let tool = WorkspaceTool::<(), ()>::new("fs.wait".into(), "", Effect::ReadOnly, &root, wait);
    let call = tool.call(serde_json::Value::Null, super::context("fs.wait"));
    assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err());
    let until = Instant::now() + Duration::from_secs(10);
    while !HEARD.load(Ordering::Relaxed) {
        assert!(Instant::now() < until);
        tokio::task::yield_now().await;
    }
}

/// Swaps a file with a link to a secret, as fast as it goes, while calls read and patch it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_come_and_go_lead_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("d")).unwrap();
    fs::write(outside.path().join("d/f"), SECRET).unwrap();
    let workspace = Workspace::new();
    workspace.write("d/f", "inside\n");
    let stop = AtomicBool::new(false);
    let root = workspace.folder.path();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            symlink(outside.path().join("d"), root.join("link-d")).unwrap();
            symlink(outside.path().join("d/f"), root.join("link-f")).unwrap();
            let swap = |left: &str, right: &str| {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let (left, right) = (root.join(left), root.join(right));
                // The file may be gone for a moment while a patch is undone.
                let _ = rustix::fs::renameat_with(rustix::fs::CWD, left, rustix::fs::CWD, right, flags);
            };
            while !stop.load(Ordering::Relaxed) {
                swap("d", "link-d");
                swap("d", "link-d");
                swap("d/f", "link-f");
                swap("d/f", "link-f");
            }
        });
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let until = Instant::now() + Duration::from_secs(2);
                while Instant::now() < until {
                    let calls = [("read", json!({"path": "d/f"})), ("grep", json!({"pattern": "secret"}))];
                    for (tool, arguments) in calls {
                        if let Ok(result) = workspace.call(tool, arguments).await {
                            assert!(!result.to_string().contains(SECRET), "{tool}: {result}");
                        }
                    }
                    let patch = "--- a/d/f\n+++ b/d/f\n@@\n-inside\n+inside\n";
                    let patched = workspace.patch(patch).await;
                    let new = workspace.patch("*** Begin Patch\n*** Add File: d/new\n+x\n*** End Patch").await;
                    drop((patched, new));
                }
            });
        });
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(outside.path().join("d/f")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(outside.path().join("d")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn what_may_not_be_read_is_said() {
    let workspace = Workspace::new();
    workspace.write("a", "x");
    fs::set_permissions(workspace.path("a"), fs::Permissions::from_mode(0o000)).unwrap();
    // Root reads everything.
    if let Err(error) = workspace.call("read", json!({"path": "a"})).await {
        assert!(error.to_string().contains("could not be opened"), "{error}");
    }
}
