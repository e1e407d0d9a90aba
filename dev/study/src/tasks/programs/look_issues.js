const log = await mcp.call("git.git_log", {repo_path: "/data/repo", max_count: 3});
const file = await mcp.call("files.read_text_file", {path: "/data/issues.json", head: 12});
return {log, issues: file.content};
