//! Attacks that look for another run, for the machine and for the sandbox's own inside: leftovers, memory, stacks,
//! clocks.
//!
//! Every program here gives the same however often it runs.

use host_client::ErrorCode;

use crate::hostile::attack::{Attack, Expected};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "globals that an earlier run left behind",
        code: "
            const before = [typeof globalThis.left, typeof Array.prototype.left, typeof Object.left, typeof Math.left, typeof Symbol.iterator.left];
            for (const it of [globalThis, Array.prototype, Object, Math, Symbol.prototype, Promise, Error]) it.left = 1;
            return [...new Set(before)]",
        expected: Expected::Value(r#"["undefined"]"#),
    },
    Attack {
        name: "built-ins that an earlier run patched",
        code: "
            const native = (it) => Function.prototype.toString.call(it).endsWith('{ [native code] }');
            const before = [Math.random, JSON.stringify, Array.prototype.push, Promise.prototype.then, Object.keys, Date.now].every(native);
            Math.random = () => 4; JSON.stringify = () => ''; Array.prototype.push = () => 0; Promise.prototype.then = () => {}; Object.keys = () => []; Date.now = () => 0;
            return before",
        expected: Expected::Value("true"),
    },
    Attack {
        name: "symbols of the registry and templates as a channel between runs",
        code: "
            const key = Symbol.for('channel'), tag = (strings) => strings;
            const before = [globalThis[key], Symbol[key], tag`channel`[key]].map((it) => typeof it);
            globalThis[key] = Symbol[key] = 1;
            return before",
        expected: Expected::Value(r#"["undefined","undefined","undefined"]"#),
    },
    Attack {
        name: "the last matches of regular expressions",
        code: r#"
            const before = ['$1', '$2', '$&', '$_', '$+', '$`', "$'", 'input', 'lastMatch', 'lastParen', 'leftContext', 'rightContext'].map((key) => String(RegExp[key] ?? '')).join('');
            /(se)(cret)/.test('a secret of this run');
            return [before, RegExp.$1]"#,
        expected: Expected::Value(r#"["","se"]"#),
    },
    Attack {
        name: "Math.random is not the same in each run and not patched by V8's own seed",
        code: "
            const list = Array.from({ length: 1_000 }, Math.random);
            const mean = list.reduce((a, b) => a + b) / list.length;
            return [new Set(list).size === 1_000, list.every((n) => n >= 0 && n < 1), mean > 0.4 && mean < 0.6, Math.random.length, Math.random.name]",
        expected: Expected::Value(r#"[true,true,true,0,"random"]"#),
    },
    Attack {
        name: "the content of fresh buffers",
        code: "
            const dirty = []; for (let i = 0; i < 50; i++) dirty.push(new Uint8Array(1e5).fill(0xaa)); dirty.length = 0;
            for (const size of [1, 8, 64, 100, 1_000, 4_096, 65_536, 1e5, 1e6, 5e6]) for (const buffer of [new ArrayBuffer(size), new ArrayBuffer(size, { maxByteLength: size * 2 }), new Float64Array(size / 8 | 0).buffer]) {
                if (new Uint8Array(buffer).some((byte) => byte !== 0)) return size; }
            return 'zero'",
        expected: Expected::Value(r#""zero""#),
    },
    Attack {
        name: "the content of buffers that grew, shrank, were moved and copied",
        code: "
            const it = new ArrayBuffer(8_192, { maxByteLength: 65_536 });
            new Uint8Array(it).fill(0xaa); it.resize(16); it.resize(65_536);
            const zero = (buffer, from) => new Uint8Array(buffer, from).every((byte) => byte === 0);
            const found = [zero(it, 16)];
            const small = new ArrayBuffer(16); new Uint8Array(small).fill(1);
            found.push(zero(small.transfer(100_000), 16), zero(new ArrayBuffer(100).slice(10), 0), zero(it.transferToFixedLength(70_000), 16));
            return found",
        expected: Expected::Value("[true,true,true,true]"),
    },
    Attack {
        name: "the content of arrays and texts that were never written",
        code: "
            const list = new Array(1e5); const grown = [1]; grown.length = 1e5; grown[1e5 - 1] = 2;
            return [list.every((it) => it === undefined), list.indexOf(undefined), grown.slice(1, -1).some((it) => it !== undefined), [, ,].includes(undefined), ''.padEnd(1_000).trim(),
                new Float64Array(1e4).every((n) => Object.is(n, 0)), new BigInt64Array(100).some((n) => n !== 0n)]",
        expected: Expected::Value(r#"[true,-1,false,true,"",true,false]"#),
    },
    Attack {
        name: "a typed array whose buffer is moved while it is read",
        code: "
            const it = new Uint8Array(1_024).fill(7);
            const seen = it.map((byte, i) => { if (i === 10) it.buffer.transfer(0); return byte ?? 0 });
            const sorted = new Uint32Array(1_000).fill(9); let gone = false;
            try { sorted.sort((a, b) => { if (!gone) { gone = true; sorted.buffer.transfer(0) } return 0 }) } catch (e) { return e.name }
            return [seen.length, seen.every((byte) => byte === 7 || byte === 0), sorted.length, it.length]",
        expected: Expected::Value("[1024,true,0,0]"),
    },
    Attack {
        name: "reading past a buffer that shrank in the middle",
        code: "
            const it = new ArrayBuffer(1_000, { maxByteLength: 1_000 }), view = new Uint8Array(it), data = new DataView(it);
            const shrink = (to, value) => ({ valueOf() { it.resize(to); return value } });
            const found = [];
            for (const attempt of [() => data.setUint32(shrink(10, 500), 1), () => data.getFloat64(shrink(4, 0)), () => view.subarray(5, shrink(0, 900)).length, () => view.fill(7, shrink(8, 0), 900).length,
                () => view.slice(0, shrink(20, 50)).length, () => view.lastIndexOf(0, shrink(0, 99)), () => view.includes(undefined, shrink(3, 0)), () => view.copyWithin(0, shrink(2, 1)).length, () => view.with(5, shrink(1, 9)).length]) {
                it.resize(1_000);
                try { found.push(attempt()) } catch (e) { found.push(e.name) } }
            return found",
        expected: Expected::Value(r#"["RangeError","RangeError","RangeError",8,50,-1,true,2,"RangeError"]"#),
    },
    Attack {
        name: "a stack that would name the host's files",
        code: r"
            const stacks = [new Error('x').stack];
            try { null.x } catch (e) { stacks.push(e.stack) }
            await import('fs').catch((e) => stacks.push(e.stack));
            await mcp.call('nodot').catch((e) => stacks.push(e.stack));
            await mcp.call('test.fail').catch((e) => stacks.push(e.stack));
            try { [1].map(() => JSON.parse('{')) } catch (e) { stacks.push(e.stack) }
            const frames = stacks.flatMap((stack) => stack.split('\n').filter((line) => /^\s+at /.test(line)));
            return [stacks.some((stack) => /file:|\/|\.rs|\.cc|node:|wrapper/.test(stack.replace(/script\.js/g, ''))), frames.filter((line) => !line.includes('script.js:'))
                .filter((line) => !/^\s+at (?:async )?(?:JSON\.parse|Array\.map) \(<anonymous>\)$/.test(line))]",
        expected: Expected::Value("[false,[]]"),
    },
    Attack {
        name: "the stack within a toJSON that the bridge calls",
        code: r"
            let stack = '';
            await mcp.call('test.echo.it', { toJSON() { stack = new Error('inside').stack; return 1 } });
            return stack.split('\n').slice(1).filter((line) => !line.includes('script.js:') && !line.includes('Object.call (<anonymous>)') && !line.includes('(native)'))",
        expected: Expected::Value("[]"),
    },
    Attack {
        name: "the stack within a toJSON of the result",
        code: r"return { toJSON() { return new Error('inside').stack.split('\n').slice(1).filter((line) => !line.includes('script.js:')) } }",
        expected: Expected::Value("[]"),
    },
    Attack {
        name: "the stack within a getter of a thrown error",
        code: r"throw Object.defineProperty(new Error('x'), 'message', { get() { return /wrapper|worker|bridge|\.rs|\//.test(new Error('in').stack.replace(/script\.js/g, '')) ? 'leaks' : 'clean' } })",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "the lines and the columns of the wrapper",
        code: r"const [, line, column] = /script\.js:(-?\d+):(\d+)/.exec(new Error('x').stack); return [line, column]",
        expected: Expected::Value(r#"["1","58"]"#),
    },
    Attack {
        name: "the wrapper by an overflow that leaves its frame alone",
        code: r"
            const seen = new Set();
            const run = () => { try { run() } catch (e) { for (const line of String(e.stack).split('\n').slice(1)) seen.add(line.replace(/:\d+:\d+/g, '').replace(/at (?:run|default) /, '')) } };
            run();
            return [...seen].map((line) => line.trim()).filter((line) => line !== '(script.js)')",
        expected: Expected::Value("[]"),
    },
    Attack {
        name: "the text of natives",
        code: "return [mcp.call, Math.random, Function.prototype, mcp.call.bind(), Object.getOwnPropertyDescriptor(Map.prototype, 'size').get].map(String)",
        expected: Expected::Value(
            r#"["function call() { [native code] }","function random() { [native code] }","function () { [native code] }","function () { [native code] }","function get size() { [native code] }"]"#,
        ),
    },
    Attack {
        name: "the text of a class that wears mcp.call's name",
        code: "
            const text = Function.prototype.toString;
            const found = [];
            for (const it of [mcp, {}, 1, new Proxy(mcp.call, {}), Object.create(mcp.call)]) { try { found.push(text.call(it)) } catch (e) { found.push(e.name) } }
            return found",
        expected: Expected::Value(
            r#"["TypeError","TypeError","TypeError","function () { [native code] }","TypeError"]"#,
        ),
    },
    Attack {
        name: "what functions around the program know",
        code: "
            const found = [];
            for (const read of [() => arguments.length, () => new.target, () => this, () => super.x]) found.push(typeof read);
            return found",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "the arguments of the wrapper",
        code: "try { return arguments.length } catch (e) { return e.name }",
        expected: Expected::Value(r#""ReferenceError""#),
    },
    Attack {
        name: "messages of errors that V8 makes",
        code: r"
            const messages = [];
            const tries = [() => null.x, () => missing, () => JSON.parse('{'), () => new Array(-1), () => 'x'.repeat(-1), () => 1n + 1, () => BigInt('x'), () => Symbol() + '', () => new RegExp('('), () => decodeURIComponent('%'), () => structuredClone(1),
                () => mcp.call.call.apply(1), () => { 'use strict'; mcp.x = 1 }, () => new Intl.DateTimeFormat('x-', {}), () => new Intl.DateTimeFormat('en', { timeZone: '../../etc/localtime' }), () => new Date(NaN).toISOString(), () => eval('1')];
            for (const attempt of tries) { try { attempt() } catch (e) { messages.push(e.message) } }
            return [messages.length, messages.filter((text) => /\/(?:home|root|work|usr|tmp|proc|build)|\.rs\b|\.cc\b|0x[0-9a-f]{6}/.test(text))]",
        expected: Expected::Value("[17,[]]"),
    },
    Attack {
        name: "messages of errors that the relay and the host make",
        code: r"
            const messages = [];
            for (const [name, args] of [['test.nothing'], ['nobody.tool'], ['nodot'], ['test.add', { a: 'x' }], ['test.fail'], ['test.panic', {}], ['test.junk', {}], ['test.echo.it', 1n]]) await mcp.call(name, args).catch((e) => messages.push(e.message));
            return [messages.length, messages.filter((text) => /\/(?:home|root|work|usr|tmp|proc|build)|\.rs\b|panicked at|0x[0-9a-f]{6}|Bearer|eyJ/.test(text))]",
        expected: Expected::Value("[8,[]]"),
    },
    Attack {
        name: "keys of an error that the bridge made",
        code: "
            const error = await mcp.call('test.fail').catch((e) => e);
            return [Reflect.ownKeys(error).map(String).sort(), Object.keys(error).sort(), JSON.stringify(error), Object.isFrozen(error)]",
        expected: Expected::Value(
            r#"[["code","message","stack","tool"],["code","message","tool"],"{\"message\":\"it did not work\",\"code\":\"TOOL_FAILED\",\"tool\":\"test.fail\"}",false]"#,
        ),
    },
    Attack {
        name: "weak references and finalizers across a wait",
        code: "
            let finalized = 0; const registry = new FinalizationRegistry(() => { finalized++ });
            let refs = Array.from({ length: 100 }, () => { const it = { big: new Array(1_000).fill(0) }; registry.register(it, 0); return new WeakRef(it) });
            for (let i = 0; i < 5; i++) { for (let n = 0; n < 300; n++) new Array(1_000).fill(n); await mcp.call('test.echo.it') }
            return [finalized >= 0, refs.every((ref) => { const it = ref.deref(); return it === undefined || it.big.length === 1_000 })]",
        expected: Expected::Value("[true,true]"),
    },
    Attack {
        name: "zones and locales that a program asks for do not stay",
        code: "
            const before = [new Date(0).getHours(), Intl.DateTimeFormat().resolvedOptions().timeZone, (1234.5).toLocaleString(), new Date(0).toLocaleString()];
            new Date(0).toLocaleString('de-DE', { timeZone: 'Asia/Tokyo' }); new Intl.NumberFormat('de-DE').format(1); Intl.DateTimeFormat = class { resolvedOptions() { return { timeZone: 'Mars/Base' } } }; Date.prototype.getHours = () => 7;
            return before",
        expected: Expected::Value(r#"[0,"UTC","1,234.5","1/1/1970, 12:00:00 AM"]"#),
    },
    Attack {
        name: "a clock finer than the one there is",
        code: "
            const steps = new Set(); let last = Date.now();
            for (let i = 0; i < 200_000 && steps.size < 5; i++) { const now = Date.now(); if (now !== last) steps.add(now - last); last = now }
            return [[...steps].every(Number.isInteger), typeof performance, new Date().getTime() % 1, typeof Intl.DurationFormat === 'undefined' || 'there']",
        expected: Expected::Value(r#"[true,"undefined",0,"there"]"#),
    },
    Attack {
        name: "the machine's name, memory, cores and environment",
        code: "
            const keys = []; for (let it = globalThis; it; it = Object.getPrototypeOf(it)) keys.push(...Reflect.ownKeys(it).map(String));
            return keys.filter((key) => /env|host|memory|cpu|core|hardware|user|agent|platform|arch|pid|argv|path|file|socket|port|token|secret/i.test(key))",
        expected: Expected::Value("[]"),
    },
    Attack {
        name: "how many calls and names other sessions have",
        code: "
            const error = await mcp.call('nobody.tool').catch((e) => e);
            return [error.code, /session|subject|relay-|pid|socket/i.test(error.message)]",
        expected: Expected::Value(r#"["UNKNOWN_SERVER",false]"#),
    },
    Attack {
        name: "the input of another run",
        code: "return [typeof read_input, typeof emit, typeof input, typeof globalThis.input]",
        expected: Expected::Value(r#"["undefined","undefined","undefined","undefined"]"#),
    },
    Attack {
        name: "answers to calls of another run",
        code: "
            const tokens = Array.from({ length: 30 }, (_, n) => `${Math.random()}-${n}`);
            const back = await Promise.all(tokens.map((token) => mcp.call('test.echo.it', { token })));
            mcp.call('test.wait', { ms: 60_000 }).catch(() => {});
            return back.every((it, n) => it.token === tokens[n])",
        expected: Expected::Value("true"),
    },
    Attack {
        name: "the text of large numbers and dates as another run cached them",
        code: r"
            const before = [String(12345.678), (0.1).toFixed(20), new Date(86_400_000).toString(), 'caf\u00e9'.normalize('NFD').length, 'b,a'.split(',').sort().join()];
            Number.prototype.toString = () => 'mine'; Date.prototype.toString = () => 'mine'; String.prototype.split = () => [];
            return before",
        expected: Expected::Value(
            r#"["12345.678","0.10000000000000000555","Fri Jan 02 1970 00:00:00 GMT+0000 (Coordinated Universal Time)",5,"a,b"]"#,
        ),
    },
    Attack {
        name: "prepareStackTrace and stackTraceLimit that an earlier run set",
        code: "
            const before = [typeof Error.prepareStackTrace, Error.stackTraceLimit > 0, typeof new Error('x').stack];
            Error.prepareStackTrace = () => 'mine'; Error.stackTraceLimit = 0; Object.freeze(Error); Object.freeze(Object.prototype); Object.freeze(Array.prototype);
            return before",
        expected: Expected::Value(r#"["undefined",true,"string"]"#),
    },
    Attack {
        name: "V8's warm-up in another context",
        code: "
            return [typeof A, typeof touch, typeof r, Object.getOwnPropertyNames(globalThis).filter((name) => name.length < 3), RegExp.lastMatch, typeof Error('x').stack]",
        expected: Expected::Value(r#"["undefined","undefined","undefined",[],"","string"]"#),
    },
    Attack {
        name: "order of hash tables that would tell of addresses",
        code: "
            const map = new Map(), weak = new WeakMap(); const keys = Array.from({ length: 100 }, (_, i) => ({ i }));
            for (const key of keys) { map.set(key, key.i); weak.set(key, key.i) }
            return [[...map.values()].every((n, i) => n === i), keys.every((key) => weak.get(key) === key.i), Object.keys({ b: 1, a: 2, 1: 3, 0: 4 })]",
        expected: Expected::Value(r#"[true,true,["0","1","b","a"]]"#),
    },
];
