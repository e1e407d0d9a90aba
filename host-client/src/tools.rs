//! The registry: which tools there are, and how each is called.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use relay_proto::{ExecutionId, ToolName};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::validate::Schema;

/// How long a tool may take unless it says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many bytes of JSON a tool may return unless it says otherwise.
pub const DEFAULT_RESULT_BYTES: usize = 10 << 20;

/// What is known of a tool before it is called.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// `server.tool`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// JSON Schema of its result, if known.
    pub output_schema: Option<Value>,
    /// How long a call may take.
    pub timeout: Duration,
    /// The most bytes of JSON that a call may return.
    pub result_bytes: usize,
}

impl ToolSpec {
    /// A tool with default limits and no schema for its result.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            output_schema: None,
            timeout: DEFAULT_TIMEOUT,
            result_bytes: DEFAULT_RESULT_BYTES,
        }
    }
}

/// Where a call comes from.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The execution whose code calls.
    pub execution: ExecutionId,
    /// The tool's full name.
    pub tool: ToolName,
}

/// What a call gives: JSON, or why it failed. The future is dropped when the call is cancelled or takes too long.
pub type CallFuture = Pin<Box<dyn Future<Output = Result<Bytes, ToolError>> + Send>>;

/// Something that code can call. Arguments have passed the tool's schema when `call` gets them.
pub trait Tool: Send + Sync + 'static {
    /// Name, schemas and limits. Asked once, when the tool is registered.
    fn spec(&self) -> ToolSpec;

    /// Runs the tool. The answer is UTF-8 JSON.
    fn call(&self, arguments: Value, context: CallContext) -> CallFuture;
}

/// Why a tool failed, as the code will read it. Any error converts into it with `?`.
pub struct ToolError(String);

impl ToolError {
    /// A failure in words that the code's author can use.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    pub(crate) fn into_message(self) -> String {
        self.0
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self(message)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tools that code can call, by full name.
#[derive(Default)]
pub struct Tools {
    by_name: BTreeMap<String, Arc<Registered>>,
}

/// A tool with its schema compiled.
pub(crate) struct Registered {
    pub(crate) name: ToolName,
    pub(crate) spec: ToolSpec,
    pub(crate) schema: Schema,
    pub(crate) tool: Box<dyn Tool>,
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl Tools {
    /// No tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers an async function over typed arguments. The schemas come from the types.
    ///
    /// # Errors
    /// The name is not `server.tool` or is taken.
    pub fn add<A, R, F, Fut>(&mut self, name: &str, description: &str, function: F) -> Result<&mut Self, Error>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + 'static,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let input_schema = schemars::schema_for!(A).to_value();
        let spec = ToolSpec {
            output_schema: Some(schemars::schema_for!(R).to_value()),
            ..ToolSpec::new(name, description, input_schema)
        };
        self.add_with(spec, move |arguments, _context| {
            let arguments = serde_json::from_value::<A>(arguments);
            let running = arguments.map(&function);
            async move {
                let result = running?.await?;
                Ok(serde_json::to_vec(&result)?.into())
            }
        })
    }

    /// Registers a function over JSON, for tools whose schema is only known at run time, or that set limits of their own.
    ///
    /// # Errors
    /// The name is not `server.tool` or is taken, or the schema is not one.
    pub fn add_with<F, Fut>(&mut self, spec: ToolSpec, function: F) -> Result<&mut Self, Error>
    where
        F: Fn(Value, CallContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Bytes, ToolError>> + Send + 'static,
    {
        self.add_tool(FunctionTool { spec, function })
    }

    /// Registers anything that is a [`Tool`].
    ///
    /// # Errors
    /// The name is not `server.tool` or is taken, or the schema is not one.
    pub fn add_tool(&mut self, tool: impl Tool) -> Result<&mut Self, Error> {
        let spec = tool.spec();
        let refuse = |reason: String| Error::Tool { name: spec.name.clone(), reason };
        let name = ToolName::try_from(spec.name.clone()).map_err(|error| refuse(error.to_string()))?;
        if self.by_name.contains_key(name.as_str()) {
            return Err(refuse("there is a tool of this name already".into()));
        }
        let schema = Schema::compile(&spec.input_schema).map_err(refuse)?;
        self.by_name.insert(spec.name.clone(), Arc::new(Registered { name, spec, schema, tool: Box::new(tool) }));
        Ok(self)
    }

    /// What is known of each tool, by name.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.by_name.values().map(|registered| &registered.spec)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Registered>> {
        self.by_name.get(name)
    }

    pub(crate) fn has_server(&self, server: &str) -> bool {
        self.by_name.values().any(|registered| registered.name.server() == server)
    }
}

struct FunctionTool<F> {
    spec: ToolSpec,
    function: F,
}

impl<F, Fut> Tool for FunctionTool<F>
where
    F: Fn(Value, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Bytes, ToolError>> + Send + 'static,
{
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call(&self, arguments: Value, context: CallContext) -> CallFuture {
        Box::pin((self.function)(arguments, context))
    }
}
