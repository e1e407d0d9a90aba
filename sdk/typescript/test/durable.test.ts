// Durable runs: an approval that is decided later, by another host.

import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Host, SandboxError } from "sandbox-relay";

import { PROGRAM, shop } from "./tools.js";

test("a run waits for a person, outlives its host, and goes on in another", async () => {
  const journal = join(mkdtempSync(join(tmpdir(), "sandbox-relay-")), "runs.db");
  const { tools, orders } = shop();
  // A run that waits leaves its relay soon.
  const durable = { passivateAfterMs: 50 };
  const first = await Host.start({ tools, journal, durable });
  const run = await first.runs.start(PROGRAM);
  assert.equal((await run.settled()).state, "waitingForApproval");
  const { id } = run;
  const shown = await first.runs.show(id);
  const waiting = shown.calls.find(({ state }) => state === "waiting_for_approval");
  assert.deepEqual([waiting?.tool, waiting?.arguments], ["shop.order", { item: "pear", count: 12 }]);
  assert.deepEqual(shown.waiting, [waiting?.call]);
  assert.equal(first.runs.get(id)?.id, id);
  const left = run.outcome();
  left.catch(() => undefined);
  await first.close();
  await assert.rejects(left, (error: SandboxError) => error instanceof SandboxError && error.code === "RUN_LEFT");

  await using second = await Host.start({ tools, journal, durable });
  assert.deepEqual(
    (await second.runs.list({ unfinished: true })).map((head) => head.id),
    [id],
  );
  await second.runs.decide(id, waiting?.call ?? 0, { approved: true, by: "ada" });
  const { runs, held, failed } = await second.runs.recover();
  assert.deepEqual([runs.length, held, failed], [1, [], []]);
  const { value } = (await runs[0]?.outcome()) ?? {};
  assert.deepEqual(value, { missing: 1, orders: ["ordered 12 pear"] });
  assert.equal(orders.length, 1);
  assert.equal((await second.runs.show(id)).status, "ended");
  assert.equal(await second.runs.forget(id), true);
  await assert.rejects(second.runs.show(id), /RUN_|no run|there is no/i);
});
