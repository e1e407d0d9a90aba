// The three tools of the tests: one that reads, one with state, one that needs an approval.

import { type Tool, tool } from "sandbox-relay";
import { z } from "zod";

/** A shop: its stock, and the orders that it took. */
export interface Shop {
  readonly tools: Tool[];
  readonly orders: { item: string; count: number }[];
}

export function shop(): Shop {
  const orders: Shop["orders"] = [];
  const stock: Record<string, number> = { apple: 7, pear: 0, plum: 3 };
  const tools = [
    tool("shop.items", {
      description: "Lists the items of the shop",
      effect: "readOnly",
      output: z.array(z.string()),
      run: () => Object.keys(stock),
    }),
    tool("shop.stock", {
      description: "Tells how many of an item are there",
      effect: "readOnly",
      input: z.object({ item: z.string().describe("The name of the item") }),
      output: z.object({ item: z.string(), count: z.number() }),
      run: async ({ item }) => ({ item, count: stock[item] ?? 0 }),
    }),
    tool("shop.order", {
      description: "Orders an item",
      effect: "mutating",
      input: z.object({ item: z.string(), count: z.number().int().positive().default(1) }),
      run: (order) => {
        orders.push(order);
        return `ordered ${order.count} ${order.item}`;
      },
    }),
  ];
  return { tools, orders };
}

/** A program that calls all three. */
export const PROGRAM = `
const items = await mcp.call("shop.items");
const stock = await Promise.all(items.map((item) => mcp.call("shop.stock", { item })));
const missing = stock.filter(({ count }) => count === 0);
const orders = [];
for (const { item } of missing) orders.push(await mcp.call("shop.order", { item, count: 12 }));
return { missing: missing.length, orders };
`;
