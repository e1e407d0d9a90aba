const [gateway, backend] = await Promise.all(["gateway", "backend"].map((name) =>
  mcp.call("files.read_text_file", {path: `/data/requests/${name}.log`})));
const users = new Map([...gateway.content.matchAll(/^(\S+) user=(\S+)/gm)].map((match) => [match[1], match[2]]));
return [...backend.content.matchAll(/^(\S+) .*took=(\d+)ms$/gm)]
  .map(([, request, ms]) => ({request, user: users.get(request), ms: Number(ms)}))
  .sort((a, b) => b.ms - a.ms)
  .slice(0, 5);
