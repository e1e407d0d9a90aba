// A host: tools, outcomes, errors, approvals, events, policies, options.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import {
  type ApprovalRequest,
  type ExecutionEvent,
  Host,
  SandboxError,
  ScriptError,
  ToolError,
  tool,
} from "sandbox-relay";
import { z } from "zod";

import { PROGRAM, shop } from "./tools.js";

test("one program calls three tools, one of them with an approval", async () => {
  const { tools, orders } = shop();
  const questions: ApprovalRequest[] = [];
  const approve = async (question: ApprovalRequest) => {
    questions.push(question);
    return "once" as const;
  };
  await using host = await Host.start({ tools, approve });
  const { value, usage, warnings } = await host.execute<{ missing: number; orders: string[] }>(PROGRAM);
  assert.deepEqual(value, { missing: 1, orders: ["ordered 12 pear"] });
  assert.deepEqual(orders, [{ item: "pear", count: 12 }]);
  assert.equal(usage.toolCalls, 5);
  assert.ok(usage.wallMs > 0 && usage.memoryBytes > 0);
  assert.deepEqual(warnings, []);
  const [question] = questions;
  assert.equal(question?.tool, "shop.order");
  assert.equal(question?.effect, "mutating");
  assert.deepEqual(question?.arguments, { item: "pear", count: 12 });
  assert.equal(question?.line, 6);
  assert.match(question?.text ?? "", /shop\.order/);
});

test("what is denied does not run, and the code reads why", async () => {
  const { tools, orders } = shop();
  await using host = await Host.start({ tools, approve: () => ({ deny: "the shop is closed" }) });
  const error = await failed(host.execute(PROGRAM));
  assert.equal(error.code, "EVAL_ERROR");
  assert.match(error.message, /the shop is closed/);
  assert.deepEqual([error.tool, error.toolCode], ["shop.order", "APPROVAL_DENIED"]);
  assert.deepEqual(orders, []);
  assert.equal(error.calls.find(({ tool }) => tool === "shop.stock")?.effect, "readOnly");
});

test("an error says where, what and what to do", async () => {
  await using host = await Host.start();
  const error = await failed(host.execute("console.log('before')\nconst list = null\nreturn list.length"));
  assert.ok(error instanceof SandboxError);
  assert.deepEqual([error.name, error.kind, error.code, error.line], ["ScriptError", "script", "EVAL_ERROR", 3]);
  assert.match(error.reason, /null/);
  assert.deepEqual(error.output, [{ kind: "log", text: "before" }]);
  const limited = await failed(host.execute("for (;;) {}", { wallMs: 200 }));
  assert.equal(limited.limit, "wall_ms");
});

test("errors of tools come through with their messages and codes", async () => {
  const tools = [
    tool("bad.throws", {
      effect: "readOnly",
      run: () => {
        throw new RangeError("out of paper");
      },
    }),
    tool("bad.denies", {
      effect: "readOnly",
      run: async () => {
        throw new ToolError("TOOL_DENIED", "not on Sundays");
      },
    }),
    tool("bad.cycle", {
      effect: "readOnly",
      run: () => {
        const cycle: { self?: unknown } = {};
        cycle.self = cycle;
        return cycle;
      },
    }),
    tool("bad.nothing", { effect: "readOnly", run: () => undefined }),
    tool("bad.refined", {
      effect: "readOnly",
      input: z.object({ even: z.number().refine((number) => number % 2 === 0, "has to be even") }),
      run: ({ even }) => even,
    }),
  ];
  await using host = await Host.start({ tools });
  const code = `
    const caught = [];
    for (const [name, args] of [["throws"], ["denies"], ["cycle"], ["refined", { even: 3 }], ["refined", { even: "3" }]]) {
      try { await mcp.call("bad." + name, args ?? {}) } catch ({ code, message }) { caught.push([code, message]) }
    }
    return [await mcp.call("bad.nothing"), ...caught]`;
  const { value } = await host.execute<[null, ...[string, string][]]>(code, { check: "off" });
  assert.equal(value[0], null);
  const texts = value.slice(1).map((caught) => (caught as [string, string]).join(": "));
  assert.match(texts[0] ?? "", /^TOOL_FAILED: .*out of paper/);
  assert.match(texts[1] ?? "", /^TOOL_DENIED: .*not on Sundays/);
  assert.match(texts[2] ?? "", /^TOOL_FAILED: .*no JSON form/);
  assert.match(texts[3] ?? "", /^INVALID_ARGUMENTS: .*even: has to be even/);
  assert.match(texts[4] ?? "", /^INVALID_ARGUMENTS: /);
});

test("events come in their order, once", async () => {
  await using host = await Host.start({
    tools: [
      tool("slow.work", {
        effect: "readOnly",
        run: (_, context) => {
          context.progress(1, 2, "half of it");
          return context.tool;
        },
      }),
    ],
  });
  const run = host.execute("console.log('hello'); return [await mcp.call('slow.work'), 1]");
  const events: ExecutionEvent[] = [];
  for await (const event of run) {
    events.push(event);
  }
  const types = events.map(({ type }) => type);
  assert.deepEqual(types.slice(0, 3), ["codeReceived", "routeChosen", "started"]);
  assert.equal(types.at(-1), "ended");
  for (const type of ["output", "toolCallStarted", "toolCallProgress", "toolCallFinished", "result"]) {
    assert.ok(types.includes(type as ExecutionEvent["type"]), `${type} is missing in ${types}`);
  }
  const progress = events.find(({ type }) => type === "toolCallProgress");
  assert.ok(progress?.type === "toolCallProgress" && progress.message === "half of it" && progress.total === 2);
  assert.deepEqual((await run).value, ["slow.work", 1]);
  await assert.rejects(run[Symbol.asyncIterator]().next(), /taken before/);
});

test("a policy is an object, a text or a file; the audit has every call", async () => {
  const { tools } = shop();
  const audit = join(mkdtempSync(join(tmpdir(), "sandbox-relay-")), "audit.jsonl");
  await using host = await Host.start({
    tools,
    audit: { path: audit, code: "hashOnly" },
    policy: {
      rules: [
        { tools: ["shop.order"], decision: "allow" },
        { tools: ["shop.stock"], effects: ["readOnly"], decision: "deny", reason: "it is counted" },
      ],
      default: { unknown: "deny" },
      budget: { calls: 5, tools: { "shop.*": { calls: 3 } } },
      manifest: { "shop.order": { timeoutMs: 1_000 } },
    },
  });
  assert.equal(await host.call("shop.order", { item: "plum" }), "ordered 1 plum");
  await assert.rejects(host.call("shop.stock", { item: "plum" }), /TOOL_DENIED.*it is counted/s);
  const records = readFileSync(audit, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.ok(records.some((record) => JSON.stringify(record).includes("shop.order")));
  const order = host.tools().find(({ name }) => name === "shop.order");
  assert.deepEqual([order?.effect, order?.timeoutMs], ["mutating", 1_000]);
  await assert.rejects(
    Host.start({ policy: { toml: '[[rule]]\ntools = ["a.b"]\ndecision = "perhaps"' } }),
    /perhaps.*allow/s,
  );
});

test("mistakes are told with what to write", async () => {
  const wrong = async (options: unknown, text: RegExp) =>
    assert.rejects(Host.start(options as object), (error: Error) => {
      assert.match(error.message, text);
      return true;
    });
  await wrong({ startTimeout: 3 }, /`startTimeout`.*`startTimeoutMs`/);
  await wrong({ relay: { url: "ws://127.0.0.1:1/ws" } }, /relay\.token/);
  await wrong({ mcp: "/no/such/file.json" }, /\/no\/such\/file\.json/);
  await wrong({ limits: { wall: 3 } }, /wall/);
  await wrong({ tools: [...shop().tools, ...shop().tools] }, /two tools named shop\.items/);
  assert.throws(() => tool("nodot", { run: () => 1 }), /server\.tool/);
  await using host = await Host.start();
  assert.throws(() => host.execute("1", { phase: "later" as never }), /later/);
  assert.throws(() => host.runs.get("x"), /journal/);
  await host.close();
  assert.throws(
    () => host.execute("1"),
    (error: SandboxError) => error.kind === "closed",
  );
});

test("a relay elsewhere is asked with fresh tokens, and one that is not there is named", async () => {
  let asked = 0;
  const token = () => {
    asked++;
    return "not.a.token";
  };
  await using host = await Host.start({ relay: { url: "ws://127.0.0.1:9/ws", token, connectTimeoutMs: 2_000 } });
  const error = await host.execute("return [1, 2].length").catch((error: SandboxError) => error);
  assert.ok(error instanceof SandboxError);
  assert.deepEqual([error.kind, error.code, error.retryable], ["connection", "UNREACHABLE", true]);
  assert.match(error.message, /127\.0\.0\.1:9/);
  assert.equal(asked, 1);
  await using absent = await Host.start({ relay: { program: "/no/such/relay" } });
  await assert.rejects(absent.execute("return [1, 2].length"), /\/no\/such\/relay/);
});

async function failed(run: PromiseLike<unknown>): Promise<ScriptError> {
  const error = await run.then(
    () => assert.fail("it succeeded"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof ScriptError, String(error));
  return error;
}
