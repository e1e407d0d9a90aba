// The errors that this package throws.

import { camelCase, camelCased } from "./case.js";
import { effectOf } from "./effect.js";
import { keeping } from "./keep.js";
import type { NativeTask } from "./native.js";
import type { CallGroup, OutputItem, Usage, Warning } from "./outcome.js";

/**
 * What an error is about.
 *
 * - `script`: the code failed, hit a limit or was stopped; the error is a {@link ScriptError}.
 * - `connection`: no relay can be reached, or the connection broke before there was a session.
 * - `authentication`: the relay does not accept the token.
 * - `configuration`: an option, a file, a tool or a policy cannot be used.
 * - `audit`: the audit log cannot be written.
 * - `run`: a durable run was not begun, or does not go on.
 * - `model`: a model gave no program.
 * - `closed`: the host is closed.
 * - `unsupported`: this process cannot use the package.
 * - `internal`: a fault of this package.
 */
export type ErrorKind =
  | "script"
  | "connection"
  | "authentication"
  | "configuration"
  | "audit"
  | "run"
  | "model"
  | "closed"
  | "unsupported"
  | "internal";

/** An error of this package. */
export class SandboxError extends Error {
  override readonly name: string = "SandboxError";
  /** What it is about. */
  readonly kind: ErrorKind;
  /** Its code: of code that failed such as `TIMEOUT`, else such as `UNREACHABLE`. */
  readonly code: string;
  /** `true`: the same request may be made again, because no tool was called for it. */
  readonly retryable: boolean;
  /** The time after which the relay wants to be asked again, in milliseconds; `null`: it did not say. */
  readonly retryAfterMs: number | null;

  /** @internal */
  constructor(fields: ErrorFields) {
    super(fields.text);
    this.kind = fields.kind;
    this.code = fields.code;
    this.retryable = fields.retryable;
    this.retryAfterMs = fields.retryAfterMs;
  }
}

/**
 * The error that code ended with: it threw, hit a limit or was stopped. `message` is for people and models: it has the
 * code, the place and the hint.
 */
export class ScriptError extends SandboxError {
  override readonly name = "ScriptError";
  /** The message alone, without code, place and hint. */
  readonly reason: string;
  /** The line in the source, from 1; `null`: it is not known. */
  readonly line: number | null;
  /** The column in the source, from 1; `null`: it is not known. */
  readonly column: number | null;
  /** Advice on how to mend it; `null`: there is none. */
  readonly hint: string | null;
  /** The limit that was hit, such as `wall_ms`; `null`: none was. */
  readonly limit: string | null;
  /** The tool that an uncaught error came from; `null`: it came from none. */
  readonly tool: string | null;
  /** The code of that tool's error; `null`: it came from no tool. */
  readonly toolCode: string | null;
  /** What the code used; `null`: no code was run. */
  readonly usage: Usage | null;
  readonly warnings: readonly Warning[];
  /** What the code printed before it failed. */
  readonly output: readonly OutputItem[];
  /** The tool calls that the code had made, and how they ended. */
  readonly calls: readonly CallGroup[];

  /** @internal */
  constructor(fields: ErrorFields) {
    super(fields);
    this.reason = fields.message;
    this.line = fields.line;
    this.column = fields.column;
    this.hint = fields.hint;
    this.limit = fields.limit;
    this.tool = fields.tool;
    this.toolCode = fields.toolCode;
    this.usage = fields.usage;
    this.warnings = fields.warnings;
    this.output = fields.output;
    this.calls = fields.calls.map((group) => ({ ...group, effect: effectOf(group.effect) }));
  }
}

interface ErrorFields {
  readonly kind: ErrorKind;
  readonly code: string;
  readonly message: string;
  readonly text: string;
  readonly line: number | null;
  readonly column: number | null;
  readonly hint: string | null;
  readonly limit: string | null;
  readonly tool: string | null;
  readonly toolCode: string | null;
  readonly retryable: boolean;
  readonly retryAfterMs: number | null;
  readonly usage: Usage | null;
  readonly warnings: readonly Warning[];
  readonly output: readonly OutputItem[];
  readonly calls: readonly CallGroup[];
}

/** Makes an error of JSON of the native library. */
export function errorOf(json: unknown): SandboxError {
  const fields = camelCased(json) as ErrorFields;
  if (fields.code === "INVALID_OPTIONS") {
    return new SandboxError({ ...fields, text: withCamelNames(fields.text) });
  }
  return fields.kind === "script" ? new ScriptError(fields) : new SandboxError(fields);
}

/** Makes an error of what the native library threw: its message is JSON. */
export function fromNative(thrown: unknown): unknown {
  if (!(thrown instanceof Error) || !thrown.message.startsWith('{"kind":')) {
    return thrown;
  }
  return errorOf(JSON.parse(thrown.message));
}

/** Calls the native library. */
export function called<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw fromNative(error);
  }
}

/** Awaits a promise of the native library, and keeps its owner meanwhile. */
export async function settled<T>(owner: object, promise: Promise<T>): Promise<T> {
  try {
    return await keeping(owner, promise);
  } catch (error) {
    throw fromNative(error);
  }
}

/**
 * Does work of the native library, and reads its JSON. Its owner is kept meanwhile. When the signal aborts, the work is dropped.
 *
 * @throws The reason of the signal.
 */
export async function done(owner: object, begin: () => NativeTask, signal?: AbortSignal): Promise<unknown> {
  signal?.throwIfAborted();
  const task = called(begin);
  const cancel = () => task.cancel();
  signal?.addEventListener("abort", cancel, { once: true });
  try {
    return JSON.parse(await keeping(owner, task.result()));
  } catch (error) {
    signal?.throwIfAborted();
    throw fromNative(error);
  } finally {
    signal?.removeEventListener("abort", cancel);
  }
}

/** Returns a text about options with their names as they are here. */
function withCamelNames(text: string): string {
  return text.replace(
    /(`|\brelay\.)([a-z]+(?:_[a-z]+)+)\b/g,
    (_, before: string, name: string) => before + camelCase(name),
  );
}

/** Returns the message of what was thrown, whatever that is. */
export function errorText(thrown: unknown): string {
  try {
    // The types promise texts; JavaScript does not.
    return String(thrown instanceof Error ? thrown.message || thrown.name : thrown);
  } catch {
    return "what was thrown has no message, and cannot be shown as text";
  }
}
