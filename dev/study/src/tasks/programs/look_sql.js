return await mcp.call("sqlite.read_query", {query: "SELECT sql FROM sqlite_master"});
