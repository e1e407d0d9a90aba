//! `console`: its levels, its formats, its bounds.

use host_client::{ErrorCode, ExecuteRequest, LimitName, OutputKind};

use crate::support::Fixture;

/// Runs code and returns its output, by kind.
async fn printed(fixture: &Fixture, code: &str) -> Vec<(OutputKind, String)> {
    let outcome = fixture.run_request(ExecuteRequest::new(code).bindings(["console", "timers"])).await.unwrap();
    outcome.output.into_iter().map(|item| (item.kind, item.text)).collect()
}

#[tokio::test]
async fn each_level_is_told_and_formats_are_filled_in() {
    use OutputKind::{Debug, Error, Info, Log, Warn};
    let fixture = Fixture::start(&[]).await;
    for (code, kind, expected) in [
        ("console.debug('d', 1, null)", Debug, "d 1 null"),
        ("console.info()", Info, ""),
        ("console.warn({a: [1, 'x']})", Warn, r#"{ a: [ 1, "x" ] }"#),
        ("console.error(new TypeError('bad'))", Error, "TypeError: bad"),
        (
            "console.log('%s is %d years and %i days, %f', 'Ann', 4.5, 2.9, '1.5')",
            Log,
            "Ann is 4.5 years and 2 days, 1.5",
        ),
        ("console.log('%j %o %O', {a: 1}, [1], {b: 2})", Log, r#"{"a":1} [ 1 ] { b: 2 }"#),
        ("console.log('%c red %% %s', 'color: red', 'x', 'rest', 7)", Log, " red % x rest 7"),
        ("console.log('%s %s %z %', 1)", Log, "1 %s %z %"),
        ("console.log('100%', 5)", Log, "100% 5"),
        ("console.log('%d %d %s', {}, 7n, Symbol('s'))", Log, "NaN 7n Symbol(s)"),
        ("const a = {}; a.self = a; console.log('%s', a, a)", Log, "{ self: [Circular] } { self: [Circular] }"),
        ("console.assert(1 === 2, 'sum %d', 3)", Error, "Assertion failed: sum 3"),
        ("console.assert(false)", Error, "Assertion failed"),
        ("console.dir({a: {b: 1}}, {depth: 0})", Log, "{ a: { b: 1 } }"),
        ("console.timeEnd('x')", Log, "x: no console.time(\"x\") came before"),
        (
            "console.table([{id: 1, name: 'a'}, {id: 20, extra: true}])",
            Log,
            "(index) | id | name | extra\n--------|----|------|------\n0       | 1  | \"a\"  |\n1       | 20 |      | true",
        ),
        ("console.table([[1, 2]], ['1'])", Log, "(index) | 1\n--------|--\n0       | 2"),
        ("console.table({a: 5})", Log, "(index) | Values\n--------|-------\na       | 5"),
        ("console.table('text')", Log, "text"),
    ] {
        assert_eq!(printed(&fixture, code).await, [(kind, expected.to_owned())], "{code}");
    }
}

#[tokio::test]
async fn groups_counters_and_stop_watches_keep_their_state() {
    let fixture = Fixture::start(&[]).await;
    let texts = |printed: Vec<(OutputKind, String)>| printed.into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    let code = "console.group('one'); console.log('in\\nside'); console.group(); console.log('deep');
        console.groupEnd(); console.groupEnd(); console.groupEnd(); console.log('out');
        console.count(); console.count(); console.count('b'); console.countReset(); console.count();";
    let expected = ["one", "  in\n  side", "    deep", "out", "default: 1", "default: 2", "b: 1", "default: 1"];
    assert_eq!(texts(printed(&fixture, code).await), expected);
    let timed = texts(
        printed(&fixture, "console.time('t'); await new Promise((d) => setTimeout(d, 3)); console.timeEnd('t')").await,
    );
    let ms: f64 = timed[0].strip_prefix("t: ").and_then(|text| text.strip_suffix(" ms")).unwrap().parse().unwrap();
    assert!((3.0..60_000.0).contains(&ms), "{timed:?}");
    let traced = texts(printed(&fixture, "function inner() {\n  console.trace('here') }\ninner()").await);
    assert!(traced[0].starts_with("Trace: here\n    at inner (2:11)\n"), "{traced:?}");
}

#[tokio::test]
async fn what_is_hostile_in_an_output_is_bounded_and_runs_nothing() {
    let fixture = Fixture::start(&[]).await;
    let code = "let called = 0; const evil = {get a() { called++; return 1 }, toString() { called++; return 'x' },
        valueOf() { called++; return 1 }, [Symbol.toPrimitive]() { called++; return 1 }};
        console.log('%s %d %i %f', new Proxy({}, {get() { called++ }}), evil, evil, evil); return called";
    let outcome = fixture.run_request(ExecuteRequest::new(code)).await.unwrap();
    assert_eq!(outcome.parse::<u32>().unwrap(), 0);
    for code in [
        "console.log('%s'.repeat(1e6), ...Array(1e4).fill('x'.repeat(1e4)))",
        "console.table(Array(1e5).fill(Object.fromEntries(Array(1e3).fill(0).map((_, i) => ['k'.repeat(500) + i, 'v'.repeat(1e4)]))));
         console.log('x'.repeat(1e6))",
        "for (let i = 0; ; i++) { console.group('g'); console.count('c' + i); console.time('t' + i) }",
    ] {
        let request = ExecuteRequest::new(code).limit(LimitName::OutputBytes, 10_000);
        let error = fixture.request_error(request).await;
        assert_eq!(error.code, ErrorCode::OutputLimit, "{code}: {error}");
        let printed: usize = error.output.iter().map(|item| item.text.len()).sum();
        assert!(printed <= 10_000, "{code}: {printed}");
    }
}
