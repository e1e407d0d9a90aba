//! The description of a tool, and the trait of tools. The registry is in [`crate::tools`].

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

pub use super::context::{CallContext, PROGRESS_MESSAGE_BYTES, PROGRESS_PER_SECOND};
pub use super::failure::ToolError;

use crate::tool::{Effect, Manifest, Mode, Overflow};

/// The description of a tool: its name, its text for the model, its schemas, and the manifest that says how its calls
/// are treated.
///
/// It stands beside the function in [`Tools::add_with`](crate::Tools::add_with), and a [`Tool`] returns one. Where the types
/// are known, [`Tools::tool`](crate::Tools::tool) makes the schemas of them.
///
/// ```
/// use std::time::Duration;
/// use host_client_core::{Effect, ToolError, ToolSpec, Tools};
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
/// let spec = ToolSpec::new("people.greet", "Greets a person", schema)
///     .effect(Effect::ReadOnly)
///     .timeout(Duration::from_secs(5))
///     .concurrency(4);
/// let tools = Tools::new();
/// tools.add_with(spec, |arguments, _context| async move {
///     let name = arguments["name"].as_str().ok_or_else(|| ToolError::new("there is no name"))?;
///     Ok(serde_json::to_vec(&format!("Hello {name}"))?.into())
/// })?;
/// assert_eq!(tools.spec("people.greet").map(|spec| spec.manifest.concurrency), Some(Some(4)));
/// # Ok::<_, host_client_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The full name, `server.tool`.
    pub name: String,
    /// The text that tells the model what the tool does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of its result; `None`: results are not checked. A result that does not fit never reaches the
    /// code.
    pub output_schema: Option<Value>,
    /// The effect, the mode and the limits of its calls.
    pub manifest: Manifest,
}

impl ToolSpec {
    /// Describes a tool with the limits of [`Manifest::default`], an unknown effect, and no schema for its result.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            output_schema: None,
            manifest: Manifest::default(),
        }
    }

    /// Sets the effect of calling it. Unless it is set, the effect is unknown, and the default policy asks a person.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.manifest.effect = Some(effect);
        self
    }

    /// Sets the resources that it can reach; the default is [`Mode::Undeclared`].
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.manifest.mode = mode;
        self
    }

    /// Sets the time limit of a call; the default is 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.manifest.timeout = timeout;
        self
    }

    /// Sets the most bytes of JSON that a call may return; the default is 10 MiB, the maximum 12 MiB.
    #[must_use]
    pub fn result_bytes(mut self, bytes: usize) -> Self {
        self.manifest.result_bytes = bytes;
        self
    }

    /// Sets what happens to a result that is larger; by default the call fails.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.manifest.overflow = overflow;
        self
    }

    /// Sets the maximum number of calls at once; further ones wait, within their time limit. By default there is no
    /// maximum.
    #[must_use]
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.manifest.concurrency = Some(calls);
        self
    }

    /// Sets whether code may call it; the default is `true`. With `false` it is the agent's own, and code does not learn that it
    /// exists.
    #[must_use]
    pub fn callable_from_code(mut self, callable: bool) -> Self {
        self.manifest.callable_from_code = callable;
        self
    }

    /// Sets whether a durable run may call it again, with the same
    /// [idempotency key](crate::CallContext::idempotency_key), when the outcome of the first time is not known; the default is
    /// `false`.
    #[must_use]
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.manifest.idempotent = idempotent;
        self
    }

    /// Sets the JSON Schema of its result. Results that do not fit it fail with `INVALID_RESULT`.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }
}

/// The future of a call's answer: UTF-8 JSON, or an error. It is dropped when the call is cancelled or takes too long.
pub type CallFuture = Pin<Box<dyn Future<Output = Result<Bytes, ToolError>> + Send>>;

/// A tool that code can call. Arguments have passed the tool's schema when [`Tool::call`] gets them.
///
/// Functions are easier registered with [`Tools::tool`](crate::Tools::tool); this is for tools that are only known at run time.
///
/// ```
/// use host_client_core::tool::spec::CallFuture;
/// use host_client_core::{CallContext, Effect, Tool, ToolSpec, Tools};
/// use serde_json::{Value, json};
///
/// /// Gives always the same value.
/// struct Constant { name: String, value: Value }
///
/// impl Tool for Constant {
///     fn spec(&self) -> ToolSpec {
///         let schema = json!({"type": "object", "additionalProperties": false});
///         ToolSpec::new(&self.name, "Gives a value", schema).effect(Effect::ReadOnly)
///     }
///
///     fn call(&self, _arguments: Value, _context: CallContext) -> CallFuture {
///         let json = self.value.to_string().into();
///         Box::pin(async move { Ok(json) })
///     }
/// }
///
/// let tools = Tools::new();
/// tools.add_tool(Constant { name: "numbers.seven".into(), value: json!(7) })?;
/// # Ok::<_, host_client_core::Error>(())
/// ```
pub trait Tool: Send + Sync + 'static {
    /// Returns name, description, schemas and limits. Called once, when the tool is registered.
    fn spec(&self) -> ToolSpec;

    /// Runs the tool. The future's answer is UTF-8 JSON.
    fn call(&self, arguments: Value, context: CallContext) -> CallFuture;

    /// Returns whether its results fit its output schema by their type, so that they need not be checked; `false` by
    /// default.
    fn result_fits_by_type(&self) -> bool {
        false
    }

    /// Returns what a person should know of it beside its description, as sentences; nothing by default.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns where its effect comes from, for people; `None`, the default: from whoever registered it.
    fn effect_origin(&self) -> Option<String> {
        None
    }

    /// Returns the part of a result that its output schema describes, where the whole does not fit; `None`, the default,
    /// if there is no such part. A tool that adds to what its source answers returns that answer here.
    fn typed_part(&self, result: &Value) -> Option<Value> {
        let _ = result;
        None
    }
}
