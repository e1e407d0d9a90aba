//! What the tools for a model take: types, their schemas, and what is wrong with arguments that do not fit.

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

/// What `execute_code` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteArguments {
    /// JavaScript or TypeScript: statements with `return`, an expression, a function, or a module with `export default`.
    pub(crate) code: String,
    /// Limits to lower. The units are in the names.
    #[serde(default)]
    #[schemars(schema_with = "limits")]
    pub(crate) limits: BTreeMap<String, u64>,
    /// What the code is for, in one sentence. A person who is asked for an approval reads it, and of a long result the parts
    /// are shown that have to do with it.
    pub(crate) intent: Option<String>,
}

impl ExecuteArguments {
    /// The code with its limits, and what it is for.
    ///
    /// # Errors
    /// A limit is none, or is out of its bounds; in words for the model.
    pub(crate) fn into_request(self) -> Result<(ExecuteRequest, Option<String>), String> {
        let limits = LimitOverrides::try_from(&self.limits).map_err(|error| format!("INVALID_INPUT: {error}"))?;
        Ok((ExecuteRequest { limits, ..ExecuteRequest::for_model(self.code) }, self.intent))
    }
}

/// What `search_tools` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchArguments {
    /// Words that say what the tool should do.
    pub(crate) query: String,
    /// How many tools to give at most: 10 unless said, up to 50.
    pub(crate) limit: Option<usize>,
}

/// What `describe_tools` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescribeArguments {
    /// Full names, such as `github.list_issues`, or a tool's own where only one server has it; the first 20 are described.
    pub(crate) names: Vec<String>,
}

/// What `read_output` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadArguments {
    /// The handle that came with the result.
    pub(crate) handle: String,
    /// Which part of the value, such as `results.items[3].name` or `/results/items/3`; all of it unless said.
    #[serde(default)]
    pub(crate) path: String,
    /// The first item, member or character to give, from 0.
    #[serde(default)]
    pub(crate) offset: usize,
    /// How many to give at most; as many as fit on a page unless said.
    pub(crate) limit: Option<usize>,
}

fn limits(_: &mut SchemaGenerator) -> schemars::Schema {
    let one = |name: &LimitName| (name.as_str().to_owned(), serde_json::json!({"type": "integer", "minimum": 0}));
    let properties: Map<String, Value> = LimitName::ALL.iter().map(one).collect();
    json_schema!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// The schema of such arguments, with nothing that it would have to refer to.
pub(crate) fn schema<T: JsonSchema>() -> Arc<Map<String, Value>> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // What the types are called here is nobody's business.
    schema.remove("title");
    schema.remove("description");
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

/// Arguments as a type, or what is wrong with them, for the model. A member that is null is one that is not given: models in
/// strict mode have to write every member.
pub(crate) fn parse<T: DeserializeOwned + JsonSchema>(name: &str, mut value: Value) -> Result<T, String> {
    drop_nulls(&mut value);
    let wrong = |reason: String| format!("INVALID_INPUT: {name} was called with arguments that do not fit: {reason}");
    let schema = Schema::compile(&Value::Object((*schema::<T>()).clone())).map_err(wrong)?;
    let valid = schema.check(value).map_err(wrong)?;
    serde_json::from_value(valid.into_inner()).map_err(|error| wrong(error.to_string()))
}

fn drop_nulls(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, member| !member.is_null());
        members.values_mut().for_each(drop_nulls);
    }
}
