// Code that runs: a promise of its outcome, and an iterable of its events.

import { fromNative, ScriptError } from "./errors.js";
import { EventSource, type ExecutionEvent } from "./events.js";
import { keeping } from "./keep.js";
import type { NativeExecution } from "./native.js";
import { type Outcome, outcomeOf } from "./outcome.js";

/**
 * Code that runs. Await it for its outcome; iterate over it for its events, once.
 *
 * It runs to its end even where nobody awaits it. `cancel`, the `signal` of `host.execute` and the end of a block with
 * `await using` stop it, with its tools and its worker.
 *
 * ```ts
 * const run = host.execute("return await weather.now({ city: 'Bern' })");
 * for await (const event of run) console.log(event.type);
 * const { value } = await run;
 * ```
 */
export class Execution<Value = unknown> implements Promise<Outcome<Value>>, AsyncIterable<ExecutionEvent> {
  readonly #native: NativeExecution;
  readonly #outcome: Promise<Outcome<Value>>;
  readonly [Symbol.toStringTag] = "Execution";
  readonly #events: EventSource;

  /** @internal */
  constructor(owner: object, native: NativeExecution, signal: AbortSignal | undefined) {
    this.#native = native;
    this.#events = new EventSource(native);
    this.#outcome = this.#end(owner, signal);
    // Who only watches the events has the error in the event `ended`.
    this.#outcome.catch(() => undefined);
  }

  /**
   * Stops the code. The execution rejects with a {@link ScriptError} whose code is `CANCELLED`, unless it has ended
   * before. Tools that run are told by their `signal`.
   */
  cancel(): void {
    this.#native.cancel();
  }

  // biome-ignore lint/suspicious/noThenProperty: an execution is awaited.
  then<A = Outcome<Value>, B = never>(
    fulfilled?: ((outcome: Outcome<Value>) => A | PromiseLike<A>) | null,
    // biome-ignore lint/suspicious/noExplicitAny: as a Promise has it.
    rejected?: ((reason: any) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#outcome.then(fulfilled, rejected);
  }

  // biome-ignore lint/suspicious/noExplicitAny: as a Promise has it.
  catch<B = never>(rejected?: ((reason: any) => B | PromiseLike<B>) | null): Promise<Outcome<Value> | B> {
    return this.#outcome.catch(rejected);
  }

  finally(done?: (() => void) | null): Promise<Outcome<Value>> {
    return this.#outcome.finally(done);
  }

  /**
   * Gives the events from the start. Up to 1,024 of them wait; whoever is slower gets the event `missed`. Leaving the
   * loop does not stop the code.
   */
  [Symbol.asyncIterator](): AsyncGenerator<ExecutionEvent, void, undefined> {
    return this.#events.take();
  }

  /** Stops the code, and waits until it has ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.cancel();
    await this.#outcome.catch(() => undefined);
  }

  async #end(owner: object, signal: AbortSignal | undefined): Promise<Outcome<Value>> {
    const cancel = () => this.#native.cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      return outcomeOf<Value>(await keeping(owner, this.#native.outcome()));
    } catch (thrown) {
      const error = fromNative(thrown);
      throw signal?.aborted === true && isCancelled(error) ? signal.reason : error;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }
}

function isCancelled(error: unknown): boolean {
  return error instanceof ScriptError && error.code === "CANCELLED";
}
