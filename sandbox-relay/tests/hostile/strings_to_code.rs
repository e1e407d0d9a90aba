//! Attacks that make code from a string, by every constructor, loader and hook that could compile one.

use host_client::ErrorCode;

use crate::hostile::attack::{Attack, Expected};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "a direct eval",
        code: "try { return eval('1 + 1') } catch (e) { return [e.name, e.constructor === EvalError] }",
        expected: Expected::Value(r#"["EvalError",true]"#),
    },
    Attack {
        name: "indirect evals",
        code: r#"
            const run = globalThis.eval;
            return [() => (0, eval)('1'), () => eval?.('1'), () => run('1'), () => globalThis['ev' + 'al']('1'), () => eval.call(null, '1'),
                () => eval.apply(null, ['1']), () => eval.bind(null, '1')(), () => Reflect.apply(eval, null, ['1']),
                () => ['1'].map(eval), () => Array.from('1', eval), () => '1'.replace('1', eval), () => JSON.parse('"1"', (_, v) => eval(v))]
                .map((attempt) => { try { return attempt() } catch (e) { return e.name } })"#,
        expected: Expected::Value(
            r#"["EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError"]"#,
        ),
    },
    Attack {
        name: "eval of what is no string stays what it is",
        code: "
            const seen = [];
            const trap = { toString() { seen.push('toString'); return '1' }, valueOf() { seen.push('valueOf'); return '1' },
                [Symbol.toPrimitive]() { seen.push('toPrimitive'); return '1' } };
            return [eval(trap) === trap, eval(5), typeof eval(new String('1')), eval(['1'])[0], seen.length]",
        expected: Expected::Value(r#"[true,5,"object","1",0]"#),
    },
    Attack {
        name: "eval in the places where a declaration could stand",
        code: "
            const tries = [(a = eval('1')) => a, ({ a = eval('1') } = {}) => a, () => class { static { eval('1') } }, () => class { [eval('1')]() {} },
                () => new (class { x = eval('1') })(), () => `${eval('1')}`, () => { for (const a of [eval('1')]) return a }];
            return [...new Set(tries.map((attempt) => { try { return attempt() } catch (e) { return e.name } }))]",
        expected: Expected::Value(r#"["EvalError"]"#),
    },
    Attack {
        name: "an empty eval",
        code: r#"return ['', ' ', '//', '\u2028', 'undefined', '"use strict"', '({})'].map((text) => { try { return eval(text) } catch (e) { return e.name } })"#,
        expected: Expected::Value(
            r#"["EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError"]"#,
        ),
    },
    Attack {
        name: "Function with and without new",
        code: "
            return [() => Function('return 1')(), () => new Function('return 1')(), () => new Function(), () => Function('a', 'b', 'return a'),
                () => new Function('a = 1, b', '/*', '*/ return b'), () => new Function('/*', '*/){'), () => Function('}, 1, () => {')]
                .map((attempt) => { try { return String(attempt()) } catch (e) { return e.name } })",
        expected: Expected::Value(
            r#"["EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError"]"#,
        ),
    },
    Attack {
        name: "the constructors of async functions and generators",
        code: "
            const of = [async () => {}, function* () {}, async function* () {}].map((it) => Object.getPrototypeOf(it).constructor);
            return of.flatMap((Make) => [() => Make('return 1'), () => new Make('yield 1'), () => Make()])
                .map((attempt) => { try { return typeof attempt() } catch (e) { return e.name } })",
        expected: Expected::Value(
            r#"["EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError"]"#,
        ),
    },
    Attack {
        name: "constructors of constructors, from every kind of value",
        code: "
            const values = [1, 'x', true, 1n, Symbol.iterator, [], {}, /x/, new Date(0), new Map(), Promise.resolve(), new Proxy({}, {}), JSON,
                Math, Reflect, Intl, globalThis, import.meta, mcp, mcp.call, new Error('x'), new Uint8Array(1), new WeakRef({}), Iterator.prototype];
            return [...new Set(values.map((value) => { try { return (value.constructor ?? Object).constructor('return 1')() } catch (e) { return e.name } }))]",
        expected: Expected::Value(r#"["EvalError"]"#),
    },
    Attack {
        name: "filter, find and other methods whose constructor is asked",
        code: "
            return [[].filter, [].at, ''.sub, Math.max, JSON.stringify, Object, class {}, () => 1, { get a() { return 1 } }.__lookupGetter__('a'),
                Symbol.iterator.toString, new Proxy(() => 1, {}), (() => 1).bind()].map((it) => {
                try { return it['con' + 'structor']`return 1``` } catch (e) { return e.name } }).every((name) => name === 'EvalError')",
        expected: Expected::Value("true"),
    },
    Attack {
        name: "Reflect.construct of Function with another new.target",
        code: "
            const targets = [Function, Object, Array, class {}, class extends Function {}, Error, Promise, function () {}];
            return [...new Set(targets.map((target) => { try { return typeof Reflect.construct(Function, ['return 1'], target) } catch (e) { return e.name } }))]",
        expected: Expected::Value(r#"["EvalError"]"#),
    },
    Attack {
        name: "a new.target whose prototype getter runs first",
        code: "
            const seen = [];
            const target = new Proxy(Function, { get(on, key) { seen.push(String(key)); return on[key] } });
            try { Reflect.construct(Function, ['return 1'], target); return 'made' } catch (e) { return [e.name, seen.length < 2] }",
        expected: Expected::Value(r#"["EvalError",true]"#),
    },
    Attack {
        name: "bound, applied and called Function",
        code: "
            return [() => Function.bind(null, 'return 1')(), () => new (Function.bind(null, 'return 1'))(), () => Function.call(null, 'return 1'),
                () => Function.apply(null, ['return 1']), () => Reflect.apply(Function, null, ['return 1']), () => Function.prototype.constructor('return 1'),
                () => Function.prototype.bind.call(Function, null)('return 1'), () => Function.prototype.call.call(Function, null, 'return 1')]
                .map((attempt) => { try { return typeof attempt() } catch (e) { return e.name } })",
        expected: Expected::Value(
            r#"["EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError","EvalError"]"#,
        ),
    },
    Attack {
        name: "a subclass of Function",
        code: "
            class Mine extends Function { constructor(...text) { super(...text) } }
            class Quiet extends Function {}
            const Async = (async () => {}).constructor;
            class Later extends Async {}
            return [Mine, Quiet, Later].map((Make) => { try { return typeof new Make('return 1') } catch (e) { return e.name } })",
        expected: Expected::Value(r#"["EvalError","EvalError","EvalError"]"#),
    },
    Attack {
        name: "a body that is an object with toString",
        code: "
            const seen = [];
            const body = { toString() { seen.push('read'); return 'return 1' } };
            const again = { n: 0, toString() { return this.n++ ? 'return 1' : '' } };
            for (const attempt of [() => Function(body), () => Function(body, again), () => Function([]), () => Function(again)]) {
                try { attempt(); seen.push('made') } catch (e) { seen.push(e.name) } }
            return seen.filter((it) => it !== 'read')",
        expected: Expected::Value(r#"["EvalError","EvalError","EvalError","EvalError"]"#),
    },
    Attack {
        name: "a proxy of Function and of eval",
        code: "
            const found = [];
            for (const attempt of [() => new Proxy(Function, {})('return 1'), () => new (new Proxy(Function, {}))('return 1'),
                () => new Proxy(eval, {})('1'), () => new Proxy(Function, { apply: (on, that, list) => Reflect.apply(on, that, list) })('return 1')]) {
                try { found.push(attempt()) } catch (e) { found.push(e.name) } }
            return found",
        expected: Expected::Value(r#"["EvalError","EvalError","EvalError","EvalError"]"#),
    },
    Attack {
        name: "a local named eval, and eval shadowed by a spread",
        code: "
            const run = (f) => { try { return f('1') } catch (e) { return e.name } };
            const { eval: mine } = globalThis;
            const [also] = [eval];
            return [run(mine), run(also), run((...text) => eval(...text)), run((text) => globalThis.eval(...[text], 'more'))]",
        expected: Expected::Value(r#"["EvalError","EvalError","EvalError","EvalError"]"#),
    },
    Attack {
        name: "eval as a name that is bound again",
        code: "const eval = (text) => text; return eval('1')",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "import of data, blob and javascript addresses",
        code: "
            const found = [];
            for (const name of ['data:text/javascript,export default 1', 'data:text/javascript;base64,ZXhwb3J0IGRlZmF1bHQgMQ==',
                'blob:null/00000000-0000-0000-0000-000000000000', 'javascript:1', 'data:application/json,1', 'data:application/wasm;base64,AGFzbQEAAAA=']) {
                try { found.push((await import(name)).default) } catch (e) { found.push(e.name) } }
            return [...new Set(found)]",
        expected: Expected::Value(r#"["TypeError"]"#),
    },
    Attack {
        name: "a static import of a data address",
        code: "import x from 'data:text/javascript,export default 1'; export default x",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "a re-export of a data address",
        code: "export { default } from 'data:text/javascript,export default 1'",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "a JSON module",
        code: "import data from './package.json' with { type: 'json' }; export default data",
        expected: Expected::Error(&[ErrorCode::SyntaxError]),
    },
    Attack {
        name: "an import in an array, a loop and a race",
        code: "
            const all = await Promise.allSettled(['a', 'b', 'c'].map((name) => import(`data:text/javascript,export default '${name}'`)));
            const raced = await Promise.any([import('data:text/javascript,1'), import('data:text/javascript,2')]).catch((e) => e.errors.length);
            return [all.map((it) => it.status), raced]",
        expected: Expected::Value(r#"[["rejected","rejected","rejected"],2]"#),
    },
    Attack {
        name: "a timer that would compile its string",
        code: "
            return ['setTimeout', 'setInterval', 'setImmediate', 'execScript', 'queueMicrotask'].map((name) => {
                try { return typeof globalThis[name]('globalThis.ran = 1', 0) } catch (e) { return e.name } }).concat(typeof ran)",
        expected: Expected::Value(
            r#"["TypeError","TypeError","TypeError","TypeError","TypeError","undefined"]"#,
        ),
    },
    Attack {
        name: "a job with a string in place of a function",
        code: "
            const found = [];
            found.push(await Promise.resolve('kept').then('globalThis.ran = 1'));
            try { new Promise('globalThis.ran = 1') } catch (e) { found.push(e.name) }
            try { new FinalizationRegistry('globalThis.ran = 1') } catch (e) { found.push(e.name) }
            try { [1].map('globalThis.ran = 1') } catch (e) { found.push(e.name) }
            return found.concat(typeof ran)",
        expected: Expected::Value(r#"["kept","TypeError","TypeError","TypeError","undefined"]"#),
    },
    Attack {
        name: "replacement patterns and flags of regular expressions are no code",
        code: r#"
            return ['x'.replace(/x/, '${globalThis.ran = 1}'), 'x'.replace(/x/, "$&$`$'$$"), (() => { try { return RegExp('(?{globalThis.ran = 1})') } catch (e) { return e.name } })(),
                (() => { try { return RegExp('x', 'e') } catch (e) { return e.name } })(), typeof ran]"#,
        expected: Expected::Value(
            r#"["${globalThis.ran = 1}","x$","SyntaxError","SyntaxError","undefined"]"#,
        ),
    },
    Attack {
        name: "the source of a regular expression that would close its literal",
        code: r"
            const made = new RegExp('/;globalThis.ran=1;/' + '\n');
            return [made.source, String(made), typeof ran]",
        expected: Expected::Value(r#"["\\/;globalThis.ran=1;\\/\\n","/\\/;globalThis.ran=1;\\/\\n/","undefined"]"#),
    },
    Attack {
        name: "a template with eval and Function as its tag",
        code: "
            const found = [];
            found.push(Array.isArray(eval`globalThis.ran = 1`));
            try { found.push(typeof Function`return 1`) } catch (e) { found.push(e.name) }
            try { found.push(typeof (async () => {}).constructor`return ${1}`) } catch (e) { found.push(e.name) }
            return found.concat(typeof ran)",
        expected: Expected::Value(r#"[true,"EvalError","EvalError","undefined"]"#),
    },
    Attack {
        name: "JSON.parse and its reviver are no eval",
        code: r#"
            const seen = [];
            for (const text of ['{"a":(globalThis.ran=1)}', 'globalThis.ran = 1', '{"__proto__":1,}', '{"a":1}//']) {
                try { JSON.parse(text); seen.push('parsed') } catch (e) { seen.push(e.name) } }
            return seen.concat(typeof ran, Object.getPrototypeOf(JSON.parse('{"__proto__":null}')) === Object.prototype)"#,
        expected: Expected::Value(
            r#"["SyntaxError","SyntaxError","SyntaxError","SyntaxError","undefined",true]"#,
        ),
    },
    Attack {
        name: "patched hooks that V8 asks before it refuses",
        code: "
            const seen = [];
            for (const key of ['allowCodeGeneration', 'isCode', 'codeLike', 'toString', 'trustedTypes']) {
                Object.defineProperty(String.prototype, key, { get() { seen.push(key); return () => 'return 1' }, configurable: true }); }
            Object.defineProperty(globalThis, 'trustedTypes', { value: { createPolicy: () => ({ createScript: (x) => x }) } });
            try { Function('return 1')(); seen.push('made') } catch (e) { seen.push(e.name) }
            try { eval('1'); seen.push('made') } catch (e) { seen.push(e.name) }
            return seen",
        expected: Expected::Value(r#"["EvalError","EvalError"]"#),
    },
    Attack {
        name: "a patched EvalError is not what is thrown",
        code: "
            const Real = EvalError;
            globalThis.EvalError = class extends Error { constructor() { super(); globalThis.ran = 1 } };
            Object.defineProperty(Real.prototype, 'constructor', { value: (text) => text });
            try { eval('1') } catch (e) { return [e instanceof Real, e.constructor('mine'), typeof ran, Object.getPrototypeOf(Real) === Error] }",
        expected: Expected::Value(r#"[true,"mine","undefined",true]"#),
    },
    Attack {
        name: "eval within an overflowing stack",
        code: "
            const kinds = new Set();
            const descend = () => { try { eval('1'); kinds.add('made') } catch (e) { kinds.add(e.name) } try { descend() } catch (e) { kinds.add(e.name) } };
            descend();
            return [kinds.has('made'), kinds.has('EvalError')]",
        expected: Expected::Value("[false,true]"),
    },
    Attack {
        name: "a function's text read back and compiled",
        code: "
            const secret = () => globalThis.ran = 1;
            const text = String(secret);
            const found = [];
            for (const attempt of [() => eval(`(${text})`)(), () => Function(`return ${text}`)()()]) { try { attempt() } catch (e) { found.push(e.name) } }
            return found.concat(typeof ran)",
        expected: Expected::Value(r#"["EvalError","EvalError","undefined"]"#),
    },
    Attack {
        name: "a string sent to a tool and back is only a string",
        code: "
            const text = await mcp.call('test.echo.it', { code: 'globalThis.ran = 1', __proto__: { x: 1 } });
            return [typeof text.code, typeof ran, 'x' in text]",
        expected: Expected::Value(r#"["string","undefined",false]"#),
    },
    Attack {
        name: "code hidden in a directive, a label and an unclosed string",
        code: "\"use strict\"; \"globalThis.ran = 1\"; ran: { break ran } return typeof ran + '\\\n}; globalThis.ran = 1; {'",
        expected: Expected::Value(r#""undefined}; globalThis.ran = 1; {""#),
    },
];
