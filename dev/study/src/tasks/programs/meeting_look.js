const times = {source_timezone: "UTC", time: "09:30", target_timezone: "Asia/Tokyo"};
return await mcp.call("time.convert_time", times);
