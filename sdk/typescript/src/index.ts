/**
 * Runs code that a model wrote in a sandbox, and answers its tool calls in this process.
 *
 * @packageDocumentation
 */

export type { AiSdkTool } from "./adapters/aiSdk.js";
export type {
  CloudflareExecutor,
  CloudflareOptions,
  CloudflareProvider,
  CloudflareResult,
} from "./adapters/cloudflare.js";
export type { MastraTool } from "./adapters/mastra.js";
export type { ModelSchema } from "./adapters/modelSchema.js";
export type { OpenAiAgentsTool } from "./adapters/openaiAgents.js";
export type { Approval, ApprovalRequest, Approve } from "./approval.js";
export type { Effect } from "./effect.js";
export { type ErrorKind, SandboxError, ScriptError } from "./errors.js";
export type { ExecutionEvent } from "./events.js";
export type { Attachment, Definition, DefinitionStyle, ExecuteCode, Report } from "./executeCode.js";
export type { Execution } from "./execution.js";
export { Host } from "./host.js";
export type { Limits } from "./limits.js";
export type {
  Audit,
  Durable,
  ExecuteOptions,
  HostOptions,
  HttpAccess,
  McpServers,
  OpenApi,
  OutputSettings,
  OwnRelay,
  RemoteRelay,
  Ui,
  Workspace,
} from "./options.js";
export type { CallGroup, Outcome, OutputItem, Usage, Warning } from "./outcome.js";
export type { Phase, Policy, Rule, ToolManifest, Verdict } from "./policy.js";
export type { Answer, AnswerOptions, Attempt, Message, Model, ModelReply, ModelRequest } from "./programmatic.js";
export type { Recovered, Run, RunCall, RunDecision, RunHead, RunState, RunSummary, Runs } from "./runs.js";
export type { Input, JsonSchema, Output, Schema, StandardIssue, StandardResult, StandardSchema } from "./schema.js";
export type { ServerStatus, ToolInfo } from "./shown.js";
export { type Tool, type ToolContext, type ToolSettings, tool } from "./tool.js";
export { ToolError } from "./toolError.js";
