//! `run --durable` and `runs`: runs that outlive the program, and what people do about them.

use relay_test_support::postgres::Postgres;
use serde_json::{Value, json};

use super::folder::{Ended, Folder};

const JOURNAL: [&str; 2] = ["--journal", "runs.db"];
const TOOLS: [&str; 2] = ["--mcp", "mcp.json"];
const CODE: &str =
    "console.log('once'); const {arguments: got} = await mcp.call('fake.echo', {to: 'Ada\\u202e'}); return got";

impl Folder {
    async fn runs(&self, words: &[&str]) -> Ended {
        self.run(&[&["runs"], words, &JOURNAL].concat()).await
    }

    /// Begins a durable run that waits for an approval, and returns its id.
    async fn waiting(&self, code: &str) -> String {
        let arguments = ["run", "-", "--durable", "--passivate-after", "1"];
        let ended = self.run_with(code, &[&arguments[..], &JOURNAL, &TOOLS].concat()).await;
        assert_eq!((ended.status, &*ended.out), (Some(4), ""), "{ended:?}");
        let id = ended.err.lines().next().unwrap().strip_prefix("run ").unwrap().to_owned();
        assert!(ended.err.contains(&format!("relay-host runs approve {id} 1\n")), "{ended:?}");
        assert!(self.processes().is_empty(), "{:?}", self.processes());
        id
    }

    async fn resume(&self, words: &[&str]) -> Ended {
        self.runs(&[&["resume", "--passivate-after", "1"], words, &TOOLS].concat()).await
    }

    async fn json(&self, words: &[&str]) -> Value {
        self.runs(&[words, &["--json"]].concat()).await.value()
    }
}

#[tokio::test]
async fn a_durable_run_that_ends_is_in_the_journal() {
    let folder = Folder::new();
    let mut command = folder.command(&["run", "-", "--durable"]);
    command.env("RELAY_HOST_JOURNAL", "runs.db");
    let ended = super::folder::finish(command, "console.log('out'); return {a: 'b\\u001b'}").await;
    assert_eq!((ended.status, &*ended.out), (Some(0), "{\"a\":\"b\\u001b\"}\n"), "{ended:?}");
    let id = ended.err.strip_suffix("\nout\n").unwrap().strip_prefix("run ").unwrap();
    assert_eq!(folder.runs(&["list"]).await.out, "all runs have ended; --all lists them\n");
    let listed = folder.runs(&["list", "--all"]).await.out;
    assert!(listed.starts_with(&format!("{id}  20")) && listed.ends_with("Z  ended\n"), "{listed}");
    let shown = folder.json(&["show", &id[..6]]).await;
    assert_eq!((&shown["result"], &shown["calls"]), (&json!({"a": "b\u{1b}"}), &json!([])), "{shown}");
    folder.runs(&["resume", id]).await.says(2, &[id, "that has not ended"]);
    folder.runs(&["cancel", id]).await.says(2, &["has ended", "forget"]);
    assert_eq!(folder.json(&["forget", id]).await, json!({"run": id, "forgotten": true}));
    assert_eq!(folder.runs(&["list", "--all"]).await.out, "there are no runs\n");
}

#[tokio::test]
async fn a_run_waits_in_the_journal_until_a_person_approves_and_another_process_goes_on() {
    let folder = Folder::new();
    folder.fake_server("plain");
    let id = folder.waiting(CODE).await;
    let shown = folder.runs(&["show", &id]).await.out;
    for words in ["status    waiting, in no process", "call 1  fake.echo: waiting for approval until 20", "\\u{202e}"] {
        assert!(shown.contains(words), "{words:?} is not in: {shown}");
    }
    assert!(shown.ends_with(&format!("\nrelay-host runs approve {id} 1\n")) && !shown.contains('\u{202e}'), "{shown}");
    // Nobody has decided: the run is taken up, and left again.
    folder.resume(&[&id]).await.says(4, &["waits for an approval"]);
    assert_eq!(folder.json(&["show", &id]).await["waiting_for_approval"], json!([1]));

    let approved = folder.runs(&["approve", &id[..8], "1", "--by", "Bo"]).await.out;
    assert_eq!(approved, format!("call 1 is approved; no process goes on with the run: relay-host runs resume {id}\n"));
    folder.runs(&["deny", &id, "1"]).await.says(2, &["there is a decision on call 1"]);
    let shown = folder.runs(&["show", &id]).await.out;
    assert!(shown.contains("decided, not gone on yet") && !shown.contains("runs approve"), "{shown}");
    let ended = folder.resume(&[&id]).await;
    let value = json!({"to": "Ada\u{202e}"}).to_string();
    assert_eq!((ended.status, ended.out, &*ended.err), (Some(0), value + "\n", "once\n"));
    let shown = folder.json(&["show", &id]).await;
    assert_eq!((&shown["calls"][0]["decided_by"], &shown["calls"][0]["state"]), (&json!("Bo"), &json!("answered")));
    folder.runs(&["approve", &id, "1"]).await.says(2, &["nobody is asked about call 1"]);
}

#[tokio::test]
async fn all_runs_go_on_at_once_each_with_its_decision() {
    let folder = Folder::new();
    folder.fake_server("plain");
    let code = "return await mcp.call('fake.echo').then(() => 'ran', (error) => error.message)";
    let (yes, no) = (folder.waiting(code).await, folder.waiting(code).await);
    let (open, gone) = (folder.waiting(code).await, folder.waiting(code).await);
    let denied = folder.json(&["deny", &no, "1", "--by", "Bo", "--reason", "not today"]).await;
    assert_eq!(denied, json!({"run": no, "call": 1, "decision": "denied", "by": "Bo"}));
    folder.runs(&["approve", &yes, "1"]).await;
    assert_eq!(folder.json(&["cancel", &gone]).await, json!({"run": gone, "cancelled": true}));
    assert!(folder.runs(&["show", &gone]).await.out.contains("to be cancelled"));
    let ended = folder.resume(&["--all", "--json"]).await;
    assert_eq!((ended.status, &*ended.err), (Some(1), ""), "{ended:?}");
    let lines: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |id: &str| lines.iter().find(|line| line["run"] == id).unwrap();
    assert_eq!((lines.len(), &of(&yes)["result"]), (4, &json!("ran")), "{lines:?}");
    assert_eq!(of(&no)["result"], "fake.echo was denied: not today");
    assert_eq!(of(&open)["status"], "waiting_for_approval");
    assert!(of(&gone)["text"].as_str().unwrap().contains("CANCELLED") && of(&gone)["status"] == "failed");
    let left = folder.json(&["list"]).await;
    assert_eq!((left.as_array().map(Vec::len), &left[0]["run"]), (Some(1), &json!(open)), "{left}");
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let folder = Folder::new();
    folder.fake_server("plain");
    folder.run_with("1", &["run", "-", "--durable"]).await.says(2, &["--journal"]);
    folder.run(&["runs", "list"]).await.says(2, &["--journal", "RELAY_HOST_JOURNAL"]);
    folder.runs(&["list"]).await.says(2, &["there is no journal runs.db"]);
    assert!(!folder.path("runs.db").exists(), "looking at a journal makes none");
    let (one, two) = (folder.waiting(CODE).await, folder.waiting(CODE).await);
    folder.runs(&["show", "nothing"]).await.says(2, &["no run nothing", "list --all"]);
    folder.runs(&["show", "\u{1b}[2J"]).await.says(2, &["is not the id of a run"]);
    folder.runs(&["approve", &one, "2"]).await.says(2, &["nobody is asked about call 2"]);
    folder.runs(&["resume"]).await.says(2, &["required", "RUN"]);
    // The first letters that both have in common, and then some that neither has.
    let shared = one.chars().zip(two.chars()).take_while(|(one, two)| one == two).count();
    if shared > 0 {
        folder.runs(&["show", &one[..shared]]).await.says(2, &["2 runs begin with", &one, &two]);
    }
    folder.file("no.db", "this is no database, and long enough to look like one".repeat(9));
    let ended = folder.run(&["runs", "list", "--journal", "no.db"]).await;
    assert!(ended.status == Some(2) && ended.err.contains("no.db: it is no SQLite database"), "{ended:?}");
}

#[tokio::test]
async fn the_journal_may_be_a_postgres_database() {
    let folder = Folder::new();
    let postgres = Postgres::shared();
    let address = postgres.database();
    let journal = ["--journal", &address];
    let ended = folder.run_with("return 42", &[&["run", "-", "--durable"], &journal[..]].concat()).await;
    assert_eq!((ended.status, &*ended.out), (Some(0), "42\n"), "{ended:?}");
    let id = ended.err.trim().strip_prefix("run ").unwrap();
    let shown = folder.run(&[&["runs", "show", id, "--json"], &journal[..]].concat()).await.value();
    assert_eq!(shown["result"], 42);
}
