// The native library: what it offers, and where it is found.

import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/** The kinds of questions that the native library asks. */
export const Ask = { call: 0, approval: 1, token: 2, model: 3, cancel: 4 } as const;

/**
 * Answers a question of the native library. `cancel` takes back the question of the same id; all others are answered
 * once, by {@link NativeBridge.answer}.
 */
export type Asked = (kind: number, id: number, subject: string, payload: string) => void;

/** The way by which the native library asks JavaScript. */
export interface NativeBridge {
  /** Answers a question: with JSON, or with the code and the text of an error. */
  answer(id: number, code: string | null, text: string): void;
  progress(id: number, done: number, total: number | null, message: string): void;
}

/** Work that can be cancelled. */
export interface NativeTask {
  /** Begins the work, once. Resolves to JSON. */
  result(): Promise<string>;
  cancel(): void;
}

export interface NativeExecution {
  /** Resolves to a JSON array of events; `null`: there are no more. */
  events(): Promise<string | null>;
  /** Resolves to the JSON of an outcome. */
  outcome(): Promise<string>;
  cancel(): void;
}

export interface NativeConversation {
  definitions(style: string): string;
  call(name: string, args: string): NativeTask;
}

export interface NativeRuns {
  start(request: string): Promise<NativeRun>;
  recover(): Promise<{ others(): string; runs(): NativeRun[] }>;
  resume(id: string): Promise<NativeRun>;
  get(id: string): NativeRun | null;
  list(unfinished: boolean, most: number): NativeTask;
  show(id: string): NativeTask;
  decide(id: string, call: number, approved: boolean, reason: string | null, by: string): NativeTask;
  cancel(id: string): NativeTask;
  forget(id: string): NativeTask;
}

export interface NativeRun extends NativeExecution {
  id(): string;
  state(): string;
  settled(): NativeTask;
}

export interface NativeHost {
  execute(request: string): NativeExecution;
  call(tool: string, args: string): NativeTask;
  addTool(bridge: NativeBridge, tool: string): void;
  /** Makes a host with other tools and the same rules, approvals, audit and relay. */
  withTools(bridge: NativeBridge, tools: string): NativeHost;
  shown(what: "tools" | "servers" | "warnings" | "page"): string;
  relayProcess(): Promise<number | null>;
  conversation(): NativeConversation;
  programmatic(bridge: NativeBridge, model: string, options: string, request: string): NativeTask;
  runs(): NativeRuns;
  close(withinMs: number): Promise<void>;
}

/** The native library. Its errors are those of JavaScript with JSON as the message. */
interface NativeModule {
  Bridge: new (asked: Asked) => NativeBridge;
  start(
    bridge: NativeBridge,
    options: string,
    tools: string,
    given: { readonly approver: boolean; readonly tokens: boolean },
  ): Promise<NativeHost>;
}

/** Machines for which there is a native package. */
const PACKAGES: { readonly [machine: string]: string } = { "linux-x64-gnu": "sandbox-relay-linux-x64-gnu" };

let loaded: NativeModule | undefined;

/** Loads the native library of this machine. */
export function native(): NativeModule {
  if (loaded === undefined) {
    const { require, path } = found();
    loaded = require(path) as NativeModule;
  }
  return loaded;
}

/** Returns the folder in which the programs `sandbox-relay` and `relay-host` are. */
export function programFolder(): string {
  return join(dirname(found().path), "bin");
}

function found(): { require: NodeJS.Require; path: string } {
  const machine = machineName();
  const name = PACKAGES[machine];
  if (name === undefined) {
    throw new Error(
      `sandbox-relay has no native library for ${machine}: there is one for ${Object.keys(PACKAGES).join(", ")}`,
    );
  }
  const require = createRequire(import.meta.url);
  try {
    return { require, path: require.resolve(name) };
  } catch (cause) {
    throw new Error(
      `the package ${name} is not installed: npm leaves it out with --omit=optional, and where a lock file was made ` +
        "on another kind of machine. Install sandbox-relay again without that",
      { cause },
    );
  }
}

function machineName(): string {
  const { platform, arch } = process;
  return platform === "linux" ? `linux-${arch}-${isMusl() ? "musl" : "gnu"}` : `${platform}-${arch}`;
}

function isMusl(): boolean {
  // Bun has no report, and is told apart by its version of glibc alone.
  const header = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined;
  return header?.header !== undefined && header.header.glibcVersionRuntime === undefined && !process.versions.bun;
}
