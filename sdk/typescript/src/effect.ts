// Effects: what calls of tools do.

import { camelCase } from "./case.js";

/**
 * What calls of a tool do.
 *
 * - `readOnly`: reads, and changes nothing. Without a policy, it runs.
 * - `mutating`: changes data or state. Without a policy, `approve` is asked.
 * - `privileged`: can do anything that a person has to answer for: run programs, spend money. Without a policy,
 *   `approve` is asked.
 */
export type Effect = "readOnly" | "mutating" | "privileged";

/** Returns an effect by its name in the native library. */
export function effectOf(name: string | null): Effect | null {
  return name === null ? null : (camelCase(name) as Effect);
}
