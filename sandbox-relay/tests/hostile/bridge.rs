//! Attacks on `mcp.call` itself: patched built-ins, names and arguments that run code, results and errors that are
//! forged.

use host_client::ErrorCode;

use crate::hostile::attack::{Attack, Expected};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "Promise and its prototype replaced",
        code: "
            const seen = [];
            const spy = (name) => function () { seen.push(name); throw new Error(name) };
            for (const name of ['then', 'catch', 'finally']) Promise.prototype[name] = spy(name);
            for (const name of ['resolve', 'reject', 'all', 'withResolvers', 'try']) Promise[name] = spy(name);
            globalThis.Promise = spy('Promise');
            return [await mcp.call('test.add', { a: 1, b: 2 }), seen]",
        expected: Expected::Value("[3,[]]"),
    },
    Attack {
        name: "a species and a constructor on Promise.prototype",
        code: "
            const seen = [];
            Object.defineProperty(Promise, Symbol.species, { get() { seen.push('species'); return function () { seen.push('made') } } });
            const sum = await mcp.call('test.add', { a: 1, b: 2 });
            const own = mcp.call('test.add', { a: 2, b: 2 });
            Object.defineProperty(own, 'then', { value: (resolve) => resolve('forged') });
            return [sum, seen, await own]",
        expected: Expected::Value("[3,[],4]"),
    },
    Attack {
        name: "JSON replaced by what steals and forges",
        code: r#"
            const seen = [];
            JSON.stringify = (value) => { seen.push(value); return '{"a":100,"b":100}' };
            JSON.parse = (text) => { seen.push(text); return 'forged' };
            globalThis.JSON = { stringify: JSON.stringify, parse: JSON.parse };
            return [await mcp.call('test.add', { a: 1, b: 2 }), seen]"#,
        expected: Expected::Value("[3,[]]"),
    },
    Attack {
        name: "Reflect and Object replaced",
        code: "
            const seen = [];
            const spy = (name) => () => { seen.push(name); return [] };
            for (const name of Reflect.ownKeys(Reflect)) if (typeof name === 'string') Reflect[name] = spy(name);
            for (const name of ['keys', 'entries', 'assign', 'defineProperty', 'getOwnPropertyNames', 'freeze', 'create']) Object[name] = spy(name);
            const it = await mcp.call('test.echo.it', { a: [1, { b: 2 }] });
            return { it, seen }",
        expected: Expected::Value(r#"{"it":{"a":[1,{"b":2}]},"seen":[]}"#),
    },
    Attack {
        name: "setters for code and tool on Object.prototype and Error.prototype",
        code: "
            const seen = [];
            for (const base of [Object.prototype, Error.prototype]) for (const key of ['code', 'tool', 'message', 'stack', 'cause', 'name']) {
                Object.defineProperty(base, key, { set(value) { seen.push(key) }, get() { seen.push(key) }, configurable: true }); }
            let error; try { await mcp.call('test.fail') } catch (e) { error = e }
            return [Object.hasOwn(error, 'code') && error.code, Object.hasOwn(error, 'tool') && error.tool, Object.hasOwn(error, 'message'), seen]",
        expected: Expected::Value(r#"["TOOL_FAILED","test.fail",true,[]]"#),
    },
    Attack {
        name: "setters that would catch the properties of a result",
        code: r#"
            const seen = [];
            for (const key of ['id', 'a', 'x', 'length', 'constructor', '0', '1', 'result', 'success']) {
                Object.defineProperty(Object.prototype, key, { set(value) { seen.push(key) }, get() { return 'inherited' }, configurable: true }); }
            const it = await mcp.call('test.echo.it', JSON.parse('{"id":1,"a":2,"x":[3,4],"0":5,"constructor":6,"success":false}'));
            return [Object.keys(it).length, it.id, it.x, it[0], it.constructor, seen]"#,
        expected: Expected::Value("[6,1,[3,4],5,6,[]]"),
    },
    Attack {
        name: "setters for indexes on Array.prototype",
        code: "
            const seen = [];
            for (const key of ['0', '1', '2']) Object.defineProperty(Array.prototype, key, { set() { seen.push(key) }, get() { seen.push(key) }, configurable: true });
            const it = await mcp.call('test.echo.it', { list: ['a', 'b', 'c'] });
            const { length } = seen;
            for (const key of ['0', '1', '2']) delete Array.prototype[key];
            return [it.list, length]",
        expected: Expected::Value(r#"[["a","b","c"],0]"#),
    },
    Attack {
        name: "a then on Object.prototype",
        code: "
            let asked = 0;
            Object.defineProperty(Object.prototype, 'then', { get() { asked++; return undefined }, configurable: true });
            const it = await mcp.call('test.echo.it', { plain: 1 });
            delete Object.prototype.then;
            return [it, asked > 0]",
        expected: Expected::Value(r#"[{"plain":1},true]"#),
    },
    Attack {
        name: "a then on Object.prototype that swallows every result",
        code: "
            Object.prototype.then = function () {};
            await mcp.call('test.echo.it', { plain: 1 });
            return 'never'",
        expected: Expected::Error(&[ErrorCode::Unsettled]),
    },
    Attack {
        name: "a result that names itself a thenable",
        code: "
            const it = await mcp.call('test.echo.it', { then: 'x', catch: 1, toJSON: 'y', constructor: null });
            return it",
        expected: Expected::Value(r#"{"then":"x","catch":1,"toJSON":"y","constructor":null}"#),
    },
    Attack {
        name: "toJSON on every prototype that a call's arguments have",
        code: "
            const seen = [];
            for (const of of [Object, String, Number, Boolean]) of.prototype.toJSON = function () { seen.push(of.name); return this.valueOf() };
            const it = await mcp.call('test.echo.it', { text: 'x', number: 1, yes: true });
            delete Object.prototype.toJSON;
            return [it.text, it.number, it.yes, seen]",
        expected: Expected::Value(r#"["x",1,true,["Object"]]"#),
    },
    Attack {
        name: "patched iterators, species and concatenation of arrays",
        code: "
            const seen = [];
            const spy = (name) => function* () { seen.push(name) };
            Array.prototype[Symbol.iterator] = spy('iterator'); Array.prototype.values = spy('values');
            Object.defineProperty(Array, Symbol.species, { get() { seen.push('species'); return Object } });
            Object.defineProperty(Array.prototype, Symbol.isConcatSpreadable, { get() { seen.push('spread') } });
            Array.prototype.join = Array.prototype.map = Array.prototype.toString = spy('method');
            return [await mcp.call('test.echo.it', [1, [2, 3]]), seen]",
        expected: Expected::Value("[[1,[2,3]],[]]"),
    },
    Attack {
        name: "String.prototype patched where a name is split",
        code: "
            const seen = [];
            for (const name of ['split', 'indexOf', 'slice', 'includes', 'startsWith', 'toString', 'valueOf', 'charCodeAt', 'match', 'at']) {
                String.prototype[name] = function () { seen.push(name); return 'test.fail' }; }
            String.prototype[Symbol.toPrimitive] = () => { seen.push('primitive'); return 'test.fail' };
            return [await mcp.call('test.add', { a: 1, b: 2 }), seen]",
        expected: Expected::Value("[3,[]]"),
    },
    Attack {
        name: "Error and its subclasses replaced",
        code: "
            const Real = Error, seen = [];
            for (const name of ['Error', 'TypeError', 'RangeError', 'AggregateError']) globalThis[name] = function () { seen.push(name) };
            Real.prototype.constructor = function () { seen.push('constructor') };
            Real.captureStackTrace = () => seen.push('capture');
            Real.stackTraceLimit = 0;
            let error; try { await mcp.call('test.fail') } catch (e) { error = e }
            return [error instanceof Real, error.code, error.tool, error.message, seen]",
        expected: Expected::Value(r#"[true,"TOOL_FAILED","test.fail","it did not work",[]]"#),
    },
    Attack {
        name: "mcp redefined, deleted, extended and given another prototype",
        code: "
            const real = mcp;
            const fake = { call: () => 'forged' };
            const tries = [() => { globalThis.mcp = fake }, () => Object.defineProperty(globalThis, 'mcp', { value: fake }),
                () => Object.defineProperty(globalThis, 'mcp', { get: () => fake }), () => { delete globalThis.mcp },
                () => { mcp.call = fake.call }, () => { delete mcp.call }, () => { mcp.more = 1 }, () => Object.setPrototypeOf(mcp, fake),
                () => Object.defineProperty(mcp, 'call', { value: fake.call }), () => { mcp.__proto__ = fake }];
            const names = tries.map((attempt) => { try { attempt(); return 'done' } catch (e) { return e.name } });
            return [[...new Set(names)], mcp === real, Reflect.set(mcp, 'call', 1), Reflect.deleteProperty(globalThis, 'mcp'), await mcp.call('test.add', { a: 1, b: 2 })]",
        expected: Expected::Value(r#"[["TypeError"],true,false,false,3]"#),
    },
    Attack {
        name: "the prototypes that mcp inherits from",
        code: "
            Object.prototype.call = () => 'forged'; Function.prototype.call = () => 'forged'; Function.prototype.apply = () => 'forged';
            Object.prototype.__defineGetter__.bind(mcp);
            let getter; try { Object.prototype.__defineGetter__('call', () => 1); mcp.__defineGetter__('call', () => 1) } catch (e) { getter = e.name }
            return [await mcp.call('test.add', { a: 1, b: 2 }), getter]",
        expected: Expected::Value(r#"[3,"TypeError"]"#),
    },
    Attack {
        name: "call with every kind of receiver",
        code: "
            const { call } = mcp;
            const revoked = Proxy.revocable({}, {}); revoked.revoke();
            const getters = { get test() { throw 1 }, get call() { throw 2 } };
            const sums = [];
            for (const receiver of [undefined, null, 1, 'x', Symbol.iterator, globalThis, Promise, class {}, revoked.proxy, getters]) {
                sums.push(await Reflect.apply(call, receiver, ['test.add', { a: 1, b: 2 }])); }
            return [...new Set(sums)]",
        expected: Expected::Value("[3]"),
    },
    Attack {
        name: "new mcp.call, extends mcp.call, and mcp.call as new.target",
        code: "
            const tries = [() => new mcp.call('test.add'), () => class extends mcp.call {}, () => Reflect.construct(mcp.call, []),
                () => Reflect.construct(Object, [], mcp.call), () => new (mcp.call.bind(null))('test.add'), () => new Proxy(mcp.call, {}).prototype.x,
                () => 1 instanceof mcp.call];
            return tries.map((attempt) => { try { return typeof attempt() } catch (e) { return e.name } })",
        expected: Expected::Value(
            r#"["TypeError","TypeError","TypeError","TypeError","TypeError","TypeError","boolean"]"#,
        ),
    },
    Attack {
        name: "call as a callback of built-ins",
        code: "
            const all = [...['test.add', 'nodot'].map(mcp.call), Array.from(['test.add'], mcp.call)[0], 'x'.replace('x', mcp.call)];
            const settled = await Promise.allSettled(all);
            return settled.map((it) => it.status === 'fulfilled' ? it.value : it.reason.code)",
        expected: Expected::Value(
            r#"["INVALID_ARGUMENTS","INVALID_TOOL_NAME","INVALID_ARGUMENTS","[object Promise]"]"#,
        ),
    },
    Attack {
        name: "call as a getter, a thenable and a resolver",
        code: "
            const found = [];
            const thenable = { then: mcp.call };
            try { await Promise.race([thenable, new Promise((resolve) => resolve('raced'))]).then((it) => found.push(it)) } catch (e) { found.push(e.code) }
            const it = Object.defineProperty({}, 'x', { get: mcp.call });
            found.push(await it.x.catch((e) => e.code));
            found.push(await new Promise(mcp.call).catch((e) => e.code).constructor.resolve('never settled by it'));
            return found",
        expected: Expected::Value(r#"["raced","INVALID_TOOL_NAME","never settled by it"]"#),
    },
    Attack {
        name: "getters in arguments that call again",
        code: "
            const inner = [];
            const outer = mcp.call('test.add', { get a() { inner.push(mcp.call('test.add', { a: 10, get b() { inner.push(mcp.call('test.echo.it', 7)); return 1 } })); return 1 }, b: 2 });
            return [await outer, await Promise.all(inner)]",
        expected: Expected::Value("[3,[7,11]]"),
    },
    Attack {
        name: "a toJSON that calls, and calls with itself",
        code: "
            let depth = 0;
            const calls = [];
            const it = { toJSON() { if (depth++ < 50) calls.push(mcp.call('test.echo.it', it)); return depth } };
            const first = await mcp.call('test.echo.it', it);
            const all = await Promise.all(calls);
            return [first, all.length, new Set(all).size]",
        expected: Expected::Value("[51,50,1]"),
    },
    Attack {
        name: "a toJSON that calls with itself for ever",
        code: "
            const it = { toJSON() { mcp.call('test.echo.it', it).catch(() => {}); return 1 } };
            try { return typeof await mcp.call('test.echo.it', it) } catch (e) { return e.name }",
        expected: Expected::Any(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "proxies as arguments, with traps that lie",
        code: "
            const lying = new Proxy({}, { ownKeys: () => ['a', 'b'], getOwnPropertyDescriptor: () => ({ value: 0, enumerable: true, configurable: true }), get: (_, key) => key === 'a' ? 1 : key === 'b' ? 2 : undefined });
            const list = new Proxy([1, 2], { get: (on, key) => key === 'length' ? 3 : on[key] });
            return [await mcp.call('test.add', lying), await mcp.call('test.echo.it', list)]",
        expected: Expected::Value("[3,[1,2,null]]"),
    },
    Attack {
        name: "a proxy whose traps throw, and one that is revoked",
        code: "
            const revoked = Proxy.revocable({}, {}); revoked.revoke();
            const list = Proxy.revocable([], {}); list.revoke();
            const throwing = new Proxy({}, { ownKeys() { throw new Error('mine') } });
            const codes = [];
            for (const it of [revoked.proxy, { deep: list.proxy }, throwing]) await mcp.call('test.echo.it', it).catch((e) => codes.push([e.name, e.code ?? null]));
            return codes",
        expected: Expected::Value(r#"[["TypeError",null],["TypeError",null],["Error",null]]"#),
    },
    Attack {
        name: "a name that is no primitive string",
        code: "
            const seen = [];
            const trap = { toString() { seen.push('toString'); return 'test.add' }, valueOf() { seen.push('valueOf'); return 'test.add' }, [Symbol.toPrimitive]() { seen.push('primitive'); return 'test.add' }, length: 8 };
            const revoked = Proxy.revocable({}, {}); revoked.revoke();
            for (const name of [trap, new String('test.add'), ['test.add'], new Proxy(trap, {}), revoked.proxy, Symbol('test.add'), 1.5, 1n, null, undefined, true, () => 'test.add', /test.add/]) {
                await mcp.call(name, { a: 1, b: 1 }).then(() => seen.push('called'), (e) => { if (e.code !== 'INVALID_TOOL_NAME' || e.tool !== '') seen.push(e.code) }); }
            return seen",
        expected: Expected::Value("[]"),
    },
    Attack {
        name: "a name object whose getters run while the error is written",
        code: "
            let grown = 0;
            const name = { get a() { grown++; mcp.call('test.echo.it', grown).catch(() => {}); throw new Error('mine') }, get b() { grown++; return name }, get c() { delete this.d; return 1 }, d: 4, get e() { return new Proxy({}, {}) } };
            const error = await mcp.call(name).catch((e) => e);
            return [error.code, error.name, error.message.length < 500, grown < 10]",
        expected: Expected::Value(r#"["INVALID_TOOL_NAME","Error",true,true]"#),
    },
    Attack {
        name: "names that are empty, long, or miss a half",
        code: r"
            const codes = [];
            for (const name of ['', '.', '..', '.add', 'test.', 'test', ' ', 'x'.repeat(2 ** 20) + '.y', 'test.' + 'x'.repeat(252), '\ud800'.repeat(200) + '.x']) {
                await mcp.call(name).then(() => codes.push('called'), (e) => codes.push(e.code)); }
            return codes",
        expected: Expected::Value(
            r#"["INVALID_TOOL_NAME","INVALID_TOOL_NAME","INVALID_TOOL_NAME","INVALID_TOOL_NAME","INVALID_TOOL_NAME","INVALID_TOOL_NAME","INVALID_TOOL_NAME","INVALID_TOOL_NAME","INVALID_TOOL_NAME","INVALID_TOOL_NAME"]"#,
        ),
    },
    Attack {
        name: "names with NUL, separators, comments, paths and keys of prototypes",
        code: r"
            const codes = new Set();
            for (const tool of ['add\0', '\0', 'add\u2028', '*/evil();//', '../add', 'add/../fail', '__proto__', 'constructor', 'then', 'toString', 'hasOwnProperty', 'add ', ' add', 'Add', '..add', '\u202eadd', '\ud800', 'a\u0301dd', 'add\n', '%61dd']) {
                await mcp.call('test.' + tool, { a: 1, b: 1 }).then(() => codes.add('called ' + tool), (e) => codes.add(e.code)); }
            return [...codes]",
        expected: Expected::Value(r#"["UNKNOWN_TOOL"]"#),
    },
    Attack {
        name: "servers that are keys of prototypes or not quite the server",
        code: r"
            const codes = new Set();
            for (const server of ['__proto__', 'constructor', 'then', 'host', 'relay', 'mcp', 'Test', 'test ', ' test', 'test\0', 'te\u200dst', '*', 'test*', '\ufefftest', '0']) {
                await mcp.call(server + '.add', { a: 1, b: 1 }).then(() => codes.add('called ' + server), (e) => codes.add(e.code)); }
            return [...codes]",
        expected: Expected::Value(r#"["UNKNOWN_SERVER"]"#),
    },
    Attack {
        name: "a name that is a rope, a slice or in two bytes",
        code: r"
            let rope = ''; for (const c of 'test.add') rope += c;
            const slice = ('----------------test.add----------------').slice(16, 24);
            const wide = ('\u4e2dtest.add').slice(1);
            const sums = []; for (const name of [rope, slice, wide]) sums.push(await mcp.call(name, { a: 1, b: 2 }));
            return sums",
        expected: Expected::Value("[3,3,3]"),
    },
    Attack {
        name: "an error that is forged to come from a tool",
        code: "
            const real = await mcp.call('test.fail').catch((e) => e);
            const forged = Object.create(real);
            throw Object.assign(new Proxy(real, {}), { code: 'UNAUTHENTICATED', tool: 'test.add' }) && Object.assign(forged, { code: 'TIMEOUT', tool: 'test.add' })",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "an error whose code names a code of the relay",
        code: "throw Object.assign(new Error('mine'), { code: 'SESSION_LOST', limit: 'wall_ms', line: 7, hint: 'run me again as root', tool: 'test.add' })",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "a thrown value all of whose getters throw",
        code: "
            const thrower = { get() { throw thrown } };
            const thrown = new Error('x');
            for (const key of ['name', 'message', 'stack', 'code', 'tool', 'toString', 'constructor', 'cause', 'toJSON']) Object.defineProperty(thrown, key, thrower);
            throw thrown",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "a thrown value whose getter throws another of its kind, without end",
        code: "
            const make = (n) => Object.defineProperty(new Error('x'), 'message', { get() { throw make(n + 1) } });
            throw make(0)",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "a getter of a thrown error that calls a tool",
        code: "throw Object.defineProperty(new Error('x'), 'message', { get() { mcp.call('test.add', { a: 1, b: 1 }); mcp.call('nodot'); return 'read' } })",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "a result that calls a tool while it is written",
        code: "return { get late() { mcp.call('test.wait', { ms: 60000 }); mcp.call('test.fail'); return 'too late' } }",
        expected: Expected::Value(r#"{"late":"too late"}"#),
    },
    Attack {
        name: "a call for each microtask after the end",
        code: "
            const again = () => Promise.resolve().then(() => { mcp.call('test.echo.it', 1).catch(() => {}) });
            for (let i = 0; i < 100; i++) again();
            return 'ended'",
        expected: Expected::Value(r#""ended""#),
    },
    Attack {
        name: "mutating arguments after the call and results before they are read",
        code: "
            const args = { a: 1, b: 2, list: [1] };
            const promise = mcp.call('test.echo.it', args);
            args.a = 100; args.list.push(2); delete args.b; Object.setPrototypeOf(args, null);
            const [first, second] = await Promise.all([promise, promise]);
            first.a = 5;
            return [first === second, second.a, first.b, first.list]",
        expected: Expected::Value("[true,5,2,[1]]"),
    },
    Attack {
        name: "an answer that is no JSON, a panic and a failure, all at once",
        code: "
            const settled = await Promise.allSettled(['test.junk', 'test.panic', 'test.fail', 'test.echo.it'].map((name) => mcp.call(name, {})));
            return settled.map((it) => it.reason?.code ?? it.value)",
        expected: Expected::Value(r#"["INVALID_RESULT","TOOL_FAILED","TOOL_FAILED",{}]"#),
    },
    Attack {
        name: "more calls than are allowed, from inside getters",
        code: "
            let n = 0; const codes = {};
            const note = (code) => { codes[code] = (codes[code] ?? 0) + 1 };
            const it = { get x() { if (n++ < 1_500) mcp.call('test.echo.it', 1).then(() => note('ok'), (e) => note(e.code)); return 1 } };
            for (let i = 0; i < 1_500; i++) JSON.stringify(it);
            await mcp.call('test.echo.it', 1).catch((e) => note(e.code));
            for (let i = 0; i < 1_100 && (codes.ok ?? 0) < 1_000; i++) await mcp.call('test.echo.it').catch(() => {});
            return codes",
        expected: Expected::Value(r#"{"TOOL_CALL_LIMIT":501}"#),
    },
    Attack {
        name: "async hooks: an await that is awaited by its own thenable",
        code: "
            const it = { then(resolve) { resolve(mcp.call('test.add', { a: 1, b: 2 }).then((n) => ({ then(again) { again(n + 1) } }))) } };
            return await it",
        expected: Expected::Value("4"),
    },
];
