//! Attacks that take memory: bombs of every kind of value, in the heap and outside it. They run with a small heap.

use host_client::ErrorCode;

use crate::hostile::attack::{Attack, Expected};

/// The end of what fills the heap or the process.
const FULL: Expected = Expected::Error(&[ErrorCode::MemoryLimit]);
/// The end of what V8 may refuse with a `RangeError` before.
const FULL_OR_REFUSED: Expected = Expected::Error(&[ErrorCode::MemoryLimit, ErrorCode::EvalError]);
/// The end of what V8 refuses with a `RangeError`.
const REFUSED: Expected = Expected::Error(&[ErrorCode::EvalError]);

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "an array that grows without end",
        code: "const it = []; for (;;) it.push(it.length)",
        expected: FULL,
    },
    Attack { name: "an array filled at once", code: "return new Array(3e7).fill(1).length", expected: FULL_OR_REFUSED },
    Attack {
        name: "an array that becomes a dictionary",
        code: "const it = []; for (let i = 0; ; i += 5_000) it[i] = i",
        expected: FULL,
    },
    Attack { name: "a text that doubles until V8 refuses", code: "let it = 'x'; for (;;) it += it", expected: REFUSED },
    Attack {
        name: "the longest text that there is, flattened",
        code: "const it = 'x'.repeat(2 ** 29 - 24); return it.charCodeAt(5) + it.replace('x', 'y').length",
        expected: FULL,
    },
    Attack {
        name: "ropes that are flattened one after another",
        code: "const it = []; for (let i = 0; ; i++) { const text = 'ab'.repeat(1e6) + i; text.charCodeAt(1); it.push(text) }",
        expected: FULL,
    },
    Attack { name: "a split of a long text", code: "return 'x'.repeat(2e7).split('').length", expected: FULL },
    Attack { name: "a join of very many", code: "return new Array(2 ** 32 - 1).join('x').length", expected: REFUSED },
    Attack {
        name: "a join that fits and is large",
        code: "return new Array(2e8).join('xy').charCodeAt(7)",
        expected: FULL,
    },
    Attack {
        name: "a replacement that multiplies",
        code: "let it = 'x'.repeat(1e4); for (;;) it = it.replace(/x/g, '$&$&$&$&')",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "a JSON text that escapes to six times its length",
        code: r"return JSON.stringify('\0'.repeat(5e7)).length",
        expected: FULL,
    },
    Attack {
        name: "JSON parsed into more than its text",
        code: "const text = '[' + '[],'.repeat(2e6) + '[]]'; return JSON.parse(text).length",
        expected: FULL,
    },
    Attack {
        name: "objects with ever new keys",
        code: "const it = {}; for (let i = 0; ; i++) it['key' + i] = { i }",
        expected: FULL,
    },
    Attack {
        name: "a Map and its copies",
        code: "const it = new Map(); for (let i = 0; ; i++) it.set({ i }, new Map([[i, i]]))",
        expected: FULL,
    },
    Attack {
        name: "a WeakMap whose keys are kept",
        code: "const keys = [], it = new WeakMap(); for (;;) { const key = {}; keys.push(key); it.set(key, new Array(50).fill(0)) }",
        expected: FULL,
    },
    Attack {
        name: "weak references to what is kept",
        code: "const it = []; for (;;) it.push(new WeakRef({ big: [1, 2, 3] }))",
        expected: FULL,
    },
    Attack {
        name: "registered finalizers",
        code: "const it = new FinalizationRegistry(() => {}); const kept = []; for (;;) { const key = {}; kept.push(key); it.register(key, [1, 2]) }",
        expected: FULL,
    },
    Attack {
        name: "symbols, also in the registry",
        code: "const it = []; for (let i = 0; ; i++) it.push(Symbol('s' + i), Symbol.for('s' + i))",
        expected: FULL,
    },
    Attack {
        name: "closures with a scope each",
        code: "const it = []; for (let i = 0; ; i++) { const big = [i, i, i]; it.push(() => big) }",
        expected: FULL,
    },
    Attack {
        name: "bound functions of bound functions",
        code: "let it = () => 1; for (;;) it = it.bind(null, 1, 2, 3, it)",
        expected: FULL,
    },
    Attack {
        name: "promises that wait for one another",
        code: "const first = new Promise(() => {}); let it = first; for (;;) it = it.then(() => first)",
        expected: FULL,
    },
    Attack {
        name: "jobs that queue two jobs each",
        code: "await new Promise(() => { const again = () => { Promise.resolve().then(again); Promise.resolve().then(again) }; again() })",
        expected: FULL,
    },
    Attack {
        name: "generators that are all suspended",
        code: "const it = []; function* make() { const big = new Array(20).fill(0); yield big } for (;;) { const one = make(); one.next(); it.push(one) }",
        expected: FULL,
    },
    Attack {
        name: "regular expressions, each another",
        code: "const it = []; for (let i = 0; ; i++) { const one = new RegExp('x'.repeat(3_000) + i); one.test('x'); it.push(one) }",
        expected: FULL,
    },
    Attack {
        name: "a regular expression with a huge repetition",
        code: "const it = []; for (let i = 0; ; i++) { const one = new RegExp('(?:a{1,1000}' + i + '){1,1000}'); try { one.test('a') } catch {} it.push(one) }",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "a backtracking that fills its stack",
        code: r"return /(?:(a)|b)*?c/.test('ab'.repeat(3e6)) || /(?:.|\n)*x/.test('a'.repeat(3e7))",
        expected: FULL,
    },
    Attack { name: "BigInts that double", code: "let it = 1n; for (;;) it <<= 1_000_000n", expected: FULL_OR_REFUSED },
    Attack {
        name: "one buffer over the limit",
        code: "return new ArrayBuffer(2 ** 32).byteLength",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "buffers that are written to, until none is left",
        code: "const it = []; for (;;) it.push(new Uint8Array(8e6).fill(1))",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "buffers that are never touched",
        code: "const it = []; for (;;) it.push(new ArrayBuffer(8e6))",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "a resizable buffer that reserves a great range",
        code: "const it = []; for (;;) it.push(new ArrayBuffer(1, { maxByteLength: 2 ** 30 }))",
        expected: FULL,
    },
    Attack {
        name: "a resizable buffer that grows to its maximum",
        code: "const it = new ArrayBuffer(0, { maxByteLength: 2 ** 30 }); for (let n = 0; ; n += 2 ** 22) { it.resize(n); new Uint8Array(it).fill(1) }",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "transfers that grow",
        code: "let it = new ArrayBuffer(1e6); for (;;) { it = it.transfer(it.byteLength * 2); new Uint8Array(it).fill(1) }",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "numbers in base 64 and back",
        code: "let it = new Uint8Array(1e6); const kept = []; for (;;) { const text = it.toBase64?.() ?? String(it); kept.push(text, Uint8Array.fromBase64?.(text) ?? it.slice()) }",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "recursion without end",
        code: "const run = (n) => run(n + 1) + 1; return run(0)",
        expected: REFUSED,
    },
    Attack {
        name: "recursion through a getter, a proxy and toString",
        code: "const it = new Proxy({}, { get: (_, key) => `${it}` }); return it.x",
        expected: REFUSED,
    },
    Attack {
        name: "recursion that keeps what it made",
        code: "const run = (kept) => run([kept, new Array(1_000).fill(0)]); return run()",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "spread arguments over the stack",
        code: "return Math.max(...new Array(5e5).fill(1))",
        expected: REFUSED,
    },
    Attack {
        name: "a flattening of deep arrays",
        code: "let it = [1]; for (let i = 0; i < 1e5; i++) it = [it]; return it.flat(Infinity).length",
        expected: REFUSED,
    },
    Attack {
        name: "an error with a huge message",
        code: "throw new Error('x'.repeat(3e8))",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "an error with a huge name and cause, uncaught",
        code: "const error = new Error('x'); error.name = 'n'.repeat(3e8) + 'n'; error.cause = error; throw error",
        expected: FULL_OR_REFUSED,
    },
    Attack {
        name: "stacks that are kept",
        code: "const it = []; const deep = (n) => n ? deep(n - 1) : new Error('kept'); for (;;) { const one = deep(50); it.push(one.stack) }",
        expected: FULL,
    },
    Attack {
        name: "getters that build text while the result is written",
        code: "return Array.from({ length: 1e3 }, () => ({ get x() { return 'x'.repeat(1e6) } }))",
        expected: FULL,
    },
    Attack {
        name: "a result that is one object in very many places",
        code: "const leaf = 'x'.repeat(1e3); let it = [leaf]; for (let i = 0; i < 20; i++) it = [it, it]; return it",
        expected: FULL,
    },
    Attack {
        name: "a toJSON that keeps what it was asked",
        code: "const kept = []; const it = { toJSON() { kept.push(new Array(1e4).fill(0)); return 1 } }; for (;;) JSON.stringify([it, it])",
        expected: FULL,
    },
    Attack {
        name: "calls with large arguments, none awaited",
        code: "for (;;) mcp.call('test.echo.it', 'x'.repeat(1e6)).catch(() => {})",
        expected: FULL,
    },
    Attack {
        name: "calls whose results are kept",
        code: "const it = []; for (let i = 0; i < 60; i++) it.push(await mcp.call('test.large', { bytes: 2e6 })); return it.length",
        expected: FULL,
    },
    Attack {
        name: "large results all at once",
        code: "return (await Promise.all(Array.from({ length: 40 }, () => mcp.call('test.large', { bytes: 3e6 })))).length",
        expected: Expected::Any(&[ErrorCode::MemoryLimit, ErrorCode::EvalError]),
    },
    Attack {
        name: "a result that takes more as an object than as text",
        code: "return (await mcp.call('test.echo.it', Array.from({ length: 3e5 }, () => []))).length && (await Promise.all(Array.from({ length: 20 }, () => mcp.call('test.echo.it', new Array(3e5).fill([]))))).length",
        expected: FULL,
    },
    Attack {
        name: "rejections that nobody looks at are not kept for ever",
        code: "for (let i = 0; i < 100_000; i++) Promise.reject(new Array(100).fill(i)); return 'ended'",
        expected: Expected::Value(r#""ended""#),
    },
    Attack {
        name: "segmenters, formatters and collators",
        code: "const it = []; for (let i = 0; ; i++) it.push(new Intl.DateTimeFormat(['de', 'ar', 'ja', 'th'][i % 4]), new Intl.Collator('zh'), new Intl.NumberFormat('hi', { minimumFractionDigits: i % 20 }))",
        expected: FULL,
    },
    Attack {
        name: "a heap that is nearly full, caught and filled again",
        code: "const kept = []; for (;;) { try { for (;;) kept.push(new Array(1e6).fill(0)) } catch (e) { kept.push(e) } }",
        expected: FULL,
    },
];
