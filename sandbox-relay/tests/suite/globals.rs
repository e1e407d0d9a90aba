//! The pinned list of everything that code finds on the global object.

use std::collections::BTreeSet;

use relay_proto::Binding;
use serde_json::json;

use crate::support::Fixture;

/// Globals of ECMAScript in this version of V8, and `mcp`. A new V8 with more of them fails here, for a review.
const GLOBALS: &str = include_str!("globals.txt");

/// Every function of V8's or ours that code can reach, by the first way to it.
const NATIVES: &str = include_str!("natives.txt");

/// Walks from what code has at hand, through properties, accessors and prototypes, and gives the way to every native
/// function.
const WALK: &str = r#"
    const seen = new Set();
    const natives = [];
    const text = Function.prototype.toString;
    const name = (key) => typeof key === "symbol" ? `[${key.description}]` : `.${key}`;
    const queue = [
        ["globalThis", globalThis], ["mcp", mcp],
        ["(async function)", async function () {}], ["(function*)", function* () {}],
        ["(async function*)", async function* () {}], ["(class)", class {}],
        ["(generator)", (function* () {})()], ["(async generator)", (async function* () {})()],
        ["(array iterator)", [][Symbol.iterator]()], ["(map iterator)", new Map()[Symbol.iterator]()],
        ["(set iterator)", new Set()[Symbol.iterator]()], ["(string iterator)", ""[Symbol.iterator]()],
        ["(regexp iterator)", "a".matchAll(/a/g)], ["(iterator helper)", [].values().map((x) => x)],
        ["(wrapped iterator)", Iterator.from({ next() {} })], ["(segments)", new Intl.Segmenter().segment("a")],
        ["(segment iterator)", new Intl.Segmenter().segment("a")[Symbol.iterator]()],
        ["(arguments)", (function () { return arguments })()], ["(import.meta)", import.meta],
        ["(error)", await mcp.call("").catch((error) => error)], ["(promise)", mcp.call("").catch(() => {})],
        ["(revocable)", Proxy.revocable({}, {})], ["(resolvers)", Promise.withResolvers()],
    ];
    while (queue.length > 0) {
        const [way, value] = queue.shift();
        if (value === null || (typeof value !== "object" && typeof value !== "function") || seen.has(value)) continue;
        seen.add(value);
        if (typeof value === "function" && text.call(value).includes("[native code]")) natives.push(way);
        for (const key of Reflect.ownKeys(value)) {
            const own = Reflect.getOwnPropertyDescriptor(value, key);
            queue.push([way + name(key), own.value], [`get ${way}${name(key)}`, own.get], [`set ${way}${name(key)}`, own.set]);
        }
        queue.push([`${way}.[[Prototype]]`, Reflect.getPrototypeOf(value)]);
    }
    return natives.sort().join("\n");
"#;

/// Fails where a list is not the pinned one, and leaves it as a file: `cargo xtask raise-v8` shows what is different.
fn assert_pinned(name: &str, pinned: &str, found: &str) {
    if found == pinned.trim_end() {
        return;
    }
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (pinned.lines().collect(), found.lines().collect());
    let (more, fewer): (Vec<_>, Vec<_>) = (new.difference(&old).collect(), old.difference(&new).collect());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, format!("{found}\n")).unwrap();
    panic!("new: {more:#?}\ngone: {fewer:#?}\nif that is right, take {} as tests/suite/{name}", file.display());
}

#[tokio::test]
async fn the_native_functions_that_can_be_reached_are_these() {
    let fixture = Fixture::start(&[]).await;
    let request = host_client::ExecuteRequest::new(WALK).bindings([
        "console",
        "timers",
        "io",
        "servers",
        "introspection",
        "store",
    ]);
    let natives = fixture.run_request(request).await.unwrap().parse::<String>().unwrap();
    assert_pinned("natives.txt", NATIVES, &natives);
}

#[tokio::test]
async fn the_globals_are_these_and_no_others() {
    let fixture = Fixture::start(&[]).await;
    let request = host_client::ExecuteRequest::new("return Reflect.ownKeys(globalThis).map(String).sort()");
    let names = fixture.run_request(request.bindings([] as [&str; 0])).await.unwrap();
    let names = names.parse::<Vec<String>>().unwrap().join("\n");
    assert_pinned("globals.txt", GLOBALS, &names);
    let code = "return ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'ShadowRealm', 'Temporal', 'process', 'require', \
        'fetch', 'setTimeout', 'structuredClone', 'gc'].filter((name) => name in globalThis)";
    assert_eq!(fixture.value(code).await, json!([]));
    let code =
        "return [typeof this, import.meta && Object.keys(import.meta).length, Object.keys(mcp), Reflect.ownKeys(mcp)]";
    assert_eq!(fixture.value(code).await, json!(["undefined", 0, [], ["call"]]));
}

#[tokio::test]
async fn each_binding_adds_the_globals_that_the_protocol_names() {
    let fixture = Fixture::start(&[]).await;
    let names = async |bindings: &[Binding]| {
        let request = host_client::ExecuteRequest::new("return Reflect.ownKeys(globalThis).map(String)");
        let request = request.bindings(bindings.iter().map(|binding| binding.as_str()));
        fixture.run_request(request).await.unwrap().parse::<BTreeSet<String>>().unwrap()
    };
    let before = names(&[]).await;
    for binding in Binding::ALL {
        let mut expected: BTreeSet<_> = binding.globals().iter().map(|name| (*name).to_owned()).collect();
        if *binding == Binding::Servers {
            expected.insert("test".into());
        }
        let found = names(&[*binding]).await;
        assert_eq!(found.difference(&before).cloned().collect::<BTreeSet<_>>(), expected, "{binding}");
        assert!(before.is_subset(&found), "{binding}");
    }
}
