const repo_path = "/data/repo";
const log = await mcp.call("git.git_log", {repo_path, max_count: 2});
const shown = await mcp.call("git.git_show", {repo_path, revision: "HEAD"});
return {log, shown: shown.slice(0, 500)};
