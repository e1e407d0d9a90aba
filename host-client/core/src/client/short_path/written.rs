//! A tool call as JSON: `{"tool": "server.tool", "arguments": {…}}`, alone or in a fence.

use relay_script::json;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The maximum length of a text that is read as a tool call, in bytes; longer ones are taken as code.
const MAX_BYTES: usize = 4 << 20;

/// A text, read as a tool call in JSON.
#[derive(Debug, PartialEq)]
pub(super) enum Written {
    /// The text is not meant as a tool call.
    No,
    /// The text is meant as a tool call and is not a valid one; the reason, for people.
    Unfit(String),
    /// The text is a tool call.
    Call {
        /// The tool's name, as it is written.
        tool: String,
        /// The arguments as JSON, as V8 would write it.
        arguments: Vec<u8>,
    },
}

/// An object that names a tool, whatever else it holds.
#[derive(Deserialize)]
struct Named {
    tool: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call<'a> {
    #[serde(rename = "tool")]
    _tool: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// Reads a text as a tool call. An object that names a tool is always taken as one: as code, it would only be its own
/// value.
pub(super) fn read(text: &str) -> Written {
    let text = unfenced(text.trim());
    if !text.starts_with('{') || !text.ends_with('}') || text.len() > MAX_BYTES {
        return Written::No;
    }
    let Ok(Named { tool }) = serde_json::from_str(text) else { return Written::No };
    let call: Call<'_> = match serde_json::from_str(text) {
        Ok(call) => call,
        Err(error) => {
            let form = "a tool call as JSON is {\"tool\": \"server.tool\", \"arguments\": {…}}";
            return Written::Unfit(format!("{form}: {error}"));
        }
    };
    let arguments = call.arguments.map_or("{}", RawValue::get);
    let arguments = if arguments == "null" { "{}" } else { arguments };
    match json::normalize(arguments.as_bytes()) {
        Some(arguments) => Written::Call { tool, arguments },
        None => Written::Unfit(format!("the arguments of {tool} nest more than {} levels", json::MAX_DEPTH)),
    }
}

/// Takes the fence of JSON off a text; returns a text without a fence as it is.
fn unfenced(text: &str) -> &str {
    let inside = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    inside.and_then(|inside| inside.strip_suffix("```")).map_or(text, str::trim)
}

/// Line and column of the call in what [`as_code`] returns.
pub(super) const PLACE: (u32, u32) = (1, 18);

/// Writes a call as code, for a call that has to be made in the sandbox.
pub(super) fn as_code(tool: &str, arguments: &[u8]) -> String {
    let arguments = String::from_utf8_lossy(arguments);
    // A string of JSON is one of JavaScript.
    let [tool, arguments] = [tool, &arguments].map(|text| serde_json::Value::from(text).to_string());
    format!("return await mcp.call({tool}, JSON.parse({arguments}))")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_names_a_tool_is_a_call_or_a_mistake() {
        let call = |tool: &str, arguments: &str| Written::Call { tool: tool.into(), arguments: arguments.into() };
        for (text, expected) in [
            (r#"{"tool":"exa.search","arguments":{"b":1.0,"1":2}}"#, call("exa.search", r#"{"1":2,"b":1}"#)),
            (" {\n\"arguments\": null, \"tool\": \"a.b\" } ", call("a.b", "{}")),
            (r#"{"tool":"a.b"}"#, call("a.b", "{}")),
            (r#"{"tool":"a.b","arguments":[1]}"#, call("a.b", "[1]")),
            ("```json\n{\"tool\":\"a.b\"}\n```", call("a.b", "{}")),
            (r#"{"tool":5}"#, Written::No),
            (r#"{"arguments":{}}"#, Written::No),
            (r#"{tool:"a.b"}"#, Written::No),
            ("{}", Written::No),
            ("", Written::No),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for text in [r#"{"tool":"a.b","args":{}}"#, r#"{"tool":"a.b","arguments":{},"id":7}"#] {
            assert!(matches!(read(text), Written::Unfit(reason) if reason.contains("unknown field")), "{text}");
        }
        let deep = format!(r#"{{"tool":"a.b","arguments":{}{}}}"#, "[".repeat(101), "]".repeat(101));
        assert!(matches!(read(&deep), Written::Unfit(reason) if reason.contains("100 levels")));
    }

    #[test]
    fn the_same_call_as_code_has_no_words_of_the_call_in_it() {
        assert_eq!(as_code("a.b", b"{}").find("call").map(|at| at + 1), usize::try_from(PLACE.1).ok());
        let code = as_code("a.\"b`\\", b"{\"__proto__\":\"'\\u2028\"}");
        assert_eq!(code, r#"return await mcp.call("a.\"b`\\", JSON.parse("{\"__proto__\":\"'\\u2028\"}"))"#);
    }
}
