// The blocks of the README and of the page in docs are true: all compile, and those without `no_run` print what they say.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const pages = ["README.md", "../../docs/typescript.md"].map((page) => join(root, page)).filter(existsSync);
const folder = join(root, "build/readme");

test("the blocks compile, and print what they say", { timeout: 100_000 }, async (context) => {
  const blocks = pages.flatMap((page) => [
    ...readFileSync(page, "utf8").matchAll(/^```typescript( no_run)?\n(.*?)^```/gms),
  ]);
  assert.ok(blocks.length > 4);
  mkdirSync(folder, { recursive: true });
  blocks.forEach(([, , text], index) => {
    // A module, with or without imports.
    writeFileSync(join(folder, `block${index}.ts`), `${text}export {};\n`);
  });
  const options = {
    extends: "../../test/tsconfig.json",
    compilerOptions: { rootDir: ".", outDir: "out" },
    include: ["*.ts"],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(options));
  const compiler = join(root, "node_modules/typescript/bin/tsc");
  await run(process.execPath, [compiler, "-p", folder]).catch(({ stdout }) => assert.fail(stdout));
  for (const [index, [, isCompiledAlone, text = ""]] of blocks.entries()) {
    if (isCompiledAlone) continue;
    await context.test(`block ${index}`, async () => {
      const { stdout } = await run(process.execPath, [join(folder, `out/block${index}.js`)], { timeout: 30_000 });
      for (const [, said = ""] of text.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)) {
        assert.ok(stdout.includes(said), `${said} is not in:\n${stdout}`);
      }
    });
  }
});
