return JSON.parse((await mcp.call("files.read_text_file", {path: "/data/tickets/index.json"})).content);
