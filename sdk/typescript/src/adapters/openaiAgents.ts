// The OpenAI Agents SDK: its function tools are plain objects, so that nothing of it is imported.

import { type ExecuteCode, reportText } from "../executeCode.js";

/** A function tool of the OpenAI Agents SDK. */
export interface OpenAiAgentsTool {
  readonly type: "function";
  readonly name: string;
  readonly description: string;
  // biome-ignore lint/suspicious/noExplicitAny: the SDK's own type of a schema.
  readonly parameters: any;
  readonly strict: false;
  readonly invoke: (context: unknown, input: string, details?: { readonly signal?: AbortSignal }) => Promise<string>;
  readonly needsApproval: () => Promise<boolean>;
  readonly isEnabled: () => Promise<boolean>;
}

/** Returns `execute_code` and the tools beside it for the `tools` of an agent of the OpenAI Agents SDK. */
export function openAiAgentsTools(tools: ExecuteCode): OpenAiAgentsTool[] {
  return tools.definitions().map(({ name, description, inputSchema }) => ({
    type: "function",
    name,
    description,
    parameters: inputSchema,
    strict: false,
    invoke: async (_, input, details) => reportText(await tools.call(name, input, { signal: details?.signal })),
    // The host asks for approvals itself, call by call.
    needsApproval: async () => false,
    isEnabled: async () => true,
  }));
}
