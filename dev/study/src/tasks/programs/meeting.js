const zones = [
  "Africa/Johannesburg", "Africa/Lagos", "Africa/Nairobi", "America/Bogota", "America/Jamaica", "America/Lima",
  "America/Panama", "America/Phoenix", "Asia/Bangkok", "Asia/Dhaka", "Asia/Dubai", "Asia/Jakarta", "Asia/Karachi",
  "Asia/Kathmandu", "Asia/Kolkata", "Asia/Shanghai", "Asia/Singapore", "Asia/Tokyo",
  "Australia/Brisbane", "Pacific/Honolulu",
];
const local = await Promise.all(zones.map(async (target_timezone) => {
  const times = await mcp.call("time.convert_time", {source_timezone: "UTC", time: "09:30", target_timezone});
  return [target_timezone, times.target.datetime.slice(11, 16)];
}));
return Object.fromEntries(local);
