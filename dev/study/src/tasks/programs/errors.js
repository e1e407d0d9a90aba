const listing = await mcp.call("files.list_directory", {path: "/data/logs"});
const names = [...listing.content.matchAll(/^\[FILE\] (.*)$/gm)].map((match) => match[1]);
const services = {}, faults = {};
await Promise.all(names.map(async (name) => {
  const {content} = await mcp.call("files.read_text_file", {path: `/data/logs/${name}`});
  for (const [, service, fault] of content.matchAll(/^\S+ ERROR (\S+) (.*)$/gm)) {
    services[service] = (services[service] ?? 0) + 1;
    faults[fault] = (faults[fault] ?? 0) + 1;
  }
}));
const [[top]] = Object.entries(faults).sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
return {services, top};
