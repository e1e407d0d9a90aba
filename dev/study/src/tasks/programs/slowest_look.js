const heads = await Promise.all(["gateway", "backend"].map((name) =>
  mcp.call("files.read_text_file", {path: `/data/requests/${name}.log`, head: 2})));
return heads.map((head) => head.content);
