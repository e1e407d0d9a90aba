//! A worker that lies: a script has taken it over and says whatever it likes. The relay counts for itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::{HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use relay_proto::{LimitOverrides, Limits};
use tokio::time::Instant;

use super::*;
use crate::sandbox::channel::{self, message, message::report::Kind as Report};
use crate::sandbox::pool::Pool;

/// Sink with endless room that, if `answering`, answers every call at once.
struct Sink {
    answers: mpsc::Sender<Command>,
    calls: usize,
    open: usize,
    most_open: usize,
    output_bytes: usize,
    waits: usize,
    news_bytes: usize,
    answering: bool,
}

impl EventSink for Sink {
    type Permit = ();

    fn check_tool(&self, _: &ToolName, _: bool) -> Result<(), CallFailure> {
        Ok(())
    }

    fn store(&self, _: String, _: Option<Bytes>) -> bool {
        false
    }

    async fn reserve(&self, _: Needs) -> Option<()> {
        Some(())
    }

    fn send(&mut self, (): (), event: Event) {
        match event {
            Event::Call { call, arguments, .. } => {
                assert!(arguments.len() <= 100, "arguments over the limit went out");
                self.calls += 1;
                self.open += 1;
                self.most_open = self.most_open.max(self.open);
                if self.answering {
                    self.open -= 1;
                    let _ = self.answers.try_send(Command::Settle { call, outcome: Ok(Bytes::from_static(b"1")) });
                }
            }
            Event::CallGivenUp { .. } | Event::Begun(_) => {}
            Event::Waiting { news, .. } => {
                self.waits += 1;
                self.news_bytes += news.len();
            }
            Event::Output(items, news) => {
                self.output_bytes += items.iter().map(|item| item.text.len()).sum::<usize>();
                self.news_bytes += news.len();
            }
        }
    }
}

/// Runs an execution whose worker says `said`, whatever it hears.
async fn run_against(said: Vec<u8>, answering: bool) -> (Outcome, Sink) {
    run_request_against(said, answering, None).await
}

/// The same, of a durable execution.
async fn run_durable_against(said: Vec<u8>, durable: DurableRequest) -> (Outcome, Sink) {
    run_request_against(said, false, Some(durable)).await
}

async fn run_request_against(said: Vec<u8>, answering: bool, durable: Option<DurableRequest>) -> (Outcome, Sink) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let pool = Pool::of_sockets(vec![ours]).unwrap();
    std::thread::spawn(move || {
        let mut heard = theirs.try_clone().unwrap();
        std::thread::spawn(move || while heard.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {});
        let _ = theirs.write_all(&said);
        let _ = theirs.shutdown(std::net::Shutdown::Write);
    });
    let mut limits = LimitOverrides::default();
    for (name, value) in [
        (LimitName::ToolCalls, 10),
        (LimitName::ToolCallsInFlight, 4),
        (LimitName::ArgumentsBytes, 100),
        (LimitName::ResultBytes, 100),
        (LimitName::OutputBytes, 1_000),
        (LimitName::OutputCount, 20),
        (LimitName::WallMs, 10_000),
    ] {
        limits.set(name, value);
    }
    let (limits, _) = Limits::defaults().lowered(&limits);
    let (answers, commands) = mpsc::channel(64);
    let mut sink =
        Sink { answers, calls: 0, open: 0, most_open: 0, output_bytes: 0, waits: 0, news_bytes: 0, answering };
    let request = ExecutionRequest { durable, ..ExecutionRequest::new(String::new(), limits) };
    let mut worker = pool.take().await.unwrap();
    let control = Control { commands, states: Arc::default(), place: None, stopped_for: Duration::ZERO };
    let outcome = run(&mut worker, request, control, &mut sink).await;
    (outcome, sink)
}

fn frames(reports: impl IntoIterator<Item = Report>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for kind in reports {
        channel::put_frame(&message::Report { kind: Some(kind) }, &mut bytes);
    }
    bytes
}

fn call(number: u64, arguments: usize) -> Report {
    Report::Call(message::Call {
        call: number,
        tool: "a.b".into(),
        arguments: vec![b'1'; arguments].into(),
        ..message::Call::default()
    })
}

fn output(bytes: usize) -> Report {
    Report::Output(message::Output { kind: 1, text: "x".repeat(bytes), ..message::Output::default() })
}

fn done(bytes: usize) -> Report {
    Report::Done(message::Done { result: vec![b'1'; bytes].into(), ..message::Done::default() })
}

#[tokio::test]
async fn calls_are_counted_by_the_relay() {
    // One after the other, more than are allowed.
    let (outcome, sink) = run_against(frames((1..=1_000).map(|n| call(n, 1))), true).await;
    assert_eq!(outcome.result.unwrap_err().code, ErrorCode::WorkerLost);
    assert!(sink.calls <= 10, "{}", sink.calls);
    // At once, more than are allowed; and the same one twice.
    for numbers in [vec![1, 2, 3, 4, 5, 6], vec![1, 1]] {
        let (outcome, sink) = run_against(frames(numbers.into_iter().map(|n| call(n, 1))), false).await;
        assert_eq!(outcome.result.unwrap_err().code, ErrorCode::WorkerLost);
        assert!(sink.most_open <= 4, "{}", sink.most_open);
    }
    // Arguments over the limit go to nobody.
    let (_, sink) = run_against(frames([call(1, 101), call(2, 1_000_000), done(1)]), true).await;
    assert_eq!(sink.calls, 0);
}

#[tokio::test]
async fn output_and_results_are_measured_by_the_relay() {
    let (outcome, sink) = run_against(frames((0..100).map(|_| output(300))), true).await;
    assert_eq!(outcome.result.unwrap_err().limit, Some(LimitName::OutputBytes));
    assert_eq!(sink.output_bytes, 900, "what came within the limit goes out, and no more");
    let (outcome, _) = run_against(frames((0..100).map(|_| output(0))), true).await;
    assert_eq!(outcome.result.unwrap_err().limit, Some(LimitName::OutputCount));
    let (outcome, _) = run_against(frames([done(101)]), true).await;
    assert_eq!(outcome.result.unwrap_err().limit, Some(LimitName::ResultBytes));
    let (outcome, _) = run_against(frames([done(100)]), true).await;
    assert_eq!(outcome.result.unwrap().len(), 100);
}

#[tokio::test]
async fn a_worker_says_only_what_is_a_workers_to_say() {
    let failed = |code: &str| Report::Failed(message::Failed { code: code.into(), ..message::Failed::default() });
    let long = "x".repeat(100 << 10);
    let wordy = Report::Failed(message::Failed {
        code: "EVAL_ERROR".into(),
        message: long.clone(),
        hint: long.clone(),
        tool: long.clone(),
        warnings: vec![message::Warning { code: long.clone(), message: long.clone() }; 40],
        ..message::Failed::default()
    });
    let (outcome, _) = run_against(frames([wordy]), true).await;
    let error = outcome.result.unwrap_err();
    assert!(error.code == ErrorCode::EvalError && error.message.len() + error.hint.len() + error.tool.len() < 32 << 10);
    assert!(outcome.warnings.iter().map(|it| it.code.len() + it.message.len()).sum::<usize>() < 512 << 10);
    // The relay's own words, or no words of anybody's.
    for code in ["CANCELLED", "TIMEOUT", "UNAUTHENTICATED", "SESSION_LOST", "NO_SUCH_CODE", ""] {
        let (outcome, _) = run_against(frames([failed(code)]), true).await;
        assert_eq!(outcome.result.unwrap_err().code, ErrorCode::WorkerLost, "{code}");
    }
    let over_the_cap = (u32::try_from(channel::MAX_FRAME_BYTES).unwrap() + 1).to_le_bytes().to_vec();
    let twice_ready = frames([Report::Ready(message::Ready {}), done(1)]);
    for said in [Vec::new(), over_the_cap, vec![0xff; 64], vec![4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], twice_ready] {
        let (outcome, _) = run_against(said.clone(), true).await;
        assert_eq!(outcome.result.unwrap_err().code, ErrorCode::WorkerLost, "{said:.40x?}");
    }
}

#[tokio::test]
async fn steps_and_waits_are_measured_by_the_relay() {
    let durable = |waiting_after_ms| DurableRequest {
        steps: Bytes::new(),
        answered: HashSet::new(),
        failures: HashMap::new(),
        newest: WorkerCall(0),
        again: false,
        waiting_after_ms,
        clock_ms: (0, Instant::now()),
        recorded_bytes: 0,
    };
    let steps = |bytes: usize| Report::Steps(message::Steps { steps: vec![2; bytes].into() });
    let waiting = || Report::Waiting(message::Waiting { timer_in_ms: None, steps: Bytes::from_static(&[2, 0]) });
    // What nobody asked for.
    for said in [steps(2), waiting()] {
        let (outcome, sink) = run_against(frames([said]), false).await;
        assert_eq!(outcome.result.unwrap_err().code, ErrorCode::WorkerLost);
        assert_eq!((sink.waits, sink.news_bytes), (0, 0));
    }
    let (outcome, _) = run_durable_against(frames([waiting()]), durable(0)).await;
    assert_eq!(outcome.result.unwrap_err().code, ErrorCode::WorkerLost);
    // More than there can be.
    let (outcome, sink) = run_durable_against(frames((0..1_000).map(|_| steps(32 << 10))), durable(1)).await;
    assert_eq!(outcome.result.unwrap_err().code, ErrorCode::WorkerLost);
    assert!((1 << 20..2 << 20).contains(&sink.news_bytes), "{}", sink.news_bytes);
    let (outcome, sink) = run_durable_against(frames((0..70_000).map(|_| waiting())), durable(1)).await;
    assert_eq!(outcome.result.unwrap_err().code, ErrorCode::WorkerLost);
    assert!((65_536..65_540).contains(&sink.waits), "{}", sink.waits);
    // What an honest worker says goes through, steps that came before an end included.
    let many = [steps(4), waiting(), output(1), steps(20 << 10), done(1)];
    let (outcome, sink) = run_durable_against(frames(many), durable(1)).await;
    assert_eq!((outcome.result.unwrap().len(), sink.waits, sink.news_bytes), (1, 1, 6 + (20 << 10)));
}
