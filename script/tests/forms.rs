//! Tests the forms of code: any text gives a module that holds it as one piece, or a clear error.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use oxc_allocator::Allocator;
use oxc_ast::ast::{Expression, Statement};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan as _, SourceType};
use proptest::prelude::*;
use relay_script::{ChainUse, Entry, Nothing, Prepared, Used, prepare, references, shortcut};

fn error(source: &str) -> (String, u32, u32, &'static str) {
    let error = prepare(source).unwrap_err();
    (error.message, error.line, error.column, error.hint)
}

/// A wrapper is one statement from the first to the last character, whatever the author wrote in it.
fn assert_whole(source: &str, prepared: &Prepared) {
    let allocator = Allocator::default();
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parsed = Parser::new(&allocator, &prepared.module, SourceType::mjs()).with_options(options).parse();
    let first = parsed.diagnostics.iter().next();
    assert!(first.is_none(), "{first:?}: {source:?} became {:?}", prepared.module);
    if matches!(prepared.entry, Entry::Wrapper | Entry::WrapperOfFunction) {
        let [enums @ .., only] = parsed.program.body.as_slice() else {
            panic!("{source:?} became {:?}", prepared.module)
        };
        let is_object = |statement: &Statement<'_>| match statement {
            Statement::VariableDeclaration(it) => {
                matches!(it.declarations[0].init, Some(Expression::ObjectExpression(_)))
            }
            _ => false,
        };
        assert!(enums.iter().all(is_object), "{source:?} became {:?}", prepared.module);
        let start = enums.last().map_or(0, |last| last.span().end);
        assert!(matches!(only, Statement::ExportDefaultDeclaration(_)), "{source:?}");
        let end = usize::try_from(only.span().end).unwrap();
        assert_eq!((only.span().start, end), (start, prepared.module.len()), "{source:?}");
        assert!(parsed.program.directives.is_empty());
    }
}

fn entry(source: &str) -> Entry {
    prepare(source).unwrap().entry
}

#[test]
fn each_form_is_told_by_its_syntax() {
    use Entry::{Default, Main, Wrapper, WrapperOfFunction};
    for (source, expected) in [
        ("return 1", Wrapper),
        ("const x = 1;\nreturn x;", Wrapper),
        ("1 + 1", Wrapper),
        ("1 + 1; // two", Wrapper),
        ("{a: 1, b: 2}", Wrapper),
        ("({a: 1})", Wrapper),
        ("\"use strict\"", Wrapper),
        ("", Wrapper),
        ("async () => 1", WrapperOfFunction),
        ("(async () => 1);", WrapperOfFunction),
        ("function () { return 1 }", WrapperOfFunction),
        ("async function work() { return 1 }", WrapperOfFunction),
        ("(async () => 1)()", Wrapper),
        ("export default async () => 1", Default),
        ("const f = () => 1; export { f as default }", Default),
        ("export async function main() { return 1 }", Main),
        ("const help = 1; const main = async () => help;", Wrapper),
        ("return \"export default\"", Wrapper),
    ] {
        assert_eq!(entry(source), expected, "{source}");
    }
    assert!(prepare("const a = 1; async function main() {}").unwrap().module.contains("return main()"));
    assert!(!prepare("async function main() {}\nawait main()").unwrap().module.contains("return main()"));
}

#[test]
fn a_directive_before_a_form_changes_nothing() {
    use Entry::{Wrapper, WrapperOfFunction};
    for (source, expected, inner) in [
        ("\"use strict\";\nasync () => 5", WrapperOfFunction, "(\n             \nasync () => 5\n)"),
        ("'use strict'\nasync () => 5", WrapperOfFunction, "(\n            \nasync () => 5\n)"),
        ("\"use strict\"; function f() { return 5 }", WrapperOfFunction, "function f() { return 5 }\n)"),
        ("\"use strict\";\nfunction () { return 5 }", WrapperOfFunction, "function () { return 5 }\n)"),
        ("\"use strict\";\nasync (a: number): Promise<number> => a", WrapperOfFunction, "async (a        )"),
        ("\"use strict\"\nfunction (a: number) { return a }", WrapperOfFunction, "(a        ) { return a }\n)"),
        ("\"use strict\";\nawait mcp.call('a.b')", Wrapper, "\nawait mcp.call('a.b')\n)"),
        ("\"use strict\";\n(async () => 5)();", Wrapper, "\n(async () => 5)()\n)"),
        ("\"use strict\";\n{a: 1}", Wrapper, "{a: 1}\n)"),
        ("// é\n\"use strict\"; // é\n{a: 1, b: <T>2}", Wrapper, "\n{a: 1, b:    2}\n)"),
        ("\"use strict\";\n{a: 1} as T", Wrapper, "{a: 1}"),
        ("'use client'; 'use strict';\nf()", Wrapper, "\nf()\n)"),
        ("'use strict'; 'the value'", Wrapper, "'the value'\n)"),
        ("'use strict'; const a = 1; return a", Wrapper, "{\n'use strict'; const a = 1; return a\n}"),
        ("'use strict'\n+ 'b'", Wrapper, "(\n'use strict'\n+ 'b'\n)"),
        ("'use strict'; async function main() { return 1 } const a = 1", Wrapper, ";return main();"),
    ] {
        let prepared = prepare(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(prepared.entry, expected, "{source}");
        assert!(prepared.module.contains(inner), "{source}: {:?}", prepared.module);
        assert_whole(source, &prepared);
    }
    assert_eq!(
        (error("'use strict';\n{ a: 1 as T, b: @x class {} }").1, error("'use strict';{ b: @x class {} }").2),
        (2, 19)
    );
}

#[test]
fn a_program_that_a_call_does_not_run_is_refused() {
    for (source, line) in [
        ("async function* main() { yield 1 }", 1),
        ("const a = 1;\nfunction* main() { yield a }", 2),
        ("const a = 1;\nconst main = async function* () { yield a }", 2),
        ("export async function* main() { yield 1 }", 1),
        ("export default async function* () { yield 1 }", 1),
        ("export default (function* () { yield 1 })", 1),
        ("(function* () { yield 1 })", 1),
        ("async function* () { yield 1 }", 1),
        ("'use strict';\nasync function* (): AsyncGenerator<number> { yield 1 }", 2),
    ] {
        let (message, at, _, hint) = error(source);
        assert!(message.contains("is a generator function"), "{source}: {message}");
        assert!(at == line && hint.contains("without `*`"), "{source}: {hint} at {at}");
    }
    for source in [
        "export default { async run() { return 1 } }",
        "const a = 1;\nexport default ({ run: async () => a, stop: function () {} })",
        "export default { async run(): Promise<number> { return 1 } } satisfies Program",
    ] {
        let (message, _, _, hint) = error(source);
        assert_eq!(message, "the default export is an object of functions, none of which is called", "{source}");
        assert!(hint.contains("export default async () =>"), "{source}");
    }
    for source in [
        "export default { a: 1, run() {} }",
        "export default {}",
        "export default { get a() { return 1 } }",
        "function* numbers() { yield 1 }\nreturn [...numbers()]",
        "function* numbers() { yield 1 }\nasync function main() { return [...numbers()] }",
        "export function* numbers() { yield 1 }\nexport default () => [...numbers()]",
    ] {
        assert!(prepare(source).is_ok(), "{source}");
    }
}

#[test]
fn every_import_is_refused_by_name() {
    for source in [
        "import {type Y, z} from './y'",
        "import {z, type Y} from './y'",
        "import z, {type Y} from './y'",
        "import './y'",
        "export {type Y, z} from './y'",
        "export * from './y'",
        "import {type Y, z} from './y'; export default async (): Promise<Y> => z",
    ] {
        let (message, line, column, hint) = error(source);
        assert_eq!((message.as_str(), line, column), ("imports are not available", 1, 1), "{source}");
        assert!(hint.contains("await mcp.call("), "{source}");
    }
    for source in [
        "import type {Y} from './y'; return 1",
        "import {type Y} from './y'; return 1",
        "import type Y from './y'; return 1",
    ] {
        assert!(prepare(source).is_ok(), "{source}");
    }
}

#[test]
fn an_object_literal_is_a_value_and_a_block_is_not() {
    assert!(prepare("{a: 1}").unwrap().module.starts_with("export default async () => (\n"));
    assert!(prepare("{ return 1 }").unwrap().module.starts_with("export default async () => {\n"));
    assert!(prepare("{ let a = 1; }").unwrap().module.starts_with("export default async () => {\n"));
}

#[test]
fn the_wrapper_cannot_be_closed_from_inside() {
    for source in ["}; evil(); async () => {", "1); evil((2", "return 1 } evil(); {", "*/ 1 /*", "`"] {
        assert!(prepare(source).is_err(), "{source}");
    }
}

#[test]
fn the_first_fence_that_runs_is_taken_and_keeps_its_lines() {
    let prepared = prepare("```js\nreturn 1\n```").unwrap();
    assert_eq!((prepared.line_offset, prepared.entry), (0, Entry::Wrapper));
    let two = prepare("Text first.\n\n```python\nx\n```\n~~~ts\nreturn 2\n~~~\n```js\nreturn 3\n```\n").unwrap();
    assert!(two.module.contains("return 2") && !two.module.contains("return 3"), "{two:?}");
    assert_eq!(two.line_offset, 5);
    assert!(prepare("```js\nreturn 4").unwrap().module.contains("return 4"));
    assert_eq!(prepare("```python\nprint()\n```").unwrap_err().line, 1);
    assert_eq!(prepare("```\nreturn (\n```").unwrap_err().line, 3);
}

#[test]
fn columns_are_those_of_javascript() {
    let error = prepare("/* 😀é😀 */ const a: string = \"x\"; throw new").unwrap_err();
    assert_eq!((error.line, error.column), (1, 45), "{error:?}");
    let name = &references("/* 😀 */ a").undeclared[0];
    assert_eq!((name.line, name.column), (1, 10));
}

#[test]
fn an_error_names_the_authors_line_and_column() {
    let error = prepare("const a = 1;\nconst = 2;").unwrap_err();
    assert_eq!((error.line, error.column), (2, 7), "{error:?}");
    let error = prepare("const a = 1;\n  import fs from 'fs';").unwrap_err();
    assert_eq!((error.line, error.column), (2, 3), "{error:?}");
}

#[test]
fn typescript_comes_in_every_form() {
    use Entry::{Default, Main, Wrapper, WrapperOfFunction};
    for (source, entry, inner) in [
        ("const a: number = 1;\nreturn a as string", Wrapper, "const a         = 1;\nreturn a          \n"),
        ("1 as number", Wrapper, "(\n1\n)"),
        ("(x as any).y;", Wrapper, "(\n(x       ).y\n)"),
        ("{ a: 1 as number, b: <T>2 }", Wrapper, "(\n{ a: 1          , b:    2 }\n)"),
        ("{ a: 1 } as T", Wrapper, "(\n{ a: 1 }\n)"),
        ("async (a: string): Promise<void> => {}", WrapperOfFunction, "(\nasync (a        )                => {}\n)"),
        ("async function (a?: T) {}", WrapperOfFunction, "(\nasync function (a    ) {}\n)"),
        ("async function main(a?: T) {}", WrapperOfFunction, "(\nasync function main(a    ) {}\n)"),
        ("interface A {}\nconst a: A = 1;\nasync function main(): Promise<A> {}", Wrapper, "return main();"),
        (
            "type A = 1\nasync function main(): Promise<A> {}",
            WrapperOfFunction,
            "(\n          \nasync function main()             {}\n)",
        ),
        ("interface A {}\n1 as A", Wrapper, "(\n              \n1\n)"),
        ("type A = 1;\nexport default async (a: A) => 1", Default, "export default async (a   ) => 1"),
        ("export async function main(): Promise<number> { return 1 }", Main, "main()                  {"),
        ("export type A = 1;\nreturn 1 as A", Wrapper, "return 1     "),
        ("```typescript\nlet a: T\nreturn a!\n```\n", Wrapper, "let a   \nreturn a \n"),
        ("~~~ts {x}\nreturn 1 as T", Wrapper, "return 1     "),
        ("#!/usr/bin/env node\nreturn 1", Wrapper, "///usr/bin/env node\nreturn 1"),
        ("enum A { B }\nreturn A.B", Wrapper, "() => {\nlet  A=$;   \nreturn A.B"),
        ("return new Set<string>(['a']).size", Wrapper, "new Set        (['a'])"),
    ] {
        let prepared = prepare(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(prepared.entry, entry, "{source}");
        assert!(prepared.module.contains(inner), "{source}: {:?}", prepared.module);
        assert_whole(source, &prepared);
    }
}

#[test]
fn markdown_is_taken_for_what_it_holds() {
    for (source, line_offset, inner) in [
        ("```js\nreturn 1\n```", 0, "return 1"),
        ("```js\nreturn 1\n", 0, "return 1"),
        ("return 1\n```", -1, "return 1\n\n}"),
        ("return 1\n```\n\n", -1, "return 1\n\n}"),
        ("```js\nreturn 1\n```\n```js\nreturn 2\n```", 0, "return 1"),
        ("```\nreturn 1\n```\ntext\n```ts\nreturn 2 as T\n```", 4, "return 2     "),
        ("Here is the code, it's short:\n```js\nreturn 1\n```\nDone.", 1, "return 1"),
        ("Result:\n```js\nreturn 1\n```", 1, "return 1"),
        ("Solution\n\n```\nreturn 1\n```\n", 2, "return 1"),
        ("const a = `\n~~~js\nreturn 2\n~~~\n`; return a", -1, "return 2\n~~~\n`; return a"),
        ("return `\\`\\`\\`js\nx\n\\`\\`\\``", -1, "return `"),
        ("return '```js'", -1, "return '```js'"),
    ] {
        let prepared = prepare(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(prepared.line_offset, line_offset, "{source}");
        assert!(prepared.module.contains(inner), "{source}: {:?}", prepared.module);
        assert_whole(source, &prepared);
    }
    assert_eq!(error("```js\n```"), ("the Markdown fence is empty".into(), 1, 1, error("```python\nx\n```").3));
    assert_eq!(error("```js\n\n  \n```").0, "the Markdown fence is empty");
    assert_eq!(error("```python\nx\n```").0, "the Markdown holds no JavaScript");
    // The mistake is in the code, behind the fence in its string: that fence is not the program.
    let (message, line, ..) = error("const a = `\n~~~js\nreturn 2\n~~~\n`;\nreturn a +");
    assert!(line >= 6, "{message} at {line}");
}

#[test]
fn a_fence_inside_code_is_no_program() {
    let fenced = "\n~~~js\nreturn 'from inside'\n~~~\n";
    for (before, after, line) in [
        ("let x = 1 +* 2;\n/*", "*/", 1),
        ("let x = 1 +* 2;\n/*", "", 1),
        ("/* Notes */ let x = 1 +* 2; /*", "*/", 1),
        ("retrun 1\n/* how it is used:", "*/", 1),
        ("cosnt readme = `# Title\n", "`;\nreturn readme", 1),
        ("cosnt a = 1\nlog(`Text`, `", "`)", 1),
        ("cosnt a = 1\nlog(\"`\", `", "`)", 1),
        ("cosnt a = 1\nx.replace(/`/, `", "`)", 1),
        ("cosnt a = '`' + `", "`", 1),
        ("cosnt a = /`/ + `", "`", 1),
        ("cosnt a\n'a' + '`' + `", "`", 1),
        ("let x = 1 +* 2; // it's `", "", 1),
        ("let x = 1 +* 2;", "", 1),
        ("let x = 1 +* 2\nfoo(x)", "", 1),
        ("const x = 'a\\", "'", 1),
        ("function f() {\n  return (\n}", "", 3),
        ("for (const a of b {", "}", 1),
        ("await mcp.call('a.b'", "", 2),
    ] {
        let source = format!("{before}{fenced}{after}");
        let line_of_error = prepare(&source).map_err(|error| error.line);
        assert_eq!(line_of_error, Err(line), "{source}");
    }
    // Backticks are templates, so that this is code as a whole.
    let error = prepare("foo()\n```js\nreturn 1\n```").unwrap_err();
    assert_eq!((error.message.as_str(), error.line), ("there is code both before and inside of a Markdown fence", 2));
}

#[test]
fn prose_before_a_fence_is_left_out_whatever_the_fence_holds() {
    for prose in [
        "Solution:",
        "Result",
        "Solution:\n",
        "\u{FEFF}Solution:",
        "Here is the code, it's short:",
        "I'll call `exa.search({query: 'x'})` first, then `files.write`:",
        "## Step 1\n\n- Search the web; then read (at most 5) pages.\n- Use `src/*.rs`\n1) **Count** them",
        "let me search first:",
        "If there is none (yet), it returns nothing.",
        "for each of the files, set limit = 5:",
        "这是代码：使用`exa`搜索",
        "<thinking>\nThe user wants a sum.\n</thinking>",
        "```python\nprint(`1`)\nx = {\n```\nAnd now in JavaScript, as `const x = 1;`:",
    ] {
        for code in ["return `a${1}`", "return 1", "const a = `\n${1}\n`;\nreturn a", "return /`/.test('a')"] {
            let source = format!("{prose}\n```js\n{code}\n```\nDone, see `a`.");
            let prepared = prepare(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
            assert!(prepared.module.contains(code) && !prepared.module.contains("Done"), "{source}: {prepared:?}");
            let before = i32::try_from(prose.matches('\n').count()).unwrap() + 2;
            assert_eq!(prepared.line_offset, before - 1, "{source}");
        }
    }
}

#[test]
fn a_byte_order_mark_changes_nothing() {
    for (source, inner) in [
        ("\u{FEFF}#!/usr/bin/env node\nreturn 1", "///usr/bin/env node\nreturn 1"),
        ("\u{FEFF}```js\nreturn 1\n```", "return 1"),
        ("\u{FEFF}\n```js\nreturn 1\n```", "return 1"),
        ("\u{FEFF}Text:\n```js\n\u{FEFF}#!/usr/bin/env node\nreturn 1\n```", "///usr/bin/env node\nreturn 1"),
        ("\u{FEFF}return 1", "return 1"),
        ("\u{FEFF}{a: 1}", "{a: 1}"),
    ] {
        let prepared = prepare(source).unwrap_or_else(|error| panic!("{source:?}: {error}"));
        assert!(prepared.module.contains(inner), "{source:?}: {prepared:?}");
        assert_whole(source, &prepared);
    }
    assert!(prepare("\u{FEFF}#!/bin/sh\nls").unwrap_err().message.contains("/bin/sh"));
    assert_eq!(references("\u{FEFF}#!/usr/bin/env node\nfetch()").undeclared[0].line, 2);
}

#[test]
fn lines_end_where_the_runtime_ends_them() {
    for (source, line, column) in [
        ("const a = 'x\u{2028}y';\nconst = 1", 3, 7),
        ("// a\u{2029}const = 1", 2, 7),
        ("let a\rlet b\r\nconst = 1", 3, 7),
        ("Text\rmore:\n```js\nconst = 1\n```", 4, 7),
    ] {
        assert_eq!((error(source).1, error(source).2), (line, column), "{source:?}");
    }
}

#[test]
fn another_language_is_named() {
    for (source, hint) in [
        ("def main():\n    return 1", "Python"),
        ("import json\nprint(json.dumps({}))", "Python"),
        ("from x import y\ny()", "Python"),
        ("curl -s https://example.com | jq .", "shell"),
        ("#!/bin/sh\ncd /tmp && ls -la", "shell"),
        ("<!DOCTYPE html>\n<html></html>", "HTML"),
        ("I would first search the web, then read the page.", "send JavaScript or TypeScript"),
        ("SELECT * FROM t WHERE a = 1", "send JavaScript or TypeScript"),
        ("const a = ;", "send JavaScript or TypeScript"),
    ] {
        let (message, line, column, found) = error(source);
        assert!(found.contains(hint), "{source}: {message} {found}");
        assert!(line > 0 && column > 0 && !message.is_empty(), "{source}");
    }
    assert_eq!(error("<html><body>hi</body></html>").0, "JSX is not available");
    // A tool call as JSON is a value; whoever dispatches such calls does so before.
    let prepared = prepare(r#"{"tool":"exa.search","arguments":{"query":"x"}}"#).unwrap();
    assert_eq!(prepared.entry, Entry::Wrapper);
}

#[test]
fn the_error_of_the_parser_that_came_further_is_told() {
    assert_eq!(error("const a: number = 1;\nconst = 2;").1, 2);
    assert_eq!(error("const a = 1;\nconst = 2;").1, 2);
    assert_eq!(error("{ a: 1 as T,\n b: @x class {} }").1, 2);
    let (message, line, column, hint) = error("import { x } from 'y';\nconst a: T = x;");
    assert_eq!((message.as_str(), line, column), ("imports are not available", 1, 1));
    assert!(hint.contains("await mcp.call("));
}

#[test]
fn a_mebibyte_of_code_is_prepared() {
    let line = "const name_is_here: Array<string> = ['a', 'b'] as string[]; // and a comment\n";
    let source = format!("{{\n{}}}\nreturn 1", line.replace("const", "var").repeat((1 << 20) / line.len()));
    assert!(source.len() > 1_000_000);
    assert_eq!(prepare(&source).unwrap().entry, Entry::Wrapper);
    assert_eq!(shortcut(&source), None);
}

#[test]
fn references_are_the_names_that_nothing_declares() {
    let found = references(
        "const a: T = require('fs'); typeof process; exa.search(a); new fetch(); function f() { return b }\nb(x)",
    );
    let names: Vec<_> = found.undeclared.iter().map(|it| (it.name.as_str(), it.called, it.asked, it.line)).collect();
    assert_eq!(
        names,
        [
            ("b", true, false, 1),
            ("exa", false, false, 1),
            ("fetch", true, false, 1),
            ("process", false, true, 1),
            ("require", true, false, 1),
            ("x", false, false, 2)
        ]
    );
    assert_eq!(references("```js\n\nfs.readFile()\n```").undeclared[0].line, 3);
    assert!(references("const require = 1; require; (fs) => fs").undeclared.is_empty());
    assert_eq!(references("const = ;"), references(""));
}

#[test]
fn names_of_every_scope_are_declared() {
    let found = references(
        "const { exa, a: [b, ...c] }: T = f(); type U = 1; enum E { M }
        function g(p, { q } = {}) { try { let exa = 1 } catch (e) { class C { m(r) {} } } }
        export default async () => { for (const i of x) (s => s)(i) }",
    );
    let expected = ["C", "E", "b", "c", "e", "exa", "g", "i", "p", "q", "r", "s"];
    assert_eq!(found.declared, expected);
    let many: String = (0..2_000).map(|n| format!("let a{n:04};")).collect();
    let declared = references(&many).declared;
    assert_eq!(declared.len(), relay_script::MAX_DECLARED_NAMES);
    assert_eq!(declared.last().map(String::as_str), Some("a0999"));
}

#[test]
fn members_are_those_of_the_syntax_tree() {
    let found = references(
        "// exa.comment()\nconst a = await exa.b?.({}, 'exa.text()'), o = {exa: 1}, c = servers['x-y'].z;\n\
         const d = d.e(); typeof exa.f; 'g' in exa; exa.h = 1; exa[a].i(); (() => { const j = () => j.k(); })",
    );
    let chains: Vec<_> = found
        .chains
        .iter()
        .map(|chain| {
            let names: Vec<_> = chain.members.iter().map(|it| it.name.as_str()).collect();
            let path = format!("{}.{}", chain.root, names.join("."));
            (path, chain.is_declared, chain.used, chain.in_own_initializer, chain.members[0].end)
        })
        .collect();
    let expected = [
        ("exa.b", false, Used::Read, false, (2, 22)),
        ("servers.x-y.z", false, Used::Read, false, (2, 76)),
        ("d.e", true, Used::Called, true, (3, 14)),
        ("exa.f", false, Used::Read, false, (3, 30)),
        ("exa.g", false, Used::Read, false, (3, 35)),
        ("exa.h", false, Used::Assigned, false, (3, 49)),
        ("j.k", true, Used::Called, false, (3, 95)),
    ];
    assert_eq!(chains, expected.map(|(path, a, b, c, place)| (path.to_owned(), a, b, c, place)));
}

#[test]
fn values_of_calls_without_an_await_are_found() {
    let used = |source: &str| {
        let found = references(source);
        found
            .promises
            .into_iter()
            .map(|it| (format!("{}.{}", it.root, it.members.join(".")), it.used))
            .collect::<Vec<_>>()
    };
    for source in [
        "for (const a of x.y()) {}",
        "const b = x.y();\n[...b]",
        "f(...x.y())",
        "const [a] = x.y()",
        "new Set(x.y())",
        "await Promise.all(x.y())",
    ] {
        assert_eq!(used(source), [("x.y".to_owned(), ChainUse::Iterated)], "{source}");
    }
    assert_eq!(used("JSON.parse(x.y())"), [("x.y".to_owned(), ChainUse::Parsed)]);
    let found = used("const b = x.y(); b.c.d(); x.y().e");
    let members = |used: &ChainUse| match used {
        ChainUse::Members { members, called } => {
            (members.iter().map(|it| it.name.clone()).collect::<Vec<_>>().join("."), *called)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        found.iter().map(|(_, used)| members(used)).collect::<Vec<_>>(),
        [("c.d".into(), true), ("e".into(), false)]
    );
    for source in [
        "for (const a of await x.y()) {}",
        "for await (const a of x.y()) {}",
        "let b = x.y(); b = await b; b.c()",
        "const b = await x.y(); b.c()",
        "x.y().then((a) => a).catch(() => 1)",
        "x.y()?.z",
        "const x = {}; x.y().z()",
        "({...x.y()})",
        "const Set = 1; new Set(x.y())",
        "const b = c, c = b; b.d()",
    ] {
        assert_eq!(used(source), [], "{source}");
    }
}

#[test]
fn functions_that_nothing_calls_are_named() {
    for (source, function, is_async) in [
        ("function a() {}\nasync function b() {}", "b", true),
        ("const a = () => 1", "a", false),
        ("class A { b() { f() } }\nconst c = [1], d = async function () { c() };", "d", true),
        ("'use strict';\nfunction a() {}\nfunction b() {}", "b", false),
    ] {
        let nothing = Nothing::NoCall { function: function.into(), is_async };
        assert_eq!(references(source).nothing, Some(nothing), "{source}");
    }
    for source in [
        "const a = 1",
        "class A {}",
        "function a() {}\nconst b = a()",
        "function a() {}\na()",
        "const a = await b, c = () => 1",
        "const a = () => 1; return a",
        "export const a = () => 1",
        "function a() {}\nif (b) {}",
    ] {
        assert_eq!(references(source).nothing, None, "{source}");
    }
}

#[test]
fn a_missing_return_is_seen() {
    for source in [
        "const r = await exa.search({});\nr",
        "const r: T = 1; r as T;",
        "const a = 1; ({ a })",
        "let x; exa.search(x)",
        "a(); (() => { return 1 })()",
        "async () => { const r = 1; r }",
        "async function main() { const r = 1; r }",
        "const f = () => { return 1 }; f()",
        "a(); await b.c()",
        "let a; a?.b",
        "const f = async () => { return g() };\nfunction g() { return 1 }\nawait f()",
        "export default async () => { const r = await exa.search({a:1}); r }",
        "export default async function main() { const r = 1; r }",
        "export default (function () { const r = 1; r })",
        "export async function main() { const r = await exa.search({a:1}); r }",
        "export const main = async (): Promise<T> => { const r = 1; r as T }",
        "const f = async () => { const r = 1; r };\nexport default f",
        "function f() { const r = 1; r }\nexport { f as default }",
        "const main = () => { const r = 1; r }; export { main }",
        "export const a = 1; export async function main() { await exa.search({}) }",
    ] {
        assert_eq!(references(source).nothing, Some(Nothing::ReturnMissing), "{source}");
    }
    for source in [
        "const r = 1; return r",
        "1 + 1",
        "exa.search({})",
        "let x; x = 1",
        "let x; x++",
        "if (a) return 1;\nb",
        "const a = 1; console.log(a)",
        "",
        "const a = 1",
        "async () => 1",
        "async () => { return 1 }",
        "export default 1",
        "export default r",
        "export default async () => exa.search({})",
        "export default async () => { return 1 }",
        "export async function main() { const r = 1; return r }",
        "export async function main() { const r = 1; console.log(r) }",
        "export function helper() { const r = 1; r }\nexport default () => { return 1 }",
        "function main() { const r = 1; r }\nexport default () => { return 1 }",
        "export const main = f(); f()",
        "for (const x of y) { return x }\nz",
        "let a; void a",
        "a(); await console.log(1)",
        "a(); await b()",
        "const f = () => g(); const g = () => f(); f()",
        "const f = (n) => { if (n) { f(n - 1) } }; f(3)",
        "const a = 1; a => a",
    ] {
        assert_eq!(references(source).nothing, None, "{source}");
    }
}

/// Code, half code, and what breaks out of a wrapper if anything does.
fn soup() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "}",
        "{",
        "(",
        ")",
        "[",
        "]",
        "`",
        "${",
        "\"",
        "'",
        "/",
        "/*",
        "*/",
        "//",
        "\n",
        "\r",
        "\u{2028}",
        ";",
        ",",
        ":",
        "=>",
        "=",
        "a",
        "b",
        "1",
        "0",
        " ",
        "async ",
        "await ",
        "return ",
        "function ",
        "function f() {}",
        "() => {",
        "class ",
        "class A {}",
        "export default ",
        "export ",
        "main",
        "import ",
        "import(",
        "const a = ",
        "let b: T",
        " as T",
        "!",
        "<T>",
        "type A = 1",
        "interface A {}",
        "enum A { B }",
        "declare ",
        "?",
        ".",
        "...",
        "```",
        "```js\n",
        "~~~",
        "\n```\n",
        "#!",
        "<!--",
        "-->",
        "@",
        "#",
        "\\",
        "é",
        "😀",
        "/x/",
        "\"use strict\"",
        "yield ",
        "new ",
        "if (a) ",
        "else ",
        "for (;;) ",
        "try {} catch {}",
        "throw ",
        "super",
        "new.target",
        "import.meta",
        "mcp.call('a.b', {})",
        "a.b({})",
        "\0",
        "\u{FEFF}",
        "evil()",
        "}; evil(); async () => {",
        ")\n}; evil(); (",
        "async function main() {}",
        "export { a as default }",
        "arguments",
        "var a",
    ]);
    prop::collection::vec(pieces, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_out_of_its_wrapper(source in soup()) {
        match prepare(&source) {
            Ok(prepared) => {
                assert_whole(&source, &prepared);
                // Lines are counted as before.
                let before = usize::try_from(-prepared.line_offset.min(0)).unwrap();
                prop_assert!(prepared.module.matches('\n').count() <= source.matches('\n').count() + before + 3);
            }
            Err(error) => prop_assert!(!error.message.is_empty()),
        }
        prop_assert!(references(&source).undeclared.len() < 14);
        // A shortcut for the host is a program for the relay.
        if shortcut(&source).is_some() {
            prop_assert!(prepare(&source).is_ok(), "{source}");
        }
    }
}
