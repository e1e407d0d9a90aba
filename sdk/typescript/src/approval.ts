// Approvals: what a person is asked about a tool call, and the answers.

import type { Effect } from "./effect.js";

/** A tool call that needs an approval. */
export interface ApprovalRequest {
  /** The id of the execution whose code calls. */
  readonly execution: string;
  /** The code, as the application sent it. */
  readonly code: string;
  /** The line of the code that makes the call, from 1; `null`: it is not known. */
  readonly line: number | null;
  /** The call's id in its session. */
  readonly call: number;
  /** The tool's full name. */
  readonly tool: string;
  /** The tool's description, as its author wrote it. */
  readonly description: string;
  /** The arguments. If the call is approved, the tool gets exactly these. */
  readonly arguments: unknown;
  /** What calls of the tool do; `null`: nobody said. */
  readonly effect: Effect | null;
  /** The rule of the policy that requires the approval. */
  readonly rule: string;
  /** The time for an answer, in milliseconds. Without one, the call is denied. */
  readonly withinMs: number;
  /** The whole question as text for a person, of at most 50 rows with 80 columns; what does not fit is cut, and said to be. */
  readonly text: string;
}

/**
 * The answer to an approval request.
 *
 * - `true` or `"once"`: allows this call.
 * - `"execution"`: allows all calls of this tool, with any arguments, until the execution ends.
 * - `"session"`: allows all calls of this tool, with any arguments, until the session with the relay ends.
 * - `false` or `"deny"`: denies this call.
 * - `{ deny: reason }`: denies this call. The code gets the reason in the error's message.
 */
export type Approval = boolean | "once" | "execution" | "session" | "deny" | { readonly deny: string };

/**
 * Asks a person about a tool call. For each execution, one question is open at a time; those of different executions may
 * overlap. An error denies the call. `signal` aborts when the answer is not needed any more.
 */
export type Approve = (
  request: ApprovalRequest,
  context: { readonly signal: AbortSignal },
) => Approval | Promise<Approval>;
