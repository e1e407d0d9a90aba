//! The metrics: that they tell what happened, say nothing of anybody, and are those of `docs/metrics.md`.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use host_client::{ClientConfig, Error, ExecuteRequest, LimitName, Tools};
use relay_test_support::http::get_text;
use relay_test_support::within;
use sandbox_relay::metrics::{Kind, METRICS};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::support::{Fixture, binary, until_async};

/// Environment variable that makes the test write `docs/metrics.md` in place of comparing it.
const WRITE: &str = "RELAY_WRITE_GENERATED";

/// A relay with metrics, and their address.
async fn start() -> (Fixture, String) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    (Fixture::start(&["--metrics-listen", &free]).await, free)
}

/// The values of all series, by name and labels.
async fn scrape(address: &str) -> BTreeMap<String, f64> {
    let (status, text) = get_text(address, "/metrics").await.unwrap();
    assert_eq!(status, 200);
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let series = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    });
    series.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_is_counted() {
    let (fixture, address) = start().await;
    until_async(async || scrape(&address).await["sandbox_relay_ready"] == 1.0).await;
    let before = scrape(&address).await;
    for (series, value) in [
        ("sandbox_relay_executions_total{outcome=\"ok\"}", 0.0),
        ("sandbox_relay_executions_total{outcome=\"OVERLOADED\"}", 0.0),
        ("sandbox_relay_executions_total{outcome=\"WORKER_LOST\"}", 0.0),
        ("sandbox_relay_executions_total{outcome=\"INTERNAL\"}", 0.0),
        ("sandbox_relay_connections_refused_total{reason=\"token\"}", 0.0),
        ("sandbox_relay_sessions{state=\"connected\"}", 1.0),
        ("sandbox_relay_executions{state=\"running\"}", 0.0),
    ] {
        assert_eq!(before.get(series), Some(&value), "{series}: {before:?}");
    }
    assert!(before["sandbox_relay_places"] >= 1.0);

    for _ in 0..3 {
        fixture.value("return 0 + await mcp.call('test.add', {a: 1, b: 2})").await;
    }
    fixture.error("await Promise.all([mcp.call('test.fail', {})])").await;
    fixture.error("throw new Error('a secret text')").await;
    let late =
        ExecuteRequest::new("await Promise.all([mcp.call('test.wait', {ms: 60000})])").limit(LimitName::ToolCallMs, 50);
    fixture.request_error(late).await;
    let wrong = ClientConfig::new(fixture.relay.url(), "no token");
    let refused = host_client::Client::connect(wrong, Tools::new()).await.unwrap_err();
    assert!(matches!(refused, Error::Unauthenticated), "{refused}");

    let after = scrape(&address).await;
    for (series, value) in [
        // After each failure, the fixture runs one more to see that the session goes on.
        ("sandbox_relay_executions_total{outcome=\"ok\"}", 6.0),
        ("sandbox_relay_executions_total{outcome=\"EVAL_ERROR\"}", 3.0),
        ("sandbox_relay_tool_calls_total", 5.0),
        ("sandbox_relay_tool_call_ends_total{result=\"ok\"}", 3.0),
        ("sandbox_relay_connections_refused_total{reason=\"token\"}", 1.0),
        ("sandbox_relay_execution_seconds_count", 9.0),
        ("sandbox_relay_queue_seconds_count", 9.0),
    ] {
        assert_eq!(after.get(series), Some(&value), "{series}: {after:#?}");
    }
    // The late call was given up by the relay, or just before by its host.
    let ends = |result: &str| after[&format!("sandbox_relay_tool_call_ends_total{{result=\"{result}\"}}")];
    assert!(ends("failed") >= 1.0 && ends("failed") + ends("given_up") == 2.0, "{after:#?}");
    for grows in ["sandbox_relay_received_bytes_total", "sandbox_relay_sent_bytes_total"] {
        assert!(after[grows] > before[grows], "{grows}");
    }
    assert!(after["sandbox_relay_worker_start_seconds_count"] >= 6.0);
    assert!(after["sandbox_relay_worker_cpu_seconds_sum"] > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_seen_and_so_is_what_runs() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let fixture = Fixture::start(&["--metrics-listen", &free, "--executions", "1"]).await;
    let endless = ExecuteRequest::new("for (;;) {}");
    let first = fixture.client.execute(endless.clone()).await.unwrap();
    let second = fixture.client.execute(endless).await.unwrap();
    until_async(async || {
        let now = scrape(&free).await;
        now["sandbox_relay_executions{state=\"running\"}"] == 1.0
            && now["sandbox_relay_executions{state=\"queued\"}"] == 1.0
            && now["sandbox_relay_saturation"] == 2.0
            && now["sandbox_relay_queue_oldest_seconds"] > 0.0
    })
    .await;
    drop((first, second));
    until_async(async || {
        let now = scrape(&free).await;
        now["sandbox_relay_saturation"] == 0.0 && now["sandbox_relay_queue_oldest_seconds"] == 0.0
    })
    .await;
    assert_eq!(scrape(&free).await["sandbox_relay_executions_total{outcome=\"CANCELLED\"}"], 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_described_and_none_names_a_host_or_its_code() {
    let (fixture, address) = start().await;
    fixture.value("return 0 + await mcp.call('test.add', {a: 1, b: 2})").await;
    let (_, text) = get_text(&address, "/metrics").await.unwrap();
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        for line in [format!("# HELP {} {}", metric.name, metric.text), format!("# TYPE {} {kind}", metric.name)] {
            // Events that have not happened have no series yet.
            let may_be_absent = metric.name == "sandbox_relay_resumes_total";
            assert!(may_be_absent || text.contains(&line), "{line}\n{text}");
        }
    }
    let described = |line: &str| METRICS.iter().any(|metric| line.starts_with(metric.name));
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        assert!(described(line), "{line}");
    }
    for stranger in ["test.add", "127.0.0.1", "local"] {
        assert!(!text.contains(stranger), "{stranger}\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_listener_has_one_page_and_few_places() {
    let (fixture, address) = start().await;
    assert_eq!(get_text(&address, "/").await.unwrap().0, 404);
    assert_eq!(get_text(&address, "/health").await.unwrap().0, 404);
    let (status, _) = get_text(fixture.relay.address(), "/metrics").await.unwrap();
    assert_eq!(status, 404, "they are on a listener of their own");
    // Strangers that say nothing take all places; further ones are closed at once, and the relay serves on.
    let mut silent = Vec::new();
    for _ in 0..16 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(b"GET").await.unwrap();
        silent.push(stream);
    }
    let mut late = TcpStream::connect(&address).await.unwrap();
    let closed = within(late.read(&mut [0; 1])).await;
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    assert_eq!(fixture.value("return 1").await, 1);
    drop(silent);
    until_async(async || get_text(&address, "/metrics").await.is_ok_and(|(status, _)| status == 200)).await;
}

#[test]
fn the_page_of_metrics_is_that_of_the_program() {
    let mut page = "# Metrics of the relay\n\n\
        With `--metrics-listen ADDRESS`, such as `127.0.0.1:9464`, the relay answers `GET /metrics` there for\n\
        [Prometheus](https://prometheus.io). The listener has no TLS and asks for no token: let nobody reach it but the scraper.\n\
        No label names a host, a subject, a tool or an address.\n\n\
        | metric | kind | label | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for metric in METRICS {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        let label = metric.label.map(|(name, values)| format!("`{name}`: {values}")).unwrap_or_default();
        page.push_str(&format!("| `{}` | {kind} | {label} | {} |\n", metric.name, metric.text));
    }
    page.push_str(
        "\nTimes are in seconds, sizes in bytes. A histogram has `_bucket`, `_sum` and `_count`.\n\n\
         | to see | ask |\n|---|---|\n\
         | whether more relays are needed | `avg_over_time(sandbox_relay_saturation[5m]) > 0.8` |\n\
         | executions that fail for a reason of the relay | `rate(sandbox_relay_executions_total{outcome=~\"OVERLOADED\\|WORKER_LOST\\|INTERNAL\"}[5m])` |\n\
         | the time until an execution begins, 99 of 100 | `histogram_quantile(0.99, rate(sandbox_relay_queue_seconds_bucket[5m]))` |\n\
         | connections that are turned away | `rate(sandbox_relay_connections_refused_total[5m])` |\n",
    );
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&committed, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&committed).unwrap_or_default() == page,
        "{} is not what the program has; write it again with `{WRITE}=1 cargo test -p sandbox-relay --test suite metrics`",
        committed.display(),
    );
}

#[tokio::test]
async fn a_log_for_programs_has_one_json_object_a_line() {
    const SECRET: &str = "0123456789012345678901234567890123456789";
    let mut command = Command::new(binary());
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--exit-with-stdin", "--log-format", "json", "--executions", "3"])
        .env_clear();
    command.env("RELAY_JWT_SECRET", SECRET).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut relay = command.kill_on_drop(true).spawn().unwrap();
    let mut line = String::new();
    within(BufReader::new(relay.stdout.as_mut().unwrap()).read_line(&mut line)).await.unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap();
    until_async(async || get_text(address, "/ready").await.is_ok_and(|(status, _)| status == 200)).await;
    drop(relay.stdin.take());
    let log = String::from_utf8(within(relay.wait_with_output()).await.unwrap().stderr).unwrap();
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}"));
    let serving = log.lines().map(parse).find(|line| line["message"] == "serving").unwrap_or_else(|| panic!("{log}"));
    assert!(serving["level"] == "INFO" && serving["address"] == address && serving["timestamp"].is_string(), "{log}");
    let chosen =
        log.lines().map(parse).find(|line| line["message"] == "places chosen").unwrap_or_else(|| panic!("{log}"));
    assert!(chosen["executions"] == 3 && chosen["origin"].as_str().unwrap().starts_with("the setting"), "{log}");
    assert!(!log.contains(SECRET));
}
