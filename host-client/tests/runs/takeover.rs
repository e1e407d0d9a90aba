//! A host's process is killed, and another one goes on with its runs: as real processes, with tools that write into a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use host_client::durable::{JournalError, RunFilter};
use host_client::{
    Effect, Error, ExecuteRequest, Host, Policy, Run, RunError, RunOptions, RunStatus, Runs, SqliteJournal, ToolError,
    ToolSpec, Tools, runs,
};
use relay_test_support::within;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::stage::{Folder, Ledger, Relays, Step, nothing, options, tools, value};

/// The variable that makes this test's program a host, with the folder that it works in.
const FOLDER: &str = "RUNS_TEST_FOLDER";
/// The variable that tells this host whether its runs wait for one another's calls: the number of calls after which it stops.
const STOP_AFTER: &str = "RUNS_TEST_STOP_AFTER";

const CODE: &str = "
    const all = await Promise.all(Array.from({length: 12}, (_, n) => mcp.call('t.step', {n, extra: Math.random()})));
    const seen = [all.map(it => it.n).join()];
    // Its outcome may become unknown, which is nothing that the code waits for.
    const hang = mcp.call('t.hang', {n: 12}).catch(() => new Promise(() => {}));
    const race = await Promise.race([hang, mcp.call('t.step', {n: 13, extra: Date.now()})]);
    seen.push(race.n);
    for (let n = 14; n < 20; n++) seen.push((await mcp.call('t.step', {n, extra: Math.random()})).n);
    return seen";

/// The host in a process of its own: begins a run if the journal has none, else goes on with it, and prints the outcome. It is
/// no test by itself.
#[tokio::test]
async fn host_process() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (folder, stop_after) = (std::path::PathBuf::from(folder), std::env::var(STOP_AFTER).unwrap().parse().unwrap());
    let log = Arc::new(Calls { path: folder.join("calls"), stop_after });
    let tools = Tools::new();
    let counted = Arc::clone(&log);
    let step = move |step: Step| {
        let log = Arc::clone(&counted);
        async move {
            log.add(step.n).await;
            Ok::<_, ToolError>(json!({"n": step.n}))
        }
    };
    tools.add("t.step", "One step", Effect::Mutating, step).unwrap();
    let hang = move |_: Step| std::future::pending::<Result<(), ToolError>>();
    tools.tool("t.hang").effect(Effect::Mutating).timeout(Duration::from_secs(300)).run(hang).unwrap();
    let journal = SqliteJournal::open(folder.join("runs.sqlite")).await.unwrap();
    let host = Host::new(tools).policy(Policy::new().allow(["*"])).journal(journal);
    let runs = Runs::new(Relays::default().client(host), options()).unwrap();
    let all = RunFilter { unfinished: false, limit: 2, after: None, newest_first: false };
    let outcome = match &runs::list(runs.journal(), all).await.unwrap()[..] {
        [] => outcome(&runs.start(ExecuteRequest::new(CODE)).await.unwrap()).await,
        [head] if head.status == RunStatus::Ended => {
            let ended = runs::show(runs.journal(), &head.id).await.unwrap();
            ended.result.unwrap_or_else(|| json!({"error": ended.error.unwrap().1}))
        }
        [_] => outcome(&taken_over(&runs).await).await,
        _ => panic!("there is a second run"),
    };
    std::fs::write(folder.join("outcome"), outcome.to_string()).unwrap();
}

/// Takes over the run of a process that was killed a moment ago, whose hold has to end first.
async fn taken_over(runs: &Runs) -> Run {
    loop {
        let mut recovered = runs.recover().await.unwrap();
        assert!(recovered.failed.is_empty(), "{recovered:?}");
        if let Some(run) = recovered.runs.pop() {
            return run;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn outcome(run: &Run) -> Value {
    match run.outcome().await {
        Ok(outcome) => outcome.value().unwrap(),
        Err(error) => json!({"error": error.to_string()}),
    }
}

/// The calls of all processes, a line each.
struct Calls {
    path: std::path::PathBuf,
    /// The number of lines at which this process is killed in the middle of a call.
    stop_after: usize,
}

impl Calls {
    async fn add(&self, n: usize) {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        writeln!(file, "{n}").unwrap();
        if lines(&self.path) == self.stop_after {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
    }
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

fn process(folder: &Path, stop_after: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["takeover::host_process", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(STOP_AFTER, stop_after.to_string())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Runs the code in processes, each of which is killed in one more call, until one ends by itself. Returns the outcome and the
/// number of runs of each step.
async fn killed_after_calls(folder: &Path, kills: impl IntoIterator<Item = usize>) -> (Value, BTreeMap<usize, usize>) {
    for kill in kills {
        let status = within(process(folder, kill).wait()).await.unwrap();
        assert!(!status.success(), "it was to be killed in call {kill}");
    }
    let status = within(process(folder, usize::MAX).wait()).await.unwrap();
    assert!(status.success(), "{status}");
    let outcome = serde_json::from_str(&std::fs::read_to_string(folder.join("outcome")).unwrap()).unwrap();
    let mut runs = BTreeMap::new();
    for line in std::fs::read_to_string(folder.join("calls")).unwrap().lines() {
        *runs.entry(line.parse().unwrap()).or_default() += 1;
    }
    (outcome, runs)
}

#[tokio::test]
async fn a_host_that_is_killed_in_a_call_makes_no_call_twice_and_names_what_is_unknown() {
    for kill in [1, 7, 12, 13, 15, 19] {
        let folder = tempfile::tempdir().unwrap();
        let (outcome, runs) = killed_after_calls(folder.path(), [kill]).await;
        assert!(runs.values().all(|count| *count == 1), "killed in call {kill}: {runs:?}");
        // The code does not handle the error of the call whose outcome nobody knows.
        let error = outcome["error"].as_str().unwrap_or_else(|| panic!("killed in call {kill}: {outcome}"));
        assert!(error.contains("the outcome of t.step is not known"), "{error}");
    }
}

#[tokio::test]
async fn a_host_that_is_killed_between_calls_goes_on_as_if_nothing_had_been() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut seen = 0;
    // The tools write their lines before they answer; a moment later the answers are in the journal.
    for _ in 0..4 {
        let mut child = process(path, usize::MAX);
        let ended = tokio::select! {
            status = child.wait() => { assert!(status.unwrap().success()); true }
            () = async { while lines(&path.join("calls")) <= seen { tokio::time::sleep(Duration::from_millis(2)).await } } => false,
        };
        if ended {
            break;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
        seen = lines(&path.join("calls"));
        child.kill().await.unwrap();
    }
    let (outcome, runs) = killed_after_calls(path, []).await;
    assert!(runs.values().all(|count| *count == 1), "{runs:?}");
    let whole = json!(["0,1,2,3,4,5,6,7,8,9,10,11", 13, 14, 15, 16, 17, 18, 19]);
    let is_named = outcome["error"].as_str().is_some_and(|error| error.contains("is not known"));
    assert!(outcome == whole || is_named, "{outcome}");
}

#[tokio::test]
async fn two_processes_do_not_go_on_with_the_same_run() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let open = Arc::new(tokio::sync::Semaphore::new(0));
    let waits = Arc::clone(&open);
    let each = move |_| {
        let waits = Arc::clone(&waits);
        async move { drop(waits.acquire().await) }
    };
    let claim = Duration::from_secs(60);
    let first =
        Runs::new(relays.client(folder.host(tools(&ledger, each)).await), RunOptions { claim, ..options() }).unwrap();
    let second = crate::stage::runs(relays.client(folder.host(tools(&ledger, nothing)).await));
    let run = within(first.start(ExecuteRequest::new("return (await mcp.call('t.step', {n: 1})).n"))).await.unwrap();
    let recovered = within(second.recover()).await.unwrap();
    assert!(recovered.runs.is_empty() && recovered.held == [run.id().clone()], "{recovered:?}");
    let error = within(second.resume(run.id())).await.unwrap_err();
    assert!(
        matches!(&error, Error::Run(it) if matches!(**it, RunError::Journal(JournalError::Claimed { .. }))),
        "{error}"
    );
    let error = runs::forget(&folder.journal().await, run.id()).await.unwrap_err();
    assert!(matches!(error, RunError::Journal(JournalError::Claimed { .. })), "{error}");
    open.add_permits(1);
    assert_eq!(within(run.outcome()).await.unwrap().value().unwrap(), 1);
    assert!(runs::forget(&folder.journal().await, run.id()).await.unwrap());
    assert!(!runs::forget(&folder.journal().await, run.id()).await.unwrap());
}

#[tokio::test]
async fn idempotent_calls_are_made_again_with_the_same_key() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let keys = Arc::new(std::sync::Mutex::new(Vec::new()));
    let make = |hangs: bool| {
        let (tools, keys, ledger) = (Tools::new(), Arc::clone(&keys), ledger.clone());
        let pay = move |_: Value, context: host_client::CallContext| {
            keys.lock().unwrap().push(context.idempotency_key());
            ledger.add(1);
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                Ok("1".into())
            }
        };
        let spec =
            ToolSpec::new("bank.pay", "Pays", json!({"type": "object"})).effect(Effect::Mutating).idempotent(true);
        tools.add_with(spec, pay).unwrap();
        tools
    };
    let first = crate::stage::runs(relays.client(folder.host(make(true)).await));
    let run = within(first.start(ExecuteRequest::new("return await mcp.call('bank.pay', {n: 1})"))).await.unwrap();
    while ledger.total() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.leave().await;
    drop(run);
    let second = crate::stage::runs(relays.client(folder.host(make(false)).await));
    let recovered = within(second.recover()).await.unwrap();
    assert_eq!(within(recovered.runs[0].outcome()).await.unwrap().value().unwrap(), 1);
    let keys = keys.lock().unwrap().clone();
    assert!(keys.len() == 2 && keys[0] == keys[1] && keys[0].len() > 10, "{keys:?}");
    assert_eq!(value(&second, ExecuteRequest::new("return await mcp.call('bank.pay', {n: 2})")).await.unwrap(), 1);
}

#[tokio::test]
async fn a_run_that_is_taken_over_many_times_at_once_is_taken_over_once() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let ask = || Policy::new().ask(["t.step"]).allow(["*"]);
    let first = crate::stage::runs(relays.client(folder.host(tools(&ledger, nothing)).await.policy(ask())));
    let run = within(first.start(ExecuteRequest::new("return (await mcp.call('t.step', {n: 1})).n"))).await.unwrap();
    within(run.settled()).await;
    first.leave().await;
    let second = crate::stage::runs(relays.client(folder.host(tools(&ledger, nothing)).await));
    let taken = (0..16).map(|_| {
        let (second, id) = (second.clone(), run.id().clone());
        tokio::spawn(async move { second.resume(&id).await.unwrap().outcome().await.unwrap().value().unwrap() })
    });
    let taken: Vec<_> = taken.collect();
    let mut values = 0;
    for task in taken {
        // The later ones may find that the run has ended.
        values += usize::from(within(task).await.is_ok_and(|value| value == 1));
    }
    assert!(values >= 1, "{values}");
    ledger.assert_each_once([1]);
}

#[tokio::test]
async fn a_run_that_nobody_waits_for_ends_and_is_forgotten() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let runs = crate::stage::runs(relays.client(folder.host(tools(&ledger, nothing)).await));
    drop(within(runs.start(ExecuteRequest::new("return (await mcp.call('t.step', {n: 1})).n"))).await.unwrap());
    while !runs.active().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ledger.assert_each_once([1]);
}
