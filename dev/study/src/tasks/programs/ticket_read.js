return (await mcp.call("files.read_text_file", {path: "/data/tickets/T-317.txt"})).content;
