const file = await mcp.call("files.read_text_file", {path: "/data/app/package.json"});
return JSON.parse(file.content).version;
