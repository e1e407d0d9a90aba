//! HAProxy with the configuration of the compose file, in front of two real relays.

use std::path::Path;

use host_client::{Client, ExecuteRequest, LocalRelay};
use relay_test_support::http::{get, get_text};
use relay_test_support::{PATIENCE, within};
use rustix::process::{Pid, Signal};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::support::{Server, connect, execute, free_address, read, relay, run, until};

const CONFIG: &str = "deploy/compose/haproxy.cfg";
/// The line that limits the connections of one address.
const LIMIT: &str = "sc0_conn_cur gt 256";

/// HAProxy in front of two relays.
struct Fleet {
    relays: [LocalRelay; 2],
    address: String,
    _haproxy: Server,
}

impl Fleet {
    async fn start(folder: &Path, limit: &str) -> Self {
        let relays = [relay(&[]).await, relay(&[]).await];
        let address = free_address();
        let mut config = read(CONFIG);
        for (from, to) in [
            ("bind :8080", format!("bind {address}")),
            ("relay-1:8080", relays[0].address().to_owned()),
            ("relay-2:8080", relays[1].address().to_owned()),
            (LIMIT, limit.to_owned()),
        ] {
            assert_eq!(config.matches(from).count(), 1, "{from}");
            config = config.replace(from, &to);
        }
        let (file, log) = (folder.join("haproxy.cfg"), folder.join("log"));
        std::fs::write(&file, config).unwrap();
        let file = file.to_str().unwrap();
        let (is_right, said) = run("haproxy", &["-c", "-f", file]);
        assert!(is_right && !said.contains("WARNING"), "{said}");
        for relay in &relays {
            until(async || get(relay.address(), "/ready").await.is_ok_and(|(status, _)| status == 200)).await;
        }
        let haproxy = Server::start(&["haproxy", "-db", "-f", file], &log);
        let started = std::time::Instant::now();
        while get_text(&address, "/ws").await.is_err() {
            assert!(started.elapsed() < PATIENCE, "{}", std::fs::read_to_string(&log).unwrap());
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        Self { relays, address, _haproxy: haproxy }
    }

    async fn connect(&self, subject: &str) -> Client {
        connect(&self.relays[0], &self.address, subject).await
    }

    /// Returns how many sessions each relay has.
    async fn sessions(&self) -> [u64; 2] {
        let mut sessions = [0; 2];
        for (relay, count) in self.relays.iter().zip(&mut sessions) {
            *count =
                get(relay.address(), "/health").await.map_or(0, |(_, health)| health["connected"].as_u64().unwrap());
        }
        sessions
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
        let new = connect(&fleet.relays[1], &fleet.address, &subject).await;
        execute(&new).await;
        assert_eq!(fleet.sessions().await[1], before[1] + 1);
        drop(new);
        until(async || fleet.sessions().await[1] == before[1]).await;
    }
    drop(running);
    drop(client);
    // The relay is gone.
    until(async || get(fleet.relays[0].address(), "/health").await.is_err()).await;
    let new = connect(&fleet.relays[1], &fleet.address, &subject).await;
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
