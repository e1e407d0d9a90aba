//! The rules: checked and tried by `promtool`, and evaluated by a Prometheus that reads two real relays.

use std::path::Path;
use std::time::{Duration, Instant};

use regex::Regex;
use relay_test_support::PATIENCE;
use relay_test_support::http::get;
use serde_json::Value;

use crate::dashboard::queries;
use crate::support::{Server, connect, execute, free_address, path, read, relay, run, until};

const RULES: &str = "deploy/prometheus/alerts.yml";
const CASES: &str = "deploy/prometheus/alerts_test.yml";
/// The configuration that the compose file gives to Prometheus.
const CONFIG: &str = "deploy/compose/prometheus.yml";

fn alerts() -> Vec<String> {
    let rules: Value = serde_saphyr::from_str(&read(RULES)).unwrap();
    let groups = rules["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    let alerts: Vec<_> = rules.filter_map(|rule| rule["alert"].as_str().map(str::to_owned)).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    alerts
}

#[test]
fn promtool_finds_nothing_wrong_with_the_rules_and_each_case_holds() {
    let (is_right, said) = run("promtool", &["check", "rules", path(RULES).to_str().unwrap()]);
    assert!(is_right && said.contains("SUCCESS"), "{said}");
    let (is_right, said) = run("promtool", &["test", "rules", path(CASES).to_str().unwrap()]);
    assert!(is_right, "{said}");
}

#[test]
fn every_alert_has_a_case_in_which_it_fires_and_a_line_for_operators() {
    let (cases, page) = (read(CASES), read("docs/operating.md"));
    for alert in alerts() {
        assert!(cases.contains(&format!("alertname=\"{alert}\"")), "{CASES} has no case of {alert}");
        assert_eq!(page.matches(&format!("\n| `{alert}` |")).count(), 1, "docs/operating.md: {alert}");
    }
    let named = Regex::new("`(SandboxRelay[A-Za-z]+)`").unwrap();
    for found in named.captures_iter(&page) {
        assert!(alerts().contains(&found[1].to_owned()), "docs/operating.md names {}, which is no alert", &found[1]);
    }
}

/// Asks Prometheus for the values of a query.
async fn values(server: &str, query: &str) -> Vec<Value> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let (status, answer) = get(server, &format!("/api/v1/query?query={encoded}")).await.unwrap();
    assert_eq!(status, 200, "{query}: {answer}");
    answer["data"]["result"].as_array().unwrap().clone()
}

/// Writes the configuration of the compose file for relays on loopback, with short times; returns its path.
fn config(folder: &Path, relays: [&str; 2]) -> String {
    let text = read(CONFIG);
    let mut own = text.replace("15s", "500ms");
    for (name, address) in [("relay-1:9464", relays[0]), ("relay-2:9464", relays[1])] {
        assert!(own.contains(name), "{text}");
        own = own.replace(name, address);
    }
    std::fs::copy(path(RULES), folder.join("alerts.yml")).unwrap();
    let file = folder.join("prometheus.yml");
    std::fs::write(&file, own).unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_reads_relays_and_has_a_value_for_every_rule_and_every_panel() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = [free_address(), free_address()];
    let relays = [
        relay(&["--metrics-listen", &metrics[0], "--worker-stock", "1"]).await,
        relay(&["--metrics-listen", &metrics[1], "--worker-stock", "1"]).await,
    ];
    let config = config(folder.path(), [&metrics[0], &metrics[1]]);
    let (is_right, said) = run("promtool", &["check", "config", &config]);
    assert!(is_right, "{said}");

    let (address, log) = (free_address(), folder.path().join("log"));
    let arguments = [
        "prometheus",
        &format!("--config.file={config}"),
        &format!("--storage.tsdb.path={}", folder.path().join("data").display()),
        &format!("--web.listen-address={address}"),
    ];
    let _prometheus = Server::start(&arguments, &log);
    // While it starts, it answers with 503.
    let is_ready = async || get(&address, "/-/ready").await.is_ok_and(|(status, _)| status == 200);
    let started = Instant::now();
    while !is_ready().await || values(&address, "up{job=\"sandbox-relay\"} == 1").await.len() < 2 {
        assert!(started.elapsed() < PATIENCE, "{}", std::fs::read_to_string(&log).unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let clients = [connect(relays[0].address(), "one").await, connect(relays[1].address(), "two").await];
    for client in &clients {
        execute(client).await;
    }
    // A rate needs what was there before: it sees these executions as growth.
    let grown = "sum by (job) (job_outcome:sandbox_relay_executions:rate5m{outcome=\"ok\"}) > 0";
    until(async || {
        execute(&clients[0]).await;
        !values(&address, grown).await.is_empty()
    })
    .await;
    assert_eq!(values(&address, "job:sandbox_relay_saturation:ratio").await.len(), 1);
    // The first executions made some series; a rate of these needs another read.
    for (title, query) in queries() {
        let started = Instant::now();
        while values(&address, &query).await.is_empty() {
            assert!(started.elapsed() < PATIENCE, "{title}: {query} has no value");
            execute(&clients[0]).await;
        }
    }

    let (_, rules) = get(&address, "/api/v1/rules").await.unwrap();
    let groups = rules["data"]["groups"].as_array().unwrap();
    let all: Vec<_> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    for rule in &all {
        assert_eq!((&rule["health"], &rule["lastError"]), (&"ok".into(), &Value::Null), "{rule}");
        let is_quiet = rule["type"] == "recording" || rule["state"] == "inactive";
        assert!(is_quiet, "{rule}");
    }
    let firing = all.iter().filter(|rule| rule["type"] == "alerting").count();
    assert_eq!(firing, alerts().len());

    // What happens to a relay that goes: its alert is pending at once.
    drop(clients);
    let [first, _second] = relays;
    drop(first);
    let pending = "ALERTS{alertname=\"SandboxRelayDown\", alertstate=\"pending\"}";
    until(async || !values(&address, pending).await.is_empty()).await;
}
