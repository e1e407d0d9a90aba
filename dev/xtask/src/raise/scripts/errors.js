// What goes wrong and is caught: the stack's end, sizes that cannot be had, code from text, a tool that is not there.
const caught = [];
const attempt = async (wrong) => { try { await wrong(); } catch (error) { caught.push(String(error), error.stack); } };
await attempt(function deeper() { deeper(); });
await attempt(() => "x".repeat(2 ** 30));
await attempt(() => new ArrayBuffer(2 ** 40));
await attempt(() => new Array(2 ** 32));
await attempt(() => eval("1"));
await attempt(() => new Function("return 1"));
await attempt(() => null.missing);
await attempt(() => mcp.call("none.there", {}));
await attempt(() => JSON.parse("{"));
await attempt(() => new RegExp("("));
emit(caught.length > 10 ? "done" : `only ${caught.length}`);
