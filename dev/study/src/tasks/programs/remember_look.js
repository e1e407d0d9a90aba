return (await mcp.call("files.read_text_file", {path: "/data/people.json", head: 12})).content;
