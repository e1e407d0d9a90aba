const repo_path = "/data/repo";
const log = await mcp.call("git.git_log", {repo_path, max_count: 40});
const hashes = [...log.matchAll(/^Commit: (\w+)$/gm)].map((match) => match[1]);
const shown = await Promise.all(hashes.map((revision) => mcp.call("git.git_show", {repo_path, revision})));
const counts = {};
for (const text of shown) {
  if (!/^(\+\+\+ b|--- a)\/src\/auth\//m.test(text)) continue;
  const author = text.match(/^Author: (.*) </m)[1];
  counts[author] = (counts[author] ?? 0) + 1;
}
return counts;
