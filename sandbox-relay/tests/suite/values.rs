//! Values that JSON cannot hold: refused with their path, or said in a warning, however large the value.

use host_client::{ErrorCode, ExecuteRequest, OutputKind};
use serde_json::json;

use crate::support::{Fixture, assert_code};

const NOBODY_AWAITED: &str = "there is a Promise that nobody awaited; write await before the call";

#[tokio::test]
async fn a_promise_is_found_however_large_the_value_and_behind_a_hook() {
    let fixture = Fixture::start(&[]).await;
    let call = "mcp.call('test.add', { a: 1, b: 2 })";
    for (value, path) in [
        (format!("[...Array(30_000).fill(0), {call}]"), "$[30000]"),
        (format!("{{ list: Array(15_000).fill(0).map((_, i) => ({{ i }})), last: {{ it: {call} }} }}"), "$.last.it"),
        (format!("{{ async toJSON() {{ return await {call} }} }}"), "$"),
        (format!("{{ a: [1, {{ async toJSON() {{ return await {call} }} }}] }}"), "$.a[1]"),
        ("{ it: { toJSON() { return Promise.resolve(1) } } }".into(), "$.it"),
        ("{ it: { toJSON() { return { deep: Promise.resolve(1) } } } }".into(), "$.it.deep"),
        ("{ it: { ['to' + 'JSON']() { return Promise.resolve(1) } } }".into(), "$.it"),
        ("new (class { x = [new (class { toJSON = async () => 1 })] })".into(), "$.x[0]"),
    ] {
        let error = fixture.error(&format!("return {value}")).await;
        assert_code(&error, ErrorCode::NotSerializable);
        assert!(error.message.ends_with(&format!("at {path}, {NOBODY_AWAITED}")), "{value}: {error}");
        let code = format!(
            "let text = ''; try {{ store.set('k', {value}) }} catch (e) {{ text = e.message }}
             const e = await mcp.call('test.echo.it', {value}).catch((e) => e); return [e.code, e.message, text]"
        );
        let outcome = fixture.run_request(ExecuteRequest::new(code).bindings(["store"])).await.unwrap();
        let [code, message, stored] = outcome.parse::<[String; 3]>().unwrap();
        assert_eq!(code, "NOT_SERIALIZABLE", "{value}");
        for text in [message, stored] {
            assert!(text.ends_with(&format!("at {path}, {NOBODY_AWAITED}")), "{value}: {text}");
        }
    }
}

#[tokio::test]
async fn a_value_that_is_right_crosses_whatever_stands_beside_it() {
    let fixture = Fixture::start(&[]).await;
    for (value, expected) in [
        (r#"{ s: "{}", y: { p: Promise.resolve(1), toJSON() { return "ok" } } }"#, json!({"s": "{}", "y": "ok"})),
        ("{ s: {}, y: { p: Promise.resolve(1), toJSON() { return 5 } } }", json!({"s": {}, "y": 5})),
        ("{ e: {}, d: new Date(0), m: [{}, []] }", json!({"e": {}, "d": "1970-01-01T00:00:00.000Z", "m": [{}, []]})),
        ("{ toJSON() { return undefined } }", json!(null)),
        ("{ a: { toJSON() { return undefined } }, b: {} }", json!({"b": {}})),
        ("{ a: { toJSON: 5 }, b: [() => 1], c: () => 1 }", json!({"a": {"toJSON": 5}, "b": [null]})),
        ("[1, , { toJSON(key) { return key } }]", json!([1, null, "2"])),
        ("Object.assign(Object.create({ toJSON() { return this.x } }), { x: [{}] })", json!([{}])),
        ("(JSON.stringify = () => 'x', { toJSON() { return [JSON.stringify(1)] } })", json!(["x"])),
    ] {
        assert_eq!(fixture.value(&format!("return {value}")).await, expected, "{value}");
        let echoed = fixture.value(&format!("return await mcp.call('test.echo.it', {{ value: {value} }})")).await;
        assert_eq!(echoed["value"], expected, "{value}");
    }
    // A hook runs once.
    let once =
        "let n = 0; const it = { a: {}, toJSON() { n++; return {} } }; await mcp.call('test.echo.it', it); return n";
    assert_eq!(fixture.value(once).await, json!(1));
    // One that writes another value, which has hooks too, does not disturb the path.
    let nested = "const it = { a: { toJSON() { console.log('%j', [[{ toJSON: () => 7 }]]); return { b: Promise.resolve() } } } };
        return it";
    let error = fixture.error(nested).await;
    assert!(error.message.contains("at $.a.b, there is a Promise"), "{error}");
    assert_eq!((error.output[0].kind, error.output[0].text.as_str()), (OutputKind::Log, "[[7]]"));
}

#[tokio::test]
async fn what_fails_is_blamed_and_not_what_stands_beside_it() {
    let fixture = Fixture::start(&[]).await;
    let thrower = "{ toJSON() { throw new RangeError('mine') } }";
    for (value, code, text) in [
        ("{ toJSON() { return 5n } }".to_owned(), ErrorCode::NotSerializable, "at $, a BigInt has no JSON form"),
        ("{ a: [{ toJSON: () => 5n }] }".into(), ErrorCode::NotSerializable, "at $.a[0], a BigInt"),
        (format!("{{ a: {thrower}, b: 5n }}"), ErrorCode::EvalError, "RangeError: mine"),
        (format!("{{ b: 5n, a: {thrower} }}"), ErrorCode::NotSerializable, "at $.b, a BigInt"),
        ("{ get a() { throw new RangeError('mine') }, b: 5n }".into(), ErrorCode::EvalError, "RangeError: mine"),
        ("{ a: 5n }".into(), ErrorCode::NotSerializable, "at $.a, a BigInt"),
        (
            "(() => { const a = { b: [] }; a.b.push({ a }); return a })()".into(),
            ErrorCode::NotSerializable,
            "at $.b[0].a, it contains itself",
        ),
        (
            "(() => { let a = 1; for (let i = 0; i < 101; i++) a = [a]; return { toJSON: () => a } })()".into(),
            ErrorCode::NotSerializable,
            "it nests more than 100 levels",
        ),
    ] {
        let error = fixture.error(&format!("return {value}")).await;
        assert!(error.code == code && error.message.contains(text), "{value}: {error}");
    }
}

#[tokio::test]
async fn what_json_loses_is_said_with_its_path() {
    let fixture = Fixture::start(&[]).await;
    let code = "await mcp.call('test.echo.it', { m: new Map([[1, 2]]) });
        return { list: [new Set([1])], e: new Error('x'), fine: {}, toJSON() { return { ...this, toJSON: undefined } } }";
    let outcome = fixture.run(code).await.unwrap();
    let warnings: Vec<_> = outcome.warnings.iter().map(|it| (it.code.as_str(), it.message.as_str())).collect();
    assert_eq!(
        warnings,
        [
            (
                "VALUE_CHANGED",
                "in the arguments of test.echo.it, the Map at $.m became an object without its content: use Object.fromEntries(map)"
            ),
            ("VALUE_CHANGED", "in the result, the Set at $.list[0] became an object without its content: use [...set]"),
            ("VALUE_CHANGED", "in the result, the Error at $.e became an object without its content: use its message"),
        ]
    );
    let plain = fixture.run("return { m: new Map(), many: Array(50).fill(new Set()) }").await.unwrap();
    assert_eq!(plain.warnings.len(), 5, "{:?}", plain.warnings);
    let none = fixture.run("return [{}, [], null, { a: { b: {} } }, Object.create(null)]").await.unwrap();
    assert!(none.warnings.is_empty(), "{:?}", none.warnings);
}
