//! Tasks about a repository with history.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::agent::Call;
use crate::scripted::{Answer, Turns};
use crate::task::{Kind, Task, describe, programs, read, run};

const REPO: &str = "/data/repo";

pub(super) const TASKS: [Task; 5] = [
    Task {
        name: "touched",
        question: "Of the last 40 commits of the git repository /data/repo, how many by each author changed a file \
            below src/auth? Answer with JSON: {author: count}, without authors who have none.",
        kind: Kind::Bulk,
        servers: &["git"],
        leaves: None,
        by_tools: |turns| Box::pin(touched(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/look_git.js"), include_str!("programs/touched.js")];
            Box::pin(async move { programs(turns, &["git.git_log", "git.git_show"], &code).await })
        },
    },
    Task {
        name: "types",
        question: "How many commits of each type (the word before the colon in their messages) has the git repository \
            /data/repo in each month? Answer with JSON: {\"2026-01\": {\"fix\": 3, ...}, ...}.",
        kind: Kind::Bulk,
        servers: &["git"],
        leaves: None,
        by_tools: |turns| Box::pin(types(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/look_git.js"), include_str!("programs/types.js")];
            Box::pin(async move { programs(turns, &["git.git_log", "git.git_show"], &code).await })
        },
    },
    Task {
        name: "bugs",
        question: "Which open issues with the label bug in /data/issues.json are mentioned, as (#number), by the last \
            60 commits of the git repository /data/repo, and by how many? Answer with JSON, by number: [{\"issue\": 1, \
            \"commits\": 2}, ...].",
        kind: Kind::Bulk,
        servers: &["git", "files"],
        leaves: None,
        by_tools: |turns| Box::pin(bugs(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/look_issues.js"), include_str!("programs/bugs.js")];
            Box::pin(async move { programs(turns, &["git.git_log", "files.read_text_file"], &code).await })
        },
    },
    Task {
        name: "branch",
        question: "Which branch of the git repository /data/repo is checked out, and are there no changes? Answer with \
            JSON: {\"branch\": \"...\", \"clean\": true}.",
        kind: Kind::Few,
        servers: &["git"],
        leaves: None,
        by_tools: |mut turns| {
            Box::pin(async move { Ok(branch(&turns.call("git.git_status", json!({"repo_path": REPO})).await?)) })
        },
        by_programs: |mut turns| {
            Box::pin(async move {
                describe(&mut turns, &["git.git_status"]).await?;
                let status = run(&mut turns, include_str!("programs/branch.js")).await?;
                Ok(branch(status.as_str().unwrap_or_default()))
            })
        },
    },
    Task {
        name: "culprit",
        question: "Users are logged out after a minute now. Which of the last 15 commits of the git repository \
            /data/repo did it? Look at its diff. Answer with JSON: {\"author\": \"...\", \"file\": \"...\", \"was\": \
            seconds, \"is\": seconds}.",
        kind: Kind::Judgement,
        servers: &["git"],
        leaves: None,
        by_tools: |turns| Box::pin(culprit(turns)),
        by_programs: |turns| Box::pin(culprit_by_programs(turns)),
    },
];

struct Commit<'a> {
    hash: &'a str,
    author: &'a str,
    month: &'a str,
    message: &'a str,
}

async fn log(turns: &mut Turns, count: u64) -> anyhow::Result<String> {
    turns.call("git.git_log", json!({"repo_path": REPO, "max_count": count})).await
}

fn commits(log: &str) -> Vec<Commit<'_>> {
    let commit = |text| {
        let field = |name| str::lines(text).find_map(|line| line.strip_prefix(name));
        let (hash, author, date) = (str::lines(text).next()?, field("Author: ")?, field("Date: ")?);
        Some(Commit { hash, author, month: date.get(..7)?, message: field("Message: ")? })
    };
    log.split("Commit: ").filter_map(commit).collect()
}

async fn touched(mut turns: Turns) -> Answer {
    let log = log(&mut turns, 40).await?;
    let commits = commits(&log);
    let show = |commit: &Commit<'_>| Call::new("git.git_show", json!({"repo_path": REPO, "revision": commit.hash}));
    let shown = turns.calls(commits.iter().map(show).collect()).await?;
    let mut counts = BTreeMap::<_, u64>::new();
    for (commit, text) in commits.iter().zip(&shown) {
        if text.contains("--- a/src/auth/") || text.contains("+++ b/src/auth/") {
            *counts.entry(commit.author).or_default() += 1;
        }
    }
    Ok(json!(counts))
}

async fn types(mut turns: Turns) -> Answer {
    let log = log(&mut turns, 1000).await?;
    let mut months = BTreeMap::<_, BTreeMap<_, u64>>::new();
    for commit in commits(&log) {
        let (kind, _) = commit.message.split_once(':').context("a commit without a type")?;
        *months.entry(commit.month).or_default().entry(kind).or_default() += 1;
    }
    Ok(json!(months))
}

async fn bugs(mut turns: Turns) -> Answer {
    let log = Call::new("git.git_log", json!({"repo_path": REPO, "max_count": 60}));
    let texts = turns.calls(vec![log, read("/data/issues.json")]).await?;
    let commits = commits(&texts[0]);
    let issues: Vec<Value> = serde_json::from_str(&texts[1])?;
    let mut bugs = Vec::new();
    for issue in issues.iter().filter(|issue| issue["state"] == "open" && issue["labels"][0] == "bug") {
        let mark = format!("(#{})", issue["number"]);
        let count = commits.iter().filter(|commit| commit.message.contains(&mark)).count();
        if count > 0 {
            bugs.push(json!({"issue": issue["number"], "commits": count}));
        }
    }
    Ok(json!(bugs))
}

fn branch(status: &str) -> Value {
    let branch = status.lines().find_map(|line| line.strip_prefix("On branch "));
    json!({"branch": branch, "clean": status.contains("nothing to commit, working tree clean")})
}

/// Returns the commit that a reader of the log takes for the cause.
fn suspect(log: &str) -> anyhow::Result<Commit<'_>> {
    let suspect = commits(log).into_iter().find(|commit| commit.message.contains("expiry"));
    suspect.context("no commit looks like it")
}

/// Returns the answer that its diff gives.
fn verdict(author: &str, shown: &str) -> Answer {
    let value = |sign: &str| {
        let line =
            shown.lines().find_map(|line| line.strip_prefix(sign)?.strip_prefix("export const SESSION_SECONDS = "));
        line.and_then(|line| line.strip_suffix(';')?.parse::<u64>().ok())
    };
    let file = shown.lines().find_map(|line| line.strip_prefix("+++ b/"));
    Ok(json!({"author": author, "file": file, "was": value("-"), "is": value("+")}))
}

async fn culprit(mut turns: Turns) -> Answer {
    let log = log(&mut turns, 15).await?;
    let suspect = suspect(&log)?;
    let shown = turns.call("git.git_show", json!({"repo_path": REPO, "revision": suspect.hash})).await?;
    verdict(suspect.author, &shown)
}

/// A program cannot judge: the model looks between two of them.
async fn culprit_by_programs(mut turns: Turns) -> Answer {
    describe(&mut turns, &["git.git_log", "git.git_show"]).await?;
    let log = run(&mut turns, include_str!("programs/culprit_log.js")).await?;
    let suspect = suspect(log.as_str().unwrap_or_default())?;
    let code =
        format!("return await mcp.call(\"git.git_show\", {{repo_path: \"{REPO}\", revision: \"{}\"}});", suspect.hash);
    let shown = run(&mut turns, &code).await?;
    verdict(suspect.author, shown.as_str().unwrap_or_default())
}
