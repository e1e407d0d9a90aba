const listing = await mcp.call("files.list_directory", {path: "/data/profiles"});
const first = listing.content.match(/\[FILE\] (.*)/)[1];
const file = await mcp.call("files.read_text_file", {path: `/data/profiles/${first}`});
return {count: listing.content.split("\n").length, first: file.content};
