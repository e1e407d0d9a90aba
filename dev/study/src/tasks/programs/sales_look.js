const listing = await mcp.call("files.list_directory", {path: "/data/sales"});
const first = listing.content.match(/\[FILE\] (.*)/)[1];
const file = await mcp.call("files.read_text_file", {path: `/data/sales/${first}`, head: 3});
return {listing: listing.content.slice(0, 200), head: file.content};
