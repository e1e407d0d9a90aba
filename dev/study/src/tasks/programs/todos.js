const listing = await mcp.call("files.list_directory", {path: "/data/code"});
const names = [...listing.content.matchAll(/^\[FILE\] (.*)$/gm)].map((match) => match[1]);
const todos = [];
await Promise.all(names.map(async (file) => {
  const {content} = await mcp.call("files.read_text_file", {path: `/data/code/${file}`});
  for (const [, priority, todo] of content.matchAll(/TODO\(p(\d)\): (.*)/g)) {
    todos.push({file, priority: Number(priority), todo});
  }
}));
todos.sort((a, b) => a.priority - b.priority || (a.file < b.file ? -1 : 1));
return todos.slice(0, 10);
