//! What the tools for a model take: types, their schemas, and what is wrong with arguments that do not fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use relay_proto::{LimitName, LimitOverrides};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::client::ExecuteRequest;
use crate::validate::Schema;

/// The most bytes of JSON that code may return unless it asks for more: what it returns goes into a model's context.
const RESULT_BYTES: u64 = 100_000;

/// What `execute_code` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteArguments {
    /// JavaScript or TypeScript: statements with `return`, an expression, a function, or a module with `export default`.
    pub(crate) code: String,
    /// Limits to lower, or, for result_bytes (100000 unless said), to raise. The units are in the names.
    #[serde(default)]
    #[schemars(schema_with = "limits")]
    pub(crate) limits: BTreeMap<String, u64>,
    /// What the code is for, in one sentence. It is shown to the person who is asked for an approval.
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "an agent loop asks its person by itself"))]
    pub(crate) intent: Option<String>,
}

impl ExecuteArguments {
    /// The code with its limits.
    ///
    /// # Errors
    /// A limit is none, or is out of its bounds; in words for the model.
    pub(crate) fn request(&mut self) -> Result<ExecuteRequest, String> {
        let mut request = ExecuteRequest::for_model(std::mem::take(&mut self.code));
        request.limits = LimitOverrides::try_from(&self.limits).map_err(|error| format!("INVALID_INPUT: {error}"))?;
        if request.limits.get(LimitName::ResultBytes).is_none() {
            request = request.limit(LimitName::ResultBytes, RESULT_BYTES);
        }
        Ok(request)
    }
}

/// What `search_tools` takes.
#[cfg(feature = "mcp")]
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchArguments {
    /// Words that say what the tool should do.
    pub(crate) query: String,
    /// How many tools to give at most: 10 unless said, up to 50.
    pub(crate) limit: Option<usize>,
}

/// What `describe_tools` takes.
#[cfg(feature = "mcp")]
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescribeArguments {
    /// Full names, such as `github.list_issues`; the first 20 are described.
    pub(crate) names: Vec<String>,
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
