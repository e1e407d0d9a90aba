// JSON of what the application gives. What JSON would change in silence is refused, with its place.

import { types } from "node:util";

import { errorText } from "./errors.js";

/**
 * Writes a value as JSON; `undefined` and functions are `null`.
 *
 * @param what - Names the value in errors.
 * @throws TypeError: JSON has no form for a part of it.
 */
export function jsonOf(value: unknown, what: string): string {
  let json: string;
  try {
    json = JSON.stringify(value) ?? "null";
  } catch (cause) {
    checkJson(value, what);
    throw new TypeError(`${what} cannot be written as JSON: ${errorText(cause)}`, { cause });
  }
  // What could be written has no cycles, and looking for them takes time.
  check(value, { what, path: [], around: undefined });
  return json;
}

/**
 * Checks that JSON has a form for each part of a value. Objects with `toJSON` choose theirs.
 *
 * @param what - Names the value in errors.
 * @throws TypeError: a part has none, such as `NaN`, which JSON would write as `null`.
 */
export function checkJson(value: unknown, what: string): void {
  check(value, { what, path: [], around: new Set() });
}

interface Place {
  readonly what: string;
  readonly path: (string | number)[];
  /** The objects that the value is in; `undefined`: none contains itself. */
  readonly around: Set<object> | undefined;
}

function check(value: unknown, place: Place): void {
  if (typeof value === "number") {
    if (!Number.isFinite(value)) {
      throw refused(place, String(value), "use a finite number");
    }
  } else if (typeof value === "bigint") {
    throw refused(place, "a bigint", "use a number, or its text");
  } else if (typeof value === "object" && value !== null && !hasOwnForm(value)) {
    checkObject(value, place);
  }
}

function hasOwnForm(value: { readonly toJSON?: unknown }): boolean {
  return typeof value.toJSON === "function";
}

function checkObject(value: object, place: Place): void {
  const { path, around } = place;
  if (around?.has(value)) {
    throw refused(place, "an object that contains itself", "leave that out");
  }
  around?.add(value);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      path.push(index);
      check(value[index], place);
      path.pop();
    }
  } else {
    checkKind(value, place);
    for (const name of Object.keys(value)) {
      path.push(name);
      check((value as Record<string, unknown>)[name], place);
      path.pop();
    }
  }
  around?.delete(value);
}

/** Refuses the kinds of objects whose content JSON leaves out or takes apart. */
function checkKind(value: object, place: Place): void {
  const prototype = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) {
    return;
  }
  if (types.isMap(value)) {
    throw refused(place, "a Map", "use an object, such as Object.fromEntries(map)");
  }
  if (types.isSet(value)) {
    throw refused(place, "a Set", "use an array, such as [...set]");
  }
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) {
    throw refused(place, "binary data", "use an array of numbers, or base64 text");
  }
  if (types.isNativeError(value) || value instanceof Error) {
    throw refused(place, "an Error", "throw it, or use its message");
  }
  if (types.isPromise(value)) {
    throw refused(place, "a Promise", "await it");
  }
}

function refused({ what, path }: Place, value: string, advice: string): TypeError {
  const steps = path.map((step) => {
    if (typeof step === "number") return `[${step}]`;
    return /^[\w$]+$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
  });
  const where = steps.length === 0 ? what : `\`${steps.join("").replace(/^\./, "")}\` of ${what}`;
  return new TypeError(`${where}: ${value} has no JSON form: ${advice}`);
}
