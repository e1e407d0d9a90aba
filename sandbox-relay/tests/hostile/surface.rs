//! Attacks that reach for what should not exist: hosts, modules, shared memory, shells, debuggers, and ways up from
//! `mcp`.

use host_client::ErrorCode;

use crate::hostile::attack::{Attack, Expected};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "the globals of Node, Deno, browsers, d8 and QuickJS",
        code: "
            const names = ['process', 'require', 'module', 'exports', 'Buffer', 'global', '__dirname', 'Deno', 'Bun', 'window',
                'self', 'document', 'fetch', 'XMLHttpRequest', 'WebSocket', 'Worker', 'postMessage', 'importScripts',
                'd8', 'gc', 'print', 'printErr', 'write', 'read', 'readbuffer', 'readline', 'load', 'quit', 'version',
                'arguments', 'testRunner', 'Realm', 'performance', 'os', 'std', 'scriptArgs', 'bjson', 'java', 'Packages',
                'setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'structuredClone', 'crypto', 'navigator',
                'name', 'v8', 'console', 'chrome', 'ActiveXObject', 'WScript', 'InternalError', 'uneval'];
            return names.filter((name) => name in globalThis)",
        expected: Expected::Value("[]"),
    },
    Attack {
        name: "bare names that a host would know",
        code: "
            const tries = [() => process, () => require, () => module, () => window, () => self, () => d8, () => gc,
                () => Deno, () => __filename, () => console, () => setTimeout];
            return [...new Set(tries.map((name) => { try { return typeof name() } catch (e) { return e.name } }))]",
        expected: Expected::Value(r#"["ReferenceError"]"#),
    },
    Attack {
        name: "shared memory and what shares it",
        code: "
            return [typeof SharedArrayBuffer, typeof Atomics, typeof WebAssembly, typeof ShadowRealm, typeof Temporal,
                Object.getOwnPropertyNames(globalThis).some((name) => /shared|atomic|wasm|webassembly/i.test(name))]",
        expected: Expected::Value(r#"["undefined","undefined","undefined","undefined","undefined",false]"#),
    },
    Attack {
        name: "shared memory by way of a view's buffer",
        code: "
            const views = [new Uint8Array(8), new DataView(new ArrayBuffer(8)), new BigInt64Array(1), new Float16Array(1)];
            return views.map((view) => Object.prototype.toString.call(view.buffer))",
        expected: Expected::Value(
            r#"["[object ArrayBuffer]","[object ArrayBuffer]","[object ArrayBuffer]","[object ArrayBuffer]"]"#,
        ),
    },
    Attack {
        name: "a date that turns into a Temporal object",
        code: "
            const date = new Date(0);
            return [typeof date.toTemporalInstant, Object.getOwnPropertyNames(Intl).includes('Temporal')]
                .map((found) => found === 'undefined' || found === false)",
        expected: Expected::Value("[true,true]"),
    },
    Attack {
        name: "import of host modules and files",
        code: r"
            const found = [];
            for (const name of ['fs', 'node:fs', 'os', 'std', 'module', 'file:///etc/passwd', '/etc/passwd', './x.mjs', 'script.js',
                'http://169.254.169.254/', '', '\0']) {
                try { await import(name); found.push(name) } catch (e) { found.push(e.name) }
            }
            return [...new Set(found)]",
        expected: Expected::Value(r#"["TypeError"]"#),
    },
    Attack {
        name: "import with options and a specifier that computes itself",
        code: "
            const seen = [];
            const specifier = { toString() { seen.push('toString'); return 'fs' } };
            const tries = [() => import('fs', { with: { type: 'json' } }), () => import(specifier), () => import(import.meta.url),
                () => import('fs', { get with() { seen.push('with'); return undefined } })];
            for (const attempt of tries) { try { await attempt(); seen.push('in') } catch (e) { seen.push(e.name) } }
            return seen",
        expected: Expected::Value(r#"["TypeError","toString","TypeError","TypeError","with","TypeError"]"#),
    },
    Attack {
        name: "the error of a refused import leads nowhere",
        code: "
            try { await import('fs') } catch (e) {
                return [e instanceof TypeError, e.constructor === TypeError, Object.getPrototypeOf(Object.getPrototypeOf(
                    Object.getPrototypeOf(e))) === Object.prototype, Reflect.ownKeys(e).filter((key) => key !== 'stack')]
            }",
        expected: Expected::Value(r#"[true,true,true,["message"]]"#),
    },
    Attack {
        name: "what import.meta tells",
        code: "
            return [Reflect.ownKeys(import.meta), Object.getPrototypeOf(import.meta), import.meta.url === undefined,
                typeof import.meta.resolve]",
        expected: Expected::Value(r#"[[],null,true,"undefined"]"#),
    },
    Attack {
        name: "an import in the middle of the program",
        code: "const a = 1; import { readFileSync } from 'node:fs'; return readFileSync('/etc/passwd', 'utf8')",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "an import that evaluates in another phase",
        code: "return (await import.source('x.wasm'))",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "constructors up from mcp and mcp.call",
        code: "
            const found = [mcp.constructor === Object, mcp.call.constructor === Function, Object.getPrototypeOf(mcp) === Object.prototype,
                Object.getPrototypeOf(mcp.call) === Function.prototype];
            for (const up of [mcp.constructor.constructor, mcp.call.constructor, mcp.call.call.constructor]) {
                try { found.push(typeof up('return this.process')()) } catch (e) { found.push(e.name) }
            }
            return found",
        expected: Expected::Value(r#"[true,true,true,true,"EvalError","EvalError","EvalError"]"#),
    },
    Attack {
        name: "the promise and the errors of a call are of this realm",
        code: "
            const promise = mcp.call('nodot');
            let error; try { await promise } catch (e) { error = e }
            let up; try { up = error.constructor.constructor('return process')() } catch (e) { up = e.name }
            return [promise.constructor === Promise, Object.getPrototypeOf(promise) === Promise.prototype,
                error.constructor === Error, Object.getPrototypeOf(error) === Error.prototype, up]",
        expected: Expected::Value(r#"[true,true,true,true,"EvalError"]"#),
    },
    Attack {
        name: "results of tools are of this realm at every depth",
        code: "
            const result = await mcp.call('test.echo.it', { list: [{ text: 'x' }], number: 1, yes: true });
            const realms = [result, result.list, result.list[0]].map((it) => it.constructor);
            return [realms[0] === Object, realms[1] === Array, realms[2] === Object, result.list[0].text.constructor === String,
                result.number.constructor === Number, result.yes.constructor === Boolean]",
        expected: Expected::Value("[true,true,true,true,true,true]"),
    },
    Attack {
        name: "an overflow inside a native call throws an error of this realm",
        code: "
            // vm2 was escaped by host errors that a full stack made the bridge throw.
            const kinds = new Set();
            const descend = () => { try { descend() } catch (e) { kinds.add(e instanceof RangeError && e.constructor === RangeError) }
                try { mcp.call('nodot').catch(() => {}) } catch (e) { kinds.add(e instanceof Error && e.constructor === RangeError) } };
            try { descend() } catch (e) { kinds.add(e.constructor === RangeError) }
            return [...kinds]",
        expected: Expected::Value("[true]"),
    },
    Attack {
        name: "iterators, generators and async generators lead only to this realm",
        code: "
            const bases = [[][Symbol.iterator](), new Map().entries(), 'x'[Symbol.iterator](), 'x'.matchAll(/x/g), (function* () {})(),
                (async function* () {})(), Iterator.from({ next() {} }), [].values().map((x) => x)];
            const tops = bases.map((base) => { let top = base; for (let up; (up = Object.getPrototypeOf(top)); top = up); return top });
            return [...new Set(tops.map((top) => top === Object.prototype))]",
        expected: Expected::Value("[true]"),
    },
    Attack {
        name: "a proxy put under globalThis sees every missing name",
        code: "
            const seen = [];
            try {
                Object.setPrototypeOf(globalThis, new Proxy({}, { has(_, key) { seen.push(String(key)); return false },
                    get(_, key) { seen.push(String(key)) } }));
            } catch (e) { return e.name }
            try { missing } catch {}
            await mcp.call('nodot').catch(() => {});
            return seen.filter((key) => key !== 'missing')",
        expected: Expected::Value("[]"),
    },
    Attack {
        name: "the global object's prototype has nothing of its own",
        code: "
            const own = [];
            for (let up = Object.getPrototypeOf(globalThis); up && up !== Object.prototype; up = Object.getPrototypeOf(up)) {
                own.push(...Reflect.ownKeys(up).filter((key) => key !== 'constructor').map(String));
            }
            return [own, Object.getOwnPropertySymbols(globalThis).map(String)]",
        expected: Expected::Value("[[],[]]"),
    },
    Attack {
        name: "hidden keys on mcp, its function and a call's promise",
        code: "
            const promise = mcp.call('nodot'); promise.catch(() => {});
            return [Reflect.ownKeys(mcp), Reflect.ownKeys(mcp.call).sort(), Reflect.ownKeys(promise)].map((keys) => keys.map(String))",
        expected: Expected::Value(r#"[["call"],["length","name"],[]]"#),
    },
    Attack {
        name: "arguments.callee and caller of sloppy functions",
        code: "
            const found = [];
            function inner() { for (const read of [() => arguments.callee, () => inner.caller, () => inner.arguments,
                () => arguments.callee.caller, () => mcp.call.caller, () => mcp.call.arguments]) {
                try { found.push(typeof read()) } catch (e) { found.push(e.name) } } }
            inner();
            return found",
        expected: Expected::Value(
            r#"["TypeError","TypeError","TypeError","TypeError","TypeError","TypeError"]"#,
        ),
    },
    Attack {
        name: "caller by way of Function.prototype's own accessors",
        code: "
            const { get } = Object.getOwnPropertyDescriptor(Function.prototype, 'caller');
            const found = [];
            (function outer() { for (const of of [outer, mcp.call, Map, () => 1]) {
                try { found.push(typeof get.call(of)) } catch (e) { found.push(e.name) } } })();
            return found",
        expected: Expected::Value(r#"["TypeError","TypeError","TypeError","TypeError"]"#),
    },
    Attack {
        name: "this of a plain function, of a getter and of a callback",
        code: "
            const seen = [(function () { return typeof this })(), [1].map(function () { return typeof this })[0],
                (0, { f() { return typeof this } }.f)(), typeof Reflect.apply(function () { return this }, undefined, []),
                (() => typeof this)()];
            'x'.replace('x', function () { seen.push(typeof this) });
            return seen",
        expected: Expected::Value(
            r#"["undefined","undefined","undefined","undefined","undefined","undefined"]"#,
        ),
    },
    Attack {
        name: "a with statement around mcp",
        code: "with (mcp) { return call('test.add', { a: 1, b: 1 }) }",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "V8's own functions by their syntax",
        code: "return %DebugPrint(mcp)",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "a hashbang and HTML comments that hide code from the parser",
        code: "#!/usr/bin/env node\nreturn 1 <!-- + 1\n--> + 1",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "a comment that ends the wrapper for V8 but not for the parser",
        code: "return 'in' /*\u{2028}*/ //\u{2029}}; globalThis.out = 1; export default () => { return 'out'",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "callsites by Error.prepareStackTrace",
        code: "
            let seen = 'nothing';
            Error.prepareStackTrace = (error, sites) => { seen = sites.map((site) => [site.getThis(), site.getFunction()]); return sites };
            const stacks = [new Error('a').stack, (() => { try { null.x } catch (e) { return e.stack } })()];
            const own = {}; Error.captureStackTrace?.(own); stacks.push(own.stack ?? '');
            return [seen, stacks.map((stack) => typeof stack)]",
        expected: Expected::Value(r#"["nothing",["string","string","string"]]"#),
    },
    Attack {
        name: "callsites of an error that the bridge made",
        code: "
            let seen = 'nothing';
            Error.prepareStackTrace = (_, sites) => { seen = sites; return sites };
            Object.defineProperty(Object.prototype, 'prepareStackTrace', { get() { seen = this; return () => 1 }, configurable: true });
            Object.defineProperty(Function.prototype, 'prepareStackTrace', { value: () => { seen = 'inherited' } });
            try { await mcp.call('nodot') } catch (e) { void e.stack }
            try { await import('fs') } catch (e) { void e.stack }
            return seen",
        expected: Expected::Value(r#""nothing""#),
    },
    Attack {
        name: "captureStackTrace on mcp, a proxy and a frozen object",
        code: "
            const { captureStackTrace } = Error;
            return [mcp, mcp.call, Object.freeze({}), Promise.prototype, 1, null].map((target) => {
                try { captureStackTrace(target); return typeof Object.getOwnPropertyDescriptor(target, 'stack') } catch (e) { return e.name } })",
        expected: Expected::Value(
            r#"["TypeError","TypeError","TypeError","object","TypeError","TypeError"]"#,
        ),
    },
    Attack {
        name: "a stack trace without end by Error.stackTraceLimit",
        code: r"
            Error.stackTraceLimit = Infinity;
            const deep = (n) => n ? deep(n - 1) : new Error('deep');
            const { stack } = deep(2_000);
            return [stack.length <= 17_000, stack.split('\n').length <= 52]",
        expected: Expected::Value("[true,true]"),
    },
    Attack {
        name: "a registry of finalizers that runs after the end",
        code: "
            const registry = new FinalizationRegistry(() => { for (;;) {} });
            for (let i = 0; i < 1_000; i++) registry.register({ i }, i);
            for (let i = 0; i < 200; i++) new Array(10_000).fill(i);
            await null;
            return 'ended'",
        expected: Expected::Value(r#""ended""#),
    },
    Attack {
        name: "a weak reference to mcp and to a global that is deleted",
        code: "
            const ref = new WeakRef(mcp);
            const set = new WeakSet([mcp, mcp.call]);
            return [ref.deref() === mcp, set.has(mcp.call), Object.isFrozen(ref.deref())]",
        expected: Expected::Value("[true,true,true]"),
    },
    Attack {
        name: "the machine's zone, locale and calendar by Intl",
        code: "
            const zone = Intl.DateTimeFormat().resolvedOptions();
            return [zone.timeZone, zone.locale, zone.calendar, Intl.NumberFormat().resolvedOptions().locale,
                new Intl.Collator().resolvedOptions().locale, new Intl.PluralRules().resolvedOptions().locale,
                new Intl.Segmenter().resolvedOptions().locale, new Intl.ListFormat().resolvedOptions().locale]",
        expected: Expected::Value(r#"["UTC","en-US","gregory","en-US","en-US","en-US","en-US","en-US"]"#),
    },
    Attack {
        name: "the machine's zone by every other road",
        code: "
            const summer = new Date(Date.UTC(2024, 6, 1)), winter = new Date(2024, 0, 1);
            return [summer.getTimezoneOffset(), winter.getTimezoneOffset(), winter.toString(), winter.toTimeString(),
                winter.getTime() === Date.UTC(2024, 0, 1), Date.parse('2024-01-01T00:00') === winter.getTime()]",
        expected: Expected::Value(
            r#"[0,0,"Mon Jan 01 2024 00:00:00 GMT+0000 (Coordinated Universal Time)","00:00:00 GMT+0000 (Coordinated Universal Time)",true,true]"#,
        ),
    },
    Attack {
        name: "a new global under a name that was removed",
        code: "
            globalThis.WebAssembly = { compile: () => 'mine' };
            delete globalThis.Function; delete globalThis.eval;
            let up; try { up = (() => {}).constructor('return 1')() } catch (e) { up = e.name }
            return [WebAssembly.compile(), up]",
        expected: Expected::Value(r#"["mine","EvalError"]"#),
    },
    Attack {
        name: "symbols of the registry that a host could use",
        code: "
            const known = ['nodejs.util.inspect.custom', 'nodejs.rejection', 'Deno.customInspect', 'Deno.internal', 'code', 'tool'];
            const error = await mcp.call('nodot').catch((e) => e);
            return known.flatMap((name) => [mcp, mcp.call, error, Error, globalThis].map((it) => typeof it[Symbol.for(name)]))
                .filter((type) => type !== 'undefined')",
        expected: Expected::Value("[]"),
    },
    Attack {
        name: "private marks of a tool error by way of class fields",
        code: "
            class Give { constructor(to) { return to } }
            class Peek extends Give { #code = 'mine'; static read(it) { return it.#code } }
            const error = await mcp.call('nodot').catch((e) => e);
            new Peek(error);
            return [Peek.read(error), error.code, Reflect.ownKeys(error).filter((key) => key !== 'stack')]",
        expected: Expected::Value(r#"["mine","INVALID_TOOL_NAME",["message","code","tool"]]"#),
    },
    Attack {
        name: "the bindings that were not asked for",
        code: "
            return ['console', 'emit', 'read_input', 'store', 'servers', 'test', '__interfaces', '__getToolInterface', 'setTimeout']
                .filter((name) => name in globalThis).concat(['search', 'describe', 'tools', 'list'].filter((name) => name in mcp))",
        expected: Expected::Value("[]"),
    },
];
