// The life of runs and hosts: what is cancelled stops, what is closed ends, and nothing is left.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";

import { Host, ScriptError, tool } from "sandbox-relay";

const isBun = process.versions.bun !== undefined;

/** A tool that never returns, and tells when it begins and when its signal aborts. */
function stuck() {
  const begun = signalled();
  const aborted = signalled();
  const wait = tool("stuck.wait", {
    effect: "readOnly",
    run: (_, { signal }) => {
      signal.addEventListener("abort", () => aborted.resolve());
      begun.resolve();
      return new Promise(() => undefined);
    },
  });
  return { wait, begun: begun.promise, aborted: aborted.promise };
}

function signalled(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

const WAIT = "await mcp.call('stuck.wait'); return 1";

test("a signal stops the code, its tool and its worker, and gives its reason", async () => {
  const { wait, begun, aborted } = stuck();
  await using host = await Host.start({ tools: [wait] });
  const controller = new AbortController();
  const run = host.execute(WAIT, { signal: controller.signal, alwaysInSandbox: true });
  await begun;
  const busy = await workers(host);
  controller.abort(new Error("the user left"));
  await assert.rejects(run, /the user left/);
  await aborted;
  await until(() => busy.some((pid) => !isAlive(pid)));
  assert.throws(() => host.execute(WAIT, { signal: controller.signal }), /the user left/);
});

test("cancel, and the end of a block, stop the code", async () => {
  const { wait, begun, aborted } = stuck();
  await using host = await Host.start({ tools: [wait] });
  const run = host.execute(WAIT, { alwaysInSandbox: true });
  await begun;
  run.cancel();
  await assert.rejects(run, (error: ScriptError) => error instanceof ScriptError && error.code === "CANCELLED");
  await aborted;
  let inner: PromiseLike<unknown> | undefined;
  {
    await using used = host.execute("for (;;) {}");
    inner = used;
  }
  await assert.rejects(Promise.resolve(inner), /CANCELLED/);
});

test("closing a host ends its runs, its tools and its relay, twice the same", async () => {
  const { wait, begun, aborted } = stuck();
  const host = await Host.start({ tools: [wait] });
  const run = host.execute(WAIT, { alwaysInSandbox: true });
  await begun;
  const relay = await host.relayProcess();
  assert.ok(relay !== null && isAlive(relay));
  const closed = host.close();
  assert.equal(host.close(), closed);
  await assert.rejects(run, /CANCELLED/);
  await aborted;
  await closed;
  assert.equal(isAlive(relay), false);
});

test("1,000 cancelled runs leave nothing", { timeout: 60_000 }, async () => {
  const { wait } = stuck();
  await using host = await Host.start({ tools: [wait] });
  const cancelled = async (count: number) => {
    for (let done = 0; done < count; done += 8) {
      const runs = Array.from({ length: 8 }, () => host.execute(WAIT, { alwaysInSandbox: true }));
      const ends = runs.map(async (run, index) => {
        if (index % 2 === 0) {
          for await (const event of run) {
            if (event.type === "toolCallStarted") break;
          }
        }
        run.cancel();
        await assert.rejects(run, /CANCELLED/);
      });
      await Promise.all(ends);
    }
  };
  await host.execute("return [1]");
  // The relay keeps some workers for the next runs, and more of them where many ran at once.
  const idle = (await workers(host)).length + 8;
  await cancelled(200);
  await until(async () => (await workers(host)).length <= idle);
  const before = resources();
  await cancelled(1_000);
  await until(async () => (await workers(host)).length <= idle);
  const after = resources();
  assert.ok(after.files <= before.files + 4, `${before.files} files became ${after.files}`);
  const grown = (after.memory - before.memory) / 2 ** 20;
  assert.ok(grown < 48, `${grown.toFixed(1)} MiB more`);
});

test("a busy event loop stalls its own tools alone", async () => {
  const quick = tool("quick.now", { effect: "readOnly", run: () => 1 });
  await using host = await Host.start({ tools: [quick] });
  await host.execute("return [1]");
  const worker = new Worker(
    `
    const { workerData, parentPort } = require("node:worker_threads");
    (async () => {
      const { Host, tool } = await import(workerData);
      const host = await Host.start({ tools: [tool("other.now", { effect: "readOnly", run: () => 1 })] });
      await host.execute("return [1]");
      parentPort.once("message", async () => {
        const code = "let sum = 0; for (let i = 0; i < 50; i++) sum += await mcp.call('other.now'); return sum";
        const { value } = await host.execute(code);
        const ended = Date.now();
        await host.close();
        parentPort.postMessage([value, ended]);
      });
      parentPort.postMessage("ready");
    })();`,
    { eval: true, workerData: import.meta.resolve("sandbox-relay") },
  );
  await once(worker, "message");
  const answered = once(worker, "message");
  worker.postMessage("go");
  const run = host.execute("return [await mcp.call('quick.now')]");
  const began = Date.now();
  while (Date.now() < began + 2_000) {
    // Nothing else runs on this thread.
  }
  const [[value, ended]] = await answered;
  assert.equal(value, 50);
  assert.ok(ended < began + 2_000, "the other thread's host waited for this one");
  assert.deepEqual((await run).value, [1]);
  await worker.terminate();
});

test("a worker thread has hosts of its own, and its end stops them", { skip: isBun }, async () => {
  const source = `
    const { workerData, parentPort } = require("node:worker_threads");
    (async () => {
      const { Host, tool } = await import(workerData);
      const host = await Host.start({ tools: [tool("stuck.wait", { effect: "readOnly", run: () => new Promise(() => {}) })] });
      const run = host.execute("await mcp.call('stuck.wait'); return 1", { alwaysInSandbox: true });
      for await (const event of run) {
        if (event.type === "toolCallStarted") parentPort.postMessage(await host.relayProcess());
      }
    })();`;
  const worker = new Worker(source, { eval: true, workerData: import.meta.resolve("sandbox-relay") });
  const [relay] = await once(worker, "message");
  assert.ok(isAlive(relay));
  await worker.terminate();
  await until(() => !isAlive(relay));
});

test("an open host does not keep the process from ending; a run does", async () => {
  const program = `
    import { Host, tool } from ${JSON.stringify(import.meta.resolve("sandbox-relay"))};
    const host = await Host.start({ tools: [tool("a.b", { effect: "readOnly", run: () => "called" })] });
    host.execute("return [await mcp.call('a.b')]").then(({ value }) => console.log(value[0]));`;
  const { stdout, stderr } = await node(program);
  assert.equal(stdout.trim(), "called");
  assert.equal(stderr, "");
});

test("a host is kept for what runs there, and for who may still use it", { skip: isBun }, async () => {
  const program = `
    import { setTimeout } from "node:timers/promises";
    import { Host, tool } from ${JSON.stringify(import.meta.resolve("sandbox-relay"))};
    const slow = tool("a.b", { effect: "readOnly", run: () => setTimeout(300, "called") });
    const started = async (use) => use(await Host.start({ tools: [slow] }));
    const run = started((host) => ({ value: host.execute("return [await mcp.call('a.b')]") }));
    const conversation = await started((host) => host.executeCode());
    const collecting = setInterval(() => globalThis.gc(), 10);
    console.log((await (await run).value).value[0]);
    console.log((await conversation.call("execute_code", { code: "return 6 * 7" })).text);
    clearInterval(collecting);`;
  const { stdout } = await node(program, "--expose-gc");
  assert.equal(stdout, "called\n42\n");
});

test("a process that ends in the middle leaves no relay", async () => {
  const program = `
    import { Host, tool } from ${JSON.stringify(import.meta.resolve("sandbox-relay"))};
    const host = await Host.start({ tools: [tool("a.b", { effect: "readOnly", run: () => new Promise(() => {}) })] });
    for await (const event of host.execute("return [await mcp.call('a.b')]")) {
      if (event.type === "toolCallStarted") {
        console.log(await host.relayProcess());
        process.exit(0);
      }
    }`;
  const { stdout } = await node(program);
  const relay = Number(stdout);
  assert.ok(relay > 0);
  await until(() => !isAlive(relay));
});

test("a host that nobody can close any more is closed, and says so", { skip: isBun }, async () => {
  const program = `
    import { Host } from ${JSON.stringify(import.meta.resolve("sandbox-relay"))};
    process.on("warning", (warning) => { console.log(warning.code); process.exit(0); });
    const relay = await (async () => {
      const host = await Host.start();
      await host.execute("return [1]");
      return await host.relayProcess();
    })();
    for (;;) { await new Promise(setImmediate); globalThis.gc(); }`;
  const { stdout } = await node(program, "--expose-gc");
  assert.equal(stdout.trim(), "HOST_NOT_CLOSED");
});

test("a closed host is collected, although its functions have it", { skip: isBun }, async () => {
  const program = `
    import { Host, tool } from ${JSON.stringify(import.meta.resolve("sandbox-relay"))};
    const used = async () => {
      let host;
      const tools = [tool("a.b", { effect: "readOnly", run: () => host.tools().length })];
      host = await Host.start({ tools, approve: () => host === undefined });
      host.addTool(tool("a.c", { effect: "readOnly", run: () => host.tools().length }));
      console.log((await host.execute("return [await mcp.call('a.b'), await mcp.call('a.c')]")).value.join());
      const executor = host.cloudflareExecutor({ effect: "readOnly" });
      const codemode = { count: async () => host.tools().length };
      console.log((await executor.execute("async () => [await codemode.count()]", codemode)).result.join());
      await host.close();
      return new WeakRef(host);
    };
    const closed = await used();
    const deadline = Date.now() + 10_000;
    while (closed.deref() !== undefined && Date.now() < deadline) {
      await new Promise(setImmediate);
      globalThis.gc();
    }
    console.log(closed.deref() === undefined ? "collected" : "kept");`;
  const { stdout } = await node(program, "--expose-gc");
  assert.equal(stdout, "2,2\n2\ncollected\n");
});

/** Waits for something that happens in another process, for at most 10 seconds. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, "it did not happen within 10 s");
    await new Promise(setImmediate);
  }
}

/** Returns the processes below the relay of a host. */
async function workers(host: Host): Promise<number[]> {
  const relay = await host.relayProcess();
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (state !== "Z") {
        parents.set(Number(name), Number(parent));
      }
    } catch {
      // It has ended meanwhile.
    }
  }
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && (pid === relay || isBelow(parents.get(pid)));
  return [...parents].filter(([, parent]) => isBelow(parent)).map(([pid]) => pid);
}

function isAlive(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

/** What this process holds: open files, and memory after a collection. */
function resources(): { files: number; memory: number } {
  globalThis.gc?.();
  return { files: readdirSync("/proc/self/fd").length, memory: process.memoryUsage().rss };
}

async function node(program: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const module = isBun ? ["-e", program] : [...args, "--input-type=module", "-e", program];
  return await promisify(execFile)(process.execPath, module, { timeout: 30_000 });
}
