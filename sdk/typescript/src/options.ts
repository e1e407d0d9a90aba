// The options of a host, and of code that it runs.

import { existsSync } from "node:fs";
import { join } from "node:path";

import type { Approve } from "./approval.js";
import { snakeCase, snakeFields } from "./case.js";
import { checkJson } from "./json.js";
import type { Limits } from "./limits.js";
import { programFolder } from "./native.js";
import { nativePolicy, type Phase, type Policy } from "./policy.js";
import type { Tool } from "./tool.js";

/** The options of {@link Host.start}. */
export interface HostOptions {
  /** Functions that code can call. */
  readonly tools?: Iterable<Tool>;
  /** MCP servers: the path of a file with `mcpServers`, that object itself, or a list of these. */
  readonly mcp?: string | McpServers | readonly (string | McpServers)[];
  /** OpenAPI documents, by the name of the server that their operations become: a path, a URL, or more settings. */
  readonly openapi?: { readonly [server: string]: string | OpenApi };
  /** A folder as tools: its path, or more settings. Default: none. */
  readonly workspace?: string | Workspace;
  /** Hosts that code may fetch from. Default: none. */
  readonly http?: HttpAccess;
  /** The path of a policy file, its text, or an object. Default: tools that read run, `approve` is asked about others. */
  readonly policy?: string | { readonly toml: string } | Policy;
  /**
   * Asks a person about calls that need an approval. With `ui`, the page is asked at the same time, and the first answer
   * counts. Default: calls are denied where there is no page.
   */
  readonly approve?: Approve;
  /** The audit log: its path, or more settings. Default: none is written. */
  readonly audit?: string | Audit;
  /** The journal of durable runs: the path of an SQLite file, or the address of a Postgres database. Default: none. */
  readonly journal?: string;
  readonly durable?: Durable;
  /**
   * The page of what the host runs, for browsers of this machine: its port, 0 for a free one, or more settings.
   * `host.page()` returns its address. Default: none.
   */
  readonly ui?: number | Ui;
  /** The relay. Default: one is started on this machine with the first code, and ends with the host. */
  readonly relay?: RemoteRelay | OwnRelay;
  /** Limits of all that is run. Code can be run with lower ones. Default: those of the relay's token. */
  readonly limits?: Limits;
  /** How results are shortened for models. */
  readonly output?: OutputSettings;
  /** Whether tools that the policy denies are shown to models, with the reason. Default: `false`. */
  readonly showDenied?: boolean;
  /** Whether the types of results without a schema are learned and shown to models. Default: `true`. */
  readonly learnResults?: boolean;
  /** How long the start waits for MCP servers, in milliseconds. Default: 30,000. */
  readonly startTimeoutMs?: number;
}

/** MCP servers as MCP clients name them. */
export interface McpServers {
  readonly mcpServers: { readonly [server: string]: object };
}

/** An OpenAPI document. */
export interface OpenApi {
  /** The path or the URL of the document. */
  readonly document: string;
  /** The URL of the document's server to call. Default: the first one. */
  readonly server?: string;
  /** The URL to call in the place of the document's servers. */
  readonly baseUrl?: string;
  readonly serverVariables?: { readonly [name: string]: string };
  /** Networks that may be reached beside public ones: in CIDR notation, `loopback` or `private`. Default: none. */
  readonly networks?: readonly string[];
  /** Tags of the operations that become tools. Default: all. */
  readonly tags?: readonly string[];
  /** Patterns of the operations that become tools. Default: all. */
  readonly operations?: readonly string[];
  /** The header in which calls that change something send their idempotency keys. Default: none. */
  readonly idempotencyHeader?: string;
  /** Credentials by the name of their security scheme: a secret, or a user with a password. */
  readonly credentials?: { readonly [scheme: string]: string | { readonly user: string; readonly password: string } };
}

/** A folder as tools. */
export interface Workspace {
  readonly folder: string;
  /** Patterns of the files that may be changed. Default: none. */
  readonly writable?: readonly string[];
  /** Whether files that are writable may be created. Default: `false`. */
  readonly allowCreate?: boolean;
  /** Whether files that are writable may be deleted. Default: `false`. */
  readonly allowDelete?: boolean;
}

/** Hosts that code may fetch from. */
export interface HttpAccess {
  /** The hosts, such as `api.example.com` or `*.example.com`. */
  readonly hosts: readonly string[];
  /** Whether code may send an `authorization` header of its own. Default: `false`. */
  readonly allowAuthorization?: boolean;
  /** The most bytes of a body that are read. Default: 1 MiB. */
  readonly bodyBytes?: number;
}

/** An audit log. */
export interface Audit {
  readonly path: string;
  /** Parts of arguments that are left out: patterns of tools, and the JSONPath of the part. */
  readonly redact?: readonly { readonly tools: readonly string[]; readonly path: string }[];
  /** Whether the code stands in the log, or its hash alone. Default: `full`. */
  readonly code?: "full" | "hashOnly";
  /** The size at which a file is full. Default: 64 MiB. */
  readonly rotateBytes?: number;
  /** How many full files are kept. Default: all. */
  readonly keep?: number;
  /** Whether each record is written through to the disk. Default: `never`. */
  readonly sync?: "never" | "everyRecord";
}

/** The settings of durable runs. */
export interface Durable {
  /** How long code may wait for people or a timer before it is taken off its relay, in milliseconds. */
  readonly passivateAfterMs?: number;
  /** The time that a person has for an answer, over restarts, in milliseconds. */
  readonly approvalWithinMs?: number;
  /** The time for which relays are tried, in milliseconds. */
  readonly reachWithinMs?: number;
  /** Whether a run may go on at a relay of another build. Default: `false`. */
  readonly anyBuild?: boolean;
  /** How many runs of one owner may be open. Default: 100. */
  readonly openRuns?: number;
}

/** The page of a host. */
export interface Ui {
  /** The address at which it is served, at `127.0.0.1` or `[::1]`. Default: `127.0.0.1:0`, a free port. */
  readonly listen?: string;
  /** The name of the person who decides, for journal and audit. Default: `page`. */
  readonly by?: string;
}

/** A relay elsewhere. */
export interface RemoteRelay {
  /** The address, such as `wss://relay.example/ws`. */
  readonly url: string;
  /** The bearer token, or a function that gives fresh ones. */
  readonly token: string | (() => string | Promise<string>);
  /** Addresses of further relays, which take the same tokens. */
  readonly fallbacks?: readonly string[];
  /** A PEM file with the authorities that may issue the relay's certificate. Default: those of the web. */
  readonly caFile?: string;
  /** Whether `ws://` to another machine is allowed, which shows the token to the network. Default: `false`. */
  readonly allowPlainRemote?: boolean;
  /** The time for which a lost connection is tried again, in milliseconds; 0: it is not. Default: 60,000. */
  readonly resumeWindowMs?: number;
  /** The maximum time of connecting, in milliseconds. Default: 10,000. */
  readonly connectTimeoutMs?: number;
  /** The maximum time for which code waits for its turn at the relay, in milliseconds. Default: 300,000. */
  readonly queueTimeoutMs?: number;
}

/** A relay that is started on this machine. */
export interface OwnRelay {
  readonly url?: never;
  /** The path of the program `sandbox-relay`. Default: `SANDBOX_RELAY_BIN`, then the one of this package. */
  readonly program?: string;
  /** A container image to start in the place of a program, such as `sandbox-relay:local`. It needs a Docker engine. */
  readonly image?: string;
  /** Maximums of limits. Default: those of the relay. */
  readonly maxLimits?: Limits;
  /** Environment variables of the relay. */
  readonly env?: { readonly [name: string]: string };
  /** Arguments of `sandbox-relay serve`. */
  readonly arguments?: readonly string[];
}

/** How results are shortened for models. `false` turns a step off. */
export interface OutputSettings {
  /** Whether binary data is taken out of the text, as attachments. Default: `true`. */
  readonly attachments?: boolean;
  /** Whether long results are reduced to what has to do with the intent of the model. Default: `true`. */
  readonly intent?: boolean;
  /** Whether large JSON is summarized. Default: `true`. */
  readonly summary?: boolean;
  readonly summaryOverBytes?: number;
  /** Whether the middle of long texts is cut out. Default: `true`. */
  readonly cut?: boolean;
  readonly cutCharacters?: number;
  /** Whether a line says how much was left out. Default: `true`. */
  readonly footer?: boolean;
}

/** The options of code that is run. */
export interface ExecuteOptions {
  /** Stops the code when it aborts: the execution rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** The maximum time of the code, in milliseconds: the limit `wallMs`. */
  readonly wallMs?: number;
  /** Limits that are to be lower. */
  readonly limits?: Limits;
  /** Patterns of the tools that the code may call. Default: all. */
  readonly tools?: readonly string[];
  /** Offers the tools of a phase. Default: the rules decide alone. */
  readonly phase?: Phase;
  /** What the code has beside `mcp`. Default: `console`, `timers`, `servers` and `introspection`, as far as offered. */
  readonly bindings?: readonly string[];
  /** The text that `read_input()` returns. Default: the code has neither that nor `emit`. */
  readonly input?: string;
  /** What is done about code that is certain to fail: it does not run, runs with warnings, or is not checked. */
  readonly check?: "refuse" | "warn" | "off";
  /** Whether code that is one tool call runs in the sandbox, too. Default: `false`. */
  readonly alwaysInSandbox?: boolean;
  /** The form of integers over 2^53 that tools give. Default: `number`. */
  readonly largeIntegers?: "number" | "text" | "bigint";
  /** The seed of `Math.random`. Default: a fresh one. */
  readonly seed?: number;
  /** The time at which the code's clock begins, in milliseconds since 1970. Default: the present. */
  readonly nowMs?: number;
  /** Sources of functions that run beside the code, by the name after `local.`. */
  readonly localTools?: { readonly [name: string]: string };
  /** The W3C trace and span that the execution belongs to. Default: a new trace. */
  readonly traceparent?: string;
}

/** Returns the options of a host for the native library, without its functions. */
export function nativeHostOptions(options: HostOptions): Record<string, unknown> {
  const {
    tools: _tools,
    approve: _approve,
    policy,
    openapi,
    workspace,
    http,
    audit,
    durable,
    relay,
    ...others
  } = options;
  checkJson({ policy, openapi, workspace, http, audit, durable, relay, ...others }, "the options");
  const { limits, output, ...plain } = others;
  return {
    ...snakeFields(plain),
    ...(limits && { limits: snakeFields(limits) }),
    ...(output && { output: snakeFields(output) }),
    ...(policy !== undefined && { policy: nativePolicy(policy) }),
    ...(openapi && {
      openapi: Object.fromEntries(Object.entries(openapi).map(([name, api]) => [name, settings(api)])),
    }),
    ...(workspace !== undefined && { workspace: settings(workspace) }),
    ...(http && { http: snakeFields(http) }),
    ...(audit !== undefined && { audit: nativeAudit(audit) }),
    ...(durable && { durable: snakeFields(durable) }),
    relay: nativeRelay(relay ?? {}),
  };
}

/** Returns the options of code for the native library. */
export function nativeRequest(code: string, options: ExecuteOptions): Record<string, unknown> {
  const { signal: _, ...written } = options;
  checkJson(written, "the options");
  const { wallMs, limits, ...others } = written;
  const lowered = wallMs === undefined ? limits : { ...limits, wallMs };
  return { code, ...snakeFields(others), ...(lowered && { limits: snakeFields(lowered) }) };
}

function settings(value: string | object): unknown {
  return typeof value === "string" ? value : snakeFields(value);
}

function nativeAudit(audit: string | Audit): unknown {
  if (typeof audit === "string") {
    return audit;
  }
  const { code, sync, ...others } = audit;
  const names = { ...(code && { code: snakeCase(code) }), ...(sync && { sync: snakeCase(sync) }) };
  return { ...snakeFields(others), ...names };
}

function nativeRelay(relay: RemoteRelay | OwnRelay): Record<string, unknown> {
  if (relay.url !== undefined) {
    const { token, ...others } = relay;
    return { ...snakeFields(others), ...(typeof token === "string" && { token }) };
  }
  const { maxLimits, ...others } = relay;
  const program = relay.program ?? (relay.image === undefined ? packagedRelay() : undefined);
  return {
    ...snakeFields(others),
    ...(program !== undefined && { program }),
    ...(maxLimits && { max_limits: snakeFields(maxLimits) }),
  };
}

/** Returns the relay of the native package; `undefined`: the environment names another, or the package has none. */
function packagedRelay(): string | undefined {
  const program = join(programFolder(), "sandbox-relay");
  return process.env.SANDBOX_RELAY_BIN === undefined && existsSync(program) ? program : undefined;
}
