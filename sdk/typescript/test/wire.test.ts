// The wire is open: a host in 60 lines, with a WebSocket and nothing of this package.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { test } from "node:test";

import WebSocket from "ws";

type Fields = Map<number, number | Buffer>;

function varint(number: number): number[] {
  return number < 128 ? [number] : [(number & 127) | 128, ...varint(Math.floor(number / 128))];
}

/** A field of protobuf: bytes, text or a number. */
function field(number: number, value: number | string | Buffer): Buffer {
  if (typeof value === "number") {
    return Buffer.from([...varint(number << 3), ...varint(value)]);
  }
  const bytes = Buffer.from(value as string);
  return Buffer.concat([Buffer.from([...varint((number << 3) | 2), ...varint(bytes.length)]), bytes]);
}

function fields(data: Buffer): Fields {
  let at = 0;
  const next = () => {
    for (let value = 0, factor = 1; ; factor *= 128) {
      const byte = data[at++] ?? 0;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  const found: Fields = new Map();
  while (at < data.length) {
    const key = next();
    const value = next();
    const isBytes = (key & 7) === 2;
    found.set(key >> 3, isBytes ? data.subarray(at, at + value) : value);
    at += isBytes ? value : 0;
  }
  return found;
}

/** Runs code at a relay, with tools of the server `host`. */
function run(
  url: string,
  token: string,
  code: string,
  tools: Record<string, (args: never) => unknown>,
): Promise<unknown> {
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` }, perMessageDeflate: false });
  socket.on("open", () => socket.send(field(3, field(1, code)))); // Message.execute = 3, Execute.code = 1
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("message", (data: Buffer) => {
      const [[kind, body] = [0, 0]] = fields(data);
      const message = fields(body as Buffer);
      if (kind === 1) {
        const args = JSON.parse(String(message.get(3) ?? "{}")) as never; // tool_call: id = 1, tool = 2, arguments = 3
        const result = JSON.stringify(tools[String(message.get(2))]?.(args) ?? null);
        const answer = [field(1, message.get(1) ?? 0), field(2, 1), field(3, result)]; // id, success, result
        socket.send(field(2, Buffer.concat(answer)));
      } else {
        socket.close();
        const text = String(message.get(kind === 4 ? 1 : 2)); // result: data = 1; error: error = 2
        kind === 4 ? resolve(JSON.parse(text)) : reject(new Error(text));
      }
    });
  });
}

test("a basic peer runs code with its tools", async () => {
  const folder = import.meta.resolve("sandbox-relay-linux-x64-gnu/package.json").replace("file://", "");
  const relay = folder.replace("package.json", "bin/sandbox-relay");
  const env = { ...process.env, RELAY_JWT_SECRET: "a secret of 32 bytes for this test" };
  const serving = spawn(relay, ["serve", "--listen", "127.0.0.1:0"], { env, stdio: ["ignore", "ignore", "pipe"] });
  try {
    let address: string | undefined;
    for await (const line of createInterface({ input: serving.stderr })) {
      address = /127\.0\.0\.1:\d+/.exec(line)?.[0];
      if (address !== undefined) break;
    }
    const token = execFileSync(relay, ["token", "--subject", "typescript"], { env, encoding: "utf8" }).trim();
    const url = `ws://${address}/ws`;
    const add = ({ a, b }: { a: number; b: number }) => a + b;
    assert.equal(await run(url, token, "return await mcp.call('host.add', { a: 40, b: 2 })", { add }), 42);
    await assert.rejects(run(url, token, "throw new Error('no')", {}), /no/);
  } finally {
    serving.kill();
  }
});
