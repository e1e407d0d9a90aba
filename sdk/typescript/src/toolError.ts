// The errors by which tools say why they failed.

/** An error of a tool with another code than `TOOL_FAILED`. */
export class ToolError extends Error {
  override readonly name = "ToolError";

  /**
   * @param code - `TOOL_DENIED`, `INVALID_ARGUMENTS`, `TOOL_RESULT_LIMIT`, `TOOL_TIMEOUT`, or `OUTCOME_UNKNOWN` where nobody
   * knows whether the call did something.
   */
  constructor(
    readonly code: "TOOL_DENIED" | "INVALID_ARGUMENTS" | "TOOL_RESULT_LIMIT" | "TOOL_TIMEOUT" | "OUTCOME_UNKNOWN",
    message: string,
  ) {
    super(message);
  }
}
