//! A session without a socket: messages of a relay in, messages to it out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use relay_proto::{ErrorCode, LimitName};
use serde_json::json;

use super::*;
use crate::client::{Client, ExecuteRequest};
use crate::rules::policy::Policy;
use crate::tool::{Effect, ToolSpec};
use crate::tools::Tools;

/// A client over a session, and the relay's side of it.
struct Scene {
    client: Client,
    session: Arc<Session>,
    outbox: Outbox,
    sequence: u64,
    /// The number of times that the tool `a.count` ran.
    ran: Arc<AtomicUsize>,
}

impl Scene {
    fn new() -> Self {
        let (tools, ran) = (Tools::new(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&ran);
        let spec = ToolSpec::new("a.count", "", json!({"type": "object"})).effect(Effect::ReadOnly);
        let count = move |_, _| {
            let count = counted.fetch_add(1, Ordering::SeqCst) + 1;
            async move { Ok(count.to_string().into()) }
        };
        tools.add_with(spec, count).unwrap();
        let slow = ToolSpec::new("a.slow", "", json!({"type": "object"})).effect(Effect::ReadOnly);
        tools.add_with(slow, |_, _| std::future::pending()).unwrap();
        let host = Arc::new(Host::new(tools).policy(Policy::new().deny(["a.denied"], "no")));
        let (session, outbox) = Session::new(host, true);
        let welcome = wire::Welcome { protocol_version: 1, ..wire::Welcome::default() };
        let client = Client::over(Arc::clone(&session), welcome, Duration::from_secs(60), "tests");
        Self { client, session, outbox, sequence: 1, ran }
    }

    fn receive(&mut self, payload: Payload) -> Result<(), SessionFault> {
        self.sequence += 1;
        self.session.handle(wire::Message { sequence: self.sequence, ..payload.into() }, 0)
    }

    async fn sent(&mut self) -> Payload {
        self.outbox.next().await.unwrap().payload.unwrap()
    }

    fn call(id: u64, execution: &str, tool: &str) -> Payload {
        Payload::ToolCall(wire::ToolCall {
            id: id.to_string(),
            tool: tool.into(),
            arguments: b"{}".as_slice().into(),
            execution_id: execution.into(),
            remaining_ms: 30_000,
            ..wire::ToolCall::default()
        })
    }
}

#[tokio::test]
async fn an_execution_goes_out_its_calls_are_answered_and_its_result_comes_back() {
    let mut scene = Scene::new();
    let execution = scene.client.execute(ExecuteRequest::new("the code").always_in_sandbox()).await.unwrap();
    let Payload::Execute(sent) = scene.sent().await else { panic!("no execution") };
    assert_eq!((sent.code.as_str(), sent.execution_id.as_str()), ("the code", execution.id().as_str()));
    for (id, tool, expected) in [(1, "a.count", Ok("1")), (2, "a.none", Err("UNKNOWN_TOOL")), (3, "a.count", Ok("2"))] {
        scene.receive(Scene::call(id, &sent.execution_id, tool)).unwrap();
        let Payload::ToolResult(result) = scene.sent().await else { panic!("no answer") };
        let answer = match result.success {
            true => Ok(std::str::from_utf8(&result.result).unwrap()),
            false => Err(result.code.as_str()),
        };
        assert_eq!((result.id.as_str(), answer), (id.to_string().as_str(), expected));
    }
    let result =
        wire::Result { execution_id: sent.execution_id, data: b"7".as_slice().into(), ..wire::Result::default() };
    scene.receive(Payload::Result(result)).unwrap();
    assert_eq!(execution.await.unwrap().value().unwrap(), 7);
}

#[tokio::test]
async fn the_same_call_twice_runs_once_and_another_under_its_id_ends_the_session() {
    let mut scene = Scene::new();
    let execution = scene.client.execute(ExecuteRequest::new("the code").always_in_sandbox()).await.unwrap();
    let id = execution.id().as_str().to_owned();
    scene.sent().await;
    for _ in 0..2 {
        scene.receive(Scene::call(1, &id, "a.count")).unwrap();
        let Payload::ToolResult(result) = scene.sent().await else { panic!("no answer") };
        assert_eq!(&result.result[..], b"1");
    }
    assert_eq!(scene.ran.load(Ordering::SeqCst), 1);
    let fault = scene.receive(Scene::call(1, &id, "a.none")).unwrap_err();
    assert!(fault.to_string().contains("came before, with something else in it"), "{fault}");
}

#[tokio::test]
async fn what_is_too_large_to_send_is_refused_and_the_relay_never_hears_of_it() {
    let mut scene = Scene::new();
    let mut execution = scene.client.execute(ExecuteRequest::new("x".repeat(17 << 20))).await.unwrap();
    let mut events = execution.events().unwrap();
    let error = execution.await.unwrap_err();
    assert_eq!(error.code().unwrap(), &ErrorCode::InvalidInput, "{error}");
    let mut ended = None;
    while let Some(event) = events.next().await {
        if let crate::Event::Ended { code, .. } = event {
            ended = code;
        }
    }
    assert_eq!(ended.unwrap(), ErrorCode::InvalidInput, "it was not cancelled");
    // Neither the code nor a Cancel is sent.
    assert!(scene.outbox.try_next().is_none());
}

#[tokio::test]
async fn every_call_of_the_host_has_an_id_of_its_own() {
    let scene = Scene::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let remembered = Arc::clone(&seen);
    let spec = ToolSpec::new("b.who", "", json!({"type": "object"})).effect(Effect::ReadOnly);
    let who = move |_, context: crate::CallContext| {
        remembered.lock().unwrap().push(context.call);
        async { Ok("null".into()) }
    };
    scene.session.host.tools.add_with(spec, who).unwrap();
    for _ in 0..3 {
        scene.session.host.call("b.who", &json!({})).await.unwrap();
    }
    let ids = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(ids.len(), 3);
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    assert!(ids[0] >= crate::call::FIRST_HOST_CALL, "a relay's calls count up from 1");
}

#[tokio::test]
async fn a_relay_cannot_use_the_ids_of_the_hosts_own_calls() {
    let mut scene = Scene::new();
    let execution = scene.client.execute(ExecuteRequest::new("the code").always_in_sandbox()).await.unwrap();
    let id = execution.id().as_str().to_owned();
    let fault = scene.receive(Scene::call(crate::call::FIRST_HOST_CALL, &id, "a.count")).unwrap_err();
    assert!(fault.to_string().contains("out of the range"), "{fault}");
}

#[tokio::test]
async fn a_gap_in_the_relays_numbers_ends_the_session() {
    let mut scene = Scene::new();
    scene.sequence += 1;
    let fault = scene.receive(Payload::Pong(wire::Pong::default())).unwrap_err();
    assert_eq!(fault.to_string(), "message 3 came in the place of 2");
}

/// A session that can be resumed within 60 s, with an execution that is given up after 91 s: 60 s for queueing, 1 s for running,
/// 30 s more.
async fn resumable() -> (Client, Arc<Session>, Outbox, crate::Execution) {
    let (session, outbox) = Session::with_all(Arc::new(Host::new(Tools::new())));
    let welcome = wire::Welcome { protocol_version: 1, ..wire::Welcome::default() };
    let client = Client::over(Arc::clone(&session), welcome, Duration::from_secs(60), "tests");
    let request = ExecuteRequest::new("the code").always_in_sandbox().limit(LimitName::WallMs, 1_000);
    let execution = client.execute(request).await.unwrap();
    (client, session, outbox, execution)
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_execution_stands_still_without_a_connection_and_for_no_longer_than_the_window() {
    for (away, expected) in [(50, 91 + 50), (300, 91 + 60)] {
        let (_client, session, _outbox, execution) = resumable().await;
        let since = Instant::now();
        let cut = async {
            for _ in 0..away / 10 {
                session.disconnected(Instant::now(), "it was cut");
                tokio::time::sleep(Duration::from_secs(10)).await;
                session.resumed(Duration::from_secs(10));
            }
        };
        let ended = async { (execution.await, since.elapsed().as_secs()) };
        let ((outcome, after), ()) = tokio::join!(ended, cut);
        assert_eq!(outcome.unwrap_err().code().unwrap(), &ErrorCode::Timeout);
        assert!((expected..=expected + 1).contains(&after), "{after} s, not {expected}");
    }
}

#[tokio::test]
async fn the_end_of_the_session_ends_what_runs_in_it() {
    let mut scene = Scene::new();
    let request = ExecuteRequest::new("the code").always_in_sandbox().limit(LimitName::WallMs, 60_000);
    let execution = scene.client.execute(request).await.unwrap();
    let id = execution.id().as_str().to_owned();
    scene.receive(Scene::call(1, &id, "a.slow")).unwrap();
    scene.session.end(&SessionFault::new("it was cut".into()));
    let error = execution.await.unwrap_err();
    assert_eq!(error.code().unwrap(), &ErrorCode::SessionLost);
    assert!(error.to_string().contains("it was cut") && scene.client.is_over(), "{error}");
}

/// The application's span, the execution's and the call's are one exported trace; the relay and the tool are sent the context of
/// spans that are in it.
#[cfg(feature = "opentelemetry")]
#[tokio::test]
async fn the_exported_trace_goes_through_relay_and_tool() {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
    use tracing::Instrument as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
    // The runtime of this test has one thread: all its tasks have this subscriber.
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));

    let mut scene = Scene::new();
    let seen = Arc::new(Mutex::new(None));
    let remembered = Arc::clone(&seen);
    let spec = ToolSpec::new("b.trace", "", json!({"type": "object"})).effect(Effect::ReadOnly);
    let trace = move |_, context: crate::CallContext| {
        *remembered.lock().unwrap() = Some(context.trace.to_string());
        async { Ok("null".into()) }
    };
    scene.session.host.tools.add_with(spec, trace).unwrap();
    let sent = async {
        let execution = scene.client.execute(ExecuteRequest::new("the code").always_in_sandbox()).await.unwrap();
        let Payload::Execute(sent) = scene.sent().await else { panic!("no execution") };
        scene.receive(Scene::call(1, &sent.execution_id, "b.trace")).unwrap();
        assert!(matches!(scene.sent().await, Payload::ToolResult(result) if result.success));
        scene.session.end(&SessionFault::new("done".into()));
        drop(execution);
        sent
    };
    let sent = sent.instrument(tracing::info_span!("the application")).await;
    drop(scene);
    provider.force_flush().unwrap();

    let spans = exporter.get_finished_spans().unwrap();
    let named =
        |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}: {spans:?}"));
    let (application, code, tool) = (named("the application"), named("execute_code"), named("execute_tool b.trace"));
    assert_eq!(code.parent_span_id, application.span_context.span_id());
    assert_eq!(tool.parent_span_id, code.span_context.span_id());
    let context = |span: &opentelemetry_sdk::trace::SpanData| {
        format!("00-{}-{}-01", span.span_context.trace_id(), span.span_context.span_id())
    };
    assert_eq!(sent.traceparent, context(code), "what the relay is sent");
    assert_eq!(seen.lock().unwrap().take().unwrap(), context(tool), "what the tool gets");
}

/// Looks at a session whenever a span begins or is written to, as an application's own layer may.
struct Looking(Arc<Session>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Looking {
    fn on_new_span(
        &self,
        _: &tracing::span::Attributes<'_>,
        _: &tracing::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        self.0.ledger.is_lost();
    }

    fn on_record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        self.0.ledger.is_lost();
    }
}

/// With the ledger's lock held while spans begin or end, this would never end.
#[test]
fn no_code_of_others_runs_under_the_ledgers_lock() {
    use tracing_subscriber::layer::SubscriberExt as _;

    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut scene = Scene::new();
            let looking = Looking(Arc::clone(&scene.session));
            let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(looking));
            let execution = scene.client.execute(ExecuteRequest::new("the code").always_in_sandbox()).await.unwrap();
            let id = execution.id().as_str().to_owned();
            scene.receive(Scene::call(1, &id, "a.slow")).unwrap();
            tokio::task::yield_now().await;
            let cancel = wire::Cancel { execution_id: id, call_id: "1".into(), ..wire::Cancel::default() };
            scene.receive(Payload::Cancel(cancel)).unwrap();
        });
        done.send(()).unwrap();
    });
    assert!(ended.recv_timeout(Duration::from_secs(30)).is_ok(), "it hangs");
}
