//! Arguments of the tools for models: types, schemas, and error messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use relay_proto::{LimitName, LimitOverrides};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use host_client_core::client::ExecuteRequest;
use host_client_core::tool::validate::Schema;

/// Arguments of `execute_code`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteArguments {
    /// JavaScript or TypeScript: statements with `return`, an expression, a function, or a module with
    /// `export default`.
    pub(crate) code: String,
    /// Limits to lower. The names contain the units.
    #[serde(default)]
    #[schemars(schema_with = "limits")]
    pub(crate) limits: BTreeMap<String, u64>,
    /// Purpose of the code, in one sentence. A person who is asked for an approval reads it, and a long result is
    /// reduced to the parts that have to do with it.
    pub(crate) intent: Option<String>,
}

impl ExecuteArguments {
    /// Makes the request, and returns it with the intent. A limit in `most` holds unless the model sets a lower one.
    ///
    /// # Errors
    /// `INVALID_INPUT` with a message for the model, if a limit is unknown or out of its bounds.
    pub(crate) fn into_request(self, most: &LimitOverrides) -> Result<(ExecuteRequest, Option<String>), String> {
        let mut limits = LimitOverrides::try_from(&self.limits).map_err(|error| format!("INVALID_INPUT: {error}"))?;
        for &name in LimitName::ALL {
            if let Some(most) = most.get(name) {
                limits.set(name, limits.get(name).map_or(most, |asked| asked.min(most)));
            }
        }
        Ok((ExecuteRequest { limits, ..ExecuteRequest::for_model(self.code) }, self.intent))
    }
}

/// Arguments of `search_tools`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchArguments {
    /// Words that describe what the tool should do.
    pub(crate) query: String,
    /// Maximum number of tools. Default: 10; maximum: 50.
    pub(crate) limit: Option<usize>,
}

/// Arguments of `describe_tools`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescribeArguments {
    /// Full names, such as `github.list_issues`, or names without the server that only one server has. The first 20 are
    /// described.
    pub(crate) names: Vec<String>,
}

/// Arguments of `read_output`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadArguments {
    /// The handle that came with the result.
    pub(crate) handle: String,
    /// Path of the part to read, such as `results.items[3].name` or `/results/items/3`. Default: the whole value.
    #[serde(default)]
    pub(crate) path: String,
    /// Index of the first item, member or character to read, from 0. Default: 0.
    #[serde(default)]
    pub(crate) offset: usize,
    /// Maximum number of items, members or characters. Default: as many as fit on a page.
    pub(crate) limit: Option<usize>,
}

/// Arguments of `wait_for_run`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitArguments {
    /// The run. Default: lists your runs that have not ended.
    pub(crate) run: Option<String>,
    /// Maximum time to wait, in seconds. Default: 30; maximum: 300.
    pub(crate) seconds: Option<u64>,
}

/// Arguments of `cancel_run`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelArguments {
    /// The run.
    pub(crate) run: String,
}

/// Returns the schema of the limits.
fn limits(_: &mut SchemaGenerator) -> schemars::Schema {
    let one = |name: &LimitName| (name.as_str().to_owned(), serde_json::json!({"type": "integer", "minimum": 0}));
    let properties: Map<String, Value> = LimitName::ALL.iter().map(one).collect();
    json_schema!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// Returns the schema of an arguments type, without references.
pub(crate) fn schema<T: JsonSchema>() -> Arc<Map<String, Value>> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The names of our types are of no use to a model.
    schema.remove("title");
    schema.remove("description");
    let mut schema = schema.to_value();
    plain(&mut schema);
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

/// Writes a schema in the words that every client understands: an optional member may be absent and has one type, and
/// no member has a format that says how Rust stores it. Some clients send a number as a text where a type is a list.
fn plain(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(plain),
        Value::Object(members) => {
            members.values_mut().for_each(plain);
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|one| one != "null");
                if let [one] = &types[..] {
                    let one = one.clone();
                    members.insert("type".into(), one);
                }
            }
            if members.get("default") == Some(&Value::Null) {
                members.remove("default");
            }
            let is_of_rust =
                |format: &Value| format.as_str().is_some_and(|it| it.starts_with("uint") || it.starts_with("int"));
            if members.get("format").is_some_and(is_of_rust) {
                members.remove("format");
            }
        }
        _ => {}
    }
}

/// Parses arguments. Members that are `null` count as absent, because models in strict mode must write every member.
///
/// # Errors
/// `INVALID_INPUT` with a message for the model.
pub(crate) fn parse<T: DeserializeOwned + JsonSchema>(name: &str, mut value: Value) -> Result<T, String> {
    drop_nulls(&mut value);
    let wrong = |reason: String| format!("INVALID_INPUT: {name} was called with arguments that do not fit: {reason}");
    let schema = Schema::compile(&Value::Object((*schema::<T>()).clone())).map_err(wrong)?;
    let valid = schema.check(value).map_err(wrong)?;
    serde_json::from_value(valid.into_inner()).map_err(|error| wrong(error.to_string()))
}

/// Removes all members that are `null`.
fn drop_nulls(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, member| !member.is_null());
        members.values_mut().for_each(drop_nulls);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_for_models_are_plain() {
        let all = [schema::<ExecuteArguments>(), schema::<SearchArguments>(), schema::<ReadArguments>()];
        let texts: Vec<String> = all.iter().map(|schema| Value::Object((**schema).clone()).to_string()).collect();
        for text in &texts {
            for odd in ["null", "uint", "\"type\":[", "format"] {
                assert!(!text.contains(odd), "{odd}: {text}");
            }
        }
        assert_eq!(all[1]["properties"]["limit"]["type"], json!("integer"));
        assert_eq!(all[1]["properties"]["limit"]["minimum"], json!(0));
        // Clients in strict mode write every member.
        let search: SearchArguments =
            parse("search_tools", json!({"query": "x", "limit": null})).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(search.limit, None);
    }
}
