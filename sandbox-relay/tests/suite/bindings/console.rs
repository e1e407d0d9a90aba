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
        ("console.log('%i %i %f %f %d', '42px', '0x1f', '1.5abc', '-2e1', '42px')", Log, "42 31 1.5 -20 NaN"),
        ("console.log('%i %i %f %d', -4.9, 5n, '.5', true)", Log, "-4 5n 0.5 1"),
        ("console.log(-0, [-0, 0], '%d')", Log, "-0 [ -0, 0 ] %d"),
        ("console.log('%d %i', -0, -0)", Log, "-0 0"),
        ("console.log(['สวัสดี', 'e\u{301}\u{200d}'])", Log, "[ \"สวัสดี\", \"e\u{301}\u{200d}\" ]"),
        (r#"console.log(['\'"\\\n\t\u001b\u0085'])"#, Log, r#"[ "'\"\\\n\t\u001b\u0085" ]"#),
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

#[tokio::test]
async fn what_is_cut_says_so_in_any_script() {
    let fixture = Fixture::start(&[]).await;
    let long = ["x", "é", "漢", "😀", "x漢", "สวัสดี"];
    for print in [
        "console.debug(it)",
        "console.log(it)",
        "console.info('a', it)",
        "console.warn([it])",
        "console.error(new Error(it))",
        "console.trace(it)",
        "console.dir({ it })",
        "console.group(it)",
        "console.group(); console.log(it)",
        "console.table(Array(30).fill(it))",
        "console.log('%s', it)",
        "console.log('a %s b', it)",
        "console.log('%j', { it })",
        "console.log('%o %d', it, 1)",
        "console.log(it + '%')",
        "console.log({ [it]: it }, new Map([[it, it]]))",
        "console.assert(false, it)",
        "console.time('t'); console.timeLog('t', it)",
        "emit(it)",
        "emit('a', it, it)",
    ] {
        for text in long {
            let code = format!("const it = {text:?}.repeat({}); {print}; return 'printed'", 1_300 / text.len());
            let request = ExecuteRequest::new(code.as_str()).bindings(["console", "io"]);
            let error = fixture.request_error(request.limit(LimitName::OutputBytes, 1_024)).await;
            assert_eq!(
                (&error.code, error.limit.as_deref()),
                (&ErrorCode::OutputLimit.into(), Some("output_bytes")),
                "{code}"
            );
            let printed: usize = error.output.iter().map(|item| item.text.len()).sum();
            assert!((1_021..=1_024).contains(&printed), "{code}: {printed} bytes");
        }
    }
    // What fits is whole, to the last byte.
    for (text, times) in [("x", 1_024), ("é", 512), ("漢", 341), ("😀", 256)] {
        let code = format!("console.log({text:?}.repeat({times}))");
        let request = ExecuteRequest::new(code.as_str()).limit(LimitName::OutputBytes, 1_024);
        let outcome = fixture.run_request(request).await.unwrap();
        assert_eq!(outcome.output[0].text, text.repeat(times), "{code}");
    }
    // A label, a cell, a reason and an error's message have an end of their own.
    for code in [
        "console.count('漢'.repeat(100)); return ''",
        "console.table(['😀'.repeat(61)]); return ''",
        "console.table([{ ['漢'.repeat(90)]: 1 }]); return ''",
    ] {
        let printed = printed(&fixture, code).await;
        assert!(printed[0].1.contains('…'), "{code}: {printed:?}");
    }
    let error = fixture.error("throw new Error('漢'.repeat(4_000))").await;
    assert!(error.message.ends_with("漢…"), "{}", error.message.len());
    let outcome = fixture.run("Promise.reject('漢'.repeat(400)); return 1").await.unwrap();
    assert!(outcome.warnings[0].message.ends_with("漢…"), "{:?}", outcome.warnings);
}

#[tokio::test]
async fn columns_that_are_left_out_are_named_and_rejections_counted() {
    let fixture = Fixture::start(&[]).await;
    let row = "Object.fromEntries(Array(23).fill(0).map((_, i) => ['c' + i, i]))";
    let wide = printed(&fixture, &format!("console.table([{row}, {{ z: 1 }}])")).await;
    let last = wide[0].1.lines().last().unwrap();
    assert_eq!(last, "… 4 more columns: c20, c21, c22, z; name those to show as the second argument");
    let named = printed(&fixture, &format!("console.table([{row}], ['c22'])")).await;
    assert_eq!(named[0].1, "(index) | c22\n--------|----\n0       | 22");
    let code = "for (let i = 0; i < 300; i++) Promise.reject(new Error('no ' + i)); return 1";
    let outcome = fixture.run(code).await.unwrap();
    assert!(outcome.warnings[0].message.starts_with("300 promise(s) were rejected"), "{:?}", outcome.warnings);
    let handled = "const all = Array(150).fill(0).map((_, i) => Promise.reject(i)); await null;
        for (const one of all) one.catch(() => {}); return all.length";
    assert!(fixture.run(handled).await.unwrap().warnings.is_empty());
    let own = "for (let i = 0; i < 120; i++) Promise.reject(i); await null; throw new Error('mine')";
    let error = fixture.error(own).await;
    assert!(error.warnings[0].message.starts_with("120 promise(s) were rejected"), "{:?}", error.warnings);
}
