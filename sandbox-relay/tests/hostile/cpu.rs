//! Attacks that never end: loops, jobs, matchers and built-ins that compute for ever. They run with little CPU time.

use host_client::ErrorCode;

use crate::hostile::attack::{Attack, Expected};

/// CPU time is used up. The limits of the class leave room for nothing else to end the code first.
const STOPPED: Expected = Expected::Error(&[ErrorCode::CpuLimit]);
/// CPU time is used up, or the heap, which the code fills: the faster machine comes to the second first.
const STOPPED_OR_FULL: Expected = Expected::Error(&[ErrorCode::CpuLimit, ErrorCode::MemoryLimit]);
/// The code throws: V8 refuses at once.
const THROWN: Expected = Expected::Error(&[ErrorCode::EvalError]);

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "a loop without a body", code: "for (;;);", expected: STOPPED },
    Attack {
        name: "a loop that its finally starts again",
        code: "for (;;) { try { return 1 } finally { continue } }",
        expected: STOPPED,
    },
    Attack {
        name: "a function that restarts itself in finally",
        code: "const run = () => { while (true) { try { throw 1 } catch { try { throw 2 } finally { continue } } finally { } } }; return run()",
        expected: STOPPED,
    },
    Attack {
        name: "recursion that catches its own overflow",
        code: "const run = () => { try { run() } finally { run() } }; run()",
        expected: STOPPED,
    },
    Attack {
        name: "an endless generator that is spread into a sum",
        code: "function* all() { let n = 0; for (;;) yield n++ }
let sum = 0; for (const n of all()) sum += n; return sum",
        expected: STOPPED,
    },
    Attack {
        name: "a generator whose return never returns",
        code: "function* all() { try { yield 1 } finally { for (;;) yield } }
const it = all(); it.next(); it.return(); while (!it.next().done); return 1",
        expected: STOPPED,
    },
    Attack {
        name: "an async generator read for ever",
        code: "async function* all() { for (;;) yield 1 }
for await (const n of all()) ; return 1",
        expected: STOPPED,
    },
    Attack {
        name: "an iterator helper that never takes enough",
        code: "return Iterator.from({ next: () => ({ value: 1, done: false }) }).filter(() => false).take(1).toArray()",
        expected: STOPPED,
    },
    Attack {
        name: "a job that queues itself",
        code: "await new Promise(() => { const again = () => Promise.resolve().then(again); again() })",
        expected: STOPPED,
    },
    Attack {
        name: "a thenable that resolves to a new thenable for ever",
        code: "const make = () => ({ then: (resolve) => resolve(make()) }); return make()",
        expected: STOPPED,
    },
    Attack {
        name: "an async function that awaits itself anew",
        code: "const run = async () => { await null; return run() }; return await run()",
        expected: STOPPED,
    },
    Attack {
        name: "a finalizer and a rejection handler that reject again",
        code: "const again = () => Promise.reject(1).catch(again).finally(() => {}); await again()",
        expected: STOPPED,
    },
    Attack {
        name: "an alternation that overlaps",
        code: "return /^(a|aa|aaa)+$/.test('a'.repeat(100) + '!')",
        expected: STOPPED,
    },
    Attack {
        name: "a look-behind that searches all before it",
        code: "return /(?<=c(a+)+)d/.test('a'.repeat(60) + 'd')",
        expected: STOPPED,
    },
    Attack {
        name: "a matcher in Unicode sets and without case",
        code: r"return /^(?:[\p{L}--[b]]|\p{Ll}+)+$/vi.test('\u00e4'.repeat(60) + '!')",
        expected: STOPPED,
    },
    Attack {
        name: "a replace whose pattern explodes at every place",
        code: "return 'x'.repeat(40).replaceAll(/(x+x+)+y/g, 'z')",
        expected: STOPPED,
    },
    Attack {
        name: "an exec that starts from lastIndex zero for ever",
        code: "const it = /x/y; for (let m; (m = it.exec('x')); it.lastIndex = 0); return 1",
        expected: STOPPED,
    },
    Attack {
        name: "a sort whose comparator never agrees and never ends",
        code: "return Array.from({ length: 1e6 }, (_, i) => i).sort(() => { for (let i = 0; i < 1e4; i++); return Math.random() - 0.5 })",
        expected: STOPPED,
    },
    Attack {
        name: "a comparator that sorts the array that is sorted",
        code: "const it = [3, 1, 2, 5, 4, 9, 8]; let n = 0; const by = () => { if (n++ < 1e9) it.toSorted(by); return 1 }; return it.sort(by)",
        expected: THROWN,
    },
    Attack {
        name: "the index of something in the longest array-like",
        code: "return Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)",
        expected: STOPPED,
    },
    Attack {
        name: "a fill of the longest array-like",
        code: "return Array.prototype.fill.call(new Proxy({}, { get: (_, key) => key === 'length' ? 2 ** 53 - 1 : 0, set: () => true }), 0)",
        expected: STOPPED,
    },
    Attack {
        name: "a splice that moves what is not there",
        code: "return Array.prototype.splice.call({ length: 2 ** 53 - 1 }, 0, 1)",
        expected: STOPPED,
    },
    Attack {
        name: "a sort of a sparse array of the greatest length",
        code: "const it = []; it[2 ** 32 - 2] = 1; it[5] = 2; it.sort(); return it.length && Array.prototype.some.call({ length: 2 ** 53 - 1 }, () => true)",
        expected: STOPPED,
    },
    Attack {
        name: "Array.from of a length without content",
        code: "return Array.from({ length: 2 ** 32 }).length",
        expected: THROWN,
    },
    Attack {
        name: "replaceAll of every empty place in a long text",
        code: "let text = 'x'.repeat(1e6); for (;;) text.replaceAll('', 'y')",
        expected: STOPPED,
    },
    Attack {
        name: "the last index of a needle that nearly fits everywhere",
        code: "return 'a'.repeat(4e6).lastIndexOf('a'.repeat(2e6) + 'b')",
        expected: STOPPED,
    },
    Attack {
        name: "normalizing text of marks that have to be ordered",
        code: r"const text = 'a' + '\u0315\u0300\u05ae\u0321'.repeat(2e5); for (;;) text.normalize('NFKD')",
        expected: STOPPED,
    },
    Attack {
        name: "a BigInt raised to a great power",
        code: "let it = 3n; for (;;) it = it ** 7n % (1n << 2_000_000n)",
        expected: STOPPED,
    },
    Attack {
        name: "a multiplication of long BigInts",
        code: "const it = (1n << 8_000_000n) - 1n; for (;;) it * it",
        expected: STOPPED,
    },
    Attack {
        name: "a BigInt written in decimal",
        code: "const it = (1n << 30_000_000n) - 1n; return it.toString().length",
        expected: STOPPED,
    },
    Attack {
        name: "one object written very many times",
        code: "let it = ['x']; for (let i = 0; i < 60; i++) it = [it, it]; return it",
        expected: STOPPED,
    },
    Attack {
        name: "JSON of one object in many places, thrown away",
        code: "let it = ['x']; for (let i = 0; i < 16; i++) it = [it, it]; for (;;) JSON.stringify(it)",
        expected: STOPPED,
    },
    Attack {
        name: "JSON.parse with a reviver that grows what it walks",
        code: "return JSON.parse('[1,2]', function (key, value) { if (Array.isArray(this)) this[1] = [1, [2]]; return value })",
        expected: THROWN,
    },
    Attack {
        name: "a segmenter over endless text",
        code: r"const it = new Intl.Segmenter('th', { granularity: 'word' }); const text = '\u0e01'.repeat(1e5); for (;;) for (const part of it.segment(text)) part.segment",
        expected: STOPPED,
    },
    Attack {
        name: "formatters of every locale, made for ever",
        code: "const tags = ['ar', 'de', 'fa-u-nu-arab', 'th-u-ca-buddhist', 'zh-Hant']; for (let i = 0; ; i++) new Intl.DateTimeFormat(tags[i % 5], { dateStyle: 'full' }).formatToParts(i)",
        expected: STOPPED,
    },
    Attack {
        name: "dates parsed for ever",
        code: "const text = '('.repeat(1e5) + 'Jan 1 2020' + ')'.repeat(1e5); for (;;) Date.parse(text)",
        expected: STOPPED,
    },
    Attack {
        name: "a proxy whose handler is itself",
        code: "const it = new Proxy({}, {}); Object.setPrototypeOf(it, it); return it.x",
        expected: THROWN,
    },
    Attack {
        name: "an instanceof along endless prototypes",
        code: "const it = new Proxy(function () {}, { getPrototypeOf: () => it }); return it instanceof Array",
        expected: THROWN,
    },
    Attack {
        name: "an ownKeys trap that is asked for ever",
        code: "const it = new Proxy({}, { ownKeys: () => ['a'], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true, value: 1 }) }); for (;;) for (const key in it) ({ ...it })",
        expected: STOPPED,
    },
    Attack {
        name: "a toJSON that loops while the result is written",
        code: "return [1, { toJSON() { for (;;); } }]",
        expected: STOPPED,
    },
    Attack {
        name: "a toJSON that loops while arguments are written",
        code: "await mcp.call('test.echo.it', { toJSON() { for (;;); } }); return 1",
        expected: STOPPED,
    },
    Attack {
        name: "getters that make more getters, wide and deep",
        code: "const make = (n) => n ? Object.fromEntries(Array.from('abcdefgh', (c) => [c, Object.defineProperty({}, 'x', { get: () => make(n - 1), enumerable: true })])) : 1; return make(40)",
        expected: STOPPED,
    },
    Attack {
        name: "a search for what JSON lacks, through slow getters",
        code: "const it = { get a() { for (let i = 0; i < 1e7; i++); return it2 } }; const it2 = { get b() { for (let i = 0; i < 1e8; i++); return 1n } }; return [it, it]",
        expected: STOPPED,
    },
    Attack {
        name: "a message getter that loops when the error is read",
        code: "throw Object.defineProperty(new Error('x'), 'message', { get() { for (;;); } })",
        expected: STOPPED,
    },
    Attack {
        name: "a name getter that loops when a warning is written",
        code: "Promise.reject(Object.defineProperty(new Error('x'), 'name', { get() { for (;;); } })); return 1",
        expected: STOPPED,
    },
    Attack {
        name: "a getter on a bad tool name that loops",
        code: "return await mcp.call({ get a() { for (;;); } })",
        // It is not asked.
        expected: THROWN,
    },
    Attack {
        name: "Symbol.toPrimitive that never gives a primitive",
        code: "return `${{ [Symbol.toPrimitive]() { for (;;); } }}`",
        expected: STOPPED,
    },
    Attack {
        name: "a set method fed by an endless iterator",
        code: "return new Set([1]).isSupersetOf({ size: 1, has: () => true, keys: () => ({ next: () => ({ value: 1, done: false }) }) })",
        expected: STOPPED,
    },
    Attack {
        name: "Promise.all of an endless iterable",
        code: "return await Promise.all({ [Symbol.iterator]: () => ({ next: () => ({ value: 1, done: false }) }) })",
        expected: STOPPED_OR_FULL,
    },
    Attack {
        name: "a destructuring that rests on an endless iterable",
        code: "const [first, ...rest] = { [Symbol.iterator]: () => ({ next: () => ({ value: 1, done: false }) }) }; return first",
        expected: STOPPED_OR_FULL,
    },
    Attack {
        name: "a collection that grows while it is walked",
        code: "const it = new Set([1]); for (const n of it) { it.delete(n); it.add(n + 1) } return 1",
        expected: STOPPED,
    },
    Attack {
        name: "a module that loops before its export is read",
        code: "export const loop = (() => { for (;;); })();
export default 1",
        expected: STOPPED,
    },
    Attack {
        name: "a tool's answer that is waited for by spinning",
        code: "let done = false; mcp.call('test.add', { a: 1, b: 1 }).then(() => { done = true }); while (!done); return done",
        expected: STOPPED,
    },
    Attack {
        name: "work after each answer without end",
        code: "for (;;) { for (let i = 0; i < 1e5; i++); await mcp.call('test.add', { a: 1, b: 1 }).catch(() => {}) }",
        expected: STOPPED,
    },
    Attack {
        name: "a regular expression nested too deeply to be read",
        code: "return new RegExp('('.repeat(1e6) + ')'.repeat(1e6)).test('x')",
        expected: THROWN,
    },
];
