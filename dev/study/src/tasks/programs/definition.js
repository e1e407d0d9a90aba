let file = "mod_005.ts";
for (let hops = 0; hops < 200; hops++) {
  const {content} = await mcp.call("files.read_text_file", {path: `/data/code/${file}`});
  const next = content.match(/export \{ formatMoney \} from "\.\/(\w+)"/);
  if (!next) return {file, hops, defined: content.includes("function formatMoney")};
  file = `${next[1]}.ts`;
}
throw new Error("the chain does not end");
