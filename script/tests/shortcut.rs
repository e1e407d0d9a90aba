//! Code that is one tool call with literal arguments is found, and its arguments are those that JavaScript would send.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod node;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use relay_script::{Callee, ProgramCall, Shortcut, calls, prepare, shortcut};

fn call(source: &str) -> Option<(Callee, String)> {
    match shortcut(source)? {
        Shortcut::Call(call) => Some((call.callee, String::from_utf8(call.arguments.to_json()).unwrap())),
        Shortcut::Interfaces | Shortcut::ToolInterface(_) => None,
    }
}

fn member(server: &str, tool: &str) -> Callee {
    Callee::Member { server: server.into(), tool: tool.into() }
}

#[test]
fn every_way_to_write_one_call_is_recognized() {
    let exa = [
        r#"await exa.search({query: "x"})"#,
        r#"return await exa.search({query: "x"});"#,
        r#"return exa.search({query: "x"})"#,
        r#"exa.search({"query": 'x'})"#,
        r#"const r = await exa.search({query: "x"}); return r;"#,
        r#"let r = exa.search({query: "x"}); return r;"#,
        r#"var result: Result<string> = await exa.search({query: "x"}) as any; return result!;"#,
        r#"const r: { a: string }[] = await exa.search<Foo>({query: "x"}); return (r)"#,
        r#"return await exa.search<typeof x>({query: "x"})"#,
        r#"return await exa.search<{ a: number } | null>({query: "x"})"#,
        r#"await exa["search"]({query: `x`,},)"#,
        r#"await globalThis.exa.search({query: "x"})"#,
        r#"type A = 1; return exa.search({query: "x"} as A)"#,
        "// find it\nawait exa /* the server */ .search({\n  query: \"x\", // what for\n})\n",
        r#"async () => exa.search({query: "x"})"#,
        r#"async () => { return await exa.search({query: "x"}) }"#,
        r#"(async () => { const r = await exa.search({query: "x"}); return r })"#,
        r#"async function main() { return await exa.search({query: "x"}); }"#,
        r#"async function main(): Promise<any> { return await exa.search({query: "x"}); }"#,
        r#"export default async function main() { return await exa.search({query: "x"}) }"#,
        r#"export default async () => { return exa.search({query: "x"}) }"#,
        r#"export async function main() { const r = await exa.search({query: "x"}); return r; }"#,
        "```js\nawait exa.search({query: \"x\"})\n```",
    ];
    for source in exa {
        let expected = (member("exa", "search"), r#"{"query":"x"}"#.to_owned());
        assert_eq!(call(source), Some(expected), "{source}");
        prepare(source).unwrap();
    }
    for source in [
        r#"await mcp.call("exa.search", {query: "x"})"#,
        r#"return mcp["call"](`exa.search`, {query: "x"})"#,
        r#"const r = await globalThis.mcp.call("exa.search", {query: "x"}); return r"#,
    ] {
        let expected = (Callee::Named("exa.search".into()), r#"{"query":"x"}"#.to_owned());
        assert_eq!(call(source), Some(expected), "{source}");
    }
    for source in ["await a.b()", "await a.b(undefined)", "mcp.call('a.b')", "mcp.call('a.b', {})"] {
        assert_eq!(call(source).unwrap().1, "{}", "{source}");
    }
    assert_eq!(shortcut("__interfaces"), Some(Shortcut::Interfaces));
    assert_eq!(shortcut("return __interfaces;"), Some(Shortcut::Interfaces));
    let tool = Some(Shortcut::ToolInterface("exa.search".into()));
    assert_eq!(shortcut("await __getToolInterface(\"exa.search\")"), tool);
    assert_eq!(shortcut("const i = await __getToolInterface('exa.search'); return i"), tool);
    // Only the caller can tell these apart.
    assert_eq!(call("Math.max(1)"), Some((member("Math", "max"), "1".into())));
    assert_eq!(call("console.log(\"x\")"), Some((member("console", "log"), "\"x\"".into())));
}

#[test]
fn what_is_not_certain_is_left_to_the_sandbox() {
    for source in [
        "",
        "1",
        "return 1",
        "return \"a.b({})\"",
        "const x = await b.t({}); return y",
        "const exa = await exa.search({})",
        "const exa = await exa.search({}); return exa",
        "async function exa() { return await exa.search({}) }",
        "await exa.search({...x})",
        "await exa.search({[k]: 1})",
        "await exa.search({f() {}})",
        "await exa.search({__proto__: {}})",
        "await exa.search({'__proto__': null})",
        "await exa.search([1,,2])",
        "await exa.search({x})",
        "await exa.search({get a() { return 1 }})",
        "await exa.search({a: b})",
        "await exa.search({a: 1n})",
        "await exa.search({a: /x/})",
        "mcp.call('a.b', {}, {})",
        "a.b({}, {})",
        "await exa?.search({})",
        "await exa.search?.({})",
        "await exa.search({a: '\\ud800'})",
        "await exa.search({a: NaN})",
        "const r = await exa.search({}); return s",
        "const r = await exa.search({}); return r.a",
        "f(); return await exa.search({})",
        "await exa.search({}); 1",
        "\"use strict\"; return exa.search({})",
        "mcp.call(name, {})",
        "mcp.call(`a.${b}`, {})",
        "mcp.search('x')",
        "new exa.search({})",
        "exa.search`x`",
        "exa.search({a: 1}).b",
        "(await exa.search({})).b",
        "search({})",
        "a.b.c.d({})",
        "a.b.c({})",
        "function main() { return await exa.search({}) }",
        "async function* main() { return exa.search({}) }",
        "async (a) => exa.search({})",
        "async () => { exa.search({}) }",
        "async function main(x = y) { return exa.search({}) }",
        "await exa.search({a: 010})",
        "await exa.search({a: '\\01'})",
        "await exa.search({a: -'1'})",
        "await exa.search({a: +[]})",
        "const {r} = await exa.search({}); return r",
        "const r = await exa.search({}), s = 1; return r",
        "const let = await a.b({}); return let",
        "export default exa.search({})",
        "export const main = async () => exa.search({})",
        "await (exa.search)({a: !0})",
        "void exa.search({})",
        "await exa.search({}) as any; const undefined = 1",
        "const undefined = await a.b({}); return undefined",
        "\\u0065xa.search({})",
        "await exa.#search({})",
        "await super.search({})",
        "await this.search({})",
        "await import.meta({})",
        "mcp['ca' + 'll']('a.b')",
        "```python\nexa.search({})\n```",
        "exa.search({",
        "exa.search({}))",
        "return await exa.search({a: 1} = {})",
        "await exa.search(...[])",
        "async () => { 'use strict'; return exa.search({}) }",
        "const __interfaces = 1; return __interfaces",
        "__getToolInterface(x)",
        "__getToolInterface()",
        "__getToolInterface('a', 'b')",
        "await exa.search({a: `x${1}`})",
        "@a class B {}",
        "<div/>",
        // It is no statement, which is one parser more.
        "function () { return exa.search({}) }",
        "if (1) return exa.search({})",
        "{ return exa.search({}) }",
        "exa.search({}),1",
        "await exa.search({a: (1, 2)})",
        "let r; return r",
        "const r = await exa.search({}); return await r",
        "declare const r: any; return r",
        "mcp.call('a.b', {})<!--//",
    ] {
        assert_eq!(shortcut(source), None, "{source}");
    }
}

#[test]
fn arguments_are_the_bytes_of_json_stringify() {
    let mut arguments: Vec<String> = [
        "{}",
        "[]",
        "null",
        "true",
        "1",
        "-0",
        "+1",
        "'x'",
        "{a: 1, b: [true, false, null, undefined], c: undefined}",
        "{b: 1, 2: 'x', 1: 'y', a: 0}",
        "{a: 1, b: 2, a: 3}",
        "{a: 1, a: undefined}",
        "{1.5: 1, 0x10: 2, 1e3: 3, 1e21: 4, .5: 5}",
        "{'01': 1, '1': 2, '4294967294': 3, '4294967295': 4, '0': 5, '-1': 6}",
        "[1e21, 1e-7, 123456789012345680000, 1e400, -1e400, 0.1, 1.0, 5e-324, 1_000, 0b11, 0o17, 0xff, 1e300]",
        "[-1.5, - 1, -(2), 100, 1.]",
        r#"["\u00e9\n\t\b\f\v\0\x7f\"\\\/é😀\u{1F600}\ud83d\ude00\u2028", 'it\'s', "a\
b"]"#,
        "`line\r\nbreak \\` \\$ $ {`",
        "['\u{2028}\u{2029}\u{7f}\u{1f}']",
        "{if: 1, class: 2, null: 3, true: 4, $: 5, _: 6}",
        "{\"\": 1, ' ': 2}",
        "{\"constructor\": 1, toString: 2, hasOwnProperty: 3}",
        "(({a: (1)}))",
        "{a: {b: {c: [[[{}]]]}}}",
        "[,].length && 1",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("{}1{}", "[".repeat(100), "]".repeat(100)));
    arguments.push(format!(
        "{{{}}}",
        (0..500).map(|n| format!("k{}: {n}, {}: 'x'", n % 50, n * 7 % 91)).collect::<Vec<_>>().join(", ")
    ));
    let expected = node::evaluate(&arguments.iter().map(|text| format!("({text})")).collect::<Vec<_>>());
    let mut recognized = 0;
    for (text, expected) in arguments.iter().zip(expected) {
        if let Some((_, json)) = call(&format!("await a.b({text})")) {
            assert_eq!(json, expected, "{text}");
            recognized += 1;
        }
    }
    assert_eq!(recognized, arguments.len() - 1, "only the expression is none");
    let too_deep = format!("a.b({}1{})", "[".repeat(101), "]".repeat(101));
    assert_eq!(call(&too_deep), None);
}

/// On a stack of 1 MiB, which no host's thread is smaller than.
#[test]
fn no_text_overflows_the_stack() {
    let pieces = [
        "(",
        "[",
        "{",
        "a(",
        "[[",
        "({a:",
        "!",
        "-",
        "+",
        "~",
        "- -",
        "typeof ",
        "void ",
        "delete ",
        "await ",
        "new ",
        "a=>",
        "()=>",
        "async()=>",
        "a?b:",
        "a=",
        "a**",
        "a,",
        "a+",
        "a.b",
        ".a",
        "a:",
        "if(a)",
        "else ",
        "if(a);else ",
        "while(a)",
        "for(;;)",
        "do ",
        "try{",
        "switch(a){case 1:",
        "`${",
        "a`",
        "``",
        "`a`",
        "<a>",
        "<",
        ">",
        "a<b>",
        "a as b ",
        " as any",
        "a!",
        "!.a",
        "?.a",
        "a?.b",
        "?.[",
        "[a]",
        "()",
        "(a)",
        "{a:{b:",
        "a:b:",
        "{",
        "{}",
        "yield ",
        "throw ",
        "return ",
        "class A extends ",
        "class{a=",
        "function(){",
        "function*a(){",
        "async function a(){",
        "import(",
        "export default ",
        "let a=",
        "let[",
        "let{a:",
        "...",
        "[...",
        "{...",
        "...[",
        "a??b",
        "a||",
        "a&&",
        "a|",
        "a;",
        ";",
        ",",
        ":",
        "?",
        "=",
        "=>",
        "x:",
        "1.",
        "1..a",
        "0x",
        "\"",
        "'",
        "\"a\"",
        "\"a\":",
        "//",
        "/*",
        "*/",
        "/* */",
        "/",
        "/a/",
        "\\",
        "#",
        "@a ",
        "#a in ",
        "keyof ",
        "type A=",
        "type A<",
        "A|",
        "A&",
        "A[]",
        "A extends B?C:",
        "():",
        "a is ",
        "infer A ",
        "readonly ",
        "typeof a.",
        "let a:",
        "let a:(",
        "let a:[",
        "let a:{a:",
        "let a:()=>",
        "namespace A{",
        "enum A{",
        "interface A{a:",
        "declare ",
        "abstract ",
        "// \u{2028}(",
        "//\u{2029}[",
        "/*\u{2028}*/(",
        "\u{A0}(",
        "\u{FEFF}[",
        "\"\\\n\"(",
        "'\\'",
        "`\\``",
        "-1-",
        "1-1",
        "--1",
        "-1,-1,",
        "+1",
        "+ +1",
        "null ",
        "null.a",
        "null?.",
        "true:",
        "a[null",
        "a\"b\"",
        "(a",
        "a)(",
        "({})",
        "[]",
        "[].a",
        "\"\".a",
        "``.a",
        "1.5.a",
        "1e5.e.a",
        "{a}",
        "{a:1}.b",
        "a\n(",
        "a\n[",
        "<!--",
        "-->",
    ];
    let attack = move || {
        let mut accepted = 0;
        for piece in pieces {
            for (before, after) in [
                ("", ""),
                ("await a.b(", ")"),
                ("a.b({a: ", "})"),
                ("const r = ", "; return r"),
                ("let a: ", ""),
                ("```ts\n", ""),
            ] {
                let room = relay_script::MAX_SHORTCUT_BYTES - before.len() - after.len();
                for count in [room / piece.len(), 200, 110, 48, 47] {
                    let source = format!("{before}{}{after}", piece.repeat(count));
                    accepted += usize::from(shortcut(&source).is_some());
                    let _: Vec<ProgramCall> = calls(&source);
                }
            }
        }
        accepted
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(attack).unwrap();
    assert!(thread.join().unwrap() < 200);
}

/// The worst that is let through: all brackets and all other tokens that there may be.
#[test]
fn what_is_let_through_fits_on_the_stack() {
    let attack = || {
        for (open, close) in [("[", "]"), ("{a:", "}"), ("[{a:", "}]")] {
            for prefix in [
                "!",
                "- ",
                "typeof ",
                "await ",
                "a=>",
                "a?b:",
                "a=",
                "a**",
                "new ",
                "<a>",
                "if(a)",
                "a:",
                "class extends ",
                "()=>",
                "async()=>",
            ] {
                let depth = 109 / open.trim_end_matches("a:").len();
                for count in [10, 15, 22, 46, 64, 95, 190] {
                    let source = format!("{}{}1{}", prefix.repeat(count), open.repeat(depth), close.repeat(depth));
                    let inside = format!("{}{}1{}", open.repeat(depth), prefix.repeat(count), close.repeat(depth));
                    let typed = format!("let a: {}{source}", prefix.repeat(count));
                    for source in [source, inside, typed] {
                        let _: Option<Shortcut> = shortcut(&source);
                        let _: Vec<ProgramCall> = calls(&source);
                    }
                }
            }
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(attack).unwrap().join().unwrap();
}

/// Brackets in what is a string or a comment in one language, and code in another: on a stack of 1 MiB.
#[test]
fn brackets_in_quotes_stay_in_quotes_in_every_language() {
    let attack = || {
        for brackets in ["[", "{a:", "(", "<a>", "!", "{", "`"] {
            let many = brackets.repeat(60_000 / brackets.len());
            for source in [
                format!("<a>\"{{{many}\" 1 1"),
                format!("<a>'{{{many}' 1 1"),
                format!("<a>{{/*{many}*/ 1 1"),
                format!("<a>//{{{many}\n 1 1"),
                format!("<a b=\"\\\" c=\"{{{many}\" 1 1"),
                format!("<a>`{{{many}` 1 1"),
                format!("<a>{{`{many}`}}</a>"),
                format!("<>\"{{{many}\"</>"),
                format!("<![CDATA[\"{many}\"]]>"),
                format!("<!--\"\n{many}\""),
                format!("1\n<!--'\n{many}'"),
                format!("1\n--> \"\n{many}\""),
                format!("1 as 1\n--> `\n{many}`"),
                format!("let a: \"{many}\" = 1 1"),
                format!("<\"{many}\">1 1"),
                format!("<`{many}`>1 1"),
                format!("a<\"{many}\">(1)"),
                format!("a<'\n{many}'>(1)"),
                format!("\"\n{many}\""),
                format!("'\r\n{many}'"),
                format!("/\"/{many}/\"/"),
                format!("a</\"{many}\""),
                format!("1//\u{2028}{many}"),
            ] {
                for fence in ["", "```ts\n", "```tsx\n", "```jsx\n", "```\n", "~~~js\n"] {
                    let source = format!("{fence}{source}");
                    let _: Option<Shortcut> = shortcut(&source);
                    let _: Vec<ProgramCall> = calls(&source);
                }
            }
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(attack).unwrap().join().unwrap();
}

/// Tokens in any order, among them long runs of brackets that only the right language knows to be strings.
#[test]
fn no_mixture_of_tokens_overflows_the_stack() {
    const TOKENS: [&str; 32] = [
        "<", ">", "<a>", "</a>", "<>", "</>", "\"", "'", "`", "[", "]", "{", "}", "(", ")", "\\", "\n", "//", "/*",
        "*/", "<!--", "-->", "1 ", "a", ":", "as ", "=", ".b", "=>", ",", "let a:", "a.b(",
    ];
    const FENCES: [&str; 6] = ["", "", "", "```ts\n", "```tsx\n", "```js\n"];
    let token = (select(&TOKENS[..]), 1..4_usize).prop_map(|(token, count)| token.repeat(count));
    // Text that hides the quote behind it, in one language or the other, and text that then ends there.
    let hidden = select(&["", "", "<a>", "<a>{", "\n<!--", "\n-->", "//", "</"][..]);
    let quote = select(&["\"", "'", "`", "/*", "//", ""][..]);
    let bracket = select(&["[", "{", "(", "{a:", "<a>", "!", "a=>"][..]);
    let run = (hidden, quote, select(&["", "\n", "{"][..]), bracket).prop_map(|(hidden, quote, first, bracket)| {
        let end = match quote {
            "/*" => "*/",
            "//" => "\n",
            quote => quote,
        };
        format!("{hidden}{quote}{first}{}{end}", bracket.repeat(4_000))
    });
    let pieces = vec(prop_oneof![2 => token, 1 => run], 1..8);
    let attack = move || {
        let config = ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(fence in select(&FENCES[..]), pieces in pieces)| {
            let mut source = format!("{fence}{}", pieces.concat());
            source.truncate(relay_script::MAX_SHORTCUT_BYTES);
            let _: Option<Shortcut> = shortcut(&source);
            let _: Vec<ProgramCall> = calls(&source);
        });
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(attack).unwrap().join().unwrap();
}
