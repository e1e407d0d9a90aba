// What models meet: execute_code for any agent loop, and programs of a model.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Host, type ModelRequest, SandboxError } from "sandbox-relay";

import { PROGRAM, shop } from "./tools.js";

test("execute_code is there for any loop, in the shape of each provider", async () => {
  const { tools } = shop();
  await using host = await Host.start({ tools, approve: () => true, limits: { toolCalls: 50 } });
  const conversation = host.executeCode();
  const definitions = conversation.definitions();
  const names = definitions.map(({ name }) => name);
  assert.deepEqual(names, ["execute_code", "search_tools", "describe_tools", "read_output"]);
  assert.match(definitions[0]?.description ?? "", /shop\.stock/);
  assert.match(JSON.stringify(definitions[0]?.inputSchema), /"code":\{[^}]*"type":"string"/);
  assert.ok("function" in (conversation.definitionsFor("openaiChat")[0] ?? {}));
  assert.ok("input_schema" in (conversation.definitionsFor("anthropic")[0] ?? {}));
  const report = await conversation.call("execute_code", JSON.stringify({ code: PROGRAM }));
  assert.equal(report.isError, false);
  assert.match(report.text, /ordered 12 pear/);
  const wrong = await conversation.call("execute_code", { code: "return nothing.there" });
  assert.ok(wrong.isError && /nothing is not defined/.test(wrong.text));
  const found = await conversation.call("search_tools", { query: "order" });
  assert.match(found.text, /shop\.order/);
});

test("a long result is read in parts, and a signal stops a call", async () => {
  await using host = await Host.start({ output: { cutCharacters: 1_000 } });
  const conversation = host.executeCode();
  const long = await conversation.call("execute_code", {
    code: "return Array.from({length: 20000}, (_, i) => 'row ' + i)",
  });
  assert.ok(long.handle !== null && long.text.length < 20_000);
  const part = await conversation.call("read_output", { handle: long.handle, path: "[19999]" });
  assert.match(part.text, /row 19999/);
  const controller = new AbortController();
  const call = conversation.call("execute_code", { code: "for (;;) {}" }, { signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(call, /enough/);
});

test("a model answers a request with a program, and repairs it once", async () => {
  const { tools } = shop();
  const requests: ModelRequest[] = [];
  const replies = ["return (await shop.items()).lenght.toFixed()", { text: "return (await shop.items()).length" }];
  await using host = await Host.start({ tools });
  const model = async (request: ModelRequest) => {
    requests.push(request);
    return replies.shift() ?? "";
  };
  const answer = await host.answer<number>("How many items are there?", { model, overviewTokens: 500 });
  assert.equal(answer.value, 3);
  assert.equal(answer.code, "return (await shop.items()).length");
  assert.equal(answer.attempts.length, 2);
  assert.match(requests[0]?.system ?? "", /shop\.stock/);
  assert.match(requests[1]?.messages.at(-1)?.content ?? "", /lenght|undefined/);
  const failing = () => Promise.reject(new Error("the model is asleep"));
  await assert.rejects(host.answer("Again", { model: failing }), (error: SandboxError) => {
    assert.ok(error instanceof SandboxError && error.kind === "model");
    assert.match(error.message, /the model is asleep/);
    return true;
  });
  const controller = new AbortController();
  let isTold = false;
  const slow = host.answer("Again", {
    signal: controller.signal,
    model: (_, { signal }) => {
      signal.addEventListener("abort", () => {
        isTold = true;
      });
      controller.abort(new Error("never mind"));
      return new Promise(() => undefined);
    },
  });
  await assert.rejects(slow, /never mind/);
  await host.close();
  assert.ok(isTold);
});
