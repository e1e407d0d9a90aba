//! A host by hand that keeps a journal of a durable run and gives it to any relay.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use host_client::LocalRelay;
use relay_proto::wire;
use relay_proto::wire::message::Payload;

use crate::suite::wire::Raw;

/// Tools that the host announces.
pub(super) const TOOLS: [&str; 4] = ["t.echo", "t.fail", "t.never", "t.end"];

/// The journal of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct Journal {
    /// Request of the run, as it began.
    pub(super) request: wire::Execute,
    pub(super) steps: Vec<u8>,
    pub(super) failures: Vec<wire::StepFailure>,
    pub(super) calls: BTreeMap<u64, Recorded>,
    pub(super) begun: Option<wire::Begun>,
    pub(super) output: Vec<String>,
    pub(super) waiting: Vec<wire::Waiting>,
    /// Time by which the host's clock has moved on without the test's waiting for it, in ms.
    pub(super) clock_offset_ms: i64,
}

/// One call in a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) tool: String,
    pub(super) arguments: Bytes,
    pub(super) answer: Option<Answer>,
}

/// Answer of a tool: its result as JSON, or its error.
pub(super) type Answer = Result<String, String>;

/// End of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    Result(Bytes),
    Error(Box<wire::Error>),
}

impl End {
    #[track_caller]
    pub(super) fn json(&self) -> serde_json::Value {
        match self {
            Self::Result(data) => serde_json::from_slice(data).unwrap(),
            Self::Error(error) => panic!("{error:?}"),
        }
    }

    #[track_caller]
    pub(super) fn error(self) -> wire::Error {
        match self {
            Self::Error(error) => *error,
            Self::Result(data) => panic!("{data:?}"),
        }
    }
}

impl Journal {
    /// Begins the journal of a run with this code, seed 7, at a time that is an hour ago by the machine's clock: whatever the
    /// code sees of time has to come from the host.
    pub(super) fn new(code: &str, bindings: &[&str]) -> Self {
        let request = wire::Execute {
            code: code.into(),
            bindings: bindings.iter().map(|name| (*name).into()).collect(),
            seed: Some(7),
            now_ms: Some(host_time_ms()),
            durable: Some(wire::Durable::default()),
            ..wire::Execute::default()
        };
        Self { request, ..Self::default() }
    }

    pub(super) fn limited(mut self, limits: &[(&str, u64)]) -> Self {
        self.request.limits = limits.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        self
    }

    /// Returns the message that runs it, once more if it began before.
    pub(super) fn execute(&self) -> wire::Execute {
        let first = self.request.durable.clone().unwrap_or_default();
        let began = !self.steps.is_empty() || !self.calls.is_empty() || self.begun.is_some() || !self.output.is_empty();
        let durable = wire::Durable {
            steps: self.steps.clone().into(),
            failures: self.failures.clone(),
            calls: self.calls.last_key_value().map_or(0, |(index, _)| *index),
            again: first.again || began || !self.failures.is_empty(),
            store: self.begun.as_ref().map(|begun| begun.store.clone()).unwrap_or_default(),
            tools: self.begun.as_ref().map(|begun| begun.tools.clone()).unwrap_or_default(),
            clock_ms: Some(host_time_ms() + self.clock_offset_ms),
            ..first
        };
        wire::Execute { durable: Some(durable), ..self.request.clone() }
    }

    fn add(&mut self, steps: &[u8], failures: Vec<wire::StepFailure>) {
        self.steps.extend_from_slice(steps);
        self.failures.extend(failures);
    }

    /// Records a call. Returns its answer if that is known.
    ///
    /// # Panics
    /// Another call has this index.
    fn call(&mut self, call: &wire::ToolCall) -> Option<Answer> {
        let (tool, arguments) = (call.tool.clone(), call.arguments.clone());
        match self.calls.get(&call.index) {
            Some(known) => {
                assert_eq!((&known.tool, &known.arguments), (&tool, &arguments), "call {}", call.index);
                known.answer.clone()
            }
            None => {
                let newest = self.calls.last_key_value().map_or(0, |(index, _)| *index);
                assert!(call.index > newest || self.request.bindings.iter().any(|it| it == "introspection"));
                self.calls.insert(call.index, Recorded { tool, arguments, answer: None });
                None
            }
        }
    }
}

/// The host's clock, an hour behind the machine's, in ms since 1970.
pub(super) fn host_time_ms() -> i64 {
    relay_proto::time::now_ms() - 3_600_000
}

/// The time after which a call without an answer in the journal gets one, and that answer; `None`: it gets none.
pub(super) type Plan = Option<(Duration, Answer)>;

/// Answers at once with the arguments, or as the tool's name says.
pub(super) fn at_once(call: &wire::ToolCall) -> Plan {
    after(Duration::ZERO, call)
}

/// Answers after a time with the arguments, or as the tool's name says.
pub(super) fn after(delay: Duration, call: &wire::ToolCall) -> Plan {
    let text = String::from_utf8(call.arguments.to_vec()).unwrap();
    match call.tool.as_str() {
        "t.never" => None,
        "t.fail" => Some((delay, Err(format!("no: {text}")))),
        _ => Some((delay, Ok(text))),
    }
}

/// One end of a session.
pub(super) struct Host {
    raw: Raw,
    sent: u64,
    executions: u64,
    pub(super) welcome: wire::Welcome,
}

impl Host {
    pub(super) async fn connect(relay: &LocalRelay) -> Self {
        Self::connect_with(relay, &TOOLS).await
    }

    pub(super) async fn connect_with(relay: &LocalRelay, tools: &[&str]) -> Self {
        Self::over(Raw::open(relay).await, tools).await
    }

    pub(super) async fn over(mut raw: Raw, tools: &[&str]) -> Self {
        let welcome = raw.hello(tools).await;
        assert!(welcome.features.iter().any(|name| name == "durable"));
        Self { raw, sent: 1, executions: 0, welcome }
    }

    pub(super) async fn send(&mut self, payload: Payload) {
        self.sent += 1;
        self.raw.send_message(wire::Message { sequence: self.sent, ..payload.into() }).await;
    }

    pub(super) async fn payload(&mut self) -> Payload {
        self.raw.payload().await
    }

    /// Begins a run, or runs it again.
    pub(super) async fn begin(&mut self, execute: wire::Execute) {
        self.executions += 1;
        let execution_id = format!("run-{}", self.executions);
        self.send(Payload::Execute(wire::Execute { execution_id, ..execute })).await;
    }

    pub(super) async fn cancel(&mut self) {
        let execution_id = format!("run-{}", self.executions);
        self.send(Payload::Cancel(wire::Cancel { execution_id, ..wire::Cancel::default() })).await;
    }

    /// Runs a journal's run until it waits, and ends it then. Returns the time until its next timer is due, in ms.
    pub(super) async fn run_until_waiting(
        &mut self,
        journal: &mut Journal,
        plan: impl FnMut(&wire::ToolCall) -> Plan,
    ) -> Option<u64> {
        let waits = std::cell::Cell::new(journal.waiting.len());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let mut stop = Some(stop);
        let note = |journal: &Journal| {
            if journal.waiting.len() > waits.get()
                && let Some(stop) = stop.take()
            {
                stop.send(()).unwrap();
            }
        };
        let end = self.run_stopped(journal, plan, note, stopped).await.error();
        assert_eq!(end.code, "CANCELLED");
        journal.waiting.last().unwrap().timer_in_ms
    }

    /// Runs a journal's run to its end.
    pub(super) async fn run(&mut self, journal: &mut Journal, plan: impl FnMut(&wire::ToolCall) -> Plan) -> End {
        self.run_noting(journal, plan, |_| {}).await
    }

    /// The same; `note` sees the journal after each change.
    pub(super) async fn run_noting(
        &mut self,
        journal: &mut Journal,
        plan: impl FnMut(&wire::ToolCall) -> Plan,
        note: impl FnMut(&Journal),
    ) -> End {
        self.run_stopped(journal, plan, note, std::future::pending::<()>()).await
    }

    /// The same; the run is cancelled when `stopped` is done.
    pub(super) async fn run_stopped<T>(
        &mut self,
        journal: &mut Journal,
        mut plan: impl FnMut(&wire::ToolCall) -> Plan,
        mut note: impl FnMut(&Journal),
        stopped: impl Future<Output = T>,
    ) -> End {
        let mut stopped = std::pin::pin!(stopped);
        let mut is_stopped = false;
        let execute = journal.execute();
        let mut may_begin = !execute.durable.as_ref().unwrap().again;
        self.begin(execute).await;
        let mut answers = FuturesUnordered::new();
        loop {
            let payload = tokio::select! {
                Some((call, answer)) = answers.next() => {
                    self.answer(journal, &call, answer).await;
                    note(journal);
                    continue;
                }
                _ = &mut stopped, if !is_stopped => {
                    is_stopped = true;
                    self.cancel().await;
                    continue;
                }
                payload = self.raw.payload() => payload,
            };
            match payload {
                Payload::Begun(begun) => {
                    assert!(may_begin, "it began before, or something came before it");
                    journal.begun = Some(begun);
                }
                Payload::ToolCall(call) => {
                    journal.add(&call.steps, call.failures.clone());
                    match journal.call(&call) {
                        Some(answer) => self.answer(journal, &call, answer).await,
                        None => answers.extend(plan(&call).map(|(delay, answer)| async move {
                            tokio::time::sleep(delay).await;
                            (call, answer)
                        })),
                    }
                }
                Payload::Output(output) => {
                    journal.add(&output.steps, output.failures);
                    journal.output.extend(output.items.into_iter().map(|item| item.text));
                }
                Payload::Waiting(waiting) => {
                    journal.add(&waiting.steps, waiting.failures.clone());
                    journal.waiting.push(waiting);
                }
                Payload::Cancel(_) => {}
                Payload::Result(result) => return End::Result(result.data),
                Payload::Error(error) => return End::Error(error.into()),
                other => panic!("{other:?}"),
            }
            may_begin = false;
            note(journal);
        }
    }

    /// Records an answer and sends it.
    pub(super) async fn answer(&mut self, journal: &mut Journal, call: &wire::ToolCall, answer: Answer) {
        if let Some(recorded) = journal.calls.get_mut(&call.index) {
            recorded.answer = Some(answer.clone());
        }
        let id = call.id.clone();
        let result = match answer {
            Ok(json) => wire::ToolResult { id, success: true, result: json.into(), ..wire::ToolResult::default() },
            Err(error) => wire::ToolResult { id, error, ..wire::ToolResult::default() },
        };
        self.send(Payload::ToolResult(result)).await;
    }
}
