// Cloudflare's code mode: an executor that runs its code here. Its interface is a plain object, so that nothing of it is
// imported.

import type { Effect } from "../effect.js";
import { errorText, ScriptError } from "../errors.js";
import type { Execution } from "../execution.js";
import type { ExecuteOptions } from "../options.js";
import type { OutputItem } from "../outcome.js";
import type { Tool } from "../tool.js";

/** The functions of one namespace, such as `codemode`, as Cloudflare's code mode resolves its providers. */
export interface CloudflareProvider {
  readonly name: string;
  readonly fns: Record<string, (...args: unknown[]) => Promise<unknown>>;
  readonly prelude?: string;
}

/** What an executor gives. */
export interface CloudflareResult {
  result: unknown;
  error?: string;
  logs?: string[];
}

/** An `Executor` of `@cloudflare/codemode`. */
export interface CloudflareExecutor {
  execute(
    code: string,
    providersOrFns: CloudflareProvider[] | CloudflareProvider["fns"],
    options?: { connectors?: unknown[] },
  ): Promise<CloudflareResult>;
}

/** How code runs that Cloudflare's code mode has a model write. */
export interface CloudflareOptions extends Pick<ExecuteOptions, "limits" | "wallMs"> {
  /** What calls of the functions do. Default: unknown, so that `approve` is asked unless a policy says otherwise. */
  readonly effect?: Effect | ((name: string) => Effect);
}

/** Makes a host with the same rules, approvals, audit and relay, and with other tools. */
export type Sibling = (tools: readonly Tool[]) => { execute(code: string, options: ExecuteOptions): Execution };

/** The most hosts that are kept for later executions with the same functions. */
const MOST_KEPT = 8;

type Functions = ReadonlyMap<string, (...args: unknown[]) => Promise<unknown>>;

/** Makes an executor. */
export function cloudflareExecutor(sibling: Sibling, options: CloudflareOptions): CloudflareExecutor {
  const kept: Place[] = [];
  return {
    async execute(code, providersOrFns, { connectors = [] } = {}) {
      const providers = Array.isArray(providersOrFns) ? providersOrFns : [{ name: "codemode", fns: providersOrFns }];
      try {
        refuseWhatIsMissing(providers, connectors);
        const functions = functionsOf(providers);
        const names = [...functions.keys()].join(" ");
        const at = kept.findIndex((place) => place.names === names);
        const place = kept.splice(at, at < 0 ? 0 : 1)[0] ?? new Place(sibling, functions, options);
        const result = await place.run(code, functions, options);
        if (kept.length < MOST_KEPT) {
          kept.push(place);
        }
        return result;
      } catch (error) {
        // An executor never throws.
        return { result: undefined, error: errorText(error) };
      }
    },
  };
}

/** A host with the functions of one execution at a time. */
class Place {
  readonly names: string;
  readonly #host: ReturnType<Sibling>;
  #functions: Functions;

  constructor(sibling: Sibling, functions: Functions, { effect }: CloudflareOptions) {
    this.names = [...functions.keys()].join(" ");
    this.#functions = functions;
    const tools = [...functions.keys()].map((name): Tool => {
      const of = typeof effect === "function" ? effect(name) : effect;
      return { name, inputSchema: {}, ...(of && { effect: of }), call: (args) => this.#functions.get(name)?.(args) };
    });
    this.#host = sibling(tools);
  }

  async run(code: string, functions: Functions, { limits, wallMs }: CloudflareOptions): Promise<CloudflareResult> {
    this.#functions = functions;
    const options = { alwaysInSandbox: true, ...(limits && { limits }), ...(wallMs !== undefined && { wallMs }) };
    try {
      const { value, output } = await this.#host.execute(code, options);
      return { result: value, ...logsOf(output) };
    } catch (error) {
      const output = error instanceof ScriptError ? error.output : [];
      return { result: undefined, error: errorText(error), ...logsOf(output) };
    }
  }
}

function functionsOf(providers: readonly CloudflareProvider[]): Functions {
  return new Map(providers.flatMap(({ name, fns }) => Object.entries(fns).map(([fn, run]) => [`${name}.${fn}`, run])));
}

function refuseWhatIsMissing(providers: readonly CloudflareProvider[], connectors: readonly unknown[]): void {
  if (connectors.length > 0) {
    throw new Error("connectors are bindings of Cloudflare's runtime: give their functions as a provider");
  }
  const prelude = providers.find(({ prelude }) => prelude !== undefined);
  if (prelude !== undefined) {
    throw new Error(`the provider ${prelude.name} has a prelude, which this executor does not run: leave it out`);
  }
}

function logsOf(output: readonly OutputItem[]): { logs?: string[] } {
  const line = ({ kind, text }: OutputItem) => (kind === "warn" || kind === "error" ? `[${kind}] ${text}` : text);
  return output.length === 0 ? {} : { logs: output.map(line) };
}
