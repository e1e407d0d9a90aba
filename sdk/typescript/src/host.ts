// The host: an application's tools and rules, and the relay where code runs.

import { type AiSdkTool, aiSdkTools } from "./adapters/aiSdk.js";
import { type CloudflareExecutor, type CloudflareOptions, cloudflareExecutor } from "./adapters/cloudflare.js";
import { type MastraTool, mastraTools } from "./adapters/mastra.js";
import { type OpenAiAgentsTool, openAiAgentsTools } from "./adapters/openaiAgents.js";
import { camelCased } from "./case.js";
import { Dispatcher } from "./dispatcher.js";
import { effectOf } from "./effect.js";
import { called, done, settled } from "./errors.js";
import { ExecuteCode } from "./executeCode.js";
import { Execution } from "./execution.js";
import { jsonOf } from "./json.js";
import { type NativeHost, native } from "./native.js";
import { type ExecuteOptions, type HostOptions, nativeHostOptions, nativeRequest } from "./options.js";
import { type Answer, type AnswerOptions, nativeAnswer, replied } from "./programmatic.js";
import { Runs } from "./runs.js";
import type { ServerStatus, ToolInfo } from "./shown.js";
import { nativeTool, type Tool } from "./tool.js";

/** The time that the end of what runs has when a host is closed, in milliseconds. */
const CLOSES_WITHIN_MS = 5_000;

/**
 * A host: the tools, rules and approvals of an application, and the relay in which code runs. The decision about every
 * tool call is made here, whatever the code or the relay says.
 *
 * An open host on which nothing runs does not keep the process from ending.
 *
 * ```ts
 * await using host = await Host.start({ tools: [now], approve: (question) => ui.confirm(question.text) });
 * const { value } = await host.execute("return await weather.now({ city: 'Bern' })");
 * ```
 */
export class Host {
  readonly #native: NativeHost;
  readonly #dispatcher: Dispatcher;
  /** Those of the hosts with other tools. */
  readonly #others: Dispatcher[] = [];
  #closed: Promise<void> | undefined;
  #models = 0;
  /** The durable runs. They need the option `journal`. */
  readonly runs: Runs;

  private constructor(native: NativeHost, dispatcher: Dispatcher) {
    this.#native = native;
    this.#dispatcher = dispatcher;
    this.runs = new Runs(this, () => native.runs());
    FORGOTTEN.register(this, native, this);
  }

  /**
   * Starts a host: checks the options, opens files, starts MCP servers and waits for them. The relay is started or
   * connected with the first code.
   *
   * @throws SandboxError: an option cannot be used.
   */
  static async start(options: HostOptions = {}): Promise<Host> {
    const tools = new Map<string, Tool>();
    for (const tool of options.tools ?? []) {
      if (tools.has(tool.name)) {
        throw new TypeError(`there are two tools named ${tool.name}`);
      }
      tools.set(tool.name, tool);
    }
    const token = options.relay?.url === undefined ? undefined : options.relay.token;
    const tokens = typeof token === "function" ? token : undefined;
    const dispatcher = new Dispatcher({ tools, approve: options.approve, token: tokens });
    const json = JSON.stringify(nativeHostOptions(options));
    const described = describedTools([...tools.values()]);
    const given = { approver: options.approve !== undefined, tokens: tokens !== undefined };
    const started = await settled(
      dispatcher,
      called(() => native().start(dispatcher.bridge, json, described, given)),
    );
    return new Host(started, dispatcher);
  }

  /**
   * Runs code: JavaScript or TypeScript, as statements with `return`, an expression, a function or a module. It starts at
   * once.
   *
   * @throws SandboxError: an option cannot be used, or the host is closed.
   */
  execute<Value = unknown>(code: string, options: ExecuteOptions = {}): Execution<Value> {
    return executed<Value>(this, this.#native, code, options);
  }

  /**
   * Calls one tool without code and without a relay, through the same checks, rules, approvals and audit.
   *
   * @throws ScriptError: there is no such tool, the arguments do not fit, the call was denied, or the tool failed. The
   * reason of `signal`, where it aborts.
   */
  async call(tool: string, args: unknown = {}, options: { readonly signal?: AbortSignal } = {}): Promise<unknown> {
    const json = jsonOf(args, "the arguments");
    return await done(this, () => this.#native.call(tool, json), options.signal);
  }

  /** Adds a tool. Code that runs already may not see it. */
  addTool(tool: Tool): void {
    const json = JSON.stringify(nativeTool(tool));
    this.#dispatcher.add(tool, () => called(() => this.#native.addTool(this.#dispatcher.bridge, json)));
  }

  /** Returns the tools that there are: functions, and those of MCP servers, OpenAPI documents and folders. */
  tools(): readonly ToolInfo[] {
    const tools = camelCased(JSON.parse(called(() => this.#native.shown("tools"))), SCHEMAS) as ToolInfo[];
    return tools.map((tool) => ({ ...tool, effect: effectOf(tool.effect) }));
  }

  /** Returns the MCP servers with their states. */
  servers(): readonly ServerStatus[] {
    return camelCased(JSON.parse(called(() => this.#native.shown("servers")))) as ServerStatus[];
  }

  /** Returns what you should look at, as sentences: warnings about the policy, and tools that are left out. */
  warnings(): readonly string[] {
    return JSON.parse(called(() => this.#native.shown("warnings")));
  }

  /**
   * Returns the address that opens the page of this host in a browser, once: it has a token. `null`: the option `ui` is not
   * set, or the host is closed.
   */
  page(): string | null {
    return JSON.parse(called(() => this.#native.shown("page")));
  }

  /** Returns the process id of the relay that was started; `null`: none was. */
  async relayProcess(): Promise<number | null> {
    return await settled(
      this,
      called(() => this.#native.relayProcess()),
    );
  }

  /** Begins a conversation with a model: `execute_code` and the tools beside it, for any agent loop. */
  executeCode(): ExecuteCode {
    return new ExecuteCode(
      this,
      called(() => this.#native.conversation()),
    );
  }

  /** Begins a conversation for the AI SDK: `generateText({ model, prompt, tools: host.aiSdk() })`. */
  aiSdk(): Record<string, AiSdkTool> {
    return aiSdkTools(this.executeCode());
  }

  /** Begins a conversation for Mastra: `new Agent({ …, tools: host.mastra() })`. */
  mastra(): Record<string, MastraTool> {
    return mastraTools(this.executeCode());
  }

  /** Begins a conversation for the OpenAI Agents SDK: `new Agent({ …, tools: host.openaiAgents() })`. */
  openaiAgents(): OpenAiAgentsTool[] {
    return openAiAgentsTools(this.executeCode());
  }

  /**
   * Makes an executor for Cloudflare's code mode: `createCodeTool({ tools, executor: host.cloudflareExecutor() })`. The
   * functions that come with each execution are tools, under the rules, approvals and audit of this host; the tools of this host
   * are not offered to its code.
   */
  cloudflareExecutor(options: CloudflareOptions = {}): CloudflareExecutor {
    return cloudflareExecutor((tools) => this.#sibling(tools), options);
  }

  /**
   * Answers a request with a program that a model writes: teaches it what a program is and which tools there are, runs the
   * program, and has it repaired once if it fails.
   *
   * @throws ScriptError: no program of the model succeeded. SandboxError with the kind `model`: it gave none.
   */
  async answer<Value = unknown>(prompt: string, options: AnswerOptions): Promise<Answer<Value>> {
    const { model, signal } = options;
    const json = nativeAnswer(prompt, options);
    const name = String(this.#models++);
    const takeBack = this.#dispatcher.lend(name, (request, signal) => replied(model, request, signal));
    try {
      const begin = () => this.#native.programmatic(this.#dispatcher.bridge, name, json.options, json.request);
      return camelCased(await done(this, begin, signal), VALUE) as Answer<Value>;
    } finally {
      takeBack();
    }
  }

  /** Makes a host with other tools and the same rules, approvals, audit and relay. It ends with this one. */
  #sibling(tools: readonly Tool[]) {
    const named = new Map(tools.map((tool) => [tool.name, tool]));
    const dispatcher = new Dispatcher({ tools: named });
    const native = called(() => this.#native.withTools(dispatcher.bridge, describedTools(tools)));
    this.#others.push(dispatcher);
    return { execute: (code: string, options: ExecuteOptions) => executed(this, native, code, options) };
  }

  /**
   * Closes the host: cancels what runs, leaves durable runs for another process, ends MCP servers and the relay that was
   * started, and lets go of the functions. It ends in bounded time; calling it again returns the same promise.
   */
  close(): Promise<void> {
    if (this.#closed === undefined) {
      FORGOTTEN.unregister(this);
      this.#closed = this.#end();
    }
    return this.#closed;
  }

  async #end(): Promise<void> {
    try {
      await settled(this, this.#native.close(CLOSES_WITHIN_MS));
    } finally {
      for (const dispatcher of [this.#dispatcher, ...this.#others]) {
        dispatcher.release();
      }
    }
  }

  /** Closes the host. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Closes hosts that nobody can close any more, and says so. */
const FORGOTTEN = new FinalizationRegistry<NativeHost>((host) => {
  process.emitWarning(
    "a host was collected without being closed, and is closed now: call `host.close()`, or declare it with `await using`",
    { type: "SandboxRelayWarning", code: "HOST_NOT_CLOSED" },
  );
  host.close(CLOSES_WITHIN_MS).catch(() => undefined);
});

function executed<Value>(owner: Host, native: NativeHost, code: string, options: ExecuteOptions): Execution<Value> {
  options.signal?.throwIfAborted();
  const request = JSON.stringify(nativeRequest(code, options));
  return new Execution<Value>(
    owner,
    called(() => native.execute(request)),
    options.signal,
  );
}

function describedTools(tools: readonly Tool[]): string {
  return JSON.stringify(tools.map(nativeTool));
}

/** Schemas have names of their own, and the value is the code's own. */
const SCHEMAS: ReadonlySet<string> = new Set(["input_schema", "output_schema"]);
const VALUE: ReadonlySet<string> = new Set(["value"]);
