// The packed files, installed in an empty folder, run a first program on Node and on Bun.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const require = createRequire(import.meta.url);
const folder = mkdtempSync(join(tmpdir(), "sandbox-relay-"));
const app = join(folder, "app");

const PROGRAM = `
import { Host, tool } from "sandbox-relay";
const add = tool("math.add", {
  effect: "readOnly",
  input: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
  run: ({ a, b }) => a + b,
});
const host = await Host.start({ tools: [add] });
const { value } = await host.execute("return [await math.add({ a: 40, b: 2 })]");
console.log(value[0]);
await host.close();
`;

before(async () => {
  // As a release has them: without what debuggers need.
  const native = join(folder, "native");
  cpSync(join(root, "npm/linux-x64-gnu"), native, { recursive: true });
  const binaries = ["sandbox-relay.node", "bin/sandbox-relay", "bin/relay-host"].map((name) => join(native, name));
  await run("strip", binaries);
  const packed = join(folder, "packed");
  mkdirSync(packed);
  for (const source of [root, native]) {
    await run("npm", ["pack", "--ignore-scripts", "--pack-destination", packed], { cwd: source });
  }
  mkdirSync(app);
  writeFileSync(join(app, "package.json"), JSON.stringify({ name: "app", private: true, type: "module" }));
  writeFileSync(join(app, "first.js"), PROGRAM);
  const files = ["sandbox-relay-0.1.0.tgz", "sandbox-relay-linux-x64-gnu-0.1.0.tgz"].map((name) => join(packed, name));
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", ...files], { cwd: app });
});

after(() => rmSync(folder, { recursive: true, force: true }));

test("on this Node", async () => {
  const { stdout } = await run(process.execPath, ["first.js"], { cwd: app, env: plain() });
  assert.equal(stdout, "42\n");
});

test("on Bun", async () => {
  const bun = join(dirname(require.resolve("@oven/bun-linux-x64/package.json")), "bin/bun");
  const { stdout } = await run(bun, ["first.js"], { cwd: app, env: plain() });
  assert.equal(stdout, "42\n");
});

test("with require, as CommonJS has it", async () => {
  const program = "console.log(typeof require('sandbox-relay').Host.start)";
  const { stdout } = await run(process.execPath, ["--input-type=commonjs", "-e", program], { cwd: app, env: plain() });
  assert.equal(stdout, "function\n");
});

test("npx runs the programs", async () => {
  const npx = (...args: string[]) => run("npx", ["--offline", "sandbox-relay", ...args], { cwd: app, env: plain() });
  assert.match((await npx("--version")).stdout, /^relay-host 0\.1\.0/);
  assert.match((await npx("serve", "--help")).stdout, /--listen/);
  writeFileSync(join(app, "six.js"), "return [6 * 7]");
  assert.equal((await npx("run", "six.js")).stdout.trim(), "[42]");
  await assert.rejects(npx("run", "absent.js"), (error: { code: number }) => error.code === 2);
});

test("a package without its native part says what to do", async () => {
  rmSync(join(app, "node_modules/sandbox-relay-linux-x64-gnu"), { recursive: true });
  const failing = run(process.execPath, ["first.js"], { cwd: app, env: plain() });
  await assert.rejects(failing, /sandbox-relay-linux-x64-gnu is not installed.*--omit=optional/s);
});

/** Returns the environment without what would name another relay. */
function plain(): NodeJS.ProcessEnv {
  const { SANDBOX_RELAY_BIN: _, ...others } = process.env;
  return others;
}
