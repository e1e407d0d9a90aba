const listing = await mcp.call("files.list_directory", {path: "/data/sales"});
const names = [...listing.content.matchAll(/^\[FILE\] (.*\.csv)$/gm)].map((match) => match[1]);
const tables = await Promise.all(names.map((name) => mcp.call("files.read_text_file", {path: `/data/sales/${name}`})));
const totals = {};
for (const {content} of tables) {
  for (const line of content.trim().split("\n").slice(1)) {
    const [, region, , units, price] = line.split(",");
    totals[region] = (totals[region] ?? 0) + units * price;
  }
}
return totals;
