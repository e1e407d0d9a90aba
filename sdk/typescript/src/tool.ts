// Tools: functions of the application that code in the sandbox can call.

import { snakeCase, snakeFields } from "./case.js";
import type { Effect } from "./effect.js";
import { checkJson } from "./json.js";
import {
  type Input,
  type JsonSchema,
  jsonSchemaOf,
  type Output,
  parsed,
  type Schema,
  type StandardSchema,
} from "./schema.js";

/** What a tool knows of one call. */
export interface ToolContext {
  /** Aborts when nobody waits for the call any more: it was cancelled, timed out, or its execution ended. */
  readonly signal: AbortSignal;
  /** The tool's full name. */
  readonly tool: string;
  /** The id of the execution whose code calls. */
  readonly execution: string;
  /** The call's id, unique in its session. */
  readonly call: number;
  /** The key that is the same each time a durable run makes this call, for services that take such a key. */
  readonly idempotencyKey: string;
  /** The time that is left for the call, in milliseconds, when it began. */
  readonly remainingMs: number;
  /** The W3C trace and span of the call, for the header `traceparent` of requests. */
  readonly traceparent: string;
  /**
   * Tells how far the call is: the event `toolCallProgress`.
   *
   * @param done - The progress so far, in a unit of your choice.
   * @param total - The progress at the end, in the same unit. Default: not known.
   * @param message - What the tool is doing, at most 1 KiB. Default: empty.
   */
  progress(done: number, total?: number, message?: string): void;
}

/** What all forms of {@link tool} take. */
export interface ToolSettings {
  /** What the tool does, for the model that writes code. Default: empty. */
  readonly description?: string;
  /** What calls do. Default: unknown, so that `approve` is asked unless a policy says otherwise. */
  readonly effect?: Effect;
  /** The maximum time of one call, in milliseconds. Default: 30,000. */
  readonly timeoutMs?: number;
  /** The maximum number of calls that run at once; more wait within their time. Default: no maximum. */
  readonly concurrency?: number;
  /** `true`: a durable run may make a call again whose outcome is not known, with the same key. Default: `false`. */
  readonly idempotent?: boolean;
  /** The maximum size of a result, in bytes of JSON. Default: 10 MiB. */
  readonly resultBytes?: number;
  /** What happens to a larger result: it fails the call, or a text is cut and says so. Default: `fail`. */
  readonly overflow?: "fail" | "cut";
}

/** A tool, as {@link tool} makes it and `Host.start` takes it. */
export interface Tool extends ToolSettings {
  readonly name: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema;
  /** Runs one call, with arguments that fit `inputSchema`. */
  readonly call: (args: unknown, context: ToolContext) => unknown;
}

type Result<Out extends Schema | undefined> = Out extends StandardSchema<unknown, unknown> ? Input<Out> : unknown;

/**
 * Makes a tool of a function.
 *
 * Arguments are checked before `run` sees them. What it returns has to have a JSON form, or the call fails: a `Map`, a
 * `Set`, binary data, an `Error`, a `bigint`, `NaN` and `Infinity` have none; `undefined` becomes `null`, and objects with
 * `toJSON`, such as dates, say theirs. An error that it throws fails the call, and the code in the sandbox can catch it,
 * with its message.
 *
 * ```ts
 * const now = tool("weather.now", {
 *   description: "Tells the weather in a city",
 *   effect: "readOnly",
 *   input: z.object({ city: z.string() }),
 *   run: ({ city }) => `Sunny in ${city}`,
 * });
 * ```
 *
 * @param name - The full name, `server.tool`, by which code calls it. The servers `mcp` and `local` are reserved.
 * @throws TypeError: the name is not `server.tool`, or a schema has no JSON form.
 */
export function tool<In extends StandardSchema<unknown, unknown>, Out extends Schema | undefined = undefined>(
  name: string,
  options: ToolSettings & {
    /** The schema of the arguments: an object. */
    readonly input: In;
    /** The schema of the result, which code is told, and which results are checked against. Default: any JSON. */
    readonly output?: Out;
    readonly run: (args: Output<In>, context: ToolContext) => Result<Out> | Promise<Result<Out>>;
  },
): Tool;
/**
 * Makes a tool of a function whose arguments a JSON Schema describes; without one, it takes none.
 */
// biome-ignore lint/suspicious/noExplicitAny: the schema does not say the type.
export function tool<Args = any, Out extends Schema | undefined = undefined>(
  name: string,
  options: ToolSettings & {
    /** The JSON Schema of the arguments: an object. Default: no arguments. */
    readonly input?: JsonSchema & { readonly "~standard"?: never };
    /** The schema of the result, which code is told, and which results are checked against. Default: any JSON. */
    readonly output?: Out;
    readonly run: (args: Args, context: ToolContext) => Result<Out> | Promise<Result<Out>>;
  },
): Tool;
export function tool(
  name: string,
  options: ToolSettings & { input?: Schema; output?: Schema; run: (args: never, context: ToolContext) => unknown },
): Tool {
  const { input, output, run, ...settings } = options;
  if (!/^[^.\s]+\.\S+$/.test(name)) {
    throw new TypeError(`the tool ${JSON.stringify(name)} needs a name of the form server.tool, such as weather.now`);
  }
  if (typeof run !== "function") {
    throw new TypeError(`the tool ${name} has no function: give it as \`run\``);
  }
  const call = run as (args: unknown, context: ToolContext) => unknown;
  return {
    ...settings,
    name,
    inputSchema: input === undefined ? NO_ARGUMENTS : jsonSchemaOf(input, "input", `the input of the tool ${name}`),
    ...(output !== undefined && { outputSchema: jsonSchemaOf(output, "output", `the output of the tool ${name}`) }),
    call: input === undefined ? call : async (args, context) => call(await parsed(input, args), context),
  };
}

const NO_ARGUMENTS: JsonSchema = { type: "object", properties: {}, additionalProperties: false };

/** Returns the description of a tool for the native library. */
export function nativeTool({ call: _, effect, ...fields }: Tool): Record<string, unknown> {
  checkJson(fields, `the tool ${fields.name}`);
  const native = snakeFields(fields);
  return effect === undefined ? native : { ...native, effect: snakeCase(effect) };
}
