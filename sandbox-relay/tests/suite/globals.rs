//! The pinned list of everything that code finds on the global object.

use serde_json::json;

use crate::support::Fixture;

/// What ECMAScript has in this version of V8, and `mcp`. A new V8 that brings more fails here, to be looked at.
const GLOBALS: &str = include_str!("globals.txt");

#[tokio::test]
async fn the_globals_are_these_and_no_others() {
    let fixture = Fixture::start(&[]).await;
    let request = host_client::ExecuteRequest::new("return Reflect.ownKeys(globalThis).map(String).sort()");
    let names = fixture.run_request(request.bindings([] as [&str; 0])).await.unwrap();
    let names = names.parse::<Vec<String>>().unwrap().join("\n");
    assert_eq!(names, GLOBALS.trim_end());
    let code = "return ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'ShadowRealm', 'Temporal', 'process', 'require', \
        'fetch', 'setTimeout', 'structuredClone', 'gc'].filter((name) => name in globalThis)";
    assert_eq!(fixture.value(code).await, json!([]));
    let code =
        "return [typeof this, import.meta && Object.keys(import.meta).length, Object.keys(mcp), Reflect.ownKeys(mcp)]";
    assert_eq!(fixture.value(code).await, json!(["undefined", 0, [], ["call"]]));
}
