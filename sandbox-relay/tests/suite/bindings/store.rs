//! The store of a session: what one execution leaves for the next.

use host_client::ErrorCode;
use serde_json::json;

use super::{error, value};
use crate::support::{Fixture, connect, tools};

const STORE: [&str; 1] = ["store"];

#[tokio::test]
async fn what_one_execution_stores_the_next_one_finds_and_another_session_does_not() {
    let fixture = Fixture::start(&[]).await;
    let code = "store.set('a', {x: [1, 'é', null]}); store.set('b', 2); store.set('u');
        const mine = store.get('a'); mine.x.push('changed');
        return [store.get('a'), store.has('b'), store.get('none') === undefined, store.delete('b'), store.delete('b'), store.keys()]";
    let expected = json!([{"x": [1, "é", null]}, true, true, true, false, ["a", "u"]]);
    assert_eq!(value(&fixture, &STORE, code).await, expected);
    let code = "return [await store.get('a'), store.get('u'), store.keys()]";
    assert_eq!(value(&fixture, &STORE, code).await, json!([{"x": [1, "é", null]}, null, ["a", "u"]]));
    // Stored values stay, whatever the code ends with.
    let failed = error(&fixture, &STORE, "store.set('before', 1); throw new Error('no')").await;
    assert_eq!(failed.code, ErrorCode::EvalError);
    assert_eq!(value(&fixture, &STORE, "return store.get('before')").await, json!(1));
    assert_eq!(value(&fixture, &[], "return typeof store").await, json!("undefined"));
    let other = connect(&fixture.relay, tools(&fixture.seen)).await;
    let request = host_client::ExecuteRequest::new("return store.keys()").bindings(STORE);
    assert_eq!(other.run(request).await.unwrap().value().unwrap(), json!([]));
}

#[tokio::test]
async fn a_store_is_small_and_takes_json_alone() {
    let fixture = Fixture::start(&[]).await;
    for (code, expected) in [
        ("store.set('big', 'x'.repeat(300_000))", "RangeError: the store is full: it holds 1000 keys and 262144 bytes"),
        (
            "for (let i = 0; ; i++) store.set('same', i)",
            "RangeError: this execution has written to the store 10000 times",
        ),
        ("for (let i = 0; ; i++) store.set('k' + i, 1)", "RangeError: the store is full"),
        ("store.set('f', () => 1)", "TypeError: the value cannot be stored as JSON: at $, a function has no JSON form"),
        ("store.set('n', {a: 1n})", "TypeError: the value cannot be stored as JSON: at $.a, a BigInt has no JSON form"),
        ("store.set('t', {toJSON() { throw new Error('own') }})", "Error: own"),
        ("store.set(5, 1)", "TypeError: a key of the store is a string of at most 256 bytes"),
        ("store.get({toString() { return 'a' }})", "TypeError: a key of the store is a string"),
        ("store.set('k'.repeat(257), 1)", "TypeError: a key of the store is a string"),
        ("store.get = 1", "TypeError: Cannot assign to read only property 'get'"),
    ] {
        let thrown = error(&fixture, &STORE, code).await;
        assert!(thrown.message.starts_with(expected), "{code}: {thrown}");
    }
    // All that did fit is there, and there is room again when it is gone.
    let code =
        "const n = store.keys().length; for (const key of store.keys()) store.delete(key); store.set('x', 1); return n";
    assert_eq!(value(&fixture, &STORE, code).await, json!(1_000));
    assert_eq!(value(&fixture, &STORE, "return store.keys()").await, json!(["x"]));
}

#[tokio::test]
async fn executions_that_fill_the_store_together_are_told() {
    let fixture = Fixture::start(&[]).await;
    let code = "await mcp.call('test.wait', {ms: 300}); store.set('mine', 'x'.repeat(200_000)); return 1";
    let request = || host_client::ExecuteRequest::new(code).bindings(STORE);
    // Both begin with an empty store.
    let (one, two) = tokio::join!(
        fixture.run_request(request()),
        fixture.run_request(host_client::ExecuteRequest::new(code.replace("mine", "other")).bindings(STORE))
    );
    let warnings: Vec<_> =
        [one.unwrap(), two.unwrap()].into_iter().flat_map(|it| it.warnings).map(|it| it.code).collect();
    assert_eq!(warnings, ["STORE_FULL"]);
}
