// Puts the library and the programs that cargo has built into the native package: `node scripts/native.mjs [FOLDER]`,
// where FOLDER is cargo's, such as target/release. Default: target/debug.

import { copyFileSync, linkSync, mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";

const here = resolve(import.meta.dirname, "..");
const built = resolve(process.argv[2] ?? join(here, "../../target/debug"));
const folder = join(here, "npm/linux-x64-gnu");
mkdirSync(join(folder, "bin"), { recursive: true });
for (const [from, to] of [
  ["librelay_node.so", "sandbox-relay.node"],
  ["sandbox-relay", "bin/sandbox-relay"],
  ["relay-host", "bin/relay-host"],
]) {
  rmSync(join(folder, to), { force: true });
  try {
    linkSync(join(built, from), join(folder, to));
  } catch {
    copyFileSync(join(built, from), join(folder, to));
  }
}
