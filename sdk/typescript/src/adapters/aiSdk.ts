// The AI SDK: its tools are plain objects, so that nothing of it is imported.

import { type ExecuteCode, reportText } from "../executeCode.js";
import { type ModelSchema, modelSchema } from "./modelSchema.js";

/** A tool of the AI SDK, version 6 or 7. */
export interface AiSdkTool {
  readonly description: string;
  readonly inputSchema: ModelSchema;
  readonly execute: (
    // biome-ignore lint/suspicious/noExplicitAny: the model's arguments.
    input: any,
    options: { readonly abortSignal?: AbortSignal | undefined },
  ) => Promise<string>;
}

/** Returns `execute_code` and the tools beside it for `generateText`, `streamText` and agents of the AI SDK. */
export function aiSdkTools(tools: ExecuteCode): Record<string, AiSdkTool> {
  const entries = tools.definitions().map(({ name, description, inputSchema }) => {
    const execute: AiSdkTool["execute"] = async (input, { abortSignal }) =>
      reportText(await tools.call(name, input, { signal: abortSignal }));
    return [name, { description, inputSchema: modelSchema(inputSchema), execute }];
  });
  return Object.fromEntries(entries);
}
