//! A relay under attack, seen from outside: what came of each attack, how another subject fared meanwhile, and what was
//! left behind.

use std::fs::File;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use host_client::{Client, ClientConfig, Error, ErrorCode, ExecuteRequest, LimitName, Outcome, Tools};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::hostile::attack::{Attack, Expected};
use crate::support::{Seen, binary, tools, until, within};

pub(crate) const SECRET: &str = "a secret that must not be in any log, 0123456789abcdef";
/// Number of attacks that run beside each other.
const AT_ONCE: usize = 4;
/// Maximum time for one attack on a slow machine.
const ENDS_WITHIN: Duration = Duration::from_secs(240);
/// Wall-clock limit of attacks: none is to end by it, however slow the machine is.
const FAR_MS: u64 = 300_000;
/// The longest that another subject's small execution may take meanwhile. How fast it is, is the benchmark's to say.
const CANARY_WITHIN: Duration = Duration::from_secs(20);
/// Number of looks in a row that have to see the same before a relay counts as at rest.
const LOOKS_ALIKE: usize = 15;
/// Maximum growth of the relay's own memory when all is over: the allocator keeps some of large messages.
const GROWTH_BYTES: u64 = 128 << 20;

/// A relay whose log is kept.
pub(crate) struct Arena {
    child: Child,
    pub(crate) address: String,
    folder: tempfile::TempDir,
    tokens: std::sync::Mutex<Vec<String>>,
    at_rest: Rest,
}

/// Resources that the relay's process holds.
#[derive(Debug, Clone, Copy)]
struct Rest {
    bytes: u64,
    descriptors: usize,
    children: usize,
}

impl Arena {
    /// A relay that has run a little.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let mut arena = Self::start_silent(arguments).await;
        let client = arena.connect("warm-up", Tools::new()).await;
        for _ in 0..20 {
            within(client.run(ExecuteRequest::new("return 1"))).await.unwrap();
        }
        drop(client);
        arena.at_rest = arena.come_to_rest().await;
        arena
    }

    /// Waits until the process has held the same children and descriptors for a while: connections have ended, and workers
    /// are made.
    async fn come_to_rest(&self) -> Rest {
        within(async {
            let (mut before, mut alike) = (self.rest(), 0);
            while alike < LOOKS_ALIKE {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let now = self.rest();
                let is_alike = (now.children, now.descriptors) == (before.children, before.descriptors);
                alike = if is_alike { alike + 1 } else { 0 };
                before = now;
            }
            before
        })
        .await
    }

    /// A relay that nobody has spoken to.
    pub(crate) async fn start_silent(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments).env("RELAY_LOG", "debug");
        command.env("RELAY_JWT_SECRET", SECRET).stdout(Stdio::piped()).kill_on_drop(true);
        command.stderr(File::create(folder.path().join("log")).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        within(BufReader::new(child.stdout.take().unwrap()).read_line(&mut line)).await.unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        let at_rest = Rest { bytes: 0, descriptors: 0, children: 0 };
        Self { child, address, folder, tokens: std::sync::Mutex::default(), at_rest }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("the relay has died")
    }

    pub(crate) async fn token(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(binary());
        let output = command.arg("token").args(arguments).env("RELAY_JWT_SECRET", SECRET).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let token = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        self.tokens.lock().unwrap().push(token.clone());
        token
    }

    pub(crate) async fn connect(&self, subject: &str, tools: Tools) -> Client {
        let token = self.token(&["--subject", subject]).await;
        let config = ClientConfig::new(format!("ws://{}/ws", self.address), token);
        within(Client::connect(config, tools)).await.unwrap()
    }

    /// Runs all attacks of a class, and a canary beside them; then looks at what is left.
    pub(crate) async fn withstand(self, attacks: &'static [Attack], limit: fn(ExecuteRequest) -> ExecuteRequest) {
        let seen = Arc::new(Seen::default());
        let attacker = self.connect("attacker", tools(&seen)).await;
        let canary = Canary::start(self.connect("canary", tools(&Arc::default())).await);
        let faults: Vec<String> = futures_util::stream::iter(attacks)
            .map(|attack| {
                let attacker = attacker.clone();
                async move {
                    let request = attack.request(limit);
                    let outcome = tokio::time::timeout(ENDS_WITHIN, attacker.run(request)).await;
                    let Ok(outcome) = outcome else { return Some(format!("{}: it never ended", attack.name)) };
                    fault(&attack.expected, outcome)
                        .map(|fault| format!("{}: {fault}\n    {}", attack.name, attack.code))
                }
            })
            .buffer_unordered(AT_ONCE)
            .filter_map(|fault| async { fault })
            .collect()
            .await;
        assert!(faults.is_empty(), "{} of {} attacks:\n{}", faults.len(), attacks.len(), faults.join("\n"));
        canary.stop().await;
        drop(attacker);
        self.unharmed().await;
    }

    /// Returns whether no worker runs: there are no more processes than at rest.
    pub(crate) fn runs_no_worker(&self) -> bool {
        self.rest().children <= self.at_rest.children
    }

    fn rest(&self) -> Rest {
        let pid = self.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        Rest { bytes: kib << 10, descriptors, children: children(pid).len() }
    }

    /// The same process, with what it held before, no dead child, and no secret in its log.
    pub(crate) async fn unharmed(mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "the relay has died: {}", self.log());
        let before = self.at_rest;
        until(|| {
            let now = self.rest();
            now.children <= before.children + 2 && now.descriptors <= before.descriptors + 6
        })
        .await;
        until(|| children(self.pid()).into_iter().all(|pid| !is_zombie(pid))).await;
        let now = self.rest();
        assert!(now.bytes < before.bytes + GROWTH_BYTES, "it grew: {before:?} {now:?}");
        let client = self.connect("after", Tools::new()).await;
        let outcome = within(client.run(ExecuteRequest::new("return 'still here'"))).await.unwrap();
        assert_eq!(outcome.value().unwrap(), json!("still here"));
        let log = self.log();
        assert!(!log.contains(SECRET), "the secret is in the log");
        for token in self.tokens.lock().unwrap().iter() {
            let signature = token.rsplit('.').next().unwrap();
            assert!(!log.contains(signature), "a token is in the log");
        }
        assert!(!log.contains("panicked"), "{log}");
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .flat_map(|task| {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect()
}

fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Returns what is wrong with an outcome; `None`: it is as expected.
fn fault(expected: &Expected, outcome: Result<Outcome, Error>) -> Option<String> {
    let found = match outcome {
        Ok(outcome) => Ok(outcome.value().map_err(|error| error.to_string())),
        Err(Error::Execution(error)) => Err(error),
        Err(error) => return Some(error.to_string()),
    };
    let is_one_of =
        |codes: &[ErrorCode], error: &host_client::ExecutionError| codes.iter().any(|code| error.code == *code);
    match (expected, found) {
        (Expected::Value(json), Ok(Ok(value))) => {
            let expected: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
            (value != expected).then(|| format!("{value}"))
        }
        (Expected::Any(_), Ok(Ok(_))) => None,
        (Expected::Error(codes) | Expected::Any(codes), Err(error)) if is_one_of(codes, &error) => None,
        (_, Ok(Ok(value))) => Some(format!("{value:.300}")),
        (_, Ok(Err(error))) => Some(error),
        (_, Err(error)) => Some(format!("{error:.600}")),
    }
}

/// Another subject's small executions, one after the other.
struct Canary {
    sings: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<(usize, Duration)>,
}

impl Canary {
    fn start(client: Client) -> Self {
        let sings = Arc::new(AtomicBool::new(true));
        let on = Arc::clone(&sings);
        let task = tokio::spawn(async move {
            let (mut songs, mut worst) = (0_usize, Duration::ZERO);
            while on.load(Ordering::Relaxed) {
                let started = Instant::now();
                let code = format!(
                    "return [{songs}, await mcp.call('test.add', {{a: {songs}, b: 1}}), typeof globalThis.left]"
                );
                let outcome = within(client.run(ExecuteRequest::new(code).always_in_sandbox()))
                    .await
                    .expect("the canary fell silent");
                assert_eq!(outcome.value().unwrap(), json!([songs, songs + 1, "undefined"]));
                worst = worst.max(started.elapsed());
                songs += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            (songs, worst)
        });
        Self { sings, task }
    }

    async fn stop(self) {
        self.sings.store(false, Ordering::Relaxed);
        let (songs, worst) = within(self.task).await.unwrap();
        assert!(songs > 0 && worst < CANARY_WITHIN, "the canary sang {songs} times, the slowest took {worst:?}");
    }
}

/// Limits that make endless things short.
/// Little CPU time, and so much of the rest that nothing else can end the code first: a fast machine fills the heap in 300 ms.
pub(crate) fn short(request: ExecuteRequest) -> ExecuteRequest {
    let request = request.limit(LimitName::HeapBytes, 512 << 20).limit(LimitName::MemoryBytes, 1 << 30);
    request.limit(LimitName::CpuMs, 100).limit(LimitName::WallMs, FAR_MS).bindings(NONE)
}

pub(crate) fn usual(request: ExecuteRequest) -> ExecuteRequest {
    request.limit(LimitName::CpuMs, 5_000).limit(LimitName::WallMs, FAR_MS).bindings(NONE)
}

pub(crate) fn small(request: ExecuteRequest) -> ExecuteRequest {
    let request = request.limit(LimitName::HeapBytes, 16 << 20).limit(LimitName::MemoryBytes, 128 << 20);
    request.limit(LimitName::CpuMs, 5_000).limit(LimitName::WallMs, FAR_MS).bindings(NONE)
}

pub(crate) fn printing(request: ExecuteRequest) -> ExecuteRequest {
    let request = request.limit(LimitName::OutputBytes, 4_096).limit(LimitName::OutputCount, 100);
    request.limit(LimitName::CpuMs, 5_000).limit(LimitName::WallMs, FAR_MS).io("")
}

pub(crate) fn all_bindings(request: ExecuteRequest) -> ExecuteRequest {
    let request = request.limit(LimitName::HeapBytes, 32 << 20).limit(LimitName::MemoryBytes, 128 << 20);
    let request = request.limit(LimitName::CpuMs, 1_000).limit(LimitName::WallMs, FAR_MS);
    request.bindings(["console", "timers", "io", "servers", "store"])
}

const NONE: [&str; 0] = [];
