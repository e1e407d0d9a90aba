// Durable runs: code that outlives its relay and this process, and can wait for a person for days.

import { camelCased } from "./case.js";
import { called, done, errorOf, type SandboxError, settled } from "./errors.js";
import { EventSource, type ExecutionEvent } from "./events.js";
import type { NativeRun, NativeRuns } from "./native.js";
import { type ExecuteOptions, nativeRequest } from "./options.js";
import { type Outcome, outcomeOf } from "./outcome.js";

/** A run as the journal lists it. */
export interface RunHead {
  readonly id: string;
  /** The time at which it began, in milliseconds since 1970. */
  readonly createdMs: number;
  /** The time of its last entry, in milliseconds since 1970. */
  readonly changedMs: number;
  readonly status: "running" | "waiting" | "ended";
}

/** A run of the journal with its calls. */
export interface RunSummary extends RunHead {
  readonly code: string;
  /** The number of times that the code was begun. */
  readonly attempts: number;
  /** The numbers of the calls that wait for an approval. */
  readonly waiting: readonly number[];
  readonly calls: readonly RunCall[];
  /** The value; `null`: the run has not ended, failed, or returned `null`. */
  readonly result: unknown;
  /** The error that the run ended with; `null`: there is none. */
  readonly error: { readonly code: string; readonly message: string } | null;
}

/** A tool call of a run. */
export interface RunCall {
  /** The call's number in the order of the code, from 1, for {@link Runs.decide}. */
  readonly call: number;
  /** The tool's full name, as the code wrote it. */
  readonly tool: string;
  readonly state: "called" | "waiting_for_approval" | "approved" | "denied" | "running" | "answered" | "failed";
  /** The arguments that a person is asked about, shortened if they are long. Absent: nobody was asked. */
  readonly arguments?: unknown;
  /** The rule of the policy that requires an approval. */
  readonly rule?: string;
  /** The name of who decided. Absent: nobody has. */
  readonly decidedBy?: string;
  /** The time at which the call is denied if there is no answer, in milliseconds since 1970. */
  readonly untilMs?: number;
}

/** What a run does. `calls` are the calls that wait for an approval. */
export type RunState =
  | { readonly state: "running" | "waitingForTimer" | "ended" }
  | { readonly state: "waitingForApproval"; readonly calls: readonly number[] };

/** A decision on a call that waits for an approval. */
export interface RunDecision {
  /** `true` allows the call; or the reason why not, which the code gets. */
  readonly approved: boolean;
  readonly reason?: string;
  /** The name of who decides, for the journal and the audit. */
  readonly by: string;
}

/** What {@link Runs.recover} found. */
export interface Recovered {
  /** The runs that go on in this process. */
  readonly runs: readonly Run[];
  /** The ids of the runs that another process holds. */
  readonly held: readonly string[];
  /** The runs that cannot go on, each with the error. */
  readonly failed: readonly { readonly id: string; readonly error: SandboxError }[];
}

/** A durable run of this process. Iterate over it for its events, once. The run goes on whether this is kept or not. */
export class Run<Value = unknown> implements AsyncIterable<ExecutionEvent> {
  readonly #owner: object;
  readonly #native: NativeRun;
  readonly #events: EventSource;
  /** The id, by which another process finds it in the journal. */
  readonly id: string;

  /** @internal */
  constructor(owner: object, native: NativeRun) {
    this.#owner = owner;
    this.#native = native;
    this.#events = new EventSource(native);
    this.id = native.id();
  }

  /** What the run does now. */
  get state(): RunState {
    return stateOf(JSON.parse(this.#native.state()));
  }

  /** Waits until it has ended, or waits for people or a timer. */
  async settled(): Promise<RunState> {
    return stateOf(await done(this.#owner, () => this.#native.settled()));
  }

  /**
   * Waits for the outcome.
   *
   * @throws ScriptError: the code failed. SandboxError with the kind `run`: the run is left in the journal, and can go on
   * later.
   */
  async outcome(): Promise<Outcome<Value>> {
    return outcomeOf<Value>(await settled(this.#owner, this.#native.outcome()));
  }

  /** Cancels the run: it ends with `CANCELLED`, in the journal as well. */
  cancel(): void {
    this.#native.cancel();
  }

  /** Gives the events from the time at which the run began or was taken over here. */
  [Symbol.asyncIterator](): AsyncGenerator<ExecutionEvent, void, undefined> {
    return this.#events.take();
  }
}

/**
 * The durable runs of a host with a journal.
 *
 * ```ts
 * const run = await host.runs.start(code);
 * const { state } = await run.settled(); // "waitingForApproval"
 * await host.runs.decide(run.id, 1, { approved: true, by: "ada" }); // in this process or another, days later
 * const { value } = await run.outcome();
 * ```
 */
export class Runs {
  readonly #owner: object;
  readonly #native: () => NativeRuns;

  /** @internal */
  constructor(owner: object, native: () => NativeRuns) {
    this.#owner = owner;
    this.#native = native;
  }

  /** Begins a run. It is in the journal when the promise resolves. */
  async start<Value = unknown>(code: string, options: Omit<ExecuteOptions, "signal"> = {}): Promise<Run<Value>> {
    const request = JSON.stringify(nativeRequest(code, options));
    return new Run<Value>(this.#owner, await settled(this.#owner, this.#runs().start(request)));
  }

  /** Goes on with the runs that no process goes on with. Call it when the application starts. */
  async recover(): Promise<Recovered> {
    const recovered = await settled(this.#owner, this.#runs().recover());
    const { held, failed } = JSON.parse(recovered.others()) as {
      held: string[];
      failed: { id: string; error: unknown }[];
    };
    return {
      runs: recovered.runs().map((run) => new Run(this.#owner, run)),
      held,
      failed: failed.map(({ id, error }) => ({ id, error: errorOf(error) })),
    };
  }

  /** Goes on with one run. */
  async resume<Value = unknown>(id: string): Promise<Run<Value>> {
    return new Run<Value>(this.#owner, await settled(this.#owner, this.#runs().resume(id)));
  }

  /** Returns a run that goes on in this process; `undefined`: it does not. */
  get(id: string): Run | undefined {
    const run = called(() => this.#native().get(id));
    return run === null ? undefined : new Run(this.#owner, run);
  }

  /** Lists runs of the journal in the order in which they began. Default: all, at most 100. */
  async list(options: { readonly unfinished?: boolean; readonly most?: number } = {}): Promise<readonly RunHead[]> {
    const { unfinished = false, most = 100 } = options;
    return camelCased(await done(this.#owner, () => this.#native().list(unfinished, most))) as RunHead[];
  }

  /** Returns a run of the journal with its calls. */
  async show(id: string): Promise<RunSummary> {
    return camelCased(await done(this.#owner, () => this.#native().show(id)), OPAQUE) as RunSummary;
  }

  /** Decides on a call that waits for an approval. The process that goes on with the run sees it. */
  async decide(id: string, call: number, decision: RunDecision): Promise<void> {
    const { approved, reason = null, by } = decision;
    await done(this.#owner, () => this.#native().decide(id, call, approved, reason, by));
  }

  /** Cancels a run, whoever holds it. */
  async cancel(id: string): Promise<void> {
    await done(this.#owner, () => this.#native().cancel(id));
  }

  /** Removes a run from the journal, and returns whether there was one. */
  async forget(id: string): Promise<boolean> {
    return (await done(this.#owner, () => this.#native().forget(id))) as boolean;
  }

  #runs(): NativeRuns {
    return called(this.#native);
  }
}

function stateOf(json: unknown): RunState {
  const { state, ...fields } = json as { state: string };
  const camel = { waiting_for_approval: "waitingForApproval", waiting_for_timer: "waitingForTimer" } as const;
  return { ...fields, state: camel[state as keyof typeof camel] ?? state } as RunState;
}

/** Values of the code and of its tools. */
const OPAQUE: ReadonlySet<string> = new Set(["arguments", "result", "answer"]);
