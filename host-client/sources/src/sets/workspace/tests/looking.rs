//! `ls`, `glob`, `grep` and `read`.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::Workspace;
use host_client_core::tool::{Effect, Mode};

fn paths(result: &Value) -> Vec<&str> {
    result["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect()
}

#[tokio::test]
async fn tools_say_what_they_do_and_patches_need_something_writable() {
    let workspace = Workspace::with(|set| set);
    let names: Vec<_> = workspace.tools.specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["fs.glob", "fs.grep", "fs.ls", "fs.read"]);
    let workspace = Workspace::new();
    for spec in workspace.tools.specs() {
        let expected = if spec.name == "fs.apply_patch" { Effect::Mutating } else { Effect::ReadOnly };
        assert_eq!(
            (spec.manifest.effect, spec.manifest.mode),
            (Some(expected), Mode::RestrictedLocal),
            "{}",
            spec.name
        );
        assert!(spec.output_schema.is_some());
    }
    assert!(workspace.error("ls", json!({"folder": "x"})).await.contains("folder"));
}

#[tokio::test]
async fn ls_lists_one_folder() {
    let workspace = Workspace::new();
    workspace
        .write("b.txt", "four")
        .write("a/x", "")
        .write(".git/config", "secret")
        .write("log", "")
        .write(".gitignore", "log\n");
    symlink("b.txt", workspace.path("link")).unwrap();
    let expected = json!({"entries": [
        {"name": ".gitignore", "kind": "file", "bytes": 4}, {"name": "a", "kind": "folder"},
        {"name": "b.txt", "kind": "file", "bytes": 4}, {"name": "link", "kind": "link"},
    ], "truncated": false, "skipped": 0});
    assert_eq!(workspace.call("ls", json!({})).await.unwrap(), expected);
    let all = workspace.call("ls", json!({"path": "./", "ignored": true})).await.unwrap();
    assert_eq!(all["entries"].as_array().unwrap().len(), 5);
    let few = workspace.call("ls", json!({"limit": 2})).await.unwrap();
    assert_eq!((few["entries"].as_array().unwrap().len(), &few["truncated"]), (2, &json!(true)));
    assert!(workspace.error("ls", json!({"path": "b.txt"})).await.contains("is a file, not a folder"));
    assert!(workspace.error("ls", json!({"path": "nowhere"})).await.contains("there is no \"nowhere\""));
}

#[tokio::test]
async fn glob_honours_gitignore_as_git_does() {
    let workspace = Workspace::new();
    for path in [
        "a.rs",
        "b.log",
        "keep.log",
        "src/a.rs",
        "src/b.log",
        "src/deep/c.rs",
        "src/deep/kept.tmp",
        "src/deep/x.tmp",
        "target/x.rs",
        "src/target/y.rs",
        "build/out.rs",
        "docs/build/in.rs",
        ".git/hooks/x.rs",
        "src-a.rs",
    ] {
        workspace.write(path, "");
    }
    workspace.write(".gitignore", "# noise\n*.log\n!keep.log\n/target/\n/build\n").write("src/.gitignore", "*.tmp\n");
    workspace.write("src/deep/.gitignore", "!kept.tmp\n");
    let all = workspace.call("glob", json!({"pattern": "**"})).await.unwrap();
    let expected = [
        ".gitignore",
        "a.rs",
        "docs/build/in.rs",
        "keep.log",
        "src-a.rs",
        "src/.gitignore",
        "src/a.rs",
        "src/deep/.gitignore",
        "src/deep/c.rs",
        "src/deep/kept.tmp",
        "src/target/y.rs",
    ];
    assert_eq!(paths(&all), expected);
    // What Git says of the same folder.
    let git = |arguments: &[&str]| {
        let run =
            std::process::Command::new("git").current_dir(workspace.folder.path()).args(arguments).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        String::from_utf8(run.stdout).unwrap()
    };
    fs::remove_dir_all(workspace.path(".git")).unwrap();
    git(&["init", "-q"]);
    let listed = git(&["ls-files", "--others", "--exclude-standard"]);
    let mut listed: Vec<_> = listed.lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, expected);

    let below = workspace.call("glob", json!({"pattern": "*.rs", "path": "src"})).await.unwrap();
    assert_eq!(paths(&below), ["src/a.rs", "src/deep/c.rs", "src/target/y.rs"]);
    let below = workspace.call("glob", json!({"pattern": "deep/*", "path": "src/"})).await.unwrap();
    assert_eq!(paths(&below), ["src/deep/.gitignore", "src/deep/c.rs", "src/deep/kept.tmp"]);
    let ignored = workspace.call("glob", json!({"pattern": "**/*.{log,tmp}", "ignored": true})).await.unwrap();
    assert_eq!(paths(&ignored), ["b.log", "keep.log", "src/b.log", "src/deep/kept.tmp", "src/deep/x.tmp"]);
    let named = workspace.call("glob", json!({"pattern": "*", "path": "target"})).await.unwrap();
    assert_eq!(paths(&named), ["target/x.rs"]);
    let few = workspace.call("glob", json!({"pattern": "**", "limit": 3})).await.unwrap();
    assert_eq!((paths(&few), &few["truncated"]), (expected[..3].to_vec(), &json!(true)));
    assert!(workspace.error("glob", json!({"pattern": "a[", "path": "."})).await.contains("the glob \"a[\""));
}

#[tokio::test]
async fn grep_finds_lines_with_what_is_around_them() {
    let workspace = Workspace::new();
    workspace.write("a.txt", "one\ntwo\nthree\n").write("b/c.rs", "fn Two() {}\r\nlast two").write("bin", b"two\0two");
    let found = workspace.call("grep", json!({"pattern": "two$", "context": 1})).await.unwrap();
    let expected = json!({"matches": [
        {"path": "a.txt", "line": 2, "column": 1, "text": "two", "before": ["one"], "after": ["three"]},
        {"path": "b/c.rs", "line": 2, "column": 6, "text": "last two", "before": ["fn Two() {}"]},
    ], "files_searched": 2, "skipped": 1, "truncated": false});
    assert_eq!(found, expected);
    let found = workspace.call("grep", json!({"pattern": r"two\(\) \{\}$", "ignore_case": true, "glob": "*.rs"})).await;
    assert_eq!(found.unwrap()["matches"][0]["line"], 1);
    let found = workspace.call("grep", json!({"pattern": "t", "path": "a.txt", "limit": 1})).await.unwrap();
    assert_eq!((found["matches"].as_array().unwrap().len(), &found["truncated"]), (1, &json!(true)));
    let found = workspace.call("grep", json!({"pattern": "t", "path": "b/c.rs", "glob": "*.txt"})).await.unwrap();
    assert_eq!(found["files_searched"], 0);
}

/// Files are first searched in pieces, which must find all that is found line by line.
#[tokio::test]
async fn grep_finds_a_line_wherever_it_is_and_however_it_is_asked_for() {
    let workspace = Workspace::new();
    for (number, before) in [0, 1, 1637, 1638, 1639, 1640, 5000].into_iter().enumerate() {
        let end = ["\n", "\r\n", ""][number % 3];
        workspace.write(&number.to_string(), format!("{}needle x{end}", "some text\n".repeat(before)));
    }
    let workspace = &workspace;
    let count = |pattern: &'static str| async move {
        workspace.call("grep", json!({"pattern": pattern})).await.unwrap()["matches"].as_array().unwrap().len()
    };
    for pattern in ["needle", "^needle x$", r"\Aneedle", r"x\z", "(?-m)^needle", "(?i)NEEDLE", r"\bx\b", r"needle\s"] {
        assert_eq!(count(pattern).await, 7, "{pattern}");
    }
    assert_eq!(count(r"text\s+needle").await, 0);
    workspace.write("long", format!("{}\nneedle x\n", "y".repeat(100_000)));
    assert_eq!(count("needle").await, 8);
}

#[tokio::test]
async fn grep_is_bounded_whatever_the_expression_and_the_files() {
    let workspace = Workspace::new();
    workspace.write("a", "a".repeat(100_000)).write("b", "x\n".repeat(10_000)).write("é", "éé match");
    for pattern in ["(", r"(\w{100}){100}", "(?=x)", &"(".repeat(100)] {
        let error = workspace.error("grep", json!({"pattern": pattern})).await;
        assert!(error.contains("the regular expression cannot be used"), "{error}");
    }
    let found = workspace.call("grep", json!({"pattern": "(a*)*b|^(a|aa)+$"})).await.unwrap();
    let line = &found["matches"][0]["text"].as_str().unwrap();
    assert!(line.len() < 510 && line.ends_with('…'));
    let found = workspace.call("grep", json!({"pattern": "x", "limit": 1_000_000})).await.unwrap();
    assert_eq!((found["matches"].as_array().unwrap().len(), &found["truncated"]), (2000, &json!(true)));
    let found = workspace.call("grep", json!({"pattern": "match"})).await.unwrap();
    assert_eq!(found["matches"][0]["column"], 4);
}

#[tokio::test]
async fn read_gives_texts_and_parts_of_them() {
    let workspace = Workspace::new();
    workspace.write("a", "1\n2\r\n3").write("empty", "").write("latin", b"caf\xe9\n");
    let text = workspace.call("read", json!({"path": "a"})).await.unwrap();
    let expected = json!({
        "text": "1\n2\r\n3", "start_line": 1, "lines": 3, "bytes": 6, "truncated": false, "lossy": false
    });
    assert_eq!(text, expected);
    let text = workspace.call("read", json!({"path": "a", "start_line": 2, "lines": 1})).await.unwrap();
    assert_eq!((&text["text"], &text["truncated"], &text["start_line"]), (&json!("2\r\n"), &json!(true), &json!(2)));
    let text = workspace.call("read", json!({"path": "a", "start_line": 9})).await.unwrap();
    assert_eq!((&text["text"], &text["lines"]), (&json!(""), &json!(0)));
    let several = workspace.call("read", json!({"paths": ["latin", "nowhere", "empty"]})).await.unwrap();
    let files = several["files"].as_array().unwrap();
    assert_eq!((&files[0]["text"], &files[0]["lossy"]), (&json!("caf\u{fffd}\n"), &json!(true)));
    assert!(files[1]["error"].as_str().unwrap().contains("nowhere") && files[1].get("text").is_none());
    assert_eq!(files[2]["text"], "");
    for wrong in [json!({}), json!({"path": "a", "paths": []}), json!({"paths": vec!["a"; 101]})] {
        assert!(workspace.error("read", wrong).await.contains("either `path` or `paths`"));
    }
}

#[tokio::test]
async fn a_long_text_is_cut_between_characters_and_says_so() {
    let workspace = Workspace::new();
    let most = 256 << 10;
    workspace.write("one", "é".repeat(most)).write("odd", format!("x{}", "é".repeat(most)));
    for path in ["one", "odd"] {
        let text = workspace.call("read", json!({"path": path})).await.unwrap();
        assert_eq!((&text["truncated"], &text["lossy"]), (&json!(true), &json!(false)));
        assert!((most - 1..=most).contains(&text["text"].as_str().unwrap().len()));
    }
    let several = workspace.call("read", json!({"paths": ["one", "odd"]})).await.unwrap();
    assert_eq!((&several["files"][1]["text"], &several["files"][1]["truncated"]), (&json!(""), &json!(true)));
    // In the place of a piece of its line, the text says where to go on.
    let text = workspace.call("read", json!({"path": "odd"})).await.unwrap();
    assert_eq!((&text["lines"], &text["next_byte"]), (&json!(0), &json!(most - 1)));
    let file = fs::File::create(workspace.path("huge")).unwrap();
    file.set_len(100 << 30).unwrap();
    let text = workspace.call("read", json!({"path": "huge"})).await.unwrap();
    assert_eq!((&text["truncated"], &text["bytes"]), (&json!(true), &json!(100_u64 << 30)));
    assert!(workspace.error("read", json!({"path": "huge", "start_line": 2})).await.contains("at most"));
}

#[tokio::test]
async fn going_on_where_a_page_ended_reads_every_byte_once() {
    let workspace = Workspace::new();
    let numbered = (0..6_000).map(|n| format!("{n:05} {}\n", "é".repeat(n % 97))).collect::<String>();
    let long = format!("first\n{}\r\n\n{}", "漢".repeat(300_000), "x".repeat(700_000));
    let bare = "y".repeat(256 << 10);
    for (name, text) in [
        ("numbered", &numbered),
        ("long", &long),
        ("bare", &bare),
        ("line", &format!("{bare}\n")),
        ("two", &format!("{bare}\nz")),
    ] {
        workspace.write(name, text);
        let (mut line, mut byte, mut read, mut pages) = (1, 0, String::new(), 0);
        loop {
            let page =
                workspace.call("read", json!({"path": name, "start_line": line, "start_byte": byte})).await.unwrap();
            let piece = page["text"].as_str().unwrap();
            assert!(page["next_byte"].is_u64() || page["truncated"] == false || piece.ends_with('\n'), "{name}");
            read.push_str(piece);
            pages += 1;
            if page["truncated"] == false {
                break;
            }
            line += page["lines"].as_u64().unwrap();
            byte = page["next_byte"].as_u64().unwrap_or_default();
            assert!(!piece.is_empty() && pages < 20, "{name}");
        }
        assert!(read == *text, "{name}: {} of {} bytes", read.len(), text.len());
    }
}

#[tokio::test]
async fn many_small_files_are_walked_in_good_time() {
    let workspace = Workspace::new();
    for folder in 0..100 {
        fs::create_dir(workspace.path(&format!("{folder:02}"))).unwrap();
        for file in 0..1000 {
            fs::write(workspace.path(&format!("{folder:02}/{file:03}.txt")), "text").unwrap();
        }
    }
    workspace.write("99/999.txt", "needle");
    let started = std::time::Instant::now();
    let found = workspace.call("grep", json!({"pattern": "needle"})).await.unwrap();
    assert_eq!((&found["matches"][0]["path"], &found["files_searched"]), (&json!("99/999.txt"), &json!(100_000)));
    let found = workspace.call("glob", json!({"pattern": "*7.txt", "limit": 20_000})).await.unwrap();
    assert_eq!((paths(&found).len(), &found["truncated"]), (10_000, &json!(false)));
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
