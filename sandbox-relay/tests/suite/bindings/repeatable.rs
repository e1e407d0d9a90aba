//! With a seed and a time, the same code with the same tool results gives the same outcome, byte for byte.

use std::time::{Duration, Instant};

use host_client::{ErrorCode, ExecuteRequest};
use serde_json::json;

use crate::support::Fixture;

const CODE: &str = "
    const seen = [];
    const note = (what) => (value) => seen.push([what, value, Date.now()]);
    const calls = [30, 5, 1, 20].map((ms, i) => mcp.call('test.wait', {ms}).then(note('call ' + i), note('failed')));
    setTimeout(note('late'), 3_600_000, 'an hour');
    setTimeout(note('soon'), 1);
    await Promise.race(calls);
    await Promise.all(calls);
    console.time('t');
    await new Promise((done) => setTimeout(done, 7_200_000));
    console.timeEnd('t');
    return [seen, Math.random(), Math.random(), Date.now(), new Date().toISOString(), Date(), new Intl.DateTimeFormat('en-US').format()]";

#[tokio::test]
async fn the_same_code_gives_the_same_outcome() {
    let fixture = Fixture::start(&[]).await;
    let run = |seed, now| {
        let request = ExecuteRequest::new(CODE).bindings(["console", "timers"]).repeatable(seed, now);
        fixture.run_request(request)
    };
    let began = Instant::now();
    let first = run(7, 1_700_000_000_000).await.unwrap();
    let value = first.value().unwrap();
    assert_eq!(value[0][0][0], "call 0", "{value}");
    let order: Vec<_> = value[0].as_array().unwrap().iter().map(|it| it[0].as_str().unwrap()).collect();
    assert_eq!(order, ["call 0", "call 1", "call 2", "call 3", "soon", "late"]);
    assert_eq!(value[0][5][2], json!(1_700_003_600_000_u64), "timers move the clock");
    assert_eq!(value[3], json!(1_700_007_200_000_u64));
    assert_eq!(value[4], json!("2023-11-15T00:13:20.000Z"));
    assert_eq!(value[5], json!("Wed Nov 15 2023 00:13:20 GMT+0000 (Coordinated Universal Time)"));
    assert_eq!(value[6], json!("11/15/2023"));
    assert_eq!(first.output[0].text, "t: 7200000.000 ms");
    for _ in 0..4 {
        let again = run(7, 1_700_000_000_000).await.unwrap();
        assert_eq!((again.json, again.output), (first.json.clone(), first.output.clone()));
    }
    assert!(began.elapsed() < Duration::from_secs(3_600), "timers take no time");
    let other = run(8, 1_700_000_000_000).await.unwrap().value().unwrap();
    assert_ne!(other[1], value[1]);
    assert_eq!(other[0], value[0]);
}

#[tokio::test]
async fn times_of_all_ages_are_taken_and_others_are_not() {
    let fixture = Fixture::start(&[]).await;
    for (now_ms, expected) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_198_755_200_000, "-000001-01-01T00:00:00.000Z"),
        (8_640_000_000_000_000, "+275760-09-13T00:00:00.000Z"),
    ] {
        let request = ExecuteRequest::new("return new Date().toISOString()").repeatable(1, now_ms);
        assert_eq!(fixture.run_request(request).await.unwrap().value().unwrap(), json!(expected), "{now_ms}");
    }
    let error = fixture.request_error(ExecuteRequest::new("return 1").repeatable(1, i64::MIN)).await;
    assert_eq!(error.code, ErrorCode::InvalidInput, "{error}");
    // Nothing of it stays: who asks for no time has the machine's.
    let now = fixture.value("return Date.now()").await.as_f64().unwrap();
    assert!(now > 1.7e12, "{now}");
}
