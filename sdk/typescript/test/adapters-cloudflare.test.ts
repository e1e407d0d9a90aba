// Cloudflare's code mode with its own tool and schemas, and with this package's executor in the place of its runtime.

import assert from "node:assert/strict";
import * as nodeModule from "node:module";
import { test } from "node:test";

import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Host } from "sandbox-relay";
import { z } from "zod";

import { callsThenSays } from "./replies.js";

// The package names its runtime where it is loaded; nothing of it is used here.
const { registerHooks } = nodeModule as unknown as { registerHooks(hooks: object): void };
registerHooks({
  resolve: (name: string, context: object, next: (name: string, context: object) => object) =>
    name === "cloudflare:workers"
      ? { url: "cloudflare:workers", format: "module", shortCircuit: true }
      : next(name, context),
  load: (url: string, context: object, next: (url: string, context: object) => object) => {
    const classes = ["RpcTarget", "DurableObject", "WorkerEntrypoint"].map((name) => `export class ${name} {}`);
    return url === "cloudflare:workers"
      ? { format: "module", source: classes.join("\n"), shortCircuit: true }
      : next(url, context);
  },
});

test("code mode's tool runs its program here, with an approval", async () => {
  const { createCodeTool } = await import("@cloudflare/codemode/ai");
  const asked: string[] = [];
  const ordered: string[] = [];
  await using host = await Host.start({
    approve: ({ tool }) => {
      asked.push(tool);
      return true;
    },
  });
  const stock = tool({
    description: "Tells the stock",
    inputSchema: z.object({ item: z.string() }),
    execute: async ({ item }) => ({ item, count: item === "pear" ? 0 : 7 }),
  });
  const order = tool({
    description: "Orders an item",
    inputSchema: z.object({ item: z.string() }),
    execute: async ({ item }) => {
      ordered.push(item);
      return `ordered ${item}`;
    },
  });
  const effect = (name: string) => (name === "codemode.order" ? "mutating" : "readOnly");
  const codemode = createCodeTool({ tools: { stock, order }, executor: host.cloudflareExecutor({ effect }) });
  const code = `async () => {
    const all = await Promise.all(["apple", "pear"].map((item) => codemode.stock({ item })));
    console.log(all.length);
    return Promise.all(all.filter(({ count }) => count === 0).map(({ item }) => codemode.order({ item })));
  }`;
  const model = new MockLanguageModelV4({ doGenerate: callsThenSays("codemode", { code }) });
  const { steps, text } = await generateText({ model, prompt: "Order", tools: { codemode }, stopWhen: stepCountIs(3) });
  assert.equal(text, "Pears were ordered.");
  assert.deepEqual(steps[0]?.toolResults[0]?.output, { result: ["ordered pear"], logs: ["2"] });
  assert.deepEqual([asked, ordered], [["codemode.order"], ["pear"]]);
});

test("an executor never throws, and each execution has its own functions", async () => {
  await using host = await Host.start();
  const executor = host.cloudflareExecutor({ effect: "readOnly", wallMs: 5_000 });
  const runs = [1, 2, 3].map((number) =>
    executor.execute("async () => { console.warn('hm'); return codemode.number() }", { number: async () => number }),
  );
  const results = await Promise.all(runs);
  assert.deepEqual(
    results.map(({ result, logs }) => [result, logs]),
    [1, 2, 3].map((number) => [number, ["[warn] hm"]]),
  );
  const failing = async () => {
    throw new Error("no stock");
  };
  const { error } = await executor.execute("async () => codemode.stock()", { stock: failing });
  assert.match(error ?? "", /no stock/);
  const prelude = await executor.execute("1", [{ name: "codemode", fns: {}, prelude: "codemode.step = 1" }]);
  assert.match(prelude.error ?? "", /prelude/);
  const connected = await executor.execute("1", {}, { connectors: [{}] });
  assert.match(connected.error ?? "", /connectors/);
  await host.close();
  assert.match((await executor.execute("async () => 1", {})).error ?? "", /closed|CANCELLED/);
});
