//! Attacks by what is returned or sent: values without JSON, values that change while they are written, and endless
//! ones.

use host_client::ErrorCode;

use crate::hostile::attack::{Attack, Expected};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "a cycle through a getter, an array and a Map",
        code: "const it = { list: [] }; Object.defineProperty(it, 'self', { get: () => it.list, enumerable: true }); it.list.push({ deep: it }); return it",
        expected: Expected::Error(&[ErrorCode::NotSerializable]),
    },
    Attack {
        name: "a cycle that only toJSON makes",
        code: "const it = { toJSON() { return { again: it } } }; return it",
        expected: Expected::Error(&[ErrorCode::EvalError, ErrorCode::NotSerializable]),
    },
    Attack {
        name: "a new object at every level, without end",
        code: "const make = () => ({ get next() { return make() } }); return make()",
        expected: Expected::Error(&[ErrorCode::NotSerializable]),
    },
    Attack {
        name: "a toJSON that returns itself",
        code: "const it = { x: 1, toJSON() { return it } }; return it",
        expected: Expected::Value(r#"{"x":1}"#),
    },
    Attack {
        name: "a BigInt, a symbol and a function within arguments",
        code: "
            const codes = [];
            for (const it of [1n, { a: [1n] }, { get a() { return 1n } }, Symbol('x'), () => 1, class {}, mcp.call, new Proxy(() => 1, {})]) {
                await mcp.call('test.echo.it', it).then((back) => codes.push(back), (e) => codes.push(e.code ?? e.name)); }
            return codes",
        expected: Expected::Value(
            r#"["NOT_SERIALIZABLE","NOT_SERIALIZABLE","NOT_SERIALIZABLE","NOT_SERIALIZABLE","NOT_SERIALIZABLE","NOT_SERIALIZABLE","NOT_SERIALIZABLE","NOT_SERIALIZABLE"]"#,
        ),
    },
    Attack {
        name: "a toJSON on BigInt.prototype and on Symbol.prototype",
        code: "
            BigInt.prototype.toJSON = function () { return `${this}n` };
            Symbol.prototype.toJSON = function () { return 'mine' };
            return { big: [10n], symbol: [Symbol('x')], own: Symbol('x') }",
        expected: Expected::Value(r#"{"big":["10n"],"symbol":[null]}"#),
    },
    Attack {
        name: "100 levels go, 101 do not",
        code: "
            const nest = (levels, wrap) => { let it = 1; for (let i = 0; i < levels; i++) it = wrap(it); return it };
            const codes = [];
            for (const wrap of [(it) => [it], (it) => ({ it })]) for (const levels of [99, 100, 101, 1_000]) {
                await mcp.call('test.echo.it', nest(levels, wrap)).then(() => codes.push(levels), (e) => codes.push(e.code)); }
            return codes",
        expected: Expected::Value(
            r#"[99,100,"NOT_SERIALIZABLE","NOT_SERIALIZABLE",99,100,"NOT_SERIALIZABLE","NOT_SERIALIZABLE"]"#,
        ),
    },
    Attack {
        name: "100,000 levels of objects, arrays and toJSON",
        code: "
            const nest = (wrap) => { let it = 1; for (let i = 0; i < 100_000; i++) it = wrap(it); return it };
            const codes = [];
            for (const wrap of [(it) => [it], (it) => ({ it }), (it) => ({ toJSON: () => it }), (it) => [{ it }]]) {
                await mcp.call('test.echo.it', nest(wrap)).then(() => codes.push('sent'), (e) => codes.push(e.code ?? e.name)); }
            return codes.filter((code) => code === 'NOT_SERIALIZABLE').length >= 3",
        expected: Expected::Value("true"),
    },
    Attack {
        name: "a chain of proxies 100,000 long",
        code: "let it = {}; for (let i = 0; i < 100_000; i++) it = new Proxy(it, {}); return it",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "a chain of prototypes 100,000 long",
        code: "let it = { end: 1 }; for (let i = 0; i < 100_000; i++) it = Object.create(it); it.own = 2; return [it.end, it]",
        expected: Expected::Value(r#"[1,{"own":2}]"#),
    },
    Attack {
        name: "a string full of brackets is not nesting",
        code: r#"return ['['.repeat(10_000), '{"\\"['.repeat(1_000), { ['{'.repeat(500)]: '"' }].map((it) => JSON.stringify(it).length)"#,
        expected: Expected::Value("[10002,8002,509]"),
    },
    Attack {
        name: "a result full of brackets in strings and keys",
        code: r#"return { '[{[{"\\': '\\"[[[[[[' , a: '{'.repeat(3), b: '\\' }"#,
        expected: Expected::Value(r#"{"[{[{\"\\":"\\\"[[[[[[","a":"{{{","b":"\\"}"#),
    },
    Attack {
        name: "a sparse array of the greatest length",
        code: "const it = []; it.length = 2 ** 32 - 1; return it",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "a sparse array with a few holes",
        code: "const it = [1, , 3]; it[5] = 6; it.named = 7; it[-1] = 8; return it",
        expected: Expected::Value("[1,null,3,null,null,6]"),
    },
    Attack {
        name: "lone surrogates in values, keys, at the ends and in pieces",
        code: r"return { a: '\ud800', b: '\udc00\ud800', c: 'x\ud83d', d: '\ud83d\ude00', ['\udfff']: ['\udbff\udbff\udfff'] }",
        expected: Expected::Value(
            "{\"a\":\"\u{FFFD}\",\"b\":\"\u{FFFD}\u{FFFD}\",\"c\":\"x\u{FFFD}\",\"d\":\"\u{1F600}\",\"\u{FFFD}\":[\"\u{FFFD}\u{10FFFF}\"]}",
        ),
    },
    Attack {
        name: "text that looks like the escape of a surrogate",
        code: r#"return ['\\ud800', '\\\ud800', '\\\\ud800', '"\\ud800', '\n\\udfff\\']"#,
        expected: Expected::Value(
            "[\"\\\\ud800\",\"\\\\\u{FFFD}\",\"\\\\\\\\ud800\",\"\\\"\\\\ud800\",\"\\n\\\\udfff\\\\\"]",
        ),
    },
    Attack {
        name: "keys that differ only in their lone surrogates",
        code: r"
            const it = await mcp.call('test.echo.it', { '\ud800': 1, '\udc00': 2 });
            return [Object.keys(it), Object.keys(it).length <= 2]",
        expected: Expected::Value("[[\"\u{FFFD}\"],true]"),
    },
    Attack {
        name: "keys that are __proto__, constructor and empty",
        code: r#"
            const it = await mcp.call('test.echo.it', JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"":0,"toString":1}'));
            return [Object.keys(it).sort(), Object.getPrototypeOf(it) === Object.prototype, ({}).polluted === undefined, it.polluted === undefined]"#,
        expected: Expected::Value(r#"[["","__proto__","constructor","toString"],true,true,true]"#),
    },
    Attack {
        name: "an own __proto__ key in the result",
        code: "return Object.defineProperty({ a: 1 }, '__proto__', { value: { admin: true }, enumerable: true })",
        expected: Expected::Value(r#"{"a":1,"__proto__":{"admin":true}}"#),
    },
    Attack {
        name: "an object without a prototype, one with a strange one, and a class",
        code: "return [Object.create(null, { a: { value: 1, enumerable: true } }), Object.setPrototypeOf({ a: 1 }, Array.prototype), new (class A { b = 2; #c = 3 })()]",
        expected: Expected::Value(r#"[{"a":1},{"a":1},{"b":2}]"#),
    },
    Attack {
        name: "a getter that throws what is no error",
        code: "return { get a() { throw { code: 'TIMEOUT', message: 'mine' } } }",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "a getter that grows the array while it is written",
        code: "const it = [1]; Object.defineProperty(it, 1, { get() { for (let i = 2; i < 100; i++) it[i] = i; it.length = 5; return 'grown' }, enumerable: true }); return it",
        expected: Expected::Value(r#"[1,"grown"]"#),
    },
    Attack {
        name: "a getter that shrinks the array while it is written",
        code: "const it = [{ toJSON() { it.length = 1; return 'first' } }, 2, 3, 4]; return it",
        expected: Expected::Value(r#"["first",null,null,null]"#),
    },
    Attack {
        name: "a getter that changes the kind and the prototype of what is written",
        code: "
            const it = [1.5, 2.5, { toJSON() { it[3] = 'text'; it[4] = { a: 1 }; Object.setPrototypeOf(it, { 6: 'inherited' }); it.length = 6; return 0 } }, 4.5, 5.5, 6.5, 7.5];
            return it",
        expected: Expected::Value(r#"[1.5,2.5,0,"text",{"a":1},6.5,"inherited"]"#),
    },
    Attack {
        name: "a getter that deletes and adds the keys after it",
        code: "const it = { get a() { delete it.b; it.c = 'changed'; it.z = 'new'; Object.defineProperty(it, 'd', { enumerable: false }); return 1 }, b: 2, c: 3, d: 4 }; return it",
        expected: Expected::Value(r#"{"a":1,"c":"changed","d":4}"#),
    },
    Attack {
        name: "a getter that empties the heap of a long string it is in",
        code: "
            let text = 'x'.repeat(1_000); for (let i = 0; i < 6; i++) text += text;
            const it = { text, get a() { it.text = null; text = null; const junk = []; for (let i = 0; i < 100; i++) junk.push(new Array(1_000).fill(i)); return junk.length }, again: 1 };
            return Object.keys(it).length && { size: JSON.stringify(it).length, a: it.a }",
        expected: Expected::Value(r#"{"size":64029,"a":100}"#),
    },
    Attack {
        name: "a proxy whose ownKeys lies, repeats and grows",
        code: "
            const codes = [];
            for (const ownKeys of [() => ['a', 'a'], () => [1], () => ({ length: 1, 0: 'x' }), () => null, () => Array.from({ length: 1_000 }, (_, i) => `k${i}`), () => [Symbol('x'), 'y']]) {
                const it = new Proxy({}, { ownKeys, getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true, value: 1 }), get: (_, key) => typeof key === 'string' && key !== 'toJSON' ? 1 : undefined });
                await mcp.call('test.echo.it', it).then((back) => codes.push(Object.keys(back).length), (e) => codes.push(e.name)); }
            return codes",
        expected: Expected::Value(r#"["TypeError","TypeError",1,"TypeError",1000,1]"#),
    },
    Attack {
        name: "a proxy of an array with an endless length",
        code: "return new Proxy([], { get: (_, key) => key === 'length' ? 200_000 : key === 'toJSON' ? undefined : 'x'.repeat(100) })",
        expected: Expected::Error(&[ErrorCode::ResultLimit]),
    },
    Attack {
        name: "a revoked proxy as the result and deep in it",
        code: "const { proxy, revoke } = Proxy.revocable([], {}); const it = { a: [{ get b() { revoke(); return 1 } }, proxy] }; return it",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "a proxy that is revoked while the search for what is wrong walks over it",
        code: "const { proxy, revoke } = Proxy.revocable({ x: 1 }, {}); let n = 0; return { get a() { if (n++) revoke(); return 1 }, proxy, big: 1n }",
        expected: Expected::Error(&[ErrorCode::NotSerializable, ErrorCode::EvalError]),
    },
    Attack {
        name: "the search for a BigInt among getters that make objects without end",
        code: "const wide = () => new Proxy({}, { ownKeys: () => Array.from({ length: 50 }, (_, i) => `k${i}`), getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }), get: (_, key) => key === 'toJSON' ? () => 1n : wide() }); return wide()",
        expected: Expected::Error(&[ErrorCode::NotSerializable]),
    },
    Attack {
        name: "numbers without JSON, and dates that are none",
        code: "return [NaN, Infinity, -Infinity, -0, 1e400, 5e-324, 2 ** 53, new Number(NaN), new Date(8.64e15)]",
        expected: Expected::Value(
            r#"[null,null,null,0,null,5e-324,9007199254740992,null,"+275760-09-13T00:00:00.000Z"]"#,
        ),
    },
    Attack {
        name: "typed arrays, buffers, views and what was detached",
        code: "const gone = new Uint8Array(4); gone.buffer.transfer(); return [new Uint8Array([1, 2]), new ArrayBuffer(4), new DataView(new ArrayBuffer(1)), gone, new Float64Array([NaN])]",
        expected: Expected::Value(r#"[{"0":1,"1":2},{},{},{},{"0":null}]"#),
    },
    Attack {
        name: "collections, iterators, errors and namespaces",
        code: "return [new Map([[1, 2]]), new Set([1]), new WeakMap(), new WeakSet(), (function* () { yield 1 })(), /x/g, new Error('x'), Intl, import.meta, mcp]",
        expected: Expected::Value("[{},{},{},{},{},{},{},{},{},{}]"),
    },
    Attack {
        name: "boxed strings, numbers and booleans with own hooks",
        code: "return [new String('x'), new Number(1), new Boolean(false), Object.assign(new String('ab'), { toString: () => 'mine' }), Object.assign(new Number(1), { valueOf: () => 7 })]",
        expected: Expected::Value(r#"["x",1,false,"mine",7]"#),
    },
    Attack {
        name: "the global object as the result",
        code: "return globalThis",
        expected: Expected::Value(r#"{"mcp":{}}"#),
    },
    Attack {
        name: "huge numeric keys and keys that only look numeric",
        code: "return { 4294967295: 'a', 4294967294: 'b', '-1': 'c', '01': 'd', 1e21: 'e', 0: 'f' }",
        expected: Expected::Value(r#"{"0":"f","4294967294":"b","4294967295":"a","-1":"c","01":"d","1e+21":"e"}"#),
    },
    Attack {
        name: "an object with 100,000 keys there and back",
        code: "
            const it = {}; for (let i = 0; i < 50_000; i++) { it[i] = 0; it['k' + i] = 0 }
            const back = await mcp.call('test.echo.it', it);
            return Object.keys(back).length",
        expected: Expected::Value("100000"),
    },
    Attack {
        name: "text with NUL, line separators, escapes and controls",
        code: r"
            let text = ''; for (let i = 0; i < 0x300; i++) text += String.fromCharCode(i); text += '\u2028\u2029\ufeff\ufffe\uffff\u{10ffff}</script>';
            const back = await mcp.call('test.echo.it', { [text]: text });
            return [back[text] === text, Object.keys(back)[0] === text]",
        expected: Expected::Value("[true,true]"),
    },
    Attack {
        name: "a thenable that never settles",
        code: "return { then() {} }",
        expected: Expected::Error(&[ErrorCode::Unsettled]),
    },
    Attack {
        name: "a thenable that settles twice, late and with another thenable",
        code: "return { then(resolve, reject) { resolve({ then(next) { Promise.resolve().then(() => { next('first'); next('second') }) } }); reject(new Error('third')); throw new Error('fourth') } }",
        expected: Expected::Value(r#""first""#),
    },
    Attack {
        name: "a thenable that resolves to itself",
        code: "let resolve; const promise = new Promise((it) => { resolve = it }); resolve(promise); return promise",
        expected: Expected::Error(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "thenables within thenables without end",
        code: "let n = 0; const make = () => ({ then(resolve) { if (n++ < 20_000) resolve(make()); else resolve(n) } }); return make()",
        expected: Expected::Value("20001"),
    },
    Attack {
        name: "a default export that is a thenable function and a main that returns one",
        code: "export default Object.assign(() => ({ then: (resolve) => resolve(() => 1n) }), { then: undefined })",
        expected: Expected::Error(&[ErrorCode::NotSerializable]),
    },
    Attack {
        name: "a toJSON that returns nothing, a function and a symbol",
        code: "return [{ toJSON() {} }, { toJSON: () => () => 1 }, { toJSON: () => Symbol('x') }, { toJSON: 5 }, { a: { toJSON() {} } }]",
        expected: Expected::Value(r#"[null,null,null,{"toJSON":5},{}]"#),
    },
    Attack {
        name: "raw JSON, which could be what no reader takes",
        code: "return [typeof JSON.rawJSON, typeof JSON.isRawJSON, Object.keys(JSON).length]",
        expected: Expected::Value(r#"["undefined","undefined",0]"#),
    },
    Attack {
        name: "a BigInt in a box",
        code: "return { a: [Object(1n)] }",
        expected: Expected::Error(&[ErrorCode::NotSerializable]),
    },
];
