return await mcp.call("time.convert_time", {source_timezone: "UTC", time: "09:30", target_timezone: "Asia/Kathmandu"});
