//! What the tests have in common: relays that can be killed, tools that count their runs, and a journal in a folder.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host_client::{
    CallContext, Client, Effect, Error, ExecuteRequest, Host, LazyClient, LocalRelay, Policy, RunOptions, Runs,
    SqliteJournal, ToolError, ToolSpec, Tools,
};
use relay_test_support::within;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One relay at a time: when it has ended, the next client starts another one.
#[derive(Clone, Default)]
pub(crate) struct Relays(Arc<tokio::sync::Mutex<Option<LocalRelay>>>);

impl Relays {
    /// Returns a client that connects to the relay that runs, and starts one if none does.
    pub(crate) fn client(&self, host: Host) -> LazyClient {
        let relays = self.clone();
        LazyClient::new(host, move |host| {
            let relays = relays.clone();
            async move {
                let mut config = {
                    let mut relay = relays.0.lock().await;
                    if !relay.as_mut().is_some_and(LocalRelay::is_running) {
                        *relay = Some(LocalRelay::start().await?);
                    }
                    relay.as_ref().unwrap().client_config().await?
                };
                // It was killed: nobody comes back.
                config.resume = Some(Duration::from_millis(20));
                Client::connect(config, host).await
            }
        })
    }

    /// Kills the relay that runs.
    pub(crate) async fn kill(&self) {
        if let Some(relay) = self.0.lock().await.as_mut() {
            relay.kill().await.unwrap();
        }
    }

    /// Kills all processes of the relay but its own: its workers, and the process that forks them.
    pub(crate) async fn kill_workers(&self) {
        let relay = self.0.lock().await.as_ref().and_then(LocalRelay::process_id).unwrap();
        let mut killed = 0;
        for task in std::fs::read_dir(format!("/proc/{relay}/task")).unwrap().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap();
            for child in children.split_ascii_whitespace() {
                let child = rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
                // One that has ended meanwhile is as good as killed.
                let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
                killed += 1;
            }
        }
        assert!(killed > 0, "the relay has no workers");
    }

    /// Waits until the relay runs nothing, and nothing waits there.
    pub(crate) async fn until_idle(&self) {
        let address = self.0.lock().await.as_ref().unwrap().address().to_owned();
        loop {
            let (_, health) = relay_test_support::http::get(&address, "/health").await.unwrap();
            if ["executions", "queued", "waiting_for_people"].iter().all(|name| health[name] == 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Step {
    pub(crate) n: usize,
    /// Anything: it has to be the same when the code runs again.
    #[serde(default)]
    pub(crate) extra: Value,
}

/// The runs of each tool: the number of its runs by the step's number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<usize, usize>>>);

impl Ledger {
    pub(crate) fn add(&self, n: usize) -> usize {
        let mut runs = self.0.lock().unwrap();
        *runs.entry(n).or_default() += 1;
        runs.values().sum()
    }

    pub(crate) fn total(&self) -> usize {
        self.0.lock().unwrap().values().sum()
    }

    pub(crate) fn runs(&self) -> BTreeMap<usize, usize> {
        self.0.lock().unwrap().clone()
    }

    /// Fails unless every step ran once.
    #[track_caller]
    pub(crate) fn assert_each_once(&self, steps: impl IntoIterator<Item = usize>) {
        assert_eq!(self.runs(), steps.into_iter().map(|n| (n, 1)).collect());
    }
}

/// Adds the tools of the tests: `t.step`, `t.slow` (takes 200 ms), `t.fail` and `t.again` (idempotent). All change something.
/// `each` is awaited in every call of `t.step` and `t.fail`, with the number of runs so far.
pub(crate) fn tools<F>(ledger: &Ledger, each: impl Fn(usize) -> F + Clone + Send + Sync + 'static) -> Tools
where
    F: Future<Output = ()> + Send + 'static,
{
    let tools = Tools::new();
    let (counted, then) = (ledger.clone(), each.clone());
    let step = move |step: Step| {
        let (count, then) = (counted.add(step.n), then.clone());
        async move {
            then(count).await;
            Ok::<_, ToolError>(json!({"n": step.n, "text": "ä".repeat(step.n % 7)}))
        }
    };
    tools.add("t.step", "One step", Effect::Mutating, step).unwrap();
    let counted = ledger.clone();
    let slow = move |step: Step| {
        counted.add(step.n);
        async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            Ok::<_, ToolError>(json!({"n": step.n}))
        }
    };
    tools.add("t.slow", "A slow step", Effect::Mutating, slow).unwrap();
    let counted = ledger.clone();
    let fail = move |step: Step| {
        let (count, then) = (counted.add(step.n), each.clone());
        async move {
            then(count).await;
            Err::<(), _>(ToolError::new(format!("no {}", step.n)))
        }
    };
    tools.add("t.fail", "Fails", Effect::Mutating, fail).unwrap();
    let counted = ledger.clone();
    let again = move |arguments: Value, context: CallContext| {
        counted.add(usize::try_from(arguments["n"].as_u64().unwrap()).unwrap());
        async move { Ok(json!(context.idempotency_key()).to_string().into()) }
    };
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let spec = ToolSpec::new("t.again", "May be done twice", schema).effect(Effect::Mutating).idempotent(true);
    tools.add_with(spec, again).unwrap();
    tools
}

/// Does nothing in a call.
pub(crate) async fn nothing(_: usize) {}

/// A folder with a journal.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    pub(crate) async fn journal(&self) -> SqliteJournal {
        SqliteJournal::open(self.path("runs.sqlite")).await.unwrap()
    }

    /// Makes a host that allows all calls, with the journal.
    pub(crate) async fn host(&self, tools: Tools) -> Host {
        Host::new(tools).policy(Policy::new().allow(["*"])).journal(self.journal().await)
    }
}

/// Options for tests, in which nobody waits for long.
pub(crate) fn options() -> RunOptions {
    RunOptions {
        passivate_after: Duration::from_millis(300),
        claim: Duration::from_millis(900),
        leave_after: Duration::from_millis(500),
        reach_within: Duration::from_secs(20),
        ..RunOptions::default()
    }
}

pub(crate) fn runs(client: LazyClient) -> Runs {
    Runs::new(client, options()).unwrap()
}

/// Runs code to its value.
pub(crate) async fn value(runs: &Runs, request: ExecuteRequest) -> Result<Value, Error> {
    let run = within(runs.start(request)).await?;
    within(run.outcome()).await?.value()
}
