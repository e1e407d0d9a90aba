//! Records that do not fit, and hosts that lie: each is refused or ends its own run, and harms nothing else.

use relay_proto::steps::{self, MAX_STEP_FAILURE_BYTES, MAX_STEP_FAILURES, MAX_STEPS, Source, Step};
use relay_proto::wire;
use relay_proto::wire::message::Payload;
use serde_json::json;

use super::host::{End, Host, Journal, at_once};
use super::program;
use crate::suite::wire::Raw;
use crate::support::start_relay;

/// Encodes steps at the time of the beginning.
fn encode(sources: impl IntoIterator<Item = Source>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for source in sources {
        steps::encode_one(&mut bytes, Step { source, at_ms: 0 }, 0);
    }
    bytes
}

fn failure(call: u64, message: String) -> wire::StepFailure {
    wire::StepFailure { call, code: "TOOL_TIMEOUT".into(), message }
}

#[tokio::test]
async fn a_record_that_is_none_is_refused() {
    let relay = start_relay(&[]).await;
    let mut host = Host::connect(&relay).await;
    let good = Journal::new("return 1", &["store", "servers"]).execute();
    let record = |change: &dyn Fn(&mut wire::Durable)| {
        let mut durable = wire::Durable { again: true, ..good.durable.clone().unwrap() };
        change(&mut durable);
        wire::Execute { durable: Some(durable), ..good.clone() }
    };
    let large = bytes::Bytes::from(vec![b'1'; 300 << 10]);
    let refused = [
        ("seed", wire::Execute { seed: None, ..good.clone() }),
        ("now_ms", wire::Execute { now_ms: None, ..good.clone() }),
        ("did not begin", record(&|it| (it.again, it.calls) = (false, 1))),
        ("did not begin", record(&|it| (it.again, it.tools) = (false, vec!["a.b".into()]))),
        ("step 1 is cut off", record(&|it| it.steps = vec![2].into())),
        ("step 2 names nothing", record(&|it| it.steps = vec![2, 0, 0, 0].into())),
        ("no time", record(&|it| it.steps = [&[2][..], &[0xff; 9], &[1]].concat().into())),
        ("more than 65536", record(&|it| it.steps = [2, 0].repeat(MAX_STEPS + 1).into())),
        ("two failures of call 3", record(&|it| it.failures = vec![failure(3, String::new()); 2])),
        ("message of", record(&|it| it.failures = vec![failure(1, "x".repeat(MAX_STEP_FAILURE_BYTES + 1))])),
        (
            "4097 failures",
            record(&|it| it.failures = (0..=MAX_STEP_FAILURES as u64).map(|n| failure(n, String::new())).collect()),
        ),
        ("more than a store holds", record(&|it| it.store = [("k".to_owned(), large.clone())].into())),
        ("no full name", record(&|it| it.tools = vec!["noserver".into()])),
        ("clock_ms", record(&|it| it.clock_ms = Some(i64::MIN))),
    ];
    for (words, execute) in refused {
        host.begin(execute).await;
        let Payload::Error(error) = host.payload().await else { panic!("{words} is not refused") };
        assert!(error.code == "INVALID_INPUT" && error.error.contains(words), "{words}: {error:?}");
    }
    // Limits that are not to be had any more: the code could tell.
    let began = |again: bool| {
        let mut execute = record(&|it| it.again = again);
        execute.limits = [("tool_calls".to_owned(), 1 << 40)].into();
        execute
    };
    host.begin(began(true)).await;
    let Payload::Error(error) = host.payload().await else { panic!("it runs with other limits") };
    assert!(error.code == "INVALID_INPUT" && error.error.contains("tool_calls"), "{error:?}");
    // The session goes on.
    let mut journal = Journal::new("return (await mcp.call('t.echo', {n: 1})).n", &[]);
    assert_eq!(host.run(&mut journal, at_once).await.json(), 1);
}

#[tokio::test]
async fn a_basic_peer_has_no_durable_runs() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    raw.send_message(Payload::Execute(Journal::new("return 1", &[]).execute()).into()).await;
    let error = raw.error().await;
    assert!(error.code == "INVALID_INPUT" && error.error.contains("hello"), "{error:?}");
    raw.execute("return 1").await;
    assert!(matches!(raw.payload().await, Payload::Result(_)));
}

#[tokio::test]
async fn code_that_does_something_else_than_is_recorded_ends_with_the_step_that_does_not_fit() {
    let relay = start_relay(&[]).await;
    let mut host = Host::connect(&relay).await;
    let two_calls =
        "const a = await mcp.call('t.echo', {n: 1}); const b = await mcp.call('t.echo', {n: 2}); return [a, b]";
    let asks = "const a = mcp.call('t.echo'); const b = __interfaces; return [await a, b]";
    let timer = "return new Promise((resolve) => setTimeout(() => resolve(7), 5))";
    let (call, set) = (Source::Call, Source::Timer);
    let cases = [
        (
            two_calls,
            vec![call(1), call(9)],
            "step 2 of the 2 that are recorded is the answer of call 9, but the code waits",
        ),
        (
            two_calls,
            vec![call(2)],
            "step 1 of the 1 that are recorded is the answer of call 2, but the code waits and has made 1",
        ),
        (two_calls, vec![call(1), call(1)], "is the answer of call 1, but that one was answered before"),
        (two_calls, vec![call(1), set(1)], "is timer 1, but that one is not set"),
        (two_calls, vec![call(u64::MAX >> 1)], "is the answer of call 9223372036854775807"),
        (
            two_calls,
            vec![call(1), call(2), call(3)],
            "step 3 of the 3 that are recorded is the answer of call 3, but the code ended",
        ),
        (timer, vec![set(2)], "is timer 2, but that one is not set"),
        (timer, vec![set(1), set(1)], "step 2 of the 2 that are recorded is timer 1, but the code ended"),
        (asks, vec![call(1), call(2)], "is the answer of call 1, but the code waited for the answer of call 2"),
        ("return 1", vec![call(1)], "but the code ended"),
        ("throw new Error('other')", vec![call(1)], "but the code failed with EVAL_ERROR: Error: other"),
        ("not code", vec![call(1)], "but the code failed with SYNTAX_ERROR"),
        ("await new Promise(() => {})", vec![call(1)], "but the code waits and has made 0 calls"),
    ];
    for (code, recorded, words) in cases {
        let mut journal = Journal::new(code, &["timers", "introspection"]);
        journal.request.now_ms = Some(0);
        journal.steps = encode(recorded);
        let error = host.run(&mut journal, at_once).await.error();
        assert!(error.code == "REPLAY_DIVERGED" && error.error.contains(words), "{code}: {error:?}");
    }
    // As it is recorded, the same code runs.
    let mut journal = Journal::new(two_calls, &[]);
    journal.request.now_ms = Some(0);
    journal.steps = encode([call(1), call(2)]);
    assert_eq!(host.run(&mut journal, at_once).await.json(), json!([{"n": 1}, {"n": 2}]));
}

#[tokio::test]
async fn a_recorded_answer_needs_neither_its_tool_nor_the_tokens_permission_and_a_new_call_needs_both() {
    let relay = start_relay(&[]).await;
    let code = program("try { return await mcp.call('t.echo', {n: 1}) } catch (e) { return e.code }");
    let mut journal = Journal::new(&code, &[]);
    let end = Host::connect(&relay).await.run(&mut journal, at_once).await;
    // Another host, which does not have the tool any more.
    let mut other = Host::connect_with(&relay, &["t.end"]).await;
    assert_eq!(other.run(&mut journal.clone(), at_once).await, end);
    let mut fresh = Journal::new(&code, &[]);
    assert_eq!(other.run(&mut fresh, at_once).await.json(), json!("UNKNOWN_TOOL"));
    assert_eq!(fresh.failures.len(), 1, "{:?}", fresh.failures);
    // The failure is on record: it stays, wherever the tool exists.
    let mut host = Host::connect(&relay).await;
    assert_eq!(host.run(&mut fresh, at_once).await.json(), json!("UNKNOWN_TOOL"));
    let token = relay.token(&["--subject", "raw", "--tools", "t.end"]).await.unwrap();
    let mut narrow = Host::over(Raw::open_with_token(&relay, &token).await.unwrap(), &["t.echo", "t.end"]).await;
    assert_eq!(narrow.run(&mut journal, at_once).await, end);
    assert_eq!(narrow.run(&mut Journal::new(&code, &[]), at_once).await.json(), json!("UNKNOWN_TOOL"));
}

#[tokio::test]
async fn a_run_has_so_many_steps_and_failures_and_no_more() {
    let relay = start_relay(&[]).await;
    let mut host = Host::connect(&relay).await;
    let code = "let n = 0; return new Promise((resolve) => {
                    setInterval(() => { if (++n === read_input() * 1) resolve(n) }, 1) })";
    for (most, fits) in [(MAX_STEPS, true), (MAX_STEPS + 1, false)] {
        let mut journal = Journal::new(code, &["timers", "io"]);
        journal.request.input = most.to_string();
        journal.request.now_ms = Some(0);
        journal.steps = encode(std::iter::repeat_n(Source::Timer(1), MAX_STEPS - 3));
        match host.run(&mut journal, at_once).await {
            End::Result(data) => assert!(fits && data == most.to_string(), "{data:?}"),
            End::Error(error) => {
                assert!(!fits && error.code == "EVAL_ERROR" && error.error.contains("65536"), "{error:?}");
            }
        }
    }
    let code = "let failed = 0;
                for (let n = 0; n < 4200; n += 50) {
                    await Promise.all(Array.from({length: 50}, () => mcp.call('t.nothing').catch(() => failed++)));
                }
                return failed";
    let token = relay.token(&["--subject", "raw", "--limit", "tool_calls=5000"]).await.unwrap();
    let mut host = Host::over(Raw::open_with_token(&relay, &token).await.unwrap(), &["t.echo"]).await;
    let mut journal = Journal::new(code, &[]);
    let error = host.run(&mut journal, at_once).await.error();
    assert!(error.code == "EVAL_ERROR" && error.error.contains("4096"), "{error:?}");
    assert!((4_000..=MAX_STEP_FAILURES).contains(&journal.failures.len()), "{}", journal.failures.len());
}
