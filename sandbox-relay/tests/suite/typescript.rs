//! TypeScript wherever JavaScript is accepted: types do nothing, and every error names the author's line and column.

use host_client::ErrorCode;
use serde_json::json;

use crate::support::{Fixture, assert_code};

#[tokio::test]
async fn every_form_may_have_types() {
    let fixture = Fixture::start(&[]).await;
    for (code, expected) in [
        ("const sum: number = await mcp.call('test.add', { a: 1, b: 2 }) as number;\nreturn sum!;", json!(3)),
        ("(<T,>(value: T): T => value)(5)", json!(5)),
        (
            "async (): Promise<number> => {\n  type Pair = [number, number];\n  const pair: Pair = [1, 2];\n  return pair[0] + pair[1];\n}",
            json!(3),
        ),
        (
            "interface Args { a: number; b?: number }\nasync function main(): Promise<number> {\n  const args: Args = { a: 4 };\n  return args.a;\n}",
            json!(4),
        ),
        ("export default async function (): Promise<string> { return 'typed' satisfies string }", json!("typed")),
        (
            "type Id = string | number;\nexport async function main() {\n  const id: Id = 7;\n  return id as Id;\n}",
            json!(7),
        ),
        (
            "Here is the code:\n```typescript\nconst list: Array<{ n: number }> = [{ n: 1 }, { n: 2 }];\nreturn list.map(({ n }: { n: number }) => n * 2);\n```\nDone.",
            json!([2, 4]),
        ),
        (
            "enum Color { Red, Green = 'g', Blue = 1 << 2 }\nreturn [Color.Red, Color[0], Color.Green, Color.Blue]",
            json!([0, "Red", "g", 4]),
        ),
        ("const enum Size { S = 1, M, L }\nreturn Size.L", json!(3)),
        (
            "class Box<T> { private readonly value: T; constructor(value: T) { this.value = value } get(): T { return this.value } }\nreturn new Box<number>(9).get()",
            json!(9),
        ),
        (
            "abstract class A { abstract n(): number; m(): number { return this.n() } }\nclass B extends A implements Object { override n() { return 6 } }\nreturn new B().m()",
            json!(6),
        ),
        (
            "function f(a: number): number;\nfunction f(a: string): string;\nfunction f(a: any) { return a }\nreturn f(1)",
            json!(1),
        ),
        ("declare const nothing: number;\nlet x: unknown = 1\n;(x as any)\nreturn x", json!(1)),
        ("const a = 5, b = 3, c = 2;\nreturn a < b > (c)", json!(false)),
        ("const text = \"const x: number = 1 as any\"; return text.length", json!(26)),
        // A wrong type runs anyway.
        ("const n: number = 'no number'; return n", json!("no number")),
    ] {
        assert_eq!(fixture.value(code).await, expected, "{code}");
    }
}

#[tokio::test]
async fn an_error_is_where_the_author_wrote_it() {
    let fixture = Fixture::start(&[]).await;
    for (code, message, place) in [
        (
            "interface A {\n  a: number;\n}\nconst a: A = { a: 1 };\n  missing(a);",
            "ReferenceError: missing is not defined",
            (5, 3),
        ),
        (
            "const f = <T,>(x: T,\n  y: Array<T>): void => { y.push(x as T); null!.x };\nf<number>(1, []);",
            "TypeError: Cannot read properties of null (reading 'x')",
            (2, 49),
        ),
        ("enum E { A, B }\nthrow new Error(`${E.B as number}`)", "Error: 1", (2, 7)),
        ("const größe: number = 1; größe satisfies number; x", "ReferenceError: x is not defined", (1, 50)),
    ] {
        let error = fixture.error(code).await;
        assert_eq!((error.message.as_str(), error.line.zip(error.column)), (message, Some(place)), "{code}");
    }
}

#[tokio::test]
async fn what_types_cannot_do_is_refused_with_what_to_write() {
    let fixture = Fixture::start(&[]).await;
    for (code, said, line) in [
        ("const x: number = ;", "", 1),
        ("interface A {\n  a: ;\n}", "", 2),
        ("\n@sealed\nclass A {}\nreturn new A()", "ecorator", 2),
        ("class A {\n  constructor(private x: number) {}\n}\nreturn 1", "parameter propert", 2),
        ("namespace N {\n  export const a = 1;\n}\nreturn N.a", "namespace", 1),
        ("import fs = require('fs');\nreturn fs", "import", 1),
        ("enum E { A = Math.random() }\nreturn E.A", "enum", 1),
        ("return <div>text</div>", "JSX", 1),
        ("return 1 as", "", 1),
    ] {
        let error = fixture.error(code).await;
        assert_code(&error, ErrorCode::SyntaxError);
        assert!(error.message.contains(said) && error.line == Some(line), "{code}: {error:?}");
    }
}

#[tokio::test]
async fn other_languages_and_half_fences_are_told_apart() {
    let fixture = Fixture::start(&[]).await;
    for code in [
        "```python\nprint('x')\n```",
        "import os\nprint(os.environ)",
        "def main():\n    return 1",
        "#!/bin/bash\nls -la",
        "<html><body>hi</body></html>",
        "I would search the web first, then read the pages.",
        "```js\n```",
    ] {
        let error = fixture.error(code).await;
        assert_code(&error, ErrorCode::SyntaxError);
        assert!(error.hint.is_some(), "{code}: {error:?}");
    }
    for (code, expected) in [
        ("```ts\nreturn 1 as number", json!(1)),
        ("```js\nreturn 1\n```\nand\n```js\nreturn 2\n```", json!(1)),
        ("return 'export default async () => 1'", json!("export default async () => 1")),
        ("return `\n```js\nreturn 5\n```\n`.length", json!(null)),
    ] {
        // A fence in a template literal is text, or no code at all: never another program.
        match fixture.run(code).await {
            Ok(outcome) if !expected.is_null() => assert_eq!(outcome.value().unwrap(), expected, "{code}"),
            Ok(outcome) => assert_ne!(outcome.value().unwrap(), json!(5), "{code}"),
            Err(error) => assert!(expected.is_null() && error.code == ErrorCode::SyntaxError, "{code}: {error}"),
        }
    }
    let long = format!("const x: number = 1; // {}\nreturn x", "y".repeat(1_000_000));
    assert_eq!(fixture.value(&long).await, json!(1));
    for deep in ["(", "[", "{a:", "<T,>(x: ", "!", "-", "a ? ", "async () => ", "`${", "typeof ", "Array<", "keyof "] {
        let code = format!("return {}", deep.repeat(200_000 / deep.len()));
        assert_code(&fixture.error(&code).await, ErrorCode::SyntaxError);
    }
}
