// `execute_code` and the tools beside it, for any agent loop.

import { camelCased, snakeCase } from "./case.js";
import { called, done } from "./errors.js";
import type { NativeConversation } from "./native.js";
import type { JsonSchema } from "./schema.js";

/** A tool for a model: `execute_code`, `search_tools`, `describe_tools` or `read_output`. */
export interface Definition {
  readonly name: string;
  readonly description: string;
  /** The JSON Schema of the arguments. */
  readonly inputSchema: JsonSchema;
}

/** What a model reads of a call. */
export interface Report {
  /** The value of the code, shortened if it is long, or the error with advice. */
  readonly text: string;
  /** Output and warnings; `null`: there are none. */
  readonly notes: string | null;
  /** Images and other binary data of the value; the text has placeholders for them. */
  readonly attachments: readonly Attachment[];
  /** The handle by which `read_output` reads the rest; `null`: the text is the whole value. */
  readonly handle: string | null;
  /** The report as JSON; `null`: no code was run. */
  readonly structured: unknown;
  /** `true`: the call failed. */
  readonly isError: boolean;
}

/** Binary data of a value. */
export interface Attachment {
  /** The media type, such as `image/png`. */
  readonly mime: string;
  readonly base64: string;
  /** The length of the data, decoded. */
  readonly bytes: number;
}

/** The shapes of definitions: those of MCP, of OpenAI's chat completions and responses, and of Anthropic's messages. */
export type DefinitionStyle = "mcp" | "openaiChat" | "openaiResponses" | "anthropic";

/**
 * `execute_code` for one conversation with a model, with `search_tools`, `describe_tools` and `read_output`. It keeps the
 * long results of that conversation and its approvals.
 *
 * ```ts
 * const tools = host.executeCode();
 * const definitions = tools.definitions(); // for the model, with each request
 * const { text } = await tools.call("execute_code", { code: "return 6 * 7" });
 * ```
 */
export class ExecuteCode {
  readonly #owner: object;
  readonly #native: NativeConversation;

  /** @internal */
  constructor(owner: object, native: NativeConversation) {
    this.#owner = owner;
    this.#native = native;
  }

  /**
   * Returns the definitions, `execute_code` first. They list the tools that exist now: call this again for each turn.
   *
   * @throws SandboxError: the host is closed.
   */
  definitions(): readonly Definition[] {
    return this.definitionsFor("mcp") as Definition[];
  }

  /**
   * Returns the definitions in the shape of a model's provider, for requests that you make yourself.
   *
   * @throws SandboxError: the host is closed.
   */
  definitionsFor(style: DefinitionStyle): readonly object[] {
    return JSON.parse(called(() => this.#native.definitions(snakeCase(style))));
  }

  /**
   * Runs a call of a model. A failure of the code is a report, too: the model reads it.
   *
   * @param args - The arguments: an object, or its JSON as a string.
   * @throws The reason of `signal`, where it aborts: the code is stopped with its tools. SandboxError: the host is closed.
   */
  async call(
    name: string,
    args: unknown,
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Report> {
    const json = JSON.stringify(args ?? {});
    return camelCased(
      await done(this.#owner, () => this.#native.call(name, json), options.signal),
      STRUCTURED,
    ) as Report;
  }
}

/** Returns a report as one text for a model. */
export function reportText({ text, notes }: Report): string {
  return notes === null ? text : `${text}\n\n${notes}`;
}

const STRUCTURED: ReadonlySet<string> = new Set(["structured"]);
