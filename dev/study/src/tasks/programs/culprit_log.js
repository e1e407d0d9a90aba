return await mcp.call("git.git_log", {repo_path: "/data/repo", max_count: 15});
