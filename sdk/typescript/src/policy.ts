// Policies: the rules by which the host decides about tool calls.

import { snakeCase, snakeFields } from "./case.js";
import type { Effect } from "./effect.js";

/** What is done about a call: it runs, it fails, or `approve` is asked. */
export type Verdict = "allow" | "deny" | "ask";

/** A rule. The first rule that matches a call decides about it. */
export interface Rule {
  /** Patterns of full names, where `*` stands for any characters: `git.push`, `*.delete_*`. */
  readonly tools: readonly string[];
  readonly decision: Verdict;
  /** Matches only tools with one of these effects. Default: any effect, unknown ones too. */
  readonly effects?: readonly Effect[];
  /** Matches only in this phase. Default: in any phase, and without one. */
  readonly phase?: Phase;
  /** What the code reads when it is denied; only with `deny`. */
  readonly reason?: string;
}

/** `discover` offers tools that only read; `write` adds those that the policy names in `writePhase`. */
export type Phase = "discover" | "write";

/** A policy as an object. A policy file has the same members in TOML. */
export interface Policy {
  readonly rules?: readonly Rule[];
  /** Decides by effect, where no rule matches. Default: `readOnly` is allowed, all others ask. */
  readonly default?: Partial<Record<Effect | "unknown", Verdict>>;
  /** The tools that change something and are offered in the phase `write`. */
  readonly writePhase?: readonly string[];
  /** What one execution may use. Default: no more than the limits. */
  readonly budget?: {
    readonly calls?: number;
    readonly bytesRead?: number;
    readonly bytesReturned?: number;
    /** Budgets that all tools share which a pattern matches. */
    readonly tools?: { readonly [pattern: string]: { readonly calls?: number; readonly bytesRead?: number } };
  };
  /** What is known of tools, by pattern, in place of what their provider said. */
  readonly manifest?: { readonly [pattern: string]: ToolManifest };
}

/** What is known of tools. */
export interface ToolManifest {
  readonly effect?: Effect;
  readonly timeoutMs?: number;
  readonly resultBytes?: number;
  readonly overflow?: "fail" | "cut";
  readonly concurrency?: number;
  /** `false` hides the tools from code. Default: `true`. */
  readonly callableFromCode?: boolean;
  readonly idempotent?: boolean;
}

/** Returns a policy for the native library: a path stays one. */
export function nativePolicy(policy: string | { readonly toml: string } | Policy): unknown {
  if (typeof policy === "string" || "toml" in policy) {
    return policy;
  }
  const { rules, default: byEffect, writePhase, budget, manifest, ...unknown } = policy;
  const native: Record<string, unknown> = { ...unknown };
  if (rules !== undefined) {
    native.rule = rules.map(({ effects, ...rule }) => ({
      ...rule,
      ...(effects && { effects: effects.map(snakeCase) }),
    }));
  }
  if (byEffect !== undefined) {
    native.default = snakeFields(byEffect);
  }
  if (writePhase !== undefined) {
    native.phase = { write: { tools: writePhase } };
  }
  if (budget !== undefined) {
    const { tools, ...all } = budget;
    native.budget = { ...snakeFields(all), ...(tools && { tools: byPattern(tools) }) };
  }
  if (manifest !== undefined) {
    native.manifest = byPattern(manifest);
  }
  return { rules: native };
}

function byPattern(entries: { readonly [pattern: string]: ToolManifest | object }): Record<string, unknown> {
  const native = Object.entries(entries).map(([pattern, fields]) => {
    const { effect, ...others }: ToolManifest = fields;
    return [pattern, { ...snakeFields(others), ...(effect && { effect: snakeCase(effect) }) }];
  });
  return Object.fromEntries(native);
}
