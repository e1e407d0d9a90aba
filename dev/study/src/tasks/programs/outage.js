const {relations} = await mcp.call("memory.read_graph", {});
const down = new Set(["service-04"]);
for (let size = 0; size !== down.size;) {
  size = down.size;
  for (const {from, to, relationType} of relations) {
    if (relationType === "depends_on" && down.has(to)) down.add(from);
  }
}
down.delete("service-04");
return [...down].sort();
