//! A repository with 150 commits, and the issues that they mention.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::json;

use crate::scene::{Dice, Maker};

const COMMITS: u64 = 150;
/// The commits that the tasks look at: the last so many.
const SHOWN: u64 = 40;
const MENTIONED: u64 = 60;
/// The commit that shortens sessions, counted from the last.
const CULPRIT: u64 = 6;
/// 2026-01-01 00:00 UTC.
const BEGIN: u64 = 1_767_225_600;
const HOURS_BETWEEN: u64 = 29;

const AUTHORS: [&str; 5] = ["Ada Park", "Ben Osei", "Chloe Ruiz", "Dmitri Sol", "Emi Tan"];
const TYPES: [&str; 5] = ["feat", "fix", "docs", "refactor", "chore"];
const FOLDERS: [&str; 4] = ["auth", "billing", "search", "ui"];
const FILES: [&str; 3] = ["session.ts", "client.ts", "types.ts"];
const VERBS: [&str; 6] = ["speed up", "simplify", "harden", "cover", "rename", "split"];
const NOUNS: [&str; 8] =
    ["token refresh", "retry logic", "error pages", "the cache", "paging", "input checks", "logging", "setup"];

pub(crate) fn make(maker: &mut Maker<'_>) -> anyhow::Result<()> {
    let mut dice = Dice::new(1);
    let mut files = BTreeMap::new();
    for folder in FOLDERS {
        for file in FILES {
            files.insert(format!("src/{folder}/{file}"), format!("// {folder}: {file}\n"));
        }
    }
    files.insert("src/auth/session.ts".into(), "// auth: session.ts\nexport const SESSION_SECONDS = 3600;\n".into());
    let (mut stream, mut touched) = (String::new(), BTreeMap::<&str, u64>::new());
    let mut types = BTreeMap::<String, BTreeMap<&str, u64>>::new();
    let mut mentions = BTreeMap::<u64, u64>::new();
    for number in 0..COMMITS {
        let from_last = COMMITS - 1 - number;
        let (author, kind) = (dice.pick(&AUTHORS), dice.pick(&TYPES));
        let mut subject = format!("{kind}: {} {}", dice.pick(&VERBS), dice.pick(&NOUNS));
        let mut changed = BTreeSet::new();
        for _ in 0..=dice.roll(2) {
            let path = format!("src/{}/{}", dice.pick(&FOLDERS), dice.pick(&FILES));
            let lines = 2 + dice.roll(6);
            if let Some(text) = files.get_mut(&path) {
                for line in 0..lines {
                    writeln!(text, "export const v{number}_{line} = {};", dice.roll(1000))?;
                }
            }
            changed.insert(path);
        }
        let issue = 1 + dice.roll(80);
        if dice.roll(2) == 0 && from_last != CULPRIT {
            write!(subject, " (#{issue})")?;
            if from_last < MENTIONED {
                *mentions.entry(issue).or_default() += 1;
            }
        }
        if from_last == CULPRIT {
            subject = format!("{kind}: tidy up expiry constants");
            let path = "src/auth/session.ts";
            if let Some(text) = files.get_mut(path) {
                *text = text.replace("SESSION_SECONDS = 3600", "SESSION_SECONDS = 60");
            }
            changed = BTreeSet::from([path.to_owned()]);
            maker.answer("culprit", json!({"author": author, "file": path, "was": 3600, "is": 60}));
        }
        if from_last < SHOWN && changed.iter().any(|path| path.starts_with("src/auth/")) {
            *touched.entry(author).or_default() += 1;
        }
        let at = BEGIN + number * HOURS_BETWEEN * 3600;
        *types.entry(month(number)).or_default().entry(kind).or_default() += 1;
        commit(&mut stream, number, &format!("{author} <{}@example.com> {at} +0000", &author[..1]), &subject)?;
        let all = number == 0;
        for (path, text) in files.iter().filter(|(path, _)| all || changed.contains(*path)) {
            writeln!(stream, "M 100644 inline {path}\ndata {}\n{text}", text.len())?;
        }
    }
    maker.answer("touched", json!(touched));
    maker.answer("types", json!(types));
    maker.answer("branch", json!({"branch": "main", "clean": true}));
    issues(maker, &mentions)?;
    import(maker, &stream)
}

/// The month of a commit, such as `2026-01`.
fn month(number: u64) -> String {
    let mut day = number * HOURS_BETWEEN / 24;
    for (index, days) in [31, 28, 31, 30, 31, 30, 31].into_iter().enumerate() {
        if day < days {
            return format!("2026-{:02}", index + 1);
        }
        day -= days;
    }
    "2026-08".into()
}

fn commit(stream: &mut String, number: u64, who: &str, subject: &str) -> anyhow::Result<()> {
    let (mark, length) = (number + 1, subject.len() + 1);
    write!(stream, "commit refs/heads/main\nmark :{mark}\nauthor {who}\ncommitter {who}\ndata {length}\n{subject}\n")?;
    if number > 0 {
        writeln!(stream, "from :{number}")?;
    }
    Ok(())
}

fn issues(maker: &mut Maker<'_>, mentions: &BTreeMap<u64, u64>) -> anyhow::Result<()> {
    let mut dice = Dice::new(2);
    let (mut issues, mut bugs) = (Vec::new(), Vec::new());
    for number in 1..=80 {
        let (state, label) = (dice.pick(&["open", "closed"]), dice.pick(&["bug", "feature", "question"]));
        let title = format!(
            "{} {}",
            dice.pick(&NOUNS),
            dice.pick(&["fails on Windows", "is slow", "needs a test", "is unclear"])
        );
        issues.push(json!({"number": number, "title": title, "state": state, "labels": [label]}));
        if let Some(commits) = mentions.get(&number)
            && (state, label) == ("open", "bug")
        {
            bugs.push(json!({"issue": number, "commits": commits}));
        }
    }
    maker.answer("bugs", json!(bugs));
    maker.write("issues.json", &serde_json::to_string_pretty(&issues)?)
}

/// Makes the repository from a stream for `git fast-import`.
fn import(maker: &Maker<'_>, stream: &str) -> anyhow::Result<()> {
    let folder = maker.root.join("repo");
    std::fs::create_dir(&folder)?;
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        // Whatever a user has configured changes nothing here.
        command.current_dir(&folder).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null");
        command
    };
    crate::servers::run(&mut git(&["init", "--quiet", "--initial-branch=main"]))?;
    let mut import = git(&["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn()?;
    import.stdin.take().context("git has no standard input")?.write_all(stream.as_bytes())?;
    ensure!(import.wait()?.success(), "git fast-import failed");
    crate::servers::run(&mut git(&["reset", "--quiet", "--hard", "main"]))
}
