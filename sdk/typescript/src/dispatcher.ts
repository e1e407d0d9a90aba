// Answers what the native library asks: calls of tools, approvals, tokens, replies of a model.

import type { ApprovalRequest, Approve } from "./approval.js";
import { camelCased } from "./case.js";
import { effectOf } from "./effect.js";
import { errorText } from "./errors.js";
import { jsonOf } from "./json.js";
import { Ask, type NativeBridge, native } from "./native.js";
import type { Tool, ToolContext } from "./tool.js";
import { ToolError } from "./toolError.js";

/** The functions of the application that the native library asks. */
export interface Functions {
  readonly tools: Map<string, Tool>;
  readonly approve?: Approve | undefined;
  readonly token?: (() => string | Promise<string>) | undefined;
}

/** Replies for one request of a model, as text, or as JSON of the native library. */
export type Model = (request: string, signal: AbortSignal) => Promise<string>;

/**
 * Answers the questions of one host. It knows nothing of the `Host`, so that a host which nobody uses any more can be
 * collected although the native library holds its dispatcher.
 */
export class Dispatcher {
  readonly bridge: NativeBridge;
  #functions: Functions;
  readonly #open = new Map<number, Question>();
  /** Keeps the process from ending while questions are open, so that those that are taken back are told. */
  #alive: NodeJS.Timeout | undefined;
  readonly #models = new Map<string, Model>();

  constructor(functions: Functions) {
    this.#functions = functions;
    this.bridge = new (native().Bridge)((kind, id, subject, payload) => {
      if (kind === Ask.cancel) {
        this.#open.get(id)?.abort();
        this.#close(id);
      } else {
        void this.#answered(kind, id, subject, payload);
      }
    });
  }

  /** Adds a tool, unless `register` throws. */
  add(tool: Tool, register: () => void): void {
    register();
    this.#functions.tools.set(tool.name, tool);
  }

  /**
   * Lets go of the functions, because the host is closed: the native library holds this dispatcher as long as there is a
   * host, and the functions may have the host.
   */
  release(): void {
    this.#functions = { tools: new Map() };
    this.#models.clear();
  }

  /** Lets the native library ask a model by this name until the returned function is called. */
  lend(name: string, model: Model): () => void {
    this.#models.set(name, model);
    return () => this.#models.delete(name);
  }

  async #answered(kind: number, id: number, subject: string, payload: string): Promise<void> {
    const question = this.#opened(id);
    let code: string | null = null;
    let text: string;
    try {
      text = await this.#answer(kind, id, subject, payload, question);
    } catch (error) {
      code = codeOf(error);
      text = errorText(error);
    }
    // What was taken back needs no answer.
    if (this.#close(id)) {
      this.#tell(id, code, text);
    }
  }

  /** Answers in any case: nobody would catch an error here, and the process would end by it. */
  #tell(id: number, code: string | null, text: string): void {
    try {
      this.bridge.answer(id, code, text);
    } catch (error) {
      this.bridge.answer(id, FAILED, `the answer cannot be passed on: ${errorText(error)}`);
    }
  }

  #opened(id: number): Question {
    const question = new Question();
    this.#open.set(id, question);
    this.#alive ??= setInterval(() => undefined, LONG_MS);
    return question;
  }

  /** Closes a question, and returns whether it was open. */
  #close(id: number): boolean {
    const wasOpen = this.#open.delete(id);
    if (this.#open.size === 0) {
      clearInterval(this.#alive);
      this.#alive = undefined;
    }
    return wasOpen;
  }

  #answer(kind: number, id: number, subject: string, payload: string, question: Question): Promise<string> | string {
    switch (kind) {
      case Ask.call:
        return this.#call(id, subject, payload, question);
      case Ask.approval:
        return this.#approve(payload, question);
      case Ask.token:
        return this.#token();
      default:
        return this.#reply(subject, payload, question);
    }
  }

  async #call(id: number, subject: string, payload: string, question: Question): Promise<string> {
    const fields = JSON.parse(subject) as CallFields;
    const tool = this.#functions.tools.get(fields.tool);
    if (tool === undefined) {
      throw new Error(`there is no tool ${fields.tool}`);
    }
    const result = await tool.call(JSON.parse(payload), new Context(fields, id, question, this.bridge));
    return jsonOf(result, `the result of ${tool.name}`);
  }

  async #approve(payload: string, question: Question): Promise<string> {
    const fields = camelCased(JSON.parse(payload), OPAQUE) as ApprovalRequest;
    const request = { ...fields, effect: effectOf(fields.effect) };
    const answer = (await this.#functions.approve?.(request, { signal: question.signal })) ?? false;
    if (typeof answer === "object") {
      return JSON.stringify({ scope: "deny", reason: answer.deny });
    }
    const scope = SCOPES.get(answer);
    if (scope === undefined) {
      throw new TypeError(
        `\`approve\` gave ${JSON.stringify(answer)}: it has to give true, false, "once", "execution", "session" or ` +
          "{ deny: reason }",
      );
    }
    return JSON.stringify({ scope });
  }

  async #token(): Promise<string> {
    const token: unknown = await this.#functions.token?.();
    if (typeof token !== "string") {
      throw new TypeError(`\`relay.token\` gave ${token === null ? null : typeof token}: it has to give a string`);
    }
    return JSON.stringify(token);
  }

  async #reply(subject: string, payload: string, question: Question): Promise<string> {
    const model = this.#models.get(subject);
    if (model === undefined) {
      throw new Error("nobody waits for this reply any more");
    }
    return await model(payload, question.signal);
  }
}

/** The code of errors that say none. */
const FAILED = "TOOL_FAILED";

/** The longest interval that there is. */
const LONG_MS = 2 ** 31 - 1;

const SCOPES: ReadonlyMap<unknown, string> = new Map<unknown, string>([
  [true, "once"],
  [false, "deny"],
  ["once", "once"],
  ["execution", "execution"],
  ["session", "session"],
  ["deny", "deny"],
]);

/** The arguments of a call are the tool's own. */
const OPAQUE: ReadonlySet<string> = new Set(["arguments"]);

/** A question that is being answered. Its signal is made when it is first asked for: most tools never do. */
class Question {
  #controller: AbortController | undefined;
  #isAborted = false;

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#isAborted) {
        this.#controller.abort();
      }
    }
    return this.#controller.signal;
  }

  abort(): void {
    this.#isAborted = true;
    this.#controller?.abort();
  }
}

interface CallFields {
  readonly tool: string;
  readonly execution: string;
  readonly call: number;
  readonly idempotency_key: string;
  readonly remaining_ms: number;
  readonly traceparent: string;
}

class Context implements ToolContext {
  readonly tool: string;
  readonly execution: string;
  readonly call: number;
  readonly idempotencyKey: string;
  readonly remainingMs: number;
  readonly traceparent: string;
  /** A field, so that tools may take it out of their context. */
  readonly progress: ToolContext["progress"];
  readonly #question: Question;

  constructor(fields: CallFields, id: number, question: Question, bridge: NativeBridge) {
    this.tool = fields.tool;
    this.execution = fields.execution;
    this.call = fields.call;
    this.idempotencyKey = fields.idempotency_key;
    this.remainingMs = fields.remaining_ms;
    this.traceparent = fields.traceparent;
    this.progress = (done, total, message = "") => bridge.progress(id, done, total ?? null, message);
    this.#question = question;
  }

  get signal(): AbortSignal {
    return this.#question.signal;
  }
}

function codeOf(thrown: unknown): string {
  try {
    return thrown instanceof ToolError ? thrown.code : FAILED;
  } catch {
    // A proxy may refuse to say what it is.
    return FAILED;
  }
}
