//! Attacks on and with what code can ask for beside `mcp`: timers, server objects, the store, the console.

use host_client::ErrorCode;

use crate::hostile::attack::{Attack, Expected};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "timers that set timers that set timers",
        code: "const again = () => { setTimeout(again); setTimeout(again) }; again(); await new Promise(() => {})",
        expected: Expected::Error(&[ErrorCode::EvalError, ErrorCode::CpuLimit, ErrorCode::MemoryLimit]),
    },
    Attack {
        name: "timers that hold much",
        code: "for (;;) setTimeout(() => {}, 1e9, ...Array(50_000).fill('x'))",
        expected: Expected::Error(&[ErrorCode::MemoryLimit, ErrorCode::EvalError]),
    },
    Attack {
        name: "a timer that is always due keeps no result from coming",
        code: "let ticks = 0; const always = () => { ticks++; setTimeout(always, 0) }; always();
            return [await mcp.call('test.add', {a: 1, b: 2}), ticks > 0]",
        expected: Expected::Value("[3,true]"),
    },
    Attack {
        name: "timers whose functions run forever",
        code: "setTimeout(() => { for (;;); }, 1); await new Promise(() => {})",
        expected: Expected::Error(&[ErrorCode::CpuLimit]),
    },
    Attack {
        name: "a delay that is code",
        code: "let seen = 0; const delay = {valueOf() { seen++; for (let i = 0; i < 100; i++) setTimeout(() => {}, 0); return 1 }};
            setTimeout(() => {}, delay); clearTimeout({valueOf() { seen++; return 1 }});
            try { setInterval(() => {}, {valueOf() { throw 7 }}) } catch (e) { seen += e }
            return seen",
        expected: Expected::Value("9"),
    },
    Attack {
        name: "the delay's own code, set aside where there is no room for its stack",
        code: "const deep = {valueOf() { setTimeout(() => {}, deep) }}; try { setTimeout(() => {}, deep) } catch (e) { return e.name }",
        expected: Expected::Value("\"RangeError\""),
    },
    Attack {
        name: "server objects with patched prototypes",
        code: "const seen = [];
            for (const base of [Object.prototype, Function.prototype, Promise.prototype]) for (const key of ['add', 'get', 'then', 'value', 'length', 'call', 'apply', 'name'])
                try { Object.defineProperty(base, key, {set() { seen.push('set ' + key) }, get() { seen.push('get ' + key) }, configurable: true}) } catch {}
            const sum = test.add({a: 1, b: 2});
            for (const base of [Object.prototype, Function.prototype, Promise.prototype]) for (const key of ['add', 'get', 'then', 'value', 'length', 'call', 'apply', 'name'])
                delete base[key];
            return [typeof sum, seen.filter((it) => it.startsWith('set'))]",
        expected: Expected::Value("[\"object\",[]]"),
    },
    Attack {
        name: "server objects that are changed",
        code: "const refused = [];
            for (const change of [() => { test.add = () => 7 }, () => { delete test.add }, () => { test.more = 1 },
                () => { Object.setPrototypeOf(test, {then: 1}) }, () => { servers.test.add = 1 }])
                try { change(); refused.push(false) } catch (e) { refused.push(e.name) }
            return [refused, await test.add({a: 1, b: 2})]",
        expected: Expected::Value(r#"[["TypeError","TypeError","TypeError","TypeError","TypeError"],3]"#),
    },
    Attack {
        name: "server objects that are returned, printed and awaited",
        code: "console.log(test, servers, `${typeof await test}`); return [test, await servers]",
        expected: Expected::Any(&[]),
    },
    Attack {
        name: "a store that is filled from inside its own writing",
        code: "let depth = 0; const evil = {toJSON() { if (depth++ < 500) store.set('k' + depth, evil); return 'x'.repeat(1000) }};
            try { store.set('k', evil) } catch (e) { return e.name }
            return store.keys().length <= 1000",
        expected: Expected::Any(&[ErrorCode::EvalError]),
    },
    Attack {
        name: "names of the store that are names of JavaScript",
        code: "for (const key of ['__proto__', 'constructor', 'then', 'toJSON', '']) store.set(key, key);
            return [store.keys(), store.get('__proto__'), {}.polluted]",
        expected: Expected::Value(
            r#"[["","__proto__","constructor","then","toJSON"],"__proto__",null]"#,
        ),
    },
    Attack {
        name: "many large writes to the store",
        code: "for (let i = 0; ; i++) store.set('k' + i % 5, 'x'.repeat(50_000))",
        expected: Expected::Error(&[ErrorCode::EvalError, ErrorCode::CpuLimit]),
    },
    Attack {
        name: "console methods on other receivers, and as constructors",
        code: "const {log, group, time} = console; log('a'); group.call(5, 'b'); Reflect.apply(time, null, ['t']);
            try { new log('c') } catch (e) { return e.name }",
        expected: Expected::Value("\"TypeError\""),
    },
    Attack {
        name: "formats of objects that are code",
        code: "const evil = new Proxy(function () {}, {get() { throw 1 }, apply() { throw 2 }, getOwnPropertyDescriptor() { throw 3 }, ownKeys() { throw 4 }});
            console.log('%s %d %i %f %j %o', evil, evil, evil, evil, evil, evil); console.table(evil); console.table([evil]); console.dir(evil);
            console.count(evil); console.time(evil); console.group(evil); console.assert(false, evil); return 'still here'",
        expected: Expected::Value("\"still here\""),
    },
    Attack {
        name: "a table with getters that throw and rows that grow",
        code: "const rows = [{get a() { rows.push({}); throw new Error('no') }}, {b: 1}]; console.table(rows); return rows.length < 500",
        expected: Expected::Value("true"),
    },
];
