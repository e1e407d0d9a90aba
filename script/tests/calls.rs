//! The calls of a program that are certain, and texts that would overflow the stack of a host.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use relay_script::{Callee, Given, MAX_CALLS, calls};

#[test]
fn calls_have_their_place_and_what_is_known_of_their_arguments() {
    let source =
        "Do it:\n```ts\nconst n: number = 1;\n  await mcp.call('a.b', {x: -n, y: -2, z: [`${n}`, null, ...[]]});\n```";
    let found = calls(source);
    assert_eq!((found.len(), found[0].line, found[0].column), (1, 4, 9));
    assert_eq!(found[0].callee, Callee::Named("a.b".into()));
    let Given::Object { members, is_open: false } = &found[0].arguments else { panic!("{found:?}") };
    assert_eq!(members[0], ("x".into(), Given::Unknown));
    assert_eq!(members[1], ("y".into(), Given::Number(-2.0)));
    assert_eq!(members[2].1, Given::Array(None));
    let many = "await a.b();\n".repeat(MAX_CALLS + 50);
    assert_eq!(calls(&many).len(), MAX_CALLS);
    let found = calls("const p = a.b();\nreturn p.length");
    let used = found[0].promise.clone().unwrap();
    assert_eq!((&*used.what, used.line, used.column), (".length", 2, 8));
}

#[test]
fn ordinary_programs_are_looked_into_whatever_their_style() {
    for source in [
        // Without semicolons.
        "const a = 1\nlet b = 2\nif (a) b = 3\nfor (const c of [a]) console.log(c)\nfunction f() { return 1 }\nawait x.y()",
        "const r = /[/'\"]\\//.exec('a')\nconst q = 4 / 2 / f(1)\nawait x.y()",
        "const t = `a ${`b ${1 / 2}`} c`;\nawait x.y()",
        "const o = {a: 1, b: {c: [1, 2, {d: 3}]}, e() { return 1 }, get f() { return 2 }};\nawait x.y()",
        "const v = a ? b : c ? d : e; // it's\n/* don't */ await x.y()",
        "type A<T> = { b: T[] };\nconst c = (await z.w()) as A<string>;\nawait x.y()",
    ] {
        assert!(
            calls(source).iter().any(|call| call.callee == Callee::Member { server: "x".into(), tool: "y".into() }),
            "{source}"
        );
    }
    // A long program is as good as a short one.
    let long =
        "const v = (await files.read({path: 'a'})).split('\\n').filter(it => it && it !== 'b').map(it => ({it}));\n";
    let long: String = (0..50).map(|number| long.replace("const v", &format!("const v{number}"))).collect();
    assert_eq!(calls(&long).len(), 50);
    let plain = long.replace(";\n", "\n");
    assert_eq!(calls(&plain).len(), 50, "the same without semicolons");
}

/// The count of nesting begins anew with each statement, and must not let deep texts through: on a stack of 1 MiB.
#[test]
fn no_mixture_of_statements_overflows_the_stack() {
    const PIECES: [&str; 44] = [
        "if(a)",
        "else ",
        "if(a)b;else ",
        "if(a){}else ",
        "do ",
        "while(a)",
        "for(;;)",
        "for(a of b)",
        "a;",
        "a\n",
        "a,",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "=>",
        "a=>",
        "=>{",
        "()=>{a;",
        "(function(){",
        "function f(){",
        "class A{",
        "x=",
        "const a=",
        "const a=()=>{",
        "return ",
        "x as const?",
        "x satisfies A?",
        "a?b:",
        "a:",
        "case a:",
        "switch(a){case 1:",
        "try{",
        "}catch{",
        "`${",
        "}`",
        "!",
        "/a/.b;",
        "<A>",
        "({a:",
        "})",
        "get if(){",
    ];
    let run = (vec(select(&PIECES[..]), 1..5), 1..3_000_usize).prop_map(|(pieces, count)| {
        let piece = pieces.concat();
        piece.repeat(count.min(40_000 / piece.len()))
    });
    let attack = move || {
        let config = ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(runs in vec(run, 1..4), fence in select(&["", "```ts\n"][..]))| {
            let mut source = format!("{fence}{}", runs.concat());
            source.truncate(64 << 10);
            prop_assert!(calls(&source).len() <= MAX_CALLS);
        });
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(attack).unwrap().join().unwrap();
}
