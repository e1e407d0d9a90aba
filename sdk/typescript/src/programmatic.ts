// Answers requests with programs that a model writes.

import { camelCased, snakeFields } from "./case.js";
import { checkJson } from "./json.js";
import type { Limits } from "./limits.js";
import type { Outcome } from "./outcome.js";
import type { Phase } from "./policy.js";

/** A message of a conversation with a model. */
export interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
}

/** What a model is to continue. */
export interface ModelRequest {
  /** The system prompt: what a program is, and which tools there are. */
  readonly system: string;
  /** The messages so far; the last is the user's. */
  readonly messages: readonly Message[];
  /** The maximum size of the reply, in bytes. */
  readonly replyBytes: number;
}

/** The reply of a model: its text, or the text with more. */
export type ModelReply =
  | string
  | {
      readonly text: string;
      /** `true`: the reply ended at the limit of tokens. Default: `false`. */
      readonly isCut?: boolean;
      readonly usage?: { readonly inputTokens?: number; readonly outputTokens?: number };
    };

/** Asks a model. `signal` aborts when its reply is not needed any more. */
export type Model = (
  request: ModelRequest,
  context: { readonly signal: AbortSignal },
) => ModelReply | Promise<ModelReply>;

/** How a request is answered with a program. */
export interface AnswerOptions {
  readonly model: Model;
  /** The system prompt of the application. Default: none. */
  readonly system?: string;
  /** The conversation so far. Default: none. */
  readonly history?: readonly Message[];
  /** Offers the tools of a phase. Default: the rules decide alone. */
  readonly phase?: Phase;
  /** The maximum time of one reply, in milliseconds. Default: 120,000. */
  readonly modelTimeoutMs?: number;
  /** The maximum size of one reply, in bytes. Default: 256 KiB. */
  readonly replyBytes?: number;
  /** The length of the overview of tools in the prompt, in estimated tokens. Default: 3,000. */
  readonly overviewTokens?: number;
  /** Lowers limits of each program. */
  readonly limits?: Limits;
  /** When a program that failed is repaired. Default: `ifNothingChanged`. */
  readonly repair?: "never" | "ifNothingChanged" | "always";
  /** Stops the model and its program when it aborts. */
  readonly signal?: AbortSignal;
}

/** The answer to a request. */
export interface Answer<Value = unknown> extends Outcome<Value> {
  /** The program that gave the value. */
  readonly code: string;
  /** All attempts; the last gave the value. */
  readonly attempts: readonly Attempt[];
  /** The messages that this request adds to the conversation. */
  readonly messages: readonly Message[];
}

/** One reply of the model, and what came of it. */
export interface Attempt {
  readonly reply: string;
  /** The program in the reply; `null`: there is none. */
  readonly code: string | null;
  /** Why it failed; `null`: it did not. */
  readonly error: string | null;
  readonly [field: string]: unknown;
}

/** Splits options into those of the native library's program, and those of its request. */
export function nativeAnswer(prompt: string, options: AnswerOptions): { options: string; request: string } {
  const { model: _model, signal: _signal, ...written } = options;
  checkJson(written, "the options");
  const { system, history, phase, limits, repair, ...others } = written;
  return {
    options: JSON.stringify({
      ...snakeFields(others),
      ...(limits && { limits: snakeFields(limits) }),
      ...(repair && { repair: REPAIRS[repair] }),
    }),
    request: JSON.stringify({ prompt, system, history, phase }),
  };
}

/** Asks a model for the native library. */
export async function replied(model: Model, request: string, signal: AbortSignal): Promise<string> {
  const reply = await model(camelCased(JSON.parse(request)) as ModelRequest, { signal });
  const { text, isCut = false, usage = {} } = typeof reply === "string" ? { text: reply } : reply;
  return JSON.stringify({ text, is_cut: isCut, usage: snakeFields(usage) });
}

const REPAIRS = { never: "never", ifNothingChanged: "if_nothing_changed", always: "always" };
