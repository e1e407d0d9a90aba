//! The tools of ten real MCP servers, as these servers list them, and what people look for among them.
//!
//! The servers are packages of npm and PyPI under MIT or Apache 2.0; the file names each with its version.

use serde_json::Value;

const TOOLS: &str = include_str!("../catalogue/tools.json");
const QUESTIONS: &str = include_str!("../catalogue/questions.txt");

/// A tool of a real MCP server.
#[derive(Debug, Clone)]
pub struct ListedTool {
    /// The full name, such as `git.git_log`.
    pub name: String,
    /// The server's description of it.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of its result; `None`: the server gives none.
    pub output_schema: Option<Value>,
}

/// A search query, and the tools that answer it.
#[derive(Debug, Clone)]
pub struct Question {
    /// The text of the query, as a person or a model types it.
    pub query: String,
    /// The full names of the tools of which one has to be found.
    pub answers: Vec<String>,
}

/// Reads the tools, 116 of ten servers, in the order of the file.
///
/// # Panics
/// The file is not as this module expects it.
pub fn tools() -> Vec<ListedTool> {
    let Ok(Value::Object(servers)) = serde_json::from_str(TOOLS) else { panic!("catalogue/tools.json is no object") };
    let text = |tool: &Value, member: &str| tool[member].as_str().unwrap_or_default().to_owned();
    let of_server = |(server, listed): (&String, &Value)| -> Vec<_> {
        let tools = listed["tools"].as_array().into_iter().flatten();
        let listed = tools.map(|tool| ListedTool {
            name: format!("{server}.{}", text(tool, "name")),
            description: text(tool, "description"),
            input_schema: tool["inputSchema"].clone(),
            output_schema: tool.get("outputSchema").cloned(),
        });
        listed.collect()
    };
    servers.iter().flat_map(of_server).collect()
}

/// Reads the two lists of questions: 100, and 50 by which nothing may be chosen.
///
/// # Panics
/// The file is not as this module expects it.
pub fn questions() -> [Vec<Question>; 2] {
    let question = |line: &str| {
        let Some((query, answers)) = line.split_once(" | ") else { panic!("no answer: {line}") };
        Question { query: query.to_owned(), answers: answers.split(", ").map(str::to_owned).collect() }
    };
    let lines = |list: &str| list.lines().filter(|line| !line.starts_with('#')).map(question).collect();
    let Some((first, second)) = QUESTIONS.split_once("#\n") else { panic!("there is no second list") };
    [lines(first), lines(second)]
}
