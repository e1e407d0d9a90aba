// The page of a host: what runs, in a browser of the same machine.

import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";

import { Host, SandboxError } from "sandbox-relay";

import { shop } from "./tools.js";

interface View {
  readonly status: number | undefined;
  readonly text: string;
  readonly cookie: string;
}

/** Sends a request as a browser does: names of `localhost` are this machine. */
function sent(method: string, address: string, cookie = "", fields?: Record<string, string>): Promise<View> {
  const { host, port, pathname, origin } = new URL(address);
  const body = fields && new URLSearchParams(fields).toString();
  const type = fields && { origin, "content-type": "application/x-www-form-urlencoded" };
  return new Promise((resolve, reject) => {
    const headers = { host, cookie, connection: "close", ...type };
    const message = request({ host: "127.0.0.1", port, method, path: pathname, headers }, async (answer) => {
      let text = "";
      for await (const part of answer.setEncoding("utf8")) {
        text += part;
      }
      resolve({ status: answer.statusCode, text, cookie: answer.headers["set-cookie"]?.[0]?.split(";")[0] ?? "" });
    });
    message.on("error", reject).end(body);
  });
}

test("a call is seen and denied on the page", async () => {
  const { tools, orders } = shop();
  const host = await Host.start({ tools, ui: { by: "Ada" } });
  const address = host.page();
  assert.ok(address);
  const { origin, hash } = new URL(address);
  const { status, cookie } = await sent("POST", `${origin}/`, "", { token: hash.slice(1) });
  assert.equal(status, 303);
  const sees = async (path: string, text: string) => {
    for (;;) {
      const view = await sent("GET", origin + path, cookie);
      if (view.text.includes(text)) {
        return view.text;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const code = "return await mcp.call('shop.order', {item: 'pear'}).catch((error) => error.message)";
  const execution = host.execute(code, { alwaysInSandbox: true });
  const view = await sees("/approvals", "Deny call");
  const hidden = (name: string) => view.match(`name="${name}" value="([^"]*)"`)?.[1] ?? "";
  const action = view.match('action="(/questions/[^"]*)"')?.[1];
  const fields = { form: hidden("form"), question: hidden("question"), decision: "deny", reason: "no pears" };
  assert.equal((await sent("POST", origin + action, cookie, fields)).status, 303);
  assert.match(String((await execution).value), /no pears/);
  assert.equal(orders.length, 0);
  await sees("/live", "done");
  await host.close();
  assert.equal(host.page(), null);
  await assert.rejects(sent("GET", `${origin}/live`, cookie));
});

test("a host has no page unless it is asked for one, at an address of this machine", async () => {
  await using host = await Host.start({ tools: shop().tools });
  assert.equal(host.page(), null);
  for (const ui of [70_000, { listen: "0.0.0.0:0" }]) {
    await assert.rejects(
      Host.start({ ui }),
      (error: SandboxError) => error instanceof SandboxError && /ui/.test(error.message),
    );
  }
});
