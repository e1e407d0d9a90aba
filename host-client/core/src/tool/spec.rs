//! What a tool is, for whoever writes one. The registry is in [`crate::tools`].

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

pub use super::context::{CallContext, PROGRESS_MESSAGE_BYTES, PROGRESS_PER_SECOND};
pub use super::failure::ToolError;

use crate::tool::{Effect, Manifest, Mode, Overflow};

/// What is known of a tool before it is called: its name, its description, its schemas, and how its calls are treated.
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
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// JSON Schema of its result; `None`: results are not checked. A result that does not fit never reaches the code.
    pub output_schema: Option<Value>,
    /// What it may do, and how its calls are treated.
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

    /// Says what calling it does. Without, nobody knows, and the rules that hold by default ask a person.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.manifest.effect = Some(effect);
        self
    }

    /// Says what it can reach. Without, it is [`Mode::Undeclared`].
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.manifest.mode = mode;
        self
    }

    /// Sets how long a call may take; the default is 30 s.
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

    /// Sets how many calls run at once; more wait, within their time. By default there is no limit.
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

    /// Sets the JSON Schema of its result. Results that do not fit it fail with `INVALID_RESULT`.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }
}

/// What a call gives: UTF-8 JSON, or why it failed. The future is dropped when the call is cancelled or takes too long.
pub type CallFuture = Pin<Box<dyn Future<Output = Result<Bytes, ToolError>> + Send>>;

/// Something that code can call. Arguments have passed the tool's schema when [`Tool::call`] gets them.
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
    /// Returns name, description, schemas and limits. It is asked once, when the tool is registered.
    fn spec(&self) -> ToolSpec;

    /// Runs the tool. The answer is UTF-8 JSON.
    fn call(&self, arguments: Value, context: CallContext) -> CallFuture;

    /// Whether its results fit its output schema by their very type, so that they need not be checked; `false` by default.
    fn result_fits_by_type(&self) -> bool {
        false
    }
}
