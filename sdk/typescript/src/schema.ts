// Schemas of arguments and results: Standard Schema, as zod, ArkType, Valibot and others have it, or JSON Schema.

import { ToolError } from "./toolError.js";

/** A JSON Schema: an object with keywords such as `type` and `properties`. Drafts 7 and 2020-12 are understood. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/**
 * A schema of any library that implements [Standard Schema](https://standardschema.dev), such as zod 4. The library
 * also has to convert it to JSON Schema, as zod does from 4.2 on.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly jsonSchema?: {
      readonly input: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>;
      readonly output: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>;
    };
  };
}

/** The result of a validation: the value as the schema gives it, or the issues. */
export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<StandardIssue> };

/** One reason why a value does not fit its schema. */
export interface StandardIssue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

/** A schema of arguments or results. */
export type Schema = StandardSchema<unknown, unknown> | JsonSchema;

/** The type that a Standard Schema gives: with its defaults and transformations. */
export type Output<S> = S extends {
  readonly "~standard": { readonly types?: { readonly output: infer Out } | undefined };
}
  ? Out
  : never;

/** The type that a Standard Schema takes. */
export type Input<S> = S extends { readonly "~standard": { readonly types?: { readonly input: infer In } | undefined } }
  ? In
  : never;

export function isStandard(schema: Schema): schema is StandardSchema {
  return "~standard" in schema;
}

/** Returns a schema as JSON Schema. `where` names it in errors. */
export function jsonSchemaOf(schema: Schema, side: "input" | "output", where: string): JsonSchema {
  if (!isStandard(schema)) {
    return schema;
  }
  const { vendor, jsonSchema } = schema["~standard"];
  if (jsonSchema === undefined) {
    throw new TypeError(
      `${where}: ${vendor} does not say its schema as JSON Schema: use a newer version of it, such as zod 4.2, ` +
        "or give a JSON Schema",
    );
  }
  const converted = jsonSchema[side]({ target: "draft-2020-12" });
  // It is the same for all, and takes room in what models read.
  const { $schema: _, ...rest } = converted;
  return rest;
}

/** Returns a value as its schema gives it: with defaults and transformations. */
export async function parsed(schema: Schema, value: unknown): Promise<unknown> {
  if (!isStandard(schema)) {
    return value;
  }
  let result = schema["~standard"].validate(value);
  if (result instanceof Promise) {
    result = await result;
  }
  if (result.issues !== undefined) {
    throw new ToolError("INVALID_ARGUMENTS", result.issues.map(issueText).join("; "));
  }
  return result.value;
}

function issueText({ message, path }: StandardIssue): string {
  const keys = (path ?? []).map((part) => String(typeof part === "object" ? part.key : part));
  return keys.length === 0 ? message : `${keys.join(".")}: ${message}`;
}
