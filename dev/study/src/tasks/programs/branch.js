return await mcp.call("git.git_status", {repo_path: "/data/repo"});
