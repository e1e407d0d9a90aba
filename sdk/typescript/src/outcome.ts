// What an execution gives: its value, its usage, its output.

import { camelCased } from "./case.js";
import type { Effect } from "./effect.js";

/** The time, memory and calls that an execution used, as the relay reports them. */
export interface Usage {
  /** The time that the execution waited for a worker, in milliseconds. */
  readonly queueMs: number;
  /** The time from the hand-over to the worker until the end, without waiting for approvals, in milliseconds. */
  readonly wallMs: number;
  /** The time that the execution waited for approvals, in milliseconds. */
  readonly approvalMs: number;
  /** The CPU time of the worker, in milliseconds. */
  readonly cpuMs: number;
  /** The number of tool calls that were sent to the host. */
  readonly toolCalls: number;
  /** The length of the output in bytes. */
  readonly outputBytes: number;
  /** The peak resident memory of the worker in bytes, shared pages included. */
  readonly memoryBytes: number;
}

/** A warning for the author of the code. It does not make the execution fail. */
export interface Warning {
  readonly code: string;
  readonly message: string;
}

/** A text that the code wrote with one call of `console` or `emit`. */
export interface OutputItem {
  /** The level of `console`, such as `log` or `error`, or `emit`. */
  readonly kind: string;
  readonly text: string;
}

/** The outcome of code that succeeded. */
export interface Outcome<Value = unknown> {
  /** The value that the code returned. */
  readonly value: Value;
  /** What the code printed. */
  readonly output: readonly OutputItem[];
  readonly warnings: readonly Warning[];
  readonly usage: Usage;
}

/** Tool calls that ended in the same way before code failed. */
export interface CallGroup {
  /** The tool's full name. */
  readonly tool: string;
  /** What calls of the tool do; `null`: nobody said. */
  readonly effect: Effect | null;
  /** How the calls ended: `finished`, `failed`, `not_run`, or `unknown`, where nobody knows whether they did something. */
  readonly end: "finished" | "failed" | "not_run" | "unknown";
  /** The number of calls. */
  readonly count: number;
}

/** Reads an outcome of the native library. */
export function outcomeOf<Value>(json: string): Outcome<Value> {
  return camelCased(JSON.parse(json), OPAQUE) as Outcome<Value>;
}

/** The value is the code's own. */
const OPAQUE: ReadonlySet<string> = new Set(["value"]);
