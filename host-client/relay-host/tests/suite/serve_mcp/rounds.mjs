// An MCP client made of the newest official TypeScript SDK, which speaks the revision 2026-07-28. It connects, does one of each
// thing, and prints what happened.
//
// Usage: rounds.mjs SDK '{"command": PROGRAM, "args": [ARGUMENT...]}'
//        rounds.mjs SDK '{"url": URL, "token": TOKEN}'
const [sdk, place] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import(`${sdk}/dist/index.mjs`);
const { StdioClientTransport } = await import(`${sdk}/dist/stdio.mjs`);

const { url, token, ...program } = JSON.parse(place);
const headers = { Authorization: `Bearer ${token}` };
const transport = url
  ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
  : new StdioClientTransport({ ...program, env: process.env });

const client = new Client(
  { name: "typescript-sdk", version: "2" },
  { capabilities: { elicitation: {} }, versionNegotiation: { mode: "auto" } },
);
const asked = [];
client.setRequestHandler("elicitation/create", async ({ params }) => {
  asked.push(params.message);
  return { action: "accept", content: { allow: "once" } };
});
const execute = (code, options) => client.callTool({ name: "execute_code", arguments: { code } }, options);

await client.connect(transport);
const { tools } = await client.listTools();
const progress = [];
const approved = await execute(
  "const r = await mcp.call('fake.echo', {a: 1}); console.log('said'); return r.arguments",
  { onprogress: (told) => progress.push(told.progress) },
);
const failed = await execute("return await mcp.call('fake.ecko', {})");
const cancel = new AbortController();
// The first progress shows that the program runs.
const cancelled = await execute("await mcp.call('fake.reads', {}).catch(() => 1);\nfor (;;) {}", {
  signal: cancel.signal,
  onprogress: () => cancel.abort("enough"),
}).then(() => "ended", (error) => String(error));
const after = await execute("return 6 * 7");
console.log(JSON.stringify({
  revision: client.getNegotiatedProtocolVersion?.(), tools: tools.map((tool) => tool.name), approved, progress, asked, failed,
  cancelled, after,
}));
await client.close();
