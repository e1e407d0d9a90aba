// Relays that lie: each becomes an error with a sentence, and the process goes on.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { Host, SandboxError } from "sandbox-relay";
import { type WebSocket, WebSocketServer } from "ws";

type Lie = (socket: WebSocket) => void;

const LIES: Record<string, Lie> = {
  "hangs up at once": (socket) => socket.terminate(),
  "closes with a reason": (socket) => socket.close(1011, "out of order"),
  "sends bytes that are no message": (socket) => socket.send(Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff])),
  "sends text": (socket) => socket.send("welcome"),
  "sends the result of code that nobody ran": (socket) => socket.send(Buffer.from([0x22, 0x03, 0x0a, 0x01, 0x31])),
  "says nothing": () => undefined,
};

for (const [name, lie] of Object.entries(LIES)) {
  test(`a relay that ${name}`, async () => {
    const server = createServer().listen(0, "127.0.0.1");
    new WebSocketServer({ server }).on("connection", (socket) => {
      socket.on("error", () => undefined);
      lie(socket);
    });
    await refused(server);
  });
}

test("a web server that is no relay", async () => {
  const server = createServer((_, response) => response.end("hello")).listen(0, "127.0.0.1");
  await refused(server);
});

/** Runs code at a relay that lies, and closes both in time. */
async function refused(server: Server): Promise<void> {
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const host = await Host.start({
    relay: { url: `ws://127.0.0.1:${port}/ws`, token: "token", connectTimeoutMs: 500, resumeWindowMs: 0 },
  });
  try {
    const error = await host.execute("return [1]", { wallMs: 500 }).catch((error: unknown) => error);
    assert.ok(error instanceof SandboxError, String(error));
    assert.ok(["connection", "script", "authentication"].includes(error.kind), error.kind);
    assert.ok(error.message.length > 20, error.message);
  } finally {
    await host.close();
    server.closeAllConnections();
    server.close();
  }
}
