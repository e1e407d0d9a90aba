const listing = await mcp.call("files.list_directory", {path: "/data/logs"});
const file = await mcp.call("files.read_text_file", {path: "/data/logs/app-00.log", head: 12});
return {listing: listing.content, head: file.content};
