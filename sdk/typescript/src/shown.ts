// What a host tells of its tools and servers.

import type { Effect } from "./effect.js";
import type { JsonSchema } from "./schema.js";

/** A tool of a host. */
export interface ToolInfo {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  /** The JSON Schema of the result; `null`: it has none. */
  readonly outputSchema: JsonSchema | null;
  /** What calls do; `null`: nobody said. */
  readonly effect: Effect | null;
  /** The maximum time of one call, in milliseconds. */
  readonly timeoutMs: number;
  readonly idempotent: boolean;
  /** The tool's declaration in TypeScript, as models see it. */
  readonly declaration: string;
}

/** The state of an MCP server. */
export interface ServerStatus {
  readonly name: string;
  /** Where it comes from, such as `the MCP server "git" of mcp.json`. */
  readonly origin: string;
  /** Whether it answers calls. */
  readonly connected: boolean;
  /** Its state, for people. */
  readonly state: string;
}
