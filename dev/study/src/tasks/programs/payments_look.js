const tables = await mcp.call("sqlite.read_query", {query: "SELECT sql FROM sqlite_master"});
const file = await mcp.call("files.read_text_file", {path: "/data/payments.csv", head: 3});
return {tables, payments: file.content};
