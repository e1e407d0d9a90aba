const [log, file] = await Promise.all([
  mcp.call("git.git_log", {repo_path: "/data/repo", max_count: 60}),
  mcp.call("files.read_text_file", {path: "/data/issues.json"}),
]);
const commits = new Map();
for (const [, number] of log.matchAll(/^Message: .*\(#(\d+)\)/gm)) {
  commits.set(Number(number), (commits.get(Number(number)) ?? 0) + 1);
}
return JSON.parse(file.content)
  .filter((issue) => issue.state === "open" && issue.labels.includes("bug") && commits.has(issue.number))
  .map((issue) => ({issue: issue.number, commits: commits.get(issue.number)}))
  .sort((a, b) => a.issue - b.issue);
