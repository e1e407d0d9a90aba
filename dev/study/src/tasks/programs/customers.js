return await mcp.call("sqlite.read_query", {
  query: `SELECT c.name AS name, SUM(o.cents) AS cents FROM orders o JOIN customers c ON c.id = o.customer_id
    WHERE o.day BETWEEN '2026-07-01' AND '2026-09-30' GROUP BY c.id ORDER BY cents DESC LIMIT 5`,
});
