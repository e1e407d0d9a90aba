// The replies of a scripted model of the AI SDK.

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** Returns a call of a tool, and then a text. */
export function callsThenSays(toolName: string, args: object) {
  return [
    {
      content: [{ type: "tool-call" as const, toolCallId: "1", toolName, input: JSON.stringify(args) }],
      finishReason: { unified: "tool-calls" as const, raw: undefined },
      usage,
      warnings: [],
    },
    {
      content: [{ type: "text" as const, text: "Pears were ordered." }],
      finishReason: { unified: "stop" as const, raw: undefined },
      usage,
      warnings: [],
    },
  ];
}
