// The events of an execution, for applications that watch it.

import { camelCase, camelCased } from "./case.js";
import type { Usage } from "./outcome.js";

interface OfCall {
  /** The call's id in its session. */
  readonly id: number;
  /** The tool's full name. */
  readonly tool: string;
}

/**
 * An event of an execution; `type` says which.
 *
 * - `codeReceived`: the code was accepted.
 * - `routeChosen`: `host` where the code is a single tool call, which needs no relay, else `relay`.
 * - `started`: the code was handed over.
 * - `toolCallRequested`: the code calls a tool. The policy has not decided yet.
 * - `toolCallDenied`: the policy, a person or a budget denied a call. `reason` is what the code reads.
 * - `toolCallAwaitingApproval`: somebody is asked about a call, and has `withinMs` to answer.
 * - `toolCallApproved`: a call has its approval. `by` is `null` where an earlier approval covers it.
 * - `toolCallStarted`, `toolCallProgress`, `toolCallFinished`, `toolCallFailed`: what a tool does.
 * - `output`: the code wrote text, with `console` or `emit`.
 * - `disconnected`, `resumed`: the connection to the relay was lost, and is there again. The code goes on meanwhile.
 * - `result`: the code returned a value.
 * - `ended`: the execution is over; `code` is `null` where it succeeded. This is the last event.
 * - `missed`: whoever watches was too slow, and missed `count` events.
 */
export type ExecutionEvent =
  | { readonly type: "codeReceived"; readonly bytes: number }
  | { readonly type: "routeChosen"; readonly route: "host" | "relay" }
  | { readonly type: "started" }
  | ({ readonly type: "toolCallRequested"; readonly argumentsBytes: number } & OfCall)
  | ({
      readonly type: "toolCallDenied";
      readonly code: string;
      readonly reason: string;
      readonly rule: string;
    } & OfCall)
  | ({ readonly type: "toolCallAwaitingApproval"; readonly rule: string; readonly withinMs: number } & OfCall)
  | ({
      readonly type: "toolCallApproved";
      readonly by: string | null;
      readonly scope: "once" | "execution" | "session";
    } & OfCall)
  | ({ readonly type: "toolCallStarted" } & OfCall)
  | ({
      readonly type: "toolCallProgress";
      readonly done: number;
      readonly total: number | null;
      readonly message: string;
    } & OfCall)
  | ({ readonly type: "toolCallFinished"; readonly elapsedMs: number; readonly resultBytes: number } & OfCall)
  | ({ readonly type: "toolCallFailed"; readonly code: string; readonly message: string } & OfCall)
  | { readonly type: "output"; readonly kind: string; readonly text: string }
  | { readonly type: "disconnected"; readonly reason: string }
  | { readonly type: "resumed"; readonly afterMs: number }
  | { readonly type: "result"; readonly bytes: number }
  | { readonly type: "ended"; readonly code: string | null; readonly usage: Usage }
  | { readonly type: "missed"; readonly count: number };

/** Where events come from, batch by batch. */
interface NativeEvents {
  /** Resolves to a JSON array of events; `null`: there are no more. */
  events(): Promise<string | null>;
}

/** Events that can be taken once. */
export class EventSource {
  readonly #native: NativeEvents;
  #isTaken = false;

  constructor(native: NativeEvents) {
    this.#native = native;
  }

  async *take(): AsyncGenerator<ExecutionEvent, void, undefined> {
    if (this.#isTaken) {
      throw new Error("the events were taken before: iterate over them once");
    }
    this.#isTaken = true;
    for (let batch = await this.#native.events(); batch !== null; batch = await this.#native.events()) {
      yield* JSON.parse(batch).map(eventOf);
    }
  }
}

function eventOf(json: Record<string, unknown>): ExecutionEvent {
  const fields = camelCased(json) as Record<string, unknown>;
  return { ...fields, type: camelCase(String(json.type)) } as ExecutionEvent;
}
