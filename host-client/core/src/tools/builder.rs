//! The builder of a tool: its options, then the function that runs it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Tools;
use super::function::{GivenSchemas, ToolFunction, typed};
use crate::error::Error;
use crate::tool::{CallContext, Effect, Mode, Overflow, Tool, ToolError, ToolSpec};

/// A tool that is described and not yet registered; made by [`Tools::tool`].
///
/// Options that are not set are those of [`Manifest::default`](crate::Manifest::default). One of these methods comes
/// last and registers the tool:
/// - [`handler`](Self::handler): a closure over the arguments and the [`CallContext`]
/// - [`run`](Self::run): a closure over the arguments alone
/// - [`function`](Self::function): an async function with an error type of its own
///
/// The schemas come from the types: arguments implement [`serde::Deserialize`] and [`schemars::JsonSchema`], results
/// [`serde::Serialize`] and [`schemars::JsonSchema`]. For no arguments, the type is `()`; for no result, return `Ok(())`.
///
/// ```
/// use std::time::Duration;
/// use host_client_core::{Effect, Tools};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: f64, b: f64 }
///
/// let tools = Tools::new();
/// tools
///     .tool("math.add")
///     .description("Adds two numbers")
///     .effect(Effect::ReadOnly)
///     .timeout(Duration::from_secs(5))
///     .handler(|args: Add, ctx| async move {
///         ctx.progress(0.0, Some(1.0), "adding");
///         Ok(args.a + args.b)
///     })?;
///
/// // Without a context, and without arguments.
/// tools.tool("math.pi").effect(Effect::ReadOnly).run(|(): ()| async { Ok(std::f64::consts::PI) })?;
///
/// // A function with its own error type.
/// async fn half(number: u32) -> anyhow::Result<u32> {
///     anyhow::ensure!(number.is_multiple_of(2), "{number} is odd");
///     Ok(number / 2)
/// }
/// tools.tool("math.half").effect(Effect::ReadOnly).function(half)?;
/// # assert_eq!(tools.specs().len(), 3);
/// # Ok::<_, host_client_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the tool is registered by `handler`, `run` or `function`"]
pub struct ToolBuilder<'a> {
    tools: &'a Tools,
    spec: ToolSpec,
    given: GivenSchemas,
}

impl<'a> ToolBuilder<'a> {
    pub(super) fn new(tools: &'a Tools, name: String) -> Self {
        Self { tools, spec: ToolSpec::new(name, "", Value::Bool(true)), given: GivenSchemas::default() }
    }

    fn with(mut self, change: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
        self.spec = change(self.spec);
        self
    }

    /// Sets the text that tells the model what the tool does; empty by default.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.spec.description = description.into();
        self
    }

    /// Sets the effect of calling it. Unless it is set, the effect is unknown, and the default policy asks a person.
    pub fn effect(self, effect: Effect) -> Self {
        self.with(|spec| spec.effect(effect))
    }

    /// Sets the resources that it can reach; the default is [`Mode::Undeclared`].
    pub fn mode(self, mode: Mode) -> Self {
        self.with(|spec| spec.mode(mode))
    }

    /// Sets the time limit of a call; the default is 30 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|spec| spec.timeout(timeout))
    }

    /// Sets the most bytes of JSON that a call may return; the default is 10 MiB, the maximum 12 MiB.
    pub fn result_bytes(self, bytes: usize) -> Self {
        self.with(|spec| spec.result_bytes(bytes))
    }

    /// Sets what happens to a result that is larger; by default the call fails.
    pub fn overflow(self, overflow: Overflow) -> Self {
        self.with(|spec| spec.overflow(overflow))
    }

    /// Sets the maximum number of calls at once; further ones wait, within their time limit. By default there is no
    /// maximum.
    pub fn concurrency(self, calls: usize) -> Self {
        self.with(|spec| spec.concurrency(calls))
    }

    /// Sets whether code may call it; the default is `true`. With `false` it is the agent's own, and code does not learn that it
    /// exists.
    pub fn callable_from_code(self, callable: bool) -> Self {
        self.with(|spec| spec.callable_from_code(callable))
    }

    /// Sets whether a durable run may call it again, with the same
    /// [idempotency key](crate::CallContext::idempotency_key), when the outcome of the first time is not known; the default is
    /// `false`.
    pub fn idempotent(self, idempotent: bool) -> Self {
        self.with(|spec| spec.idempotent(idempotent))
    }

    /// Sets the JSON Schema of the arguments, in the place of that of their type: for a function over
    /// [`serde_json::Value`], or to say more than the type does.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.spec.input_schema = schema;
        self.given.input = true;
        self
    }

    /// Sets the JSON Schema of the result, in the place of that of its type. Results that do not fit it fail with
    /// `INVALID_RESULT`.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.given.output = true;
        self.with(|spec| spec.output_schema(schema))
    }

    /// Registers the tool with a closure over its arguments and the [`CallContext`]. Any error converts with `?`.
    ///
    /// # Errors
    /// [`Error::Tool`]: the name is not `server.tool`, is reserved or taken, or a schema is not usable.
    pub fn handler<A, R, F, Fut>(self, handler: F) -> Result<&'a Tools, Error>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + 'static,
        F: Fn(A, CallContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let Self { tools, spec, given } = self;
        tools.register([typed(spec, given, handler)])
    }

    /// Registers the tool with a closure over its arguments. Any error converts with `?`.
    ///
    /// # Errors
    /// [`Error::Tool`]: the name is not `server.tool`, is reserved or taken, or a schema is not usable.
    pub fn run<A, R, F, Fut>(self, run: F) -> Result<&'a Tools, Error>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + 'static,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        self.handler(move |arguments, _context| run(arguments))
    }

    /// Registers the tool with an async function without parameters, of its arguments, or of its arguments and a
    /// [`CallContext`]. Its error may be of any type that converts into a [`ToolError`], such as `anyhow::Error`.
    ///
    /// # Errors
    /// [`Error::Tool`]: the name is not `server.tool`, is reserved or taken, or a schema is not usable.
    pub fn function<Kind: 'static>(self, function: impl ToolFunction<Kind>) -> Result<&'a Tools, Error> {
        self.handler(move |arguments, context| function.call(arguments, context))
    }
}

/// Makes a tool of a closure over types, for what the attribute `tools` writes.
#[doc(hidden)]
pub fn typed_tool<A, R, F, Fut>(spec: ToolSpec, handler: F) -> Arc<dyn Tool>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Fn(A, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    typed(spec, GivenSchemas::default(), handler)
}
