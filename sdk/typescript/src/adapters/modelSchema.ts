// JSON Schema as a Standard Schema, which agent frameworks take beside those of zod.

import type { JsonSchema, StandardSchema } from "../schema.js";

/** A Standard Schema that has its JSON Schema. */
// biome-ignore lint/suspicious/noExplicitAny: the frameworks' tools of unknown types have it.
export type ModelSchema = StandardSchema<any> & {
  readonly "~standard": {
    readonly jsonSchema: {
      readonly input: (options: unknown) => Record<string, unknown>;
      readonly output: (options: unknown) => Record<string, unknown>;
    };
  };
};

/** Makes a Standard Schema that takes everything: the host checks the arguments, and tells the model what is wrong. */
export function modelSchema(schema: JsonSchema): ModelSchema {
  const copy = () => structuredClone(schema) as Record<string, unknown>;
  return {
    "~standard": {
      version: 1,
      vendor: "sandbox-relay",
      validate: (value) => ({ value }),
      jsonSchema: { input: copy, output: copy },
    },
  };
}
