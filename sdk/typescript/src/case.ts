// The names of fields: snake_case in the native library, camelCase here.

/** Returns JSON of the native library with camelCase names; the values of `opaque` fields are left as they are. */
export function camelCased(value: unknown, opaque: ReadonlySet<string> = NONE): unknown {
  if (Array.isArray(value)) {
    return value.map((item) => camelCased(item, opaque));
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const entries = Object.entries(value).map(([name, field]) => {
    return [camelCase(name), opaque.has(name) ? field : camelCased(field, opaque)];
  });
  return Object.fromEntries(entries);
}

/** Returns a name in camelCase. */
export function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** Returns a name in snake_case. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Returns the fields of an object with snake_case names; their values are left as they are. */
export function snakeFields(fields: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [snakeCase(name), value]));
}

const NONE: ReadonlySet<string> = new Set();
