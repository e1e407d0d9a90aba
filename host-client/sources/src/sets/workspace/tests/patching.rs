//! `apply_patch`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Workspace;
use crate::sets::workspace::patch::PatchArguments;
use crate::sets::workspace::tool::Cancel;
use crate::sets::workspace::{WorkspaceSet, patch};

fn update(path: &str, hunks: &str) -> String {
    format!("--- a/{path}\n+++ b/{path}\n{hunks}")
}

#[tokio::test]
async fn a_unified_diff_creates_changes_deletes_and_renames() {
    let workspace = Workspace::new();
    workspace.write("change", "1\n2\n3\n").write("delete", "x\n").write("rename", "a\nb\n").write("move", "m");
    let patch = "\
diff --git a/change b/change
index 1..2 100644
--- a/change
+++ b/change
@@ -1,3 +1,4 @@ whatever
 1
-2
+two
+2.5
 3
diff --git a/new/deep/file b/new/deep/file
new file mode 100755
--- /dev/null
+++ b/new/deep/file
@@ -0,0 +1,2 @@
+one
+two
\\ No newline at end of file
diff --git a/empty file b/empty file
new file mode 100644
index 0000000..e69de29
diff --git a/delete b/delete
deleted file mode 100644
--- a/delete\t2024-01-01
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/rename b/renamed
similarity index 50%
rename from rename
rename to renamed
--- a/rename
+++ b/renamed
@@ -1,2 +1,2 @@
 a
-b
+c
diff --git a/move b/moved
similarity index 100%
rename from move
rename to moved
";
    let before = workspace.snapshot();
    let dry = workspace.call("apply_patch", json!({"patch": patch, "dry_run": true})).await.unwrap();
    assert_eq!(workspace.snapshot(), before);
    let done = workspace.patch(patch).await.unwrap();
    let expected = json!([
        {"path": "change", "action": "modified", "added": 2, "removed": 1},
        {"path": "new/deep/file", "action": "created", "added": 2, "removed": 0},
        {"path": "empty file", "action": "created", "added": 0, "removed": 0},
        {"path": "delete", "action": "deleted", "added": 0, "removed": 1},
        {"path": "renamed", "from": "rename", "action": "renamed", "added": 1, "removed": 1},
        {"path": "moved", "from": "move", "action": "renamed", "added": 0, "removed": 0},
    ]);
    assert_eq!((&done["files"], &done["dry_run"]), (&expected, &json!(false)));
    assert_eq!((&dry["files"], &dry["dry_run"]), (&expected, &json!(true)));
    let files: Vec<_> =
        workspace.snapshot().into_iter().map(|(path, text)| (path, String::from_utf8(text).unwrap())).collect();
    let expected = [
        ("change", "1\ntwo\n2.5\n3\n"),
        ("empty file", ""),
        ("moved", "m"),
        ("new/", ""),
        ("new/deep/", ""),
        ("new/deep/file", "one\ntwo"),
        ("renamed", "a\nc\n"),
    ];
    assert_eq!(files, expected.map(|(path, text)| (path.to_owned(), text.to_owned())));
    assert_eq!(fs::metadata(workspace.path("new/deep/file")).unwrap().mode() & 0o100, 0o100);
}

#[tokio::test]
async fn an_envelope_does_too() {
    let workspace = Workspace::new();
    workspace.write(
        "a.py",
        "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n",
    );
    workspace.write("gone", "x").write("old", "same\nlast");
    let patch = "\
*** Begin Patch
*** Update File: a.py
@@ class B:
@@     def f(self):
-        return 1
+        return 2
*** Add File: new
+a
+
*** Delete File: gone
*** Update File: old
*** Move to: sub/new
 same
+more
 last
*** End of File
*** End Patch
";
    workspace.patch(patch).await.unwrap();
    let text = workspace.text("a.py");
    assert!(text.starts_with("class A:\n    def f(self):\n        return 1\n") && text.ends_with("        return 2\n"));
    assert_eq!((workspace.text("new"), workspace.text("sub/new")), ("a\n\n".into(), "same\nmore\nlast".into()));
    assert!(!workspace.path("gone").exists() && !workspace.path("old").exists());
}

#[tokio::test]
async fn hunks_are_found_where_they_are_or_not_at_all() {
    let workspace = Workspace::new();
    workspace.write("f", "a\nx\nb\nx\nc\nx\nd\n");
    let apply = |hunks: &'static str| {
        let workspace = &workspace;
        async move {
            workspace.write("f", "a\nx\nb\nx\nc\nx\nd\n");
            match workspace.patch(&update("f", hunks)).await {
                Ok(_) => workspace.text("f"),
                Err(error) => error.to_string(),
            }
        }
    };
    // Where the header says; elsewhere if there is but one place; after what was found there, too.
    assert_eq!(apply("@@ -4 +4 @@\n-x\n+X\n").await, "a\nx\nb\nX\nc\nx\nd\n");
    assert_eq!(apply("@@ -1,2 +1,2 @@\n-b\n+B\n x\n").await, "a\nx\nB\nx\nc\nx\nd\n");
    assert_eq!(apply("@@ -1 +1 @@\n-b\n+B\n@@ -2 +2 @@\n-x\n+X\n").await, "a\nx\nB\nX\nc\nx\nd\n");
    assert_eq!(apply("@@\n c\n-x\n+X\n d\n").await, "a\nx\nb\nx\nc\nX\nd\n");
    assert_eq!(apply("@@ b @@\n-x\n+X\n").await, "a\nx\nb\nX\nc\nx\nd\n");
    assert_eq!(apply("@@ -2,0 +3 @@\n+X\n").await, "a\nx\nX\nb\nx\nc\nx\nd\n");
    for (hunks, says) in [
        ("@@\n-x\n+X\n", "more than once, such as at lines 2 and 4"),
        ("@@ -1 +1 @@\n-x\n+X\n", "more than once"),
        ("@@\n b\n y\n-c\n", "The nearest place is line 4: there, the patch expects \"y\", and the file has \"x\""),
        ("@@\n d\n y\n", "line 8: there, the patch expects \"y\", and the file has \"the end of the file\""),
        ("@@\n-nowhere\n", "none of its lines is in the file as \"nowhere\""),
        ("@@ -3 +3,0 @@\n-nowhere\n", "is line 3: there, the patch expects \"nowhere\", and the file has \"b\""),
        (
            "@@\n-d\n+D\n@@\n-a\n+A\n",
            "the hunk at line 6 of the patch: none of its lines is in the file after the hunk",
        ),
        ("@@ z\n-x\n", "the line \"z\" after its `@@` is not in the file"),
        ("@@ x\n-b\n", "the line \"x\" after its `@@` is in the file more than once"),
        ("@@\n+X\n", "does not say where"),
        ("@@ -99,0 +99 @@\n+X\n", "does not say where"),
        ("@@\n c\n+X\n*** End of File\n", "but not at its end"),
        ("@@\n d\n+X\n\\ No newline at end of file\n@@\n d\n-y\n", "\"d\" is written"),
        ("@@\n-b\n+X\n\\ No newline at end of file\n", "that line is not the last one"),
    ] {
        let error = apply(hunks).await;
        assert!(error.contains(says) && error.contains("nothing was changed"), "{hunks:?}: {error}");
        assert_eq!(workspace.text("f"), "a\nx\nb\nx\nc\nx\nd\n");
    }
}

#[tokio::test]
async fn what_is_no_patch_is_told_where_and_what_is_expected() {
    let workspace = Workspace::new();
    workspace.write("f", "a\n").write("g", "a\n").write("bin", b"\xff\n");
    for (patch, says) in [
        ("", "it is empty"),
        ("\n \n", "it is empty"),
        ("*** Begin Patch\n*** End Patch", "it is empty"),
        (
            "hello",
            "at line 1 of the patch, expected `diff --git `, `--- ` and `+++ `, or `*** Begin Patch`, found \"hello\"",
        ),
        ("--- a/f\nfoo", "at line 1"),
        (&update("f", ""), "at line 3 of the patch, expected `@@`, found \"the end of the patch\""),
        (&update("f", "@@\n"), "at line 4 of the patch, expected lines that begin with"),
        (&update("f", "@@ -1,2 +1 @@\n-a\n+b\n"), "has 1 old and 1 new lines, where its header says 2 and 1"),
        (&update("f", "@@ -1 +1 @@\n-a\n+b\n+c\n"), "has 1 old and 2 new lines, where its header says 1 and 1"),
        (&update("f", "@@ -1 +y @@\n-a\n"), "expected `@@ -1,2 +3,4 @@`, or `@@` alone"),
        (&update("f", "@@ -1 +99999999999999999999999 @@\n-a\n"), "expected `@@ -1,2 +3,4 @@`"),
        (&update("f", "@@\n-a\n+b\nrubbish\n"), "at line 6 of the patch"),
        ("--- \"a/f\\303\"\n+++ \"b/f\"\n@@\n-a\n", "a path without quotes"),
        ("--- a/f\n+++ b/g\n@@\n-a\n+b\n", "a change of two files"),
        ("--- /dev/null\n+++ /dev/null\n@@\n-a\n", "a change of /dev/null"),
        ("--- /dev/null\n+++ b/new\n@@\n+a\n-b\n", "other lines than a new or deleted file has"),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", "a change of a file's mode"),
        ("diff --git a/f b/f\nnew file mode 120000\n", "what is no plain file"),
        ("diff --git a/f b/f\nGIT binary patch\n", "no text"),
        ("diff --git a/f b/f\ncopy from f\n", "a copy"),
        ("diff --git a/f b/f\nindex 1..2\n", "expected `--- ` and `+++ `"),
        (&format!("{}{}", update("f", "@@\n-a\n+b\n"), update("f", "@@\n-b\n+c\n")), "names \"f\" twice"),
        ("*** Begin Patch\n*** Update File: f\n*** End Patch", "expected `@@`"),
        ("*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n", "`*** End Patch`"),
        ("*** Begin Patch\n*** Add File: f\n+x\n*** End Patch", "is there already"),
        ("*** Begin Patch\n*** Add File: f/x\n+x\n*** End Patch", "is a file, not a folder"),
        ("*** Begin Patch\n*** Add File: h\nx\n*** End Patch", "at line 3"),
        ("*** Begin Patch\n*** Update File: none\n@@\n-a\n*** End Patch", "there is no \"none\""),
        ("*** Begin Patch\n*** Update File: f\n*** Move to: g\n*** End Patch", "\"g\" is there already"),
        ("*** Begin Patch\n*** Delete File: f\n*** End Patch\nmore", "nothing after `*** End Patch`"),
        (&update("bin", "@@\n-a\n"), "not UTF-8 text"),
        ("--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-other\n", "does not hold exactly what the patch deletes"),
        (&"x".repeat((2 << 20) + 1), "at most 2097152 are taken"),
    ] {
        let before = workspace.snapshot();
        let error = workspace.patch_error(patch).await;
        assert!(error.contains(says), "{:.100}: {error}", patch);
        assert_eq!(workspace.snapshot(), before);
    }
}

#[tokio::test]
async fn modes_and_line_ends_are_kept() {
    let workspace = Workspace::new();
    let check = |old: &'static str, hunks: &'static str, new: &'static str| {
        let workspace = &workspace;
        async move {
            workspace.write("f", old);
            if let Err(error) = workspace.patch(&update("f", hunks)).await {
                panic!("{hunks:?}: {error}");
            }
            assert_eq!(workspace.text("f"), new, "{hunks:?}");
        }
    };
    // A patch without an eye on how lines end.
    check("a\r\nb\r\nc\r\n", "@@\n a\n-b\n+B\n+BB\n c\n", "a\r\nB\r\nBB\r\nc\r\n").await;
    check("a\nb", "@@\n a\n-b\n+B\n", "a\nB").await;
    check("a\nb", "@@\n b\n+c\n", "a\nb\nc").await;
    check("a\r\nb", "@@\n b\n+c\n", "a\r\nb\r\nc").await;
    check("a\nb", "@@\n-a\n+A\n", "A\nb").await;
    // One that has.
    check("a\r\nb\n", "@@\n a\r\n-b\n+c\n", "a\r\nc\n").await;
    check("a\r\n", "@@\n-a\r\n+a\n", "a\n").await;
    check("a\nb", "@@\n a\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n").await;
    check("a\nb\n", "@@\n a\n-b\n+b\n\\ No newline at end of file\n", "a\nb").await;
    check("a\nb", "@@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n", "a\nc").await;
    // Blank lines whose space was lost, empty files, and everything taken away.
    check("a\n\nb\n", "@@\n a\n\n-b\n+c\n\n", "a\n\nc\n").await;
    check("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n\n", "a\n\nc\n").await;
    check("", "@@ -0,0 +1 @@\n+a\n", "a\n").await;
    check("", "@@\n+a\n", "a\n").await;
    check("a\n", "@@ -1 +0,0 @@\n-a\n", "").await;
    // A line that looks like a header.
    check("-- a\n++ b\n", "@@ -1,2 +1,1 @@\n--- a\n-++ b\n+x\n", "x\n").await;
    check("- a\nx\n", "@@ - a\n-x\n+y\n", "- a\ny\n").await;
    // A patch that was converted as a whole.
    workspace.write("f", "a\nb\n");
    workspace.patch("--- a/f\r\n+++ b/f\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n").await.unwrap();
    assert_eq!(workspace.text("f"), "a\nc\n");

    // Neither are these headers, in an envelope.
    workspace.write("f", "-- a\n");
    workspace.patch("*** Begin Patch\n*** Update File: f\n@@\n--- a\n+++ b\n*** End Patch").await.unwrap();
    assert_eq!(workspace.text("f"), "++ b\n");

    fs::set_permissions(workspace.path("f"), fs::Permissions::from_mode(0o4751)).unwrap();
    workspace.patch(&update("f", "@@\n-++ b\n+d\n")).await.unwrap();
    assert_eq!(fs::metadata(workspace.path("f")).unwrap().mode() & 0o7777, 0o751);
}

#[tokio::test]
async fn a_hard_link_elsewhere_is_not_written_through() {
    let outside = tempfile::tempdir().unwrap();
    let workspace = Workspace::new();
    workspace.write("f", "a\n");
    fs::hard_link(workspace.path("f"), outside.path().join("f")).unwrap();
    workspace.patch(&update("f", "@@\n-a\n+b\n")).await.unwrap();
    assert_eq!(fs::read_to_string(outside.path().join("f")).unwrap(), "a\n");
}

#[tokio::test]
async fn a_patch_whose_third_file_does_not_fit_changes_nothing() {
    let workspace = Workspace::new();
    workspace.write("a", "a\n").write("b", "b\n").write("c", "c\n");
    let before = workspace.snapshot();
    let first = format!("{}{}", update("a", "@@\n-a\n+x\n"), "--- /dev/null\n+++ b/new/n\n@@ -0,0 +1 @@\n+n\n");
    for third in [update("c", "@@\n-z\n"), update("none", "@@\n-z\n"), update("../c", "@@\n-c\n"), "rubbish".to_owned()]
    {
        assert!(workspace.patch(&format!("{first}{third}")).await.is_err());
        assert_eq!(workspace.snapshot(), before, "{third}");
    }
}

/// Files are staged, and some are in their places, when the system refuses another: everything goes back.
#[test]
fn what_was_done_is_undone_when_the_system_refuses_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = |path: &str| folder.path().join(path);
    fs::create_dir(path("locked")).unwrap();
    for name in ["a", "b", "locked/c"] {
        fs::write(path(name), "x\n").unwrap();
    }
    fs::set_permissions(path("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    for name in ["", "a", "b", "locked/c"] {
        std::os::unix::fs::chown(path(name), Some(65534), Some(65534)).unwrap();
    }
    let set = WorkspaceSet::open(folder.path()).unwrap().writable(["**"]).unwrap();
    let root = set.allow_create(true).allow_delete(true).root;
    let begin = "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** Add File: new/deep/n\n+n\n*** Delete File: b\n";
    for last in
        ["*** Delete File: locked/c\n", "*** Update File: locked/c\n@@\n-x\n+y\n", "*** Add File: locked/d\n+x\n"]
    {
        let arguments = json!({"patch": format!("{begin}{last}*** End Patch")});
        let arguments: PatchArguments = serde_json::from_value(arguments).unwrap();
        // A thread of its own, which is not root: root is refused nothing.
        let error = std::thread::scope(|scope| {
            let apply = || {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                patch::apply_patch(&root, arguments, &Cancel::default()).map(drop).unwrap_err()
            };
            scope.spawn(apply).join().unwrap()
        });
        assert!(error.to_string().contains("\"locked/"), "{last}: {error}");
        for name in ["a", "b", "locked/c"] {
            assert_eq!(fs::read_to_string(path(name)).unwrap(), "x\n", "{last} {name}");
        }
        let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["a", "b", "locked"], "{last}");
        assert_eq!(fs::read_dir(path("locked")).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn patches_that_race_are_applied_one_after_the_other() {
    let workspace = Workspace::new();
    workspace.write("n", "end\n");
    let patches: Vec<_> = (0..20).map(|number| update("n", &format!("@@\n+{number}\n end\n"))).collect();
    let calls = patches.iter().map(|patch| workspace.patch(patch));
    for result in futures_util::future::join_all(calls).await {
        result.unwrap();
    }
    assert_eq!(workspace.text("n").lines().count(), 21);
    assert_eq!(fs::read_dir(workspace.folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_large_patch_takes_little_time_and_a_mean_one_not_for_ever() {
    let workspace = Workspace::new();
    let (mut old, mut hunks, mut new) = (String::new(), String::new(), String::new());
    for number in 0..30_000 {
        writeln!(old, "line {number}").unwrap();
        if number % 10 == 0 {
            write!(hunks, "@@ -{0} +{0} @@\n-line {number}\n+changed {number} {1}\n", number + 1, "x".repeat(350))
                .unwrap();
            writeln!(new, "changed {number} {}", "x".repeat(350)).unwrap();
        } else {
            writeln!(new, "line {number}").unwrap();
        }
    }
    assert!(hunks.len() > 1_000_000);
    workspace.write("f", &old);
    let started = std::time::Instant::now();
    workspace.patch(&update("f", &hunks)).await.unwrap();
    assert_eq!(workspace.text("f"), new);
    // Every line fits almost everywhere.
    workspace.write("mean", "a\n".repeat(100_000));
    let mean = update("mean", &format!("@@\n{}-b\n", " a\n".repeat(50_000)));
    assert!(workspace.patch_error(&mean).await.contains("takes too long"));
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

fn text() -> impl Strategy<Value = String> {
    let line =
        prop_oneof![Just("a"), Just("b"), Just(""), Just("-- x"), Just("++ y"), Just("\\ z"), Just("@@ q"), Just("é")];
    let end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n")];
    (prop::collection::vec((line, end), 0..40), any::<bool>()).prop_map(|(lines, is_open)| {
        let mut text: String = lines.iter().flat_map(|(line, end)| [*line, *end]).collect();
        if is_open {
            text.push_str("last");
        }
        text
    })
}

/// The unified diff that Git makes of two texts.
fn git_diff(old: &str, new: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (side, text) in [("a", old), ("b", new)] {
        fs::create_dir(folder.path().join(side)).unwrap();
        fs::write(folder.path().join(side).join("f"), text).unwrap();
    }
    let mut git = std::process::Command::new("git");
    git.current_dir(folder.path()).args(["diff", "--no-index", "--no-color", "--no-prefix", "--text", "a/f", "b/f"]);
    String::from_utf8(git.output().unwrap().stdout).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_git_says_differs_is_applied_exactly(old in text(), new in text()) {
        prop_assume!(old != new);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f"), &old).unwrap();
        let root = WorkspaceSet::open(folder.path()).unwrap().writable(["f"]).unwrap().root;
        let arguments: PatchArguments = serde_json::from_value(json!({"patch": git_diff(&old, &new)})).unwrap();
        if let Err(error) = patch::apply_patch(&root, arguments, &Cancel::default()) {
            panic!("{error}\n{}", git_diff(&old, &new));
        }
        prop_assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), new);
    }

    #[test]
    fn nothing_that_is_said_makes_it_fall_over(
        old in text(),
        lines in prop::collection::vec(
            prop_oneof![
                Just("--- a/f"), Just("+++ b/f"), Just("@@"), Just("@@ -1,2 +1,2 @@"), Just("@@ -0,0 +1 @@"),
                Just(" a"), Just("-a"), Just("+b"), Just(""), Just("\\ No newline"), Just("*** Begin Patch"), Just("*** Update File: f"),
                Just("*** End Patch"), Just("@@ a"), Just("*** End of File"), Just("diff --git a/f b/f"), Just("-é"),
                Just("*** Move to: g"), Just("\r"),
            ],
            0..30,
        ),
    ) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f"), &old).unwrap();
        let root = WorkspaceSet::open(folder.path()).unwrap().writable(["f"]).unwrap().root;
        for start in ["", "--- a/f\n+++ b/f\n@@\n", "*** Begin Patch\n*** Update File: f\n"] {
            let patch = format!("{start}{}", lines.join("\n"));
            let arguments: PatchArguments = serde_json::from_value(json!({"patch": patch, "dry_run": true})).unwrap();
            let _: Result<Value, _> = patch::apply_patch(&root, arguments, &Cancel::default()).map(|_| Value::Null);
        }
        prop_assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), old);
    }
}

#[tokio::test]
async fn the_tool_says_what_it_may_do_and_no_more() {
    for (create, delete, words, absent) in [
        (
            true,
            true,
            &["creates, deletes and renames", "Move to", "Add File", "Delete File", "rename from"][..],
            &[][..],
        ),
        (
            true,
            false,
            &["creates files", "Add File", "neither deletes nor"],
            &["Move to", "Delete File", "rename from"],
        ),
        (
            false,
            true,
            &["deletes files", "Delete File", "neither creates nor"],
            &["Move to", "Add File", "rename from"],
        ),
        (false, false, &["files that exist"], &["Move to", "Add File", "Delete File", "rename from", "/dev/null"]),
    ] {
        let workspace =
            Workspace::with(|set| set.writable(["src/**", "*.md"]).unwrap().allow_create(create).allow_delete(delete));
        let description = workspace.tools.spec("fs.apply_patch").unwrap().description;
        assert!(description.contains("may be written: src/**, *.md."), "{description}");
        assert!(words.iter().all(|word| description.contains(word)), "{description}");
        assert!(absent.iter().all(|word| !description.contains(word)), "{description}");
    }
}
