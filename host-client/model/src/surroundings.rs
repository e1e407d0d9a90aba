//! Describes for models how code runs: how tools are called, and what is available.

/// Returns the description for a prompt or a tool, one line for each topic. `bindings`: those that code has.
pub(crate) fn surroundings(bindings: &[&str]) -> String {
    let has = |name: &str| bindings.contains(&name);
    let mut text = String::from(
        "- Form: JavaScript or TypeScript; statements at the top level, where `await` works, and `return` with the \
         answer.\n\
         - Tools: `await mcp.call(\"server.tool\", {…})` gives the tool's result.",
    );
    text.push_str(if has("servers") {
        " Each server is an object, too: `await exa.search({query: \"…\"})`. What cannot stand in a name is `_` there \
         (`my-server.get.it` is `my_server.get_it`). Give no variable the name of a server.\n"
    } else {
        " In the list of tools, `server.tool(args)` stands for that call; where another name follows after `//`, it is \
         the one to call.\n"
    });
    text.push_str(
        "- A result is a value, parsed already, of the type that the tool declares; for `unknown` a value, a text, or an \
         array of parts where a tool gives images or several texts. It has no `.content[0].text` around it, and \
         `JSON.parse` is only for a text that holds JSON.",
    );
    text.push_str(if has("introspection") {
        " This runs: `const tools = await mcp.search(\"file\"); return tools.map(tool => tool.name)`.\n"
    } else {
        "\n"
    });
    text.push_str(
        "- Calls that do not need each other's results are made together: `const [a, b] = await Promise.all([…, …])`.\n\
         - `return` the answer as JSON, and of it only what is needed: filter, join and count in the program.\n\
         - A failed call throws an Error with `code` (such as `INVALID_ARGUMENTS`, `TOOL_FAILED`, `TOOL_DENIED`) and \
         `message`. Catch it where the program can go on without the call, and nowhere else.\n\
         - What is there: the built-ins of ECMAScript, `mcp`",
    );
    for (name, what) in [
        ("console", ", `console`"),
        ("timers", ", timers such as `setTimeout`"),
        (
            "introspection",
            "; `await mcp.search(\"words\")` finds tools, `await mcp.describe(\"server.tool\")` says all of one, \
             `await __getToolInterface(\"server.tool\")` the same, or null",
        ),
    ] {
        if has(name) {
            text.push_str(what);
        }
    }
    text.push_str(
        ".\n- What is not there: no `require`, `import`, `fetch`, `fs` or `process`, no files and no network. \
         Everything outside is reached by tools.\n",
    );
    text
}
