const log = await mcp.call("git.git_log", {repo_path: "/data/repo", max_count: 1000});
const months = {};
for (const [, month, type] of log.matchAll(/^Date: (\d{4}-\d\d).*\nMessage: (\w+):/gm)) {
  months[month] ??= {};
  months[month][type] = (months[month][type] ?? 0) + 1;
}
return months;
