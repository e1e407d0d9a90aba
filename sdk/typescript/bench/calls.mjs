// Measures tool calls by a function of TypeScript, many at once, and the import: `node bench/calls.mjs`, beside
// `cargo run --release --package relay-sdk --example calls` for the same in Rust. Fill the native package before with
// `node scripts/native.mjs ../../target/release`, and build with `npm run build`.

import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";

import { Host, tool } from "sandbox-relay";
import { z } from "zod";

const CALLS = 1_000;
const ROUNDS = 9;

/** Does something some times, and returns the median of the times, in milliseconds. */
async function median(run) {
  const times = [];
  for (let round = 0; round < ROUNDS; round++) {
    const began = performance.now();
    await run();
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)];
}

/** Returns the time of a program of Node, in milliseconds. */
const program = (text) => median(() => execFileSync(process.execPath, ["--input-type=module", "-e", text]));

const add = tool("math.add", {
  effect: "readOnly",
  input: z.object({ a: z.int(), b: z.int() }),
  output: z.int(),
  run: ({ a, b }) => a + b,
});
const host = await Host.start({ tools: [add] });
const empty = await median(() => host.execute("return 1"));
const sequential = `let n = 0; for (let i = 0; i < ${CALLS}; i++) n += await mcp.call('math.add', {a: i, b: 1}); return n`;
const calls = ((await median(() => host.execute(sequential))) - empty) / CALLS;
const parallel = await median(() =>
  host.execute(
    "const all = Array.from({length: 1000}, (_, i) => mcp.call('math.add', {a: i, b: 1})); " +
      "return (await Promise.all(all)).length",
  ),
);
await host.close();
const alone = await program("");
const imported = (await program(`import ${JSON.stringify(import.meta.resolve("sandbox-relay"))}`)) - alone;
const loads = `import { Host } from ${JSON.stringify(import.meta.resolve("sandbox-relay"))}; await Host.start()`;
const started = (await program(loads)) - alone;
const native = import.meta.resolve("sandbox-relay-linux-x64-gnu").replace("file://", "");
console.log(`an execution without calls: ${empty.toFixed(2)} ms`);
console.log(`one of ${CALLS} calls, one after the other: ${(calls * 1e3).toFixed(1)} µs`);
console.log(`1,000 calls at once: ${parallel.toFixed(1)} ms`);
console.log(`import: ${imported.toFixed(0)} ms; import and Host.start: ${started.toFixed(0)} ms`);
console.log(`the native library: ${(statSync(native).size / 2 ** 20).toFixed(1)} MiB`);
