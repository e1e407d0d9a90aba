// An MCP client made of the official TypeScript SDK. It connects, does one of each thing, and prints what happened.
//
// Usage: client.mjs SDK '{"command": PROGRAM, "args": [ARGUMENT...]}'
//        client.mjs SDK '{"url": URL, "token": TOKEN}'
const [sdk, place] = process.argv.slice(2);
const load = (path) => import(`${sdk}/dist/esm/${path}.js`);
const { Client } = await load("client/index");
const { StdioClientTransport } = await load("client/stdio");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp");
const { ElicitRequestSchema } = await load("types");

const { url, token, ...program } = JSON.parse(place);
const headers = { Authorization: `Bearer ${token}` };
const transport = url
  ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
  : new StdioClientTransport({ ...program, env: process.env });

const client = new Client({ name: "typescript-sdk", version: "1" }, { capabilities: { elicitation: {} } });
const asked = [];
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  asked.push(params.message);
  return { action: "accept", content: { allow: "once" } };
});
const execute = (code, options) =>
  client.callTool({ name: "execute_code", arguments: { code } }, undefined, options);

await client.connect(transport);
// From here on the SDK checks structured results against the schemas of the tools.
const { tools } = await client.listTools();
const progress = [];
const value = await execute("return (await mcp.call('fake.reads', {}).catch((e) => e.code))", {});
const approved = await execute(
  "const r = await mcp.call('fake.echo', {a: 1}); console.log('said'); return r.arguments",
  { onprogress: (told) => progress.push(told.progress) },
);
const failed = await execute("await mcp.call('fake.echo', {});\nreturn await mcp.call('fake.ecko', {})");
const cancel = new AbortController();
// The first progress shows that the program runs.
const cancelled = await execute("await mcp.call('fake.reads', {}).catch(() => 1);\nfor (;;) {}", {
  signal: cancel.signal,
  onprogress: () => cancel.abort("enough"),
}).then(() => "ended", (error) => String(error));
// The server takes calls after that.
const after = await execute("return 6 * 7");
console.log(JSON.stringify({
  server: client.getServerVersion(), tools: tools.map((tool) => tool.name), value, approved, progress, asked, failed,
  cancelled, after,
}));
await client.close();
