//! Timers count as pending, come in their order, and are bounded.

use host_client::{ErrorCode, ExecuteRequest, LimitName};
use serde_json::json;

use super::{error, value};
use crate::support::Fixture;

const TIMERS: [&str; 1] = ["timers"];

#[tokio::test]
async fn timers_come_in_their_order_and_can_be_cleared() {
    let fixture = Fixture::start(&[]).await;
    let code = "
        const seen = [];
        setTimeout((...rest) => seen.push(rest), 20, 'b', 1);
        setTimeout(() => seen.push('a'), 1);
        setTimeout(() => seen.push('zero'));
        const gone = setTimeout(() => seen.push('never'), 5);
        clearTimeout(gone); clearTimeout(gone); clearTimeout(undefined); clearTimeout({}); clearTimeout(1e9);
        let ticks = 0;
        await new Promise((done) => { const id = setInterval(() => { if (++ticks === 3) { clearInterval(id); done(); } }, 2) });
        await new Promise((done) => setTimeout(done, 30));
        return {seen, ticks, ids: typeof gone, later: setTimeout(() => seen.push('after the end'), 1e9) > 0};";
    let seen = json!({"seen": ["zero", "a", ["b", 1]], "ticks": 3, "ids": "number", "later": true});
    assert_eq!(value(&fixture, &TIMERS, code).await, seen);
    // Timers that are due at once come after promises and before timers that are due later.
    let code = "const seen = []; const at = (ms, what) => new Promise((done) => setTimeout(() => { seen.push(what); done() }, ms));
        const all = [at(3, 'later'), at(0, 'timer'), Promise.resolve().then(() => seen.push('promise'))];
        seen.push('code'); await Promise.all(all); return seen";
    assert_eq!(value(&fixture, &TIMERS, code).await, json!(["code", "promise", "timer", "later"]));
}

#[tokio::test]
async fn a_timer_and_a_call_wait_together() {
    let fixture = Fixture::start(&[]).await;
    let code = "
        const late = new Promise((_, no) => setTimeout(() => no(new Error('too slow')), 20));
        const race = await Promise.race([mcp.call('test.wait', {ms: 5_000}), late]).catch((e) => e.message);
        const quick = await Promise.race([mcp.call('test.add', {a: 1, b: 2}), new Promise((done) => setTimeout(done, 5_000))]);
        return [race, quick]";
    assert_eq!(value(&fixture, &TIMERS, code).await, json!(["too slow", 3]));
}

#[tokio::test]
async fn what_waits_for_a_timer_is_not_unsettled_and_what_waits_for_none_is() {
    let fixture = Fixture::start(&[]).await;
    let waits = "await new Promise((done) => setTimeout(() => setTimeout(done, 1), 1)); return 'done'";
    assert_eq!(value(&fixture, &TIMERS, waits).await, json!("done"));
    let never = "setTimeout(() => {}, 1); await new Promise(() => {})";
    assert_eq!(error(&fixture, &TIMERS, never).await.code, ErrorCode::Unsettled);
    let cleared = "clearTimeout(setTimeout(() => {}, 1e6)); await new Promise(() => {})";
    assert_eq!(error(&fixture, &TIMERS, cleared).await.code, ErrorCode::Unsettled);
    let forever = ExecuteRequest::new("setInterval(() => {}, 1); await new Promise(() => {})");
    let forever = forever.bindings(TIMERS).limit(LimitName::WallMs, 200);
    assert_eq!(fixture.request_error(forever).await.code, ErrorCode::Timeout);
}

#[tokio::test]
async fn what_a_timer_throws_ends_the_code_at_its_line() {
    let fixture = Fixture::start(&[]).await;
    let thrown = error(
        &fixture,
        &TIMERS,
        "setTimeout(() => {\n  throw new TypeError('in a timer') }, 1);\nawait new Promise(() => {})",
    )
    .await;
    assert_eq!((thrown.code.as_str(), thrown.message.as_str()), ("EVAL_ERROR", "TypeError: in a timer"));
    assert_eq!((thrown.line, thrown.column), (Some(2), Some(3)));
    for (code, expected) in [
        ("return setTimeout('1 + 1', 1)", "the first argument of a timer has to be a function"),
        ("return setTimeout()", "the first argument of a timer has to be a function"),
        ("for (;;) setTimeout(() => {}, 1e6)", "10000 timers are set already"),
        ("setTimeout(() => {}, {valueOf() { throw new Error('own') }})", "own"),
        ("setTimeout(() => {}, Symbol())", "Cannot convert a Symbol value to a number"),
    ] {
        let thrown = error(&fixture, &TIMERS, code).await;
        assert!(thrown.message.contains(expected), "{code}: {thrown}");
    }
    assert_eq!(
        value(&fixture, &TIMERS, "return [setTimeout(() => {}, NaN), setTimeout(() => {}, -5)]").await,
        json!([1, 2])
    );
    assert_eq!(value(&fixture, &[], "return typeof setTimeout").await, json!("undefined"));
}

#[tokio::test]
async fn timers_have_their_turn_under_a_stream_of_answers() {
    let fixture = Fixture::start(&[]).await;
    let code = "let stop = false, calls = 0; setTimeout(() => { stop = true }, 50);
        const busy = async () => { while (!stop && calls < 900) { calls++; await mcp.call('test.add', {a: 1, b: 1});
            const until = Date.now() + 2; while (Date.now() < until); } };
        await Promise.all(Array.from({length: 50}, busy)); return stop";
    assert_eq!(value(&fixture, &TIMERS, code).await, json!(true));
}
