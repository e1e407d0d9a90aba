//! HAProxy with the configuration of the compose file, in front of two real relays.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use host_client::{Client, ClientConfig, Effect, ExecuteRequest, Host, LazyClient, LocalRelay, ToolError, Tools};
use relay_test_support::http::{get, get_text};
use relay_test_support::{PATIENCE, within};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::support::{SECRET, Server, config, connect, execute, free_address, read, relay, relay_binary, run, until};

const CONFIG: &str = "deploy/compose/haproxy.cfg";
/// The line that limits the connections of one address.
const LIMIT: &str = "sc0_conn_cur gt 256";

/// Starts HAProxy in front of two relays that are ready; returns its address.
async fn haproxy(folder: &Path, relays: [&str; 2], limit: &str) -> (Server, String) {
    let address = free_address();
    let mut config = read(CONFIG);
    for (from, to) in [
        ("bind :8080", format!("bind {address}").as_str()),
        ("relay-1:8080", relays[0]),
        ("relay-2:8080", relays[1]),
        (LIMIT, limit),
    ] {
        assert_eq!(config.matches(from).count(), 1, "{from}");
        config = config.replace(from, to);
    }
    let (file, log) = (folder.join("haproxy.cfg"), folder.join("log"));
    std::fs::write(&file, config).unwrap();
    let file = file.to_str().unwrap();
    let (is_right, said) = run("haproxy", &["-c", "-f", file]);
    assert!(is_right && !said.contains("WARNING"), "{said}");
    for relay in relays {
        ready(relay).await;
    }
    let haproxy = Server::start(&["haproxy", "-db", "-f", file], &log);
    let started = Instant::now();
    while get_text(&address, "/ws").await.is_err() {
        assert!(started.elapsed() < PATIENCE, "{}", std::fs::read_to_string(&log).unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (haproxy, address)
}

/// Waits until a relay takes work.
async fn ready(relay: &str) {
    until(async || get(relay, "/ready").await.is_ok_and(|(status, _)| status == 200)).await;
}

/// Returns how many sessions each relay has.
async fn sessions(relays: [&str; 2]) -> [u64; 2] {
    let mut sessions = [0; 2];
    for (relay, count) in relays.into_iter().zip(&mut sessions) {
        *count = get(relay, "/health").await.map_or(0, |(_, health)| health["connected"].as_u64().unwrap());
    }
    sessions
}

/// Two relays behind HAProxy.
struct Fleet {
    relays: [LocalRelay; 2],
    address: String,
    _haproxy: Server,
}

impl Fleet {
    async fn start(folder: &Path, limit: &str) -> Self {
        let relays = [relay(&[]).await, relay(&[]).await];
        let (haproxy, address) = haproxy(folder, [relays[0].address(), relays[1].address()], limit).await;
        Self { relays, address, _haproxy: haproxy }
    }

    async fn connect(&self, subject: &str) -> Client {
        connect(&self.address, subject).await
    }

    async fn sessions(&self) -> [u64; 2] {
        sessions([self.relays[0].address(), self.relays[1].address()]).await
    }

    /// Connects with subjects until one is at each relay; returns their names and clients.
    async fn one_at_each(&self) -> [(String, Client); 2] {
        let (mut found, mut others) = ([None, None], Vec::new());
        for number in 0.. {
            let subject = format!("subject {number}");
            let before = self.sessions().await;
            let client = self.connect(&subject).await;
            execute(&client).await;
            let after = self.sessions().await;
            let index = (0..2).find(|index| after[*index] > before[*index]).unwrap();
            match &mut found[index] {
                Some(_) => others.push(client),
                place => *place = Some((subject, client)),
            }
            if let [Some(_), Some(_)] = &found {
                break;
            }
            assert!(number < 100, "all subjects go to one relay");
        }
        drop(others);
        until(async || self.sessions().await == [1, 1]).await;
        found.map(Option::unwrap)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subjects_are_spread_and_each_stays_at_its_relay() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = Fleet::start(folder.path(), LIMIT).await;
    let clients = fleet.one_at_each().await;
    for (index, (subject, _)) in clients.iter().enumerate() {
        for _ in 0..3 {
            let before = fleet.sessions().await;
            let again = fleet.connect(subject).await;
            execute(&again).await;
            let after = fleet.sessions().await;
            assert_eq!(after[1 - index], before[1 - index], "{subject}");
            assert_eq!(after[index], before[index] + 1, "{subject}");
            drop(again);
            until(async || fleet.sessions().await == before).await;
        }
    }
    // Hosts reach /ws and nothing else, and a relay judges their tokens.
    assert_eq!(get_text(&fleet.address, "/ready").await.unwrap().0, 404);
    assert_eq!(get_text(&fleet.address, "/health").await.unwrap().0, 404);
    assert_eq!(get_text(&fleet.address, "/ws").await.unwrap().0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_relay_drains_its_subjects_get_sessions_at_the_other_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = Fleet::start(folder.path(), LIMIT).await;
    let [(subject, client), _other] = fleet.one_at_each().await;
    // While this runs, the relay drains.
    let running = client.execute(ExecuteRequest::new("for (;;) {}")).await.unwrap();
    until(async || get(fleet.relays[0].address(), "/health").await.unwrap().1["executions"] == 1).await;
    let id = Pid::from_raw(fleet.relays[0].process_id().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(id, Signal::TERM).unwrap();
    until(async || client.is_draining()).await;
    // HAProxy may not have asked /ready since: no connection fails nevertheless.
    for _ in 0..3 {
        let before = fleet.sessions().await;
        let new = fleet.connect(&subject).await;
        execute(&new).await;
        assert_eq!(fleet.sessions().await[1], before[1] + 1);
        drop(new);
        until(async || fleet.sessions().await[1] == before[1]).await;
    }
    drop(running);
    drop(client);
    // The relay is gone.
    until(async || get(fleet.relays[0].address(), "/health").await.is_err()).await;
    let new = fleet.connect(&subject).await;
    execute(&new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_so_many_connections_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = Fleet::start(folder.path(), "sc0_conn_cur gt 2").await;
    let kept = [fleet.connect("one").await, fleet.connect("two").await];
    let third = async { TcpStream::connect(&fleet.address).await?.read(&mut [0]).await };
    let closed = within(third).await;
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    drop(kept);
    until(async || get_text(&fleet.address, "/ws").await.is_ok_and(|(status, _)| status == 401)).await;
}

/// Runs executions of one host, one after the other, until it is told to end. Each call of the tool is noted with the number of
/// its execution; returns these numbers.
async fn load(
    config: ClientConfig,
    calls: Arc<Mutex<Vec<u64>>>,
    numbers: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
) -> Vec<u64> {
    let tools = Tools::new();
    let note = move |args: serde_json::Map<String, Value>| {
        calls.lock().unwrap().push(args["n"].as_u64().unwrap());
        async { Ok::<_, ToolError>(true) }
    };
    tools.add("test.note", "Notes a number", Effect::ReadOnly, note).unwrap();
    let client = LazyClient::new(Host::new(tools), move |host| Client::connect(config.clone(), host));
    let mut done = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let code = format!("for (let i = 0; i < 3; i++) await mcp.call('test.note', {{n: {number}}}); return {number}");
        let outcome = within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("execution {number}: {error}"));
        assert_eq!(outcome.value().unwrap(), number);
        done.push(number);
    }
    done
}

/// Starts a relay at this address, which ends as by `systemctl stop`.
fn serve(address: &str, log: &Path) -> Server {
    let secret = format!("RELAY_JWT_SECRET={SECRET}");
    let program = relay_binary();
    Server::start(&["env", "-i", &secret, program.to_str().unwrap(), "serve", "--listen", address], log)
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_are_replaced_one_after_the_other_under_load_and_no_execution_fails_or_calls_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (relays, log) = ([free_address(), free_address()], folder.path().join("relays"));
    let names = [relays[0].as_str(), relays[1].as_str()];
    let mut servers = names.map(|address| Some(serve(address, &log)));
    let (_haproxy, address) = haproxy(folder.path(), names, LIMIT).await;

    let (calls, numbers, ends) = (Arc::default(), Arc::default(), Arc::default());
    let hosts: Vec<_> = (0..8)
        .map(|host| {
            let config = config(&address, &format!("host {host}"));
            tokio::spawn(load(config, Arc::clone(&calls), Arc::clone(&numbers), Arc::clone(&ends)))
        })
        .collect();
    until(async || sessions(names).await.iter().sum::<u64>() == 8 && sessions(names).await.iter().all(|it| *it > 0))
        .await;

    for index in 0..2 {
        let before = numbers.load(Ordering::Relaxed);
        tokio::task::block_in_place(|| drop(servers[index].take()));
        // The other one has them all.
        until(async || sessions(names).await[1 - index] == 8 && numbers.load(Ordering::Relaxed) > before + 50).await;
        servers[index] = Some(serve(names[index], &log));
        ready(names[index]).await;
        // HAProxy sees it when some subject gets there: hosts stay where they are.
        let mut probes = Vec::new();
        let started = Instant::now();
        while sessions(names).await[index] == 0 {
            assert!(started.elapsed() < PATIENCE, "HAProxy does not see the relay again");
            probes.push(connect(&address, &format!("probe {}", probes.len())).await);
        }
    }
    ends.store(true, Ordering::Relaxed);
    let mut done = Vec::new();
    for host in hosts {
        done.extend(within(host).await.unwrap());
    }
    assert_eq!(done.len() as u64, numbers.load(Ordering::Relaxed));
    let mut expected: Vec<_> = done.iter().flat_map(|number| [*number; 3]).collect();
    let mut calls: Vec<u64> = calls.lock().unwrap().clone();
    expected.sort_unstable();
    calls.sort_unstable();
    assert_eq!(calls, expected, "a call was lost or made twice");
}
