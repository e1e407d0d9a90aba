const listing = await mcp.call("files.list_directory", {path: "/data/profiles"});
const names = [...listing.content.matchAll(/^\[FILE\] (.*)$/gm)].map((match) => match[1]);
const paths = names.map((name) => `/data/profiles/${name}`);
const texts = await Promise.all(paths.map((path) => mcp.call("files.read_text_file", {path})));
const rows = texts
  .map((text) => JSON.parse(text.content))
  .filter((profile) => profile.active)
  .map(({name, team, email}) => `${name},${team},${email}\n`)
  .sort();
await mcp.call("files.write_file", {path: "/data/out/roster.csv", content: `name,team,email\n${rows.join("")}`});
return {rows: rows.length};
