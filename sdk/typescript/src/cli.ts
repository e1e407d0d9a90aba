#!/usr/bin/env node
// `sandbox-relay`: runs the programs of the native package. `relay-host` unless the subcommand is one of the relay's.

import { spawn } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";

import { programFolder } from "./native.js";

/** The subcommands of the relay; all others are those of `relay-host`. */
const OF_RELAY = new Set(["serve", "token", "eval", "healthcheck", "self-test"]);

const [, , ...args] = process.argv;
try {
  const folder = programFolder();
  const program = OF_RELAY.has(args[0] ?? "") ? "sandbox-relay" : "relay-host";
  const env = { SANDBOX_RELAY_BIN: join(folder, "sandbox-relay"), ...process.env };
  const child = spawn(join(folder, program), args, { stdio: "inherit", env });
  const pass = (signal: NodeJS.Signals) => child.kill(signal);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, pass);
  }
  child.on("error", (error) => fail(`${program} cannot be run: ${error.message}`));
  child.on("exit", (code, signal) => {
    process.exitCode = code ?? 128 + constants.signals[signal ?? "SIGKILL"];
  });
} catch (error) {
  fail(error instanceof Error ? error.message : String(error));
}

function fail(text: string): void {
  process.stderr.write(`sandbox-relay: ${text}\n`);
  process.exitCode = 1;
}
