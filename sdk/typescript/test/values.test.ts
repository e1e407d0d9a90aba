// Values that JavaScript has and JSON has not: each is refused with a sentence, and whoever waits is answered.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Host, type HostOptions, ToolError, tool } from "sandbox-relay";

/** Makes a tool that reads, without arguments. */
function reads(name: string, run: () => unknown) {
  return tool(name, { effect: "readOnly", run });
}

/** Makes a function that throws something. */
function throws(thrown: unknown) {
  return () => {
    throw thrown;
  };
}

test("whatever a tool throws is an answer", async () => {
  const tools = [
    reads("bad.object", throws(Object.assign(new Error(), { message: { status: 500 } }))),
    reads("bad.number", throws(Object.assign(new Error(), { message: 500 }))),
    reads("bad.bare", throws(Object.create(null))),
    reads("bad.symbol", throws(Symbol("odd"))),
    reads("bad.code", throws(new ToolError(5 as never, "a number as the code"))),
    reads("bad.proxy", throws(new Proxy({}, { getPrototypeOf: throws(new Error("it does not say")) }))),
  ];
  await using host = await Host.start({ tools });
  await assert.rejects(host.call("bad.object"), /TOOL_FAILED.*object/s);
  await assert.rejects(host.call("bad.number"), /TOOL_FAILED.*500/s);
  await assert.rejects(host.call("bad.bare"), /TOOL_FAILED.*cannot be shown/s);
  await assert.rejects(host.call("bad.symbol"), /TOOL_FAILED.*Symbol\(odd\)/s);
  await assert.rejects(host.call("bad.code"), /TOOL_FAILED.*cannot be passed on/s);
  await assert.rejects(host.call("bad.proxy"), /TOOL_FAILED.*cannot be shown/s);
});

test("a token that is no string is told", { timeout: 30_000 }, async () => {
  for (const token of [undefined, null, 5, { token: "secret" }]) {
    await using host = await Host.start({ relay: { url: "ws://127.0.0.1:9/ws", token: () => token as never } });
    await assert.rejects(host.execute("return [1, 2].length"), /`relay\.token` gave \w+: it has to give a string/);
  }
});

test("results that JSON would change are refused, with the place and what to return", async () => {
  const values: Record<string, unknown> = {
    map: { rows: [{ by: new Map([["a", 1]]) }] },
    set: new Set([1]),
    bytes: { "the bytes": new Uint8Array(3) },
    error: new RangeError("out of paper"),
    settled: [{ status: "rejected", reason: new Error("no") }],
    nan: { mean: Number.NaN },
    infinite: [1, -Infinity],
    bigint: { id: 5n },
    promise: { later: Promise.resolve(1) },
    date: { at: new Date(0), none: undefined, same: [[], []] },
  };
  const cycle: { self: unknown[] } = { self: [] };
  cycle.self.push(cycle);
  values.cycle = cycle;
  const tools = Object.entries(values).map(([name, value]) => reads(`gives.${name}`, () => value));
  await using host = await Host.start({ tools });
  const refused = (name: string, text: RegExp) => assert.rejects(host.call(`gives.${name}`), text);
  await refused("map", /`rows\[0\]\.by` of the result of gives\.map: a Map.*Object\.fromEntries/s);
  await refused("set", /the result of gives\.set: a Set.*array/s);
  await refused("bytes", /`\["the bytes"\]` of the result.*base64/s);
  await refused("error", /the result of gives\.error: an Error.*throw it/s);
  await refused("settled", /`\[0\]\.reason` of the result.*Error.*message/s);
  await refused("nan", /`mean` of the result.*NaN.*finite/s);
  await refused("infinite", /`\[1\]` of the result.*-Infinity.*finite/s);
  await refused("bigint", /`id` of the result.*bigint.*text/s);
  await refused("promise", /`later` of the result.*Promise.*await/s);
  await refused("cycle", /`self\[0\]` of the result.*contains itself/s);
  assert.deepEqual(await host.call("gives.date"), { at: "1970-01-01T00:00:00.000Z", same: [[], []] });
});

test("arguments that JSON would change are refused", async () => {
  const any = tool("any.echo", { effect: "readOnly", input: { type: "object" }, run: (args) => args });
  await using host = await Host.start({ tools: [any] });
  await assert.rejects(host.call("any.echo", { when: [Number.NaN] }), /`when\[0\]` of the arguments: NaN/);
  await assert.rejects(host.call("any.echo", new Map()), /the arguments: a Map has no JSON form/);
  assert.deepEqual(await host.call("any.echo", { at: new Date(0) }), { at: "1970-01-01T00:00:00.000Z" });
});

test("a number that is not finite is no limit that is left out", async () => {
  const wrong = async (options: HostOptions, text: RegExp) => {
    await assert.rejects(Host.start(options), (error: Error) => {
      assert.ok(error instanceof TypeError);
      assert.match(error.message, text);
      return true;
    });
  };
  const unset = Number(undefined);
  await wrong({ policy: { budget: { calls: unset } } }, /`policy\.budget\.calls` of the options: NaN/);
  await wrong({ policy: { manifest: { "a.*": { timeoutMs: Infinity } } } }, /`policy\.manifest\["a\.\*"\]\.timeoutMs`/);
  await wrong({ limits: { wallMs: unset } }, /`limits\.wallMs`/);
  await wrong({ tools: [tool("a.b", { timeoutMs: unset, run: () => 1 })] }, /`timeoutMs` of the tool a\.b: NaN/);
  await using host = await Host.start();
  assert.throws(() => host.execute("1", { wallMs: Infinity }), /`wallMs` of the options: Infinity/);
  assert.throws(() => host.execute("1", { limits: { toolCalls: unset } }), /`limits\.toolCalls`/);
  assert.throws(() => host.addTool(tool("a.b", { concurrency: unset, run: () => 1 })), /`concurrency`/);
  await assert.rejects(host.answer("one", { model: () => "", replyBytes: unset }), /`replyBytes`/);
});
