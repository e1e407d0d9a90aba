//! Functions as tools: over JSON, or over types, of which the schemas are made.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::tool::{CallContext, CallFuture, Tool, ToolError, ToolSpec};

/// A function over JSON as a tool.
pub(super) struct FunctionTool<F> {
    pub(super) spec: ToolSpec,
    pub(super) function: F,
    /// `true`: the output schema was made of the result's type.
    pub(super) is_typed: bool,
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

    fn result_fits_by_type(&self) -> bool {
        self.is_typed
    }
}

/// The schemas that were given, and so are not made of types.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GivenSchemas {
    pub(super) input: bool,
    pub(super) output: bool,
}

/// Makes a tool of a function over types. Its schemas are those of the types, but for those that the spec has already.
pub(super) fn typed<A, R, F, Fut>(mut spec: ToolSpec, given: GivenSchemas, function: F) -> Arc<dyn Tool>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Fn(A, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    let schema = schemars::schema_for!(A).to_value();
    // A unit is `null` in JSON. Code calls without arguments, which is `{}`.
    let is_unit = schema.get("type").is_some_and(|kind| kind == "null");
    if !given.input {
        let none = || json!({"type": "object", "properties": {}, "additionalProperties": false});
        spec.input_schema = if is_unit { none() } else { schema };
    }
    if !given.output {
        spec.output_schema = Some(schemars::schema_for!(R).to_value());
    }
    let function = move |arguments: Value, context| {
        let arguments = if is_unit { Value::Null } else { arguments };
        let running = serde_json::from_value::<A>(arguments).map(|arguments| function(arguments, context));
        async move {
            // Arguments that fit the schema may still not fit the type: a schema cannot say everything.
            let running = running.map_err(|error| ToolError::invalid_arguments(error.to_string()))?;
            Ok(serde_json::to_vec(&running.await?)?.into())
        }
    };
    Arc::new(FunctionTool { spec, function, is_typed: !given.output })
}

/// An async function that can be a tool: without parameters, of its arguments, or of its arguments and a
/// [`CallContext`]. `Kind` tells these apart, and is inferred by the compiler.
///
/// The arguments implement [`serde::Deserialize`] and [`schemars::JsonSchema`]. The function returns a `Result` of something
/// that implements [`serde::Serialize`] and [`schemars::JsonSchema`], and of any error that converts into a [`ToolError`].
#[diagnostic::on_unimplemented(
    message = "this function cannot be a tool",
    label = "not a tool",
    note = "a tool is an async function of nothing, of its arguments, or of its arguments and a `CallContext`",
    note = "its arguments implement `serde::Deserialize` and `schemars::JsonSchema`",
    note = "it returns a `Result<R, E>`; `R` implements `serde::Serialize` and `schemars::JsonSchema`, and `E` converts into \
            a `ToolError`"
)]
pub trait ToolFunction<Kind>: Send + Sync + 'static {
    /// The type of its arguments.
    type Arguments: DeserializeOwned + JsonSchema + Send + 'static;
    /// The type of its result.
    type Output: Serialize + JsonSchema + 'static;

    /// Calls the function.
    fn call(
        &self,
        arguments: Self::Arguments,
        context: CallContext,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send + use<Self, Kind>;
}

/// Implements [`ToolFunction`] for one kind of function, given by its parameters and the arguments that it is called
/// with.
macro_rules! tool_function {
    ($kind:ty, [$($generic:ident)?], $arguments:ty, ($($parameter:ty),*), |$given:ident, $context:ident| ($($passed:expr),*)) => {
        impl<F, Fut, $($generic,)? R, E> ToolFunction<$kind> for F
        where
            F: Fn($($parameter),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<R, E>> + Send + 'static,
            $($generic: DeserializeOwned + JsonSchema + Send + 'static,)?
            R: Serialize + JsonSchema + 'static,
            E: Into<ToolError> + 'static,
        {
            type Arguments = $arguments;
            type Output = R;

            fn call(
                &self,
                $given: $arguments,
                $context: CallContext,
            ) -> impl Future<Output = Result<R, ToolError>> + Send + use<F, Fut, $($generic,)? R, E> {
                let running = self($($passed),*);
                async move { running.await.map_err(Into::into) }
            }
        }
    };
}

tool_function!((), [], (), (), |_arguments, _context| ());
tool_function!((A,), [A], A, (A), |arguments, _context| (arguments));
tool_function!((A, CallContext), [A], A, (A, CallContext), |arguments, context| (arguments, context));
