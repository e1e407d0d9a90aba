return await mcp.call("sqlite.read_query", {query: "SELECT COUNT(*) AS n FROM orders"});
