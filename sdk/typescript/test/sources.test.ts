// Tools from elsewhere beside functions: a real MCP server, an OpenAPI document with its server, a folder.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Host } from "sandbox-relay";

const folder = mkdtempSync(join(tmpdir(), "sandbox-relay-"));

test("an MCP server's tools are called beside functions, and its end is the host's", async () => {
  const programs = fileURLToPath(import.meta.resolve("sandbox-relay-linux-x64-gnu")).replace(/[^/]*$/, "bin");
  const env = { SANDBOX_RELAY_BIN: join(programs, "sandbox-relay") };
  const mcp = { mcpServers: { inner: { command: join(programs, "relay-host"), args: ["serve-mcp"], env } } };
  await using host = await Host.start({ mcp, policy: { rules: [{ tools: ["inner.*"], decision: "allow" }] } });
  const [server] = host.servers();
  assert.deepEqual([server?.name, server?.connected], ["inner", true]);
  assert.ok(host.tools().some(({ name }) => name === "inner.execute_code"));
  const run = host.execute<unknown[]>("return [await inner.execute_code({ code: 'return 6 * 7' })]");
  assert.match(JSON.stringify((await run).value), /42/);
});

test("the operations of an OpenAPI document are tools", async () => {
  const server = createServer((request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ path: request.url, key: request.headers["x-key"] }));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const document = join(folder, "pets.json");
  writeFileSync(
    document,
    JSON.stringify({
      openapi: "3.0.3",
      info: { title: "Pets", version: "1" },
      servers: [{ url: `http://127.0.0.1:${port}/v1` }],
      components: { securitySchemes: { key: { type: "apiKey", in: "header", name: "x-key" } } },
      security: [{ key: [] }],
      paths: {
        "/pets/{id}": {
          get: {
            operationId: "getPet",
            parameters: [{ name: "id", in: "path", required: true, schema: { type: "integer" } }],
            responses: { 200: { description: "It", content: { "application/json": { schema: { type: "object" } } } } },
          },
        },
      },
    }),
  );
  try {
    const pets = { document, networks: ["loopback"], credentials: { key: "a secret" } };
    await using host = await Host.start({ openapi: { pets } });
    const [tool] = host.tools();
    assert.deepEqual([tool?.name, tool?.effect], ["pets.getPet", "readOnly"]);
    const answer = JSON.stringify(await host.call("pets.getPet", { id: 7 }));
    assert.match(answer, /\/v1\/pets\/7/);
  } finally {
    server.close();
  }
});

test("a folder's files are read; one that is absent is named", async () => {
  writeFileSync(join(folder, "in.txt"), "hello");
  const workspace = { folder, writable: ["*.txt"], allowCreate: true };
  await using host = await Host.start({ workspace });
  const names = host.tools().map(({ name }) => name);
  assert.ok(names.length > 2 && names.every((name) => name.startsWith("workspace.")), names.join());
  const read = await host.call("workspace.read", { path: "in.txt" });
  assert.match(JSON.stringify(read), /hello/);
  await assert.rejects(Host.start({ workspace: join(folder, "absent") }), /absent/);
});
