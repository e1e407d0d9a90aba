// Mastra: its tools are plain objects, so that nothing of it is imported.

import { type ExecuteCode, reportText } from "../executeCode.js";
import { type ModelSchema, modelSchema } from "./modelSchema.js";

/** A tool of Mastra, version 1. */
export interface MastraTool {
  readonly id: string;
  readonly description: string;
  readonly inputSchema: ModelSchema;
  readonly execute: (
    // biome-ignore lint/suspicious/noExplicitAny: the model's arguments.
    input: any,
    context: { readonly abortSignal?: AbortSignal | undefined },
  ) => Promise<string>;
}

/** Returns `execute_code` and the tools beside it for the `tools` of an agent of Mastra. */
export function mastraTools(tools: ExecuteCode): Record<string, MastraTool> {
  const entries = tools.definitions().map(({ name, description, inputSchema }) => {
    const execute: MastraTool["execute"] = async (input, context) =>
      reportText(await tools.call(name, input, { signal: context?.abortSignal }));
    return [name, { id: name, description, inputSchema: modelSchema(inputSchema), execute }];
  });
  return Object.fromEntries(entries);
}
