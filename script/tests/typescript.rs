//! Stripped types, compared with what TypeScript itself makes of the same text.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "typescript/mod.rs"]
mod judge;

use judge::{Case, Taken, compare, corpus, stripped};
use relay_script::{prepare, references};

#[test]
fn each_construct_means_what_it_means_in_typescript() {
    let sources = include_str!("typescript/constructs.ts.txt").split("\n----\n").map(str::to_owned);
    compare(sources.map(Case::statements).collect(), Taken::All);
}

/// A statement that ends in a type, then a line that JavaScript might take for its continuation.
#[test]
fn no_statement_goes_on_where_typescript_ended_it() {
    let ends = [
        "const a = b as T",
        "const a = b satisfies T",
        "let a: T",
        "let a!: T",
        "a = b as any as T",
        "b as T",
        "b!",
        "a = b!",
        "a = new F<T[]>()",
        "type A = T",
        "interface A {}",
        "declare const a: T",
        "declare function a(): T",
        "function f(): T",
        "abstract class A {}",
        "enum A { B }",
        "import type { A } from \"x\"",
        "export type A = T",
        "const a = (): T => b as T",
        "const a = <T,>() => b",
        "if (a) b as T",
        "for (const x of y) x as T",
        "a = <T>b",
        "export default a as T",
        "declare namespace N {}",
        "a = { b: c as T }",
        "a = [b as T]",
        "a = f(b as T)",
        "export interface A {}",
        "a = b as T;",
        "throw a as T",
        "do b as T\nwhile (c as T)",
        "a = b as { c: T }",
        "a = b as T[]",
        "a = b as () => void",
        "a = typeof b as T",
        "a = await b as T",
        "a ||= b as T",
        "x: b as T",
    ];
    let starts = [
        "(c)",
        "[c].d",
        "`c`.d",
        "/c/.test(d)",
        "+c",
        "-c",
        "++c",
        "--c",
        "c",
        "{ c }",
        "class C {}",
        "function c() {}",
        "async () => c",
        "<T>c",
        "<T>(c) => c",
        "!c",
        "~c",
        "\"c\"",
        "1",
        "let c: T",
        "type C = T",
        "await c",
        "// (c)\n(d)",
        "/* c */ (d)",
        "",
        "(c as T)",
        "(c: T): T => c",
        "c!",
        "abstract class C {}",
        "enum C { D }",
        "* c",
        ", c = d",
        ".c",
        "? c : d",
        "in c",
        "instanceof c",
        "as C",
        "satisfies C",
        "! as C",
        "=> c",
        "import(\"c\")",
    ];
    let sources = ends.iter().flat_map(|end| starts.iter().map(move |start| format!("{end}\n{start}\n")));
    compare(sources.map(Case::statements).collect(), Taken::WhatTypeScriptTakes);
}

/// The same for the members of a class.
#[test]
fn no_member_goes_on_where_typescript_ended_it() {
    let ends = [
        "a: T",
        "a = b as T",
        "a?: T",
        "a!: T",
        "readonly a = 1",
        "get: T",
        "set: T",
        "static: T",
        "async: T",
        "static a: T",
        "declare a: T",
        "abstract a: T",
        "[key: string]: T",
        "a(): T",
        "a(): T { return b as T }",
        "abstract a(): T",
        "a = b",
        "get",
        "a = b!",
        "#a: T",
        "'a': T",
        "1: T",
        "[a]: T",
        "static { a as T }",
        "get a(): T { return b }",
        "a?(): void",
        "override a: T",
        "private a",
        "protected static readonly a: T",
        "a = () => b as T",
        "a;",
    ];
    let starts = [
        "b() {}",
        "[b]() {}",
        "[b] = c",
        "*b() {}",
        "async b() {}",
        "async *[b]() {}",
        "get b() { return 1 }",
        "static b = 1",
        "private [b] = 1",
        "public *b() {}",
        "readonly [b]: T",
        "public in = 1",
        "private instanceof: T",
        "static {}",
        "override b() {}",
        "declare b: T",
        "abstract b(): T",
        "protected async b() {}",
        "public static [b]: T = 1",
        "#b = 1",
        "'b' = 1",
        "private readonly b = c as T",
        "readonly = 1",
        "public() {}",
        "abstract",
        "declare() {}",
        "",
        "(b) {}",
    ];
    let sources = ends.iter().flat_map(|end| {
        starts
            .iter()
            .map(move |start| format!("abstract class A<T> extends B<T> implements C, D<T> {{\n{end}\n{start}\n}}\n"))
    });
    compare(sources.map(Case::statements).collect(), Taken::WhatTypeScriptTakes);
}

/// Expressions that end or begin in types, within each other.
#[test]
fn expressions_bind_as_in_typescript() {
    let inner = [
        "a",
        "a!",
        "a as T",
        "(a as T)",
        "<T>a",
        "<const>[a]",
        "a satisfies T",
        "f<T>(a)",
        "new F<T>(a)",
        "f<T>`a`",
        "(a: T): T => a",
        "async <T,>(a: T): Promise<T> => a",
        "<T>(a?: T) => <T>{ a }",
        "{ a: <T>b }",
        "a?.b!.c",
        "(a?.b)!.c",
        "a!?.<T>(b)",
        "(<T>a).b",
        "function (this: T, a: T): a is T { }",
        "class implements T {}",
        "class <T> {}",
        "<T>function () {}",
        "<T>{ a: 1 }",
        "(): {\n  a: T\n} => a",
        "async <\n  T\n>(a: T) => a",
        "(a)\n: T => a",
        "a as T as U",
        "typeof (a as T)",
        "a as const",
        "`${a as T}`",
        "f<A>",
        "a![b as T]!",
        "(a as any)++",
        "a! = b",
    ];
    let around = [
        "x = @",
        "return @",
        "return (\n@)",
        "f(@, @)",
        "x + @",
        "@ + x",
        "@ < x",
        "x && @",
        "@ ? @ : @",
        "@",
        "(@)",
        "!@",
        "() => @",
        "async () => { return @ }",
        "[@, ...@]",
        "({ x: @, [@]: @ })",
        "`${@}`",
        "throw @",
        "if (@) [@]",
        "x ?? @",
        "for (const x of @) {}",
        "for (let x: T = @; @; @) {}",
        "switch (@) { case @: }",
        "y = x = @",
        "export default @",
        "async () => await @",
        "x ** @",
        "-@",
        "(@).x",
        "x[@]",
        "while (@) break",
        "({ x: y = @ } = z)",
        "@\n@",
        "@;\n@",
        "label: (@)",
        "const { x = @ }: T = y",
        "function g(x: T = @) {}",
        "const x: T = @, y: T = @",
        "class X { x: T = @ }",
        "@, @",
    ];
    let sources = around.iter().flat_map(|around| inner.iter().map(move |inner| around.replace('@', inner)));
    compare(sources.map(Case::statements).collect(), Taken::WhatTypeScriptTakes);
}

/// The sources of a library, every file.
#[test]
fn a_library_means_what_it_means_in_typescript() {
    let files = corpus();
    assert!(files.len() > 100, "{}", files.len());
    compare(files.into_iter().map(Case::module).collect(), Taken::WhatBothTake);
}

#[test]
fn enums_have_the_values_of_typescript() {
    let enums = [
        "enum A { B, C, D }",
        "enum A { B = 5, C, D = 2, E }",
        "enum A { B = 'b', C = `c`, D = \"d\" }",
        "const enum A { B, C = 'x' }",
        "enum A { B = 1 << 3, C = B | 1, D = A.B + 1, E = -1, F, G = ~0, H = 1.5, I }",
        "enum A { 'b-c', ['d'] }",
        "enum A { B = 1, C = 1 }",
        "enum A { B = 'a' + 'b', C = 2 ** 3, D = 7 % 4, E = (1 + 2) * 3 }",
        "enum A {}",
        "enum A {\n  B, // one\n  C /* two */ = 2,\n\n  D\n}",
        "enum A { B } enum C { D = A.B, E = 7 }",
        "enum A { B = 1/0, C = -1/0 }",
        "enum A { B = 0x10, C = 1_000, D = -0, E = 1e21, F = 1e-7 }",
        "enum A { B = `x${'y'}` }",
        "enum A { B = 'é\\n', 'ü' = 'x' }",
    ];
    let cases = enums.iter().map(|text| {
        let second = if text.contains("enum C") { ", C" } else { "" };
        Case::run(format!("{text}\nreturn [A{second}, Object.entries(A)]"))
    });
    let whole = [
        "const f = () => { enum A { B } enum C { B = 7 } return [A, C] }; return f()",
        "enum A { B } { enum A { B = 'x' } var inner = A } return [A, inner]",
        "for (const $ of [1]) { enum A { B = 5 } return [A, $] }",
        "const a = 1, b = 2; enum A { B } function _() { enum $ { C } return $ } return [a, b, A, _()]",
        "enum A{} return Object.keys(A)",
        "enum $ { B } return $",
        "const x = 1\nenum A { B }\n(x)\nreturn A",
        "enum A { B } [A.B].length; return A",
        "enum A\n{ B }\n`x`\nreturn A",
    ];
    compare(cases.chain(whole.map(|text| Case::run(text.into()))).collect(), Taken::All);
}

/// The line of the objects, and the author's text behind it.
fn with_enums(source: &str) -> (String, String) {
    let prepared = prepare(source).unwrap();
    assert_eq!(prepared.line_offset, -1, "{source}");
    let (first, rest) = prepared.module.split_once('\n').unwrap();
    (first.to_owned(), rest.strip_suffix("\n}").unwrap_or(rest).to_owned())
}

#[test]
fn an_enum_leaves_all_that_is_not_its_own_where_it_was() {
    for (source, expected) in [
        ("enum Color { Red, Green }; throw new Error(\"here\")", "let Color=$; ; throw new Error(\"here\")"),
        ("const enum A { B = 'b' } throw A", "let A=$; throw A"),
        ("enum A{} throw A", "let A=$; throw A"),
        ("enum A{ } throw A", "let A=$; throw A"),
        ("enum A{B} throw A", "let A=$; throw A"),
        ("enum A {\n  B,\n  C = 'c' } throw A", "let A=$;\n\nthrow A"),
        ("enum /* é😀 */\n  A\n{ B } throw A", "let A=$; \n\nthrow A"),
        ("enum\nA{} throw A", "let A=$;\nthrow A"),
        ("() => { enum A { B } throw enum_ }; 1", "() => { let A=$; throw enum_ }; 1"),
        ("enum A { B } enum C { D } throw $", "let A=_; let C=a; throw $"),
        ("enum A { 'é😀' } throw A", "let A=$; throw A"),
        ("export enum A { B } export default () => { throw A }", "export let A=$; export default () => { throw A }"),
        ("export enum A {\n B\n}\nexport default A", "export let A=$;\n\n\nexport default A"),
    ] {
        let (objects, rest) = with_enums(source);
        // How many blanks there are is what the lengths of the lines tell.
        let squeezed: Vec<String> =
            rest.split('\n').map(|line| line.split_inclusive(' ').filter(|part| *part != " ").collect()).collect();
        assert_eq!(squeezed.join("\n"), expected, "{source}");
        let lengths = |text: &str| -> Vec<usize> { text.lines().map(|line| line.encode_utf16().count()).collect() };
        let first = lengths(&rest)[0];
        let is_as_long = first == lengths(source)[0] || source.starts_with("enum\n");
        assert!(is_as_long && lengths(&rest)[1..] == lengths(source)[1..], "{source}\n{rest}");
        assert!(objects.starts_with("const "), "{objects}");
    }
    let (objects, _) = with_enums("enum A { B, C = 'c' }\nthrow A");
    assert_eq!(objects, r#"const $={["B"]: 0, ["0"]: "B", ["C"]: "c"};export default async () => {"#);
    let fenced = prepare("Some text.\n```ts\nexport enum A { B }\nexport default A\n```").unwrap();
    assert_eq!(fenced.line_offset, 1);
    assert_eq!(fenced.module.lines().nth(1), Some("export let  A=$;   "));
}

#[test]
fn an_object_of_an_enum_is_no_name_of_the_author() {
    let found = references("enum A { B }\nlog(A)");
    assert_eq!(found.undeclared.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["log"]);
}

#[test]
fn what_is_more_than_types_is_refused_with_its_place_and_what_to_write() {
    for (source, message, line, column, hint) in [
        ("\n  @log class A {}", "decorators are not available", 2, 3, "call a function"),
        ("class A { @log m() {} }", "decorators are not available", 1, 11, "call a function"),
        (
            "class A {\n constructor(private a: string) {} }",
            "parameter properties are not available",
            2,
            14,
            "this.name",
        ),
        ("class A { constructor(readonly a) {} }", "parameter properties are not available", 1, 23, "this.name"),
        ("class A { accessor a = 1 }", "`accessor` fields are not available", 1, 11, "get name()"),
        ("const a = 1;\nnamespace N { export const b = 1 }", "namespaces that hold values", 2, 1, "const name = {"),
        ("module N { let b }", "namespaces that hold values", 1, 1, "const name = {"),
        ("import fs = require('fs')", "`import =` is not available", 1, 1, "nothing can be imported"),
        ("export = 1", "`export =` is not available", 1, 1, "`export default`"),
        ("return <T>{\n", "", 0, 0, ""),
        ("enum A { B = Math.random() }", "the value of this enum member is not a constant", 1, 10, "as const"),
        ("enum A { B }\nenum A { C = 1 }", "an enum cannot be declared twice", 2, 1, "all members in one"),
        ("return <\nT\n>b", "a type assertion in angle brackets has to stand on one line", 1, 8, "value as Type"),
        ("return <div>hi</div>", "JSX is not available", 1, 8, "return data"),
        ("const a = <A b={1}/>;", "JSX is not available", 1, 11, "return data"),
        ("({ a: 1,\n b: @x class {} })", "decorators are not available", 2, 5, "call a function"),
    ] {
        let error = prepare(source).unwrap_err();
        if message.is_empty() {
            continue;
        }
        assert!(error.message.starts_with(message), "{source}: {error:?}");
        assert_eq!((error.line, error.column), (line, column), "{source}: {error:?}");
        assert!(error.hint.contains(hint), "{source}: {error:?}");
    }
}

#[test]
fn wide_characters_and_line_breaks_keep_their_columns() {
    let source = "0; const a: /* é😀 */ 'ü😀'\r\n | 'x'\u{2028}= 'y' as T; b";
    let found = stripped(source).unwrap();
    let widths = |text: &str| -> Vec<usize> {
        text.split(['\n', '\r', '\u{2028}']).map(|line| line.encode_utf16().count()).collect()
    };
    assert_eq!(widths(source), widths(&found));
    assert!(found.ends_with("= 'y'     ; b"), "{found:?}");
}

#[test]
fn what_only_looks_like_types_stays() {
    for source in [
        "0; return a < b > (c)",
        "0; const T = 1; return f<T>(x)",
        "0; const T = {}, U = 1; return f<T.a | U>(x)",
        "0; const [low, { high }] = x; return g(low<high, high>(low))",
        "0; function f(number) { return 0<number>(1) }",
        "0; return a < typeof b > (c)",
        "0; return a <b>(c)",
        "0; x => y < 2, y=>(z)",
        "0; return f<T> (x)",
        "0; const s = 'let x: number = 1 as any'; return s",
        "0; return `type A = ${1} as any`",
        "0; return /x as T!/.test(y)",
        "0; // let x: T\n/* enum A {} */ return 1",
        "0; type = 1; declare = 2; as = type; interface\nFoo\n{}",
        "0; x = a ? (b) : c => d",
        "0; label: (a)",
    ] {
        assert_eq!(stripped(source).unwrap(), source);
    }
    // In a fence that says so it is TypeScript, and where JavaScript could only fail.
    assert!(prepare("```ts\n0; return f<T> (x)\n```").unwrap().module.contains("return f    (x)"));
    assert_eq!(
        stripped("const s = new Set<string>(a); return f<A.B>`x`").unwrap(),
        "const s = new Set        (a); return f     `x`"
    );
}

/// Unmarked code that JavaScript would read as comparisons, which give `false` or find a name that is no variable.
#[test]
fn a_call_with_type_arguments_is_a_call() {
    for arguments in [
        "<string>",
        "<typeof x>",
        "<typeof a>",
        "<true>",
        "<\"a\">",
        "<1 | 2>",
        "<-1>",
        "<null>",
        "<undefined>",
        "<{a: number}>",
        "<{ a: string; b: { c: a } }>",
        "<{ a }>",
        "<[a, T]>",
        "<[]>",
        "<{}>",
        "<string | null>",
        "<T & { a: 1 }>",
        "<a | T>",
        "<Array<string>>",
        "<Record<string, T[]>>",
        "<Map<string, Set<T>>>",
        "<keyof T>",
        "<T[\"a\"]>",
        "<A.B.C>",
        "<`a`>",
        "<this>",
        "<T, U, V>",
        "<\n  string | null\n>",
    ] {
        let blank: String = arguments.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        for callee in ["await exa.search", "new Set", "a.b.c", "a()", "a[0]", "f"] {
            for call in ["(a)", "({ q: 1 })", "()", "([1]).size", "(null, ...a)", "`a`"] {
                let text = |arguments: &str| format!("0; const a = {callee}{arguments}{call}; return a");
                assert_eq!(stripped(&text(arguments)).unwrap(), text(&blank), "{}", text(arguments));
            }
        }
    }
}

/// Each member repeats a long text.
#[test]
fn enums_have_a_largest_size() {
    let long = "x".repeat(100_000);
    let members: Vec<String> = (0..100).map(|n| format!("M{n} = First")).collect();
    let error = prepare(&format!("enum A {{ First = '{long}', {} }}", members.join(", "))).unwrap_err();
    assert_eq!(error.message, "the enums are too large");
    assert_eq!((error.line, error.hint.contains("as const")), (1, true));
}
