//! Attacks through what is printed, emitted, thrown and returned. They have `console` and `io`, and little room for
//! output.

use host_client::ErrorCode;

use crate::hostile::attack::{Attack, Expected};

/// The end of what prints too much.
const TOO_MUCH: Expected = Expected::Error(&[ErrorCode::OutputLimit]);
/// The end of what throws something strange: still the script's own error.
const THROWN: Expected = Expected::Error(&[ErrorCode::EvalError]);

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "a flood of short lines", code: "for (;;) console.log('x')", expected: TOO_MUCH },
    Attack { name: "a flood of empty emits", code: "for (;;) emit('')", expected: TOO_MUCH },
    Attack {
        name: "a flood through every method at once",
        code: "for (;;) for (const name of Object.getOwnPropertyNames(console)) console[name](name)",
        expected: TOO_MUCH,
    },
    Attack {
        name: "a flood from jobs after the end",
        code: "const again = () => Promise.resolve().then(() => { console.log('x'); again() }); again(); return 'ended'",
        expected: TOO_MUCH,
    },
    Attack {
        name: "a flood that catches everything",
        code: "for (;;) { try { for (;;) emit('x'.repeat(100)) } catch {} finally { continue } }",
        expected: TOO_MUCH,
    },
    Attack {
        name: "one text far over the limit",
        code: "console.log('x'.repeat(1e8)); return 'printed'",
        expected: TOO_MUCH,
    },
    Attack {
        name: "one text of just the room that there is, and one byte more",
        code: "console.log('x'.repeat(4_095)); console.log('y'); return 'exact'",
        expected: Expected::Value(r#""exact""#),
    },
    Attack {
        name: "one byte over the room that there is",
        code: "console.log('x'.repeat(4_095)); console.log('yz'); return 'over'",
        expected: TOO_MUCH,
    },
    Attack {
        name: "the number of lines that is allowed, and no more",
        code: "for (let i = 0; i < 100; i++) console.log(''); return 'exact'",
        expected: Expected::Value(r#""exact""#),
    },
    Attack {
        name: "one line over the number that is allowed",
        code: "for (let i = 0; i < 101; i++) emit(''); return 'over'",
        expected: TOO_MUCH,
    },
    Attack {
        name: "characters that are cut in the middle",
        code: r"for (;;) console.log('\ud83d\ude00\u4e2d\u00e9')",
        expected: TOO_MUCH,
    },
    Attack {
        name: "lone surrogates that become longer",
        code: r"for (;;) emit('\ud800'.repeat(1_000))",
        expected: TOO_MUCH,
    },
    Attack {
        name: "very many arguments",
        code: "console.log(...new Array(60_000).fill('x')); return 1",
        expected: TOO_MUCH,
    },
    Attack {
        name: "an array of the greatest length",
        code: "const it = []; it.length = 2 ** 32 - 1; console.log(it); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
    Attack {
        name: "a sparse array full of getters",
        code: "const it = Array.from({ length: 100 }, () => 1); for (let i = 0; i < 100; i++) Object.defineProperty(it, i, { get() { return it } }); console.log(it); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
    Attack {
        name: "an object with very many keys",
        code: "const it = {}; for (let i = 0; i < 1e5; i++) it['k' + i] = i; console.log(it); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
    Attack {
        name: "an object with keys longer than the room",
        code: "console.log({ ['k'.repeat(1e6)]: 1 })",
        expected: TOO_MUCH,
    },
    Attack {
        name: "wide at every level",
        code: "const make = (n) => n ? Array.from({ length: 100 }, () => make(n - 1)) : 1; const it = make(3); console.log([it, it, it])",
        expected: TOO_MUCH,
    },
    Attack {
        name: "objects that are made anew by getters without end",
        code: "const make = () => ({ get a() { return make() }, get b() { return make() }, get c() { return make() } }); console.log(make()); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
    Attack {
        name: "a cycle through a Map, a Set and an array",
        code: "const it = [new Map(), new Set()]; it[0].set(it, it); it[1].add(it); it.push(it); console.log(it); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
    Attack {
        name: "100,000 levels",
        code: "let it = []; for (let i = 0; i < 1e5; i++) it = [it]; console.log(it, { it }, new Set([it])); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
    Attack {
        name: "a proxy of everything, with traps that count",
        code: "let n = 0; const handler = new Proxy({}, { get() { n++; return () => { n++; return {} } } }); console.log(new Proxy({}, handler), new Proxy([], handler), [new Proxy({}, handler)]); return n",
        expected: Expected::Value("0"),
    },
    Attack {
        name: "revoked proxies",
        code: "const one = Proxy.revocable({}, {}), two = Proxy.revocable([], {}); one.revoke(); two.revoke(); console.log(one.proxy, two.proxy, { a: one.proxy }); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
    Attack {
        name: "hooks that hosts call to print",
        code: "let n = 0; const hook = () => { n++; throw new Error('mine') }; const it = { toString: hook, valueOf: hook, toJSON: hook, inspect: hook, [Symbol.toPrimitive]: hook, [Symbol.for('nodejs.util.inspect.custom')]: hook, get [Symbol.toStringTag]() { return hook() } }; console.log(it, [it], new Map([[it, it]])); emit(it); return n",
        expected: Expected::Value("0"),
    },
    Attack {
        name: "a getter that throws, in every position",
        code: "const it = { get a() { throw new Error('mine') } }; console.log(it, [it], new Error(it), Object.defineProperty([], 0, { get() { throw 1 } })); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
    Attack {
        name: "a getter that prints",
        code: "let n = 0; const it = { get a() { if (n++ < 20) console.log(it); return n } }; console.log(it); return n > 20",
        expected: Expected::Value("true"),
    },
    Attack {
        name: "a getter that prints itself without end",
        code: "const it = { get a() { console.log(it); return 1 } }; try { console.log(it) } catch (e) { return e.name } return 'printed'",
        expected: Expected::Any(&[ErrorCode::OutputLimit]),
    },
    Attack {
        name: "a getter that prints while it is printed at the limit",
        code: "const it = { get a() { console.log('x'.repeat(4_000)); return 'y'.repeat(4_000) } }; console.log(it)",
        expected: TOO_MUCH,
    },
    Attack {
        name: "a getter that calls a tool while it is printed",
        code: "const it = { get a() { mcp.call('test.add', { a: 1, b: 1 }); return 1 } }; console.log(it); return await mcp.call('test.add', { a: 1, b: 2 })",
        expected: Expected::Value("3"),
    },
    Attack {
        name: "errors whose name, message and stack are hooks",
        code: "let n = 0; const it = new Error('x'); for (const key of ['name', 'message', 'stack', 'toString', 'cause']) Object.defineProperty(it, key, { get() { n++; throw it } }); console.log(it, [it]); return n < 10",
        expected: Expected::Value("true"),
    },
    Attack {
        name: "dates and expressions whose toString is patched",
        code: "let n = 0; Date.prototype.toString = RegExp.prototype.toString = () => { n++; throw new Error('mine') }; Object.defineProperty(Date.prototype, Symbol.toPrimitive, { value: () => { throw 1 } }); console.log(new Date(0), /x/, new Date(NaN)); return n <= 3",
        expected: Expected::Value("true"),
    },
    Attack {
        name: "an expression whose toString gives a huge text",
        code: "RegExp.prototype.toString = () => 'x'.repeat(1e7); console.log(/x/)",
        expected: TOO_MUCH,
    },
    Attack {
        name: "a typed array and a buffer of a million",
        code: "console.log(new Uint8Array(1e5), new ArrayBuffer(1e6), new DataView(new ArrayBuffer(8))); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
    Attack { name: "a BigInt of a million digits", code: "console.log(1n << 3_000_000n)", expected: TOO_MUCH },
    Attack {
        name: "functions with huge and with strange names",
        code: "const it = () => 1; Object.defineProperty(it, 'name', { value: 'x'.repeat(1e6) }); const that = () => 1; Object.defineProperty(that, 'name', { get() { throw 1 } }); console.log(that, it, class { static name() {} }, it.bind(), (() => 1).bind()); return 'printed'",
        expected: Expected::Any(&[ErrorCode::OutputLimit]),
    },
    Attack {
        name: "proxies of functions, classes and calls, printed",
        code: "const all = [() => 1, class A {}, mcp.call, function* () {}, (() => 1).bind()].map((it) => new Proxy(it, {})); console.log(...all, all, { it: all[0] }, new Map([all])); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
    Attack { name: "a proxy of a function thrown", code: "throw new Proxy(() => 1, {})", expected: THROWN },
    Attack {
        name: "a proxy of a function that nobody looks at, and one as a tool's name",
        code: "Promise.reject(new Proxy(() => 1, {})); return (await mcp.call(new Proxy(class {}, {})).catch((e) => e)).code",
        expected: Expected::Value(r#""INVALID_TOOL_NAME""#),
    },
    Attack {
        name: "console replaced, patched, deleted and called strangely",
        code: "const { log } = console; console.log = () => 'mine'; delete console.error; console.extra = 1; log.call(null, 'still'); Reflect.apply(log, new Proxy({}, {}), ['there']); globalThis.console = undefined; log('end'); return [typeof console, (() => { try { new log() } catch (e) { return e.name } })()]",
        expected: Expected::Value(r#"["undefined","TypeError"]"#),
    },
    Attack {
        name: "emit and read_input in every strange way",
        code: "const back = [read_input(), read_input.call(1, 2), typeof emit(), typeof emit(1, {}, null), emit.apply(null, { length: 3 }), (() => { try { new emit('x') } catch (e) { return e.name } })()]; return back",
        expected: Expected::Value(r#"["","","undefined","undefined",null,"TypeError"]"#),
    },
    Attack {
        name: "control characters, escapes of terminals and what looks like a frame",
        code: r#"console.log('\u001b[2J\u001b]0;owned\u0007\0\r\n{"code":"OK"}\u2028\u202e'); emit('\0\x01\x02\x03\xff'); return 'printed'"#,
        expected: Expected::Value(r#""printed""#),
    },
    Attack {
        name: "a huge text thrown",
        code: "throw 'x'.repeat(1e8)",
        expected: Expected::Error(&[ErrorCode::EvalError, ErrorCode::MemoryLimit]),
    },
    Attack {
        name: "an error with a huge message and name",
        code: "const it = new Error('m'.repeat(1e7)); it.name = 'n'.repeat(1e7); throw it",
        expected: THROWN,
    },
    Attack {
        name: "a proxy thrown, whose traps throw",
        code: "throw new Proxy(new Error('x'), { get() { throw 1 }, getPrototypeOf() { throw 2 }, ownKeys() { throw 3 } })",
        expected: THROWN,
    },
    Attack {
        name: "a revoked proxy thrown",
        code: "const { proxy, revoke } = Proxy.revocable(new Error('x'), {}); revoke(); throw proxy",
        expected: THROWN,
    },
    Attack {
        name: "a revoked proxy thrown from an async function of a default export",
        code: "export default async () => { const { proxy, revoke } = Proxy.revocable(() => 1, {}); revoke(); await null; throw proxy }",
        expected: THROWN,
    },
    Attack { name: "a symbol thrown", code: r"throw Symbol('\ud800')", expected: THROWN },
    Attack {
        name: "an object thrown that is deep, wide and cyclic",
        code: "const it = {}; for (let i = 0; i < 1e3; i++) it['k' + i] = { it, i, list: new Array(1e3).fill(it) }; throw it",
        expected: THROWN,
    },
    Attack {
        name: "an error thrown whose prototype is a proxy",
        code: "const it = new Error('x'); delete it.message; Object.setPrototypeOf(it, new Proxy({}, { get(_, key) { throw new Error(String(key)) } })); throw it",
        expected: THROWN,
    },
    Attack {
        name: "an error thrown whose getters print",
        code: "throw Object.defineProperty(new Error('x'), 'message', { get() { console.log('read'); return 'x' } })",
        expected: THROWN,
    },
    Attack {
        name: "an error thrown whose getter prints over the limit",
        code: "throw Object.defineProperty(new Error('x'), 'message', { get() { console.log('x'.repeat(5_000)); return 'x' } })",
        expected: Expected::Error(&[ErrorCode::OutputLimit, ErrorCode::EvalError]),
    },
    Attack {
        name: "a rejection that nobody looks at, with a getter that prints over the limit",
        code: "Promise.reject({ get a() { for (;;) console.log('x') } }); return 1",
        expected: TOO_MUCH,
    },
    Attack {
        name: "a toJSON of the result that prints over the limit",
        code: "return { toJSON() { for (;;) emit('x') } }",
        expected: TOO_MUCH,
    },
    Attack {
        name: "a thenable that prints over the limit",
        code: "return { then() { for (;;) console.log('x') } }",
        expected: TOO_MUCH,
    },
    Attack {
        name: "an error of a subclass with no name, no message and a number as its name",
        code: "class Mine extends Error { get name() { return 5 } get message() { return { toString() { throw 1 } } } } throw new Mine()",
        expected: THROWN,
    },
    Attack {
        name: "an error with a message of lone surrogates and NUL",
        code: r"throw new Error('\ud800\0\udfff'.repeat(5_000))",
        expected: THROWN,
    },
    Attack {
        name: "a result that is over its limit only in UTF-8",
        code: r"return '\u4e2d'.repeat(4e6)",
        expected: Expected::Error(&[ErrorCode::ResultLimit]),
    },
    Attack {
        name: "a result that is over its limit only when escaped",
        code: r"return '\0'.repeat(2e6)",
        expected: Expected::Error(&[ErrorCode::ResultLimit]),
    },
    Attack {
        name: "output printed before an end that comes from outside",
        code: "console.log('first'); return await new Promise(() => {})",
        expected: Expected::Error(&[ErrorCode::Unsettled]),
    },
    Attack {
        name: "a flood while calls are open",
        code: "const calls = Array.from({ length: 50 }, () => mcp.call('test.wait', { ms: 60_000 }).catch(() => {})); await null; for (;;) console.log('x')",
        expected: TOO_MUCH,
    },
    Attack {
        name: "a typed array of 30 million entries",
        code: "console.log(new Uint8Array(3e7)); return 'printed'",
        expected: Expected::Any(&[ErrorCode::MemoryLimit]),
    },
    Attack {
        name: "bound proxies of functions, and a class with a static name",
        code: "console.log(new Proxy(() => 1, {}).bind(), class { static name = 5 }, class { static get name() { throw 1 } }); return 'printed'",
        expected: Expected::Value(r#""printed""#),
    },
];
