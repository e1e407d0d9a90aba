//! Metrics of the relay, as Prometheus reads them from a listener of their own.
//!
//! [`METRICS`] has each with its text; the functions below change them. No label has a value that a host or its code can
//! choose or multiply: there are no subjects, no tools, no addresses.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use metrics::{Counter, Unit, counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use relay_proto::ErrorCode;
use relay_proto::wire::{self, SessionLoss};

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Number that only grows.
    Counter,
    /// Number as it is at this moment.
    Gauge,
    /// Distribution, with a counter for each of some upper bounds.
    Histogram,
}

/// Metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// Kind.
    pub kind: Kind,
    /// Label, with its values in words; `None`: it has none.
    pub label: Option<(&'static str, &'static str)>,
    /// What it counts or measures.
    pub text: &'static str,
}

const BUILD: &str = "sandbox_relay_build_info";
const READY: &str = "sandbox_relay_ready";
const PLACES: &str = "sandbox_relay_places";
const EXECUTIONS: &str = "sandbox_relay_executions";
const SATURATION: &str = "sandbox_relay_saturation";
const OLDEST: &str = "sandbox_relay_queue_oldest_seconds";
const ENDED: &str = "sandbox_relay_executions_total";
const QUEUED_FOR: &str = "sandbox_relay_queue_seconds";
const RAN_FOR: &str = "sandbox_relay_execution_seconds";
const CPU: &str = "sandbox_relay_worker_cpu_seconds";
const CALLS: &str = "sandbox_relay_tool_calls_total";
const ANSWERS: &str = "sandbox_relay_tool_call_ends_total";
const SESSIONS: &str = "sandbox_relay_sessions";
const RESUMES: &str = "sandbox_relay_resumes_total";
const LOST: &str = "sandbox_relay_sessions_lost_total";
const REFUSED: &str = "sandbox_relay_connections_refused_total";
const RECEIVED: &str = "sandbox_relay_received_bytes_total";
const SENT: &str = "sandbox_relay_sent_bytes_total";
const STOCK: &str = "sandbox_relay_workers_ready";
const STARTED: &str = "sandbox_relay_worker_start_seconds";
const TROUBLES: &str = "sandbox_relay_worker_troubles_total";

/// All metrics, in the order of `docs/metrics.md`.
pub const METRICS: &[Metric] = &[
    metric(BUILD, Kind::Gauge, Some(("version", "also `build`, by which durable runs find a relay")), "1"),
    metric(READY, Kind::Gauge, None, "1 while `/ready` answers 200, else 0"),
    metric(PLACES, Kind::Gauge, None, "Executions that may run at once"),
    metric(
        EXECUTIONS,
        Kind::Gauge,
        Some(("state", "`running`, `queued`, or `waiting_for_people` without a place")),
        "Executions there are",
    ),
    metric(
        SATURATION,
        Kind::Gauge,
        None,
        "Running and queued executions, divided by the places: scale on it, not on CPU",
    ),
    metric(OLDEST, Kind::Gauge, None, "Time that the execution has waited which has waited longest"),
    metric(
        ENDED,
        Kind::Counter,
        Some(("outcome", "`ok` or an error code")),
        "Executions that have ended or were refused",
    ),
    metric(QUEUED_FOR, Kind::Histogram, None, "Time that executions waited for a worker"),
    metric(RAN_FOR, Kind::Histogram, None, "Time that executions ran, without waiting for approvals"),
    metric(CPU, Kind::Histogram, None, "CPU time that executions used"),
    metric(CALLS, Kind::Counter, None, "Tool calls that were sent to hosts"),
    metric(
        ANSWERS,
        Kind::Counter,
        Some(("result", "`ok`, `failed`, or `given_up` when the answer was not waited for any more")),
        "Tool calls that have ended",
    ),
    metric(SESSIONS, Kind::Gauge, Some(("state", "`connected` or `detached`")), "Sessions there are"),
    metric(
        RESUMES,
        Kind::Counter,
        Some(("result", "`resumed`, or the reason why not: `unknown`, `expired`, `epoch`, `gap`, `moved`, `drained`")),
        "Attempts to resume a session",
    ),
    metric(
        LOST,
        Kind::Counter,
        Some(("reason", "`expired`, `gap` or `drained`")),
        "Sessions that ended because nobody resumed them",
    ),
    metric(
        REFUSED,
        Kind::Counter,
        Some((
            "reason",
            "`places`, `busy`, `tls`, `origin`, `token`, `no_websocket`, `draining`, `subject_connections`",
        )),
        "Connections that did not become a session",
    ),
    metric(RECEIVED, Kind::Counter, None, "Bytes of messages from hosts"),
    metric(SENT, Kind::Counter, None, "Bytes of messages to hosts"),
    metric(
        STOCK,
        Kind::Gauge,
        Some(("pool", "`interpreter` or `compiler`")),
        "Workers that are ready for an execution",
    ),
    metric(STARTED, Kind::Histogram, None, "Time from the start of a worker until it is locked and ready"),
    metric(
        TROUBLES,
        Kind::Counter,
        Some(("trouble", "`not_started`, or `died` while it waited for an execution")),
        "Workers that no execution could have",
    ),
];

const fn metric(
    name: &'static str,
    kind: Kind,
    label: Option<(&'static str, &'static str)>,
    text: &'static str,
) -> Metric {
    Metric { name, kind, label, text }
}

/// Upper bounds of the distributions, in seconds.
const BOUNDS: [f64; 14] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 900.0];

/// Reason why a connection did not become a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All connections are taken, or all that its address may have.
    Places,
    /// The thread that would serve it is behind.
    Busy,
    /// The TLS handshake failed or took too long.
    Tls,
    /// A browser asked for a page of an origin that is not allowed.
    Origin,
    /// The token is missing or not accepted.
    Token,
    /// The request is no upgrade to a WebSocket.
    NoWebSocket,
    /// The relay shuts down.
    Draining,
    /// The subject has all the connections that it may have.
    SubjectConnections,
}

impl Refusal {
    const ALL: [Self; 8] = [
        Self::Places,
        Self::Busy,
        Self::Tls,
        Self::Origin,
        Self::Token,
        Self::NoWebSocket,
        Self::Draining,
        Self::SubjectConnections,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Places => "places",
            Self::Busy => "busy",
            Self::Tls => "tls",
            Self::Origin => "origin",
            Self::Token => "token",
            Self::NoWebSocket => "no_websocket",
            Self::Draining => "draining",
            Self::SubjectConnections => "subject_connections",
        }
    }
}

/// Way in which a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Ok,
    Failed,
    GivenUp,
}

/// Worker that no execution could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerTrouble {
    NotStarted,
    Died,
}

/// Counters that every call or message changes, looked up once.
struct Busy {
    calls: Counter,
    ok: Counter,
    failed: Counter,
    given_up: Counter,
    received: Counter,
    sent: Counter,
}

static BUSY: LazyLock<Busy> = LazyLock::new(|| {
    let ended = |result: &'static str| counter!(ANSWERS, "result" => result);
    Busy {
        calls: counter!(CALLS),
        ok: ended("ok"),
        failed: ended("failed"),
        given_up: ended("given_up"),
        received: counter!(RECEIVED),
        sent: counter!(SENT),
    }
});

/// Begins to keep the metrics of this process. Without it, the functions below do nothing.
///
/// # Errors
/// [`BuildError`]: they are kept already.
pub(crate) fn keep() -> Result<PrometheusHandle, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS.iter().filter(|metric| metric.kind == Kind::Histogram) {
        builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), &BOUNDS)?;
    }
    let handle = builder.install_recorder()?;
    for Metric { name, kind, text, .. } in METRICS {
        let unit = if name.contains("_seconds") {
            Unit::Seconds
        } else if name.contains("_bytes") {
            Unit::Bytes
        } else {
            Unit::Count
        };
        match kind {
            Kind::Counter => metrics::describe_counter!(*name, unit, *text),
            Kind::Gauge => metrics::describe_gauge!(*name, unit, *text),
            Kind::Histogram => metrics::describe_histogram!(*name, unit, *text),
        }
    }
    // A rate needs the zero before the first event.
    LazyLock::force(&BUSY);
    Refusal::ALL.into_iter().for_each(|reason| counter!(REFUSED, "reason" => reason.as_str()).absolute(0));
    counter!(ENDED, "outcome" => "ok").absolute(0);
    // What alerts look at.
    for code in [ErrorCode::Overloaded, ErrorCode::WorkerLost, ErrorCode::Internal] {
        counter!(ENDED, "outcome" => code.as_str()).absolute(0);
    }
    counter!(RESUMES, "result" => "resumed").absolute(0);
    [SessionLoss::Expired, SessionLoss::Gap, SessionLoss::Drained].into_iter().for_each(|loss| {
        counter!(LOST, "reason" => loss_name(loss)).absolute(0);
    });
    ["not_started", "died"].into_iter().for_each(|trouble| counter!(TROUBLES, "trouble" => trouble).absolute(0));
    Ok(handle)
}

/// Counts a connection that did not become a session.
pub(crate) fn refused(reason: Refusal) {
    counter!(REFUSED, "reason" => reason.as_str()).increment(1);
}

/// Counts an execution that has ended, or was refused: `error` is its code.
pub(crate) fn execution_ended(error: Option<ErrorCode>, usage: &wire::Usage) {
    counter!(ENDED, "outcome" => error.map_or("ok", ErrorCode::as_str)).increment(1);
    if usage.queue_us > 0 {
        histogram!(QUEUED_FOR).record(Duration::from_micros(usage.queue_us));
    }
    if usage.wall_us > 0 {
        histogram!(RAN_FOR).record(Duration::from_micros(usage.wall_us));
        histogram!(CPU).record(Duration::from_micros(usage.cpu_us));
    }
}

/// Counts a tool call that is sent to its host.
pub(crate) fn call_sent() {
    BUSY.calls.increment(1);
}

/// Counts a tool call that has ended.
pub(crate) fn call_ended(end: CallEnd) {
    match end {
        CallEnd::Ok => BUSY.ok.increment(1),
        CallEnd::Failed => BUSY.failed.increment(1),
        CallEnd::GivenUp => BUSY.given_up.increment(1),
    }
}

/// Counts the bytes of a message from a host.
pub(crate) fn received(bytes: usize) {
    BUSY.received.increment(bytes as u64);
}

/// Counts the bytes of messages to a host.
pub(crate) fn sent(bytes: usize) {
    BUSY.sent.increment(bytes as u64);
}

/// Counts an attempt to resume a session.
pub(crate) fn resumed(result: Result<(), SessionLoss>) {
    counter!(RESUMES, "result" => result.map_or_else(loss_name, |()| "resumed")).increment(1);
}

/// Counts a session that ended because nobody resumed it.
pub(crate) fn session_lost(loss: SessionLoss) {
    counter!(LOST, "reason" => loss_name(loss)).increment(1);
}

/// Notes that a worker is ready which was started at this time.
pub(crate) fn worker_ready(started: Instant) {
    histogram!(STARTED).record(started.elapsed());
}

/// Counts a worker that no execution could have.
pub(crate) fn worker_trouble(trouble: WorkerTrouble) {
    let name = match trouble {
        WorkerTrouble::NotStarted => "not_started",
        WorkerTrouble::Died => "died",
    };
    counter!(TROUBLES, "trouble" => name).increment(1);
}

fn loss_name(loss: SessionLoss) -> &'static str {
    match loss {
        SessionLoss::Unspecified | SessionLoss::Unknown => "unknown",
        SessionLoss::Expired => "expired",
        SessionLoss::Epoch => "epoch",
        SessionLoss::Gap => "gap",
        SessionLoss::Moved => "moved",
        SessionLoss::Drained => "drained",
    }
}

/// Numbers of things as they are at one moment.
#[derive(Debug)]
pub(crate) struct Readings {
    pub(crate) is_ready: bool,
    /// Places for executions.
    pub(crate) places: usize,
    pub(crate) running: usize,
    pub(crate) queued: usize,
    pub(crate) waiting_for_people: usize,
    /// Time that the execution has waited which has waited longest.
    pub(crate) oldest_wait: Duration,
    /// Sessions with a connection.
    pub(crate) connected: usize,
    /// Sessions without one.
    pub(crate) detached: usize,
    /// Ready workers of each pool, with the pool's name.
    pub(crate) ready_workers: Vec<(&'static str, usize)>,
    /// Name of the build.
    pub(crate) build: String,
}

impl Readings {
    /// Sets the metrics.
    #[expect(clippy::cast_precision_loss, reason = "counts of things that exist at once")]
    pub(crate) fn set(self) {
        gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION"), "build" => self.build).set(1.0);
        gauge!(READY).set(if self.is_ready { 1.0 } else { 0.0 });
        gauge!(PLACES).set(self.places as f64);
        gauge!(EXECUTIONS, "state" => "running").set(self.running as f64);
        gauge!(EXECUTIONS, "state" => "queued").set(self.queued as f64);
        gauge!(EXECUTIONS, "state" => "waiting_for_people").set(self.waiting_for_people as f64);
        gauge!(SATURATION).set((self.running + self.queued) as f64 / self.places.max(1) as f64);
        gauge!(OLDEST).set(self.oldest_wait.as_secs_f64());
        gauge!(SESSIONS, "state" => "connected").set(self.connected as f64);
        gauge!(SESSIONS, "state" => "detached").set(self.detached as f64);
        for (pool, ready) in self.ready_workers {
            gauge!(STOCK, "pool" => pool).set(ready as f64);
        }
    }
}
