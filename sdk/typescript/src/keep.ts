// Keeps hosts while something of them runs: a host that is collected is closed.

const KEPT = new Set<object>();

/** Awaits a promise, and keeps its owner meanwhile. */
export async function keeping<T>(owner: object, promise: Promise<T>): Promise<T> {
  // An owner may wait for several.
  const kept = { owner };
  KEPT.add(kept);
  try {
    return await promise;
  } finally {
    KEPT.delete(kept);
  }
}
