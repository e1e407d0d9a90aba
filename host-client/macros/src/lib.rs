//! The attribute [`macro@tools`], which makes tools of the methods of an `impl`. Applications use it as `host_client::tools`.
//!
//! The map: `options` parses the attributes, `method` reads a method as a tool, `set` writes the code.

mod method;
mod options;
mod set;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
mod tests;

use proc_macro::TokenStream;

/// Makes tools of those methods of an `impl` that have the attribute `#[tool]`, over one shared state.
///
/// It implements `host_client::ToolSet` for the type, so that `tools.add_set(notes)?` registers all of them.
///
/// ```text
/// #[host_client::tools(server = "notes")]
/// impl Notes {
///     /// Finds notes that contain a text.
///     #[tool(effect = "read_only", timeout_ms = 5000)]
///     async fn search(
///         &self,
///         /// What to look for
///         text: String,
///         /// The most notes that are returned; 10 without
///         limit: Option<usize>,
///     ) -> Result<Vec<Note>, ToolError> {
///         …
///     }
/// }
/// ```
///
/// # Options of `#[tools(…)]`
/// - `server = "…"`: the part of the tools' names before the dot; it has to be given
/// - `crate = "…"`: the path of the library, where it is not `::host_client`
///
/// # Options of `#[tool(…)]`
/// - `name = "…"`: the part of the name after the dot; the method's name by default
/// - `description = "…"`: what the tool does, for the model; the method's documentation by default
/// - `effect = "read_only"`, `"mutating"` or `"privileged"`: what calling it does; undeclared by default
/// - `mode = "none"`, `"restricted_local"`, `"restricted_remote"` or `"privileged"`: what it can reach; undeclared by default
/// - `timeout_ms = 5000`: how long a call may take; 30,000 by default
/// - `result_bytes = 65536`: the most bytes of JSON that a call may return; 10 MiB by default
/// - `overflow = "cut"` or `"fail"`: what happens to a result that is larger; it fails by default
/// - `concurrency = 4`: how many calls run at once; no limit by default
/// - `callable_from_code = false`: code may not call it; it may by default
/// - `idempotent = true`: a durable run may call it again with the same idempotency key; it may not by default
///
/// # Methods
/// A method takes `&self`, `self: Arc<Self>` or no receiver. It is async or not. It returns nothing, a value, or a `Result`
/// whose error converts into a `ToolError`; values implement `Serialize` and `JsonSchema`.
///
/// A parameter of the type `CallContext` is given the context of the call. A single other parameter that is named `args`, or
/// is a pattern, is all arguments at once; its type implements `Deserialize` and `JsonSchema`. Otherwise each parameter is a
/// property of the arguments: its name is that of the parameter, its description the parameter's documentation, and a
/// parameter of the type `Option` may be left out.
#[proc_macro_attribute]
pub fn tools(attribute: TokenStream, item: TokenStream) -> TokenStream {
    set::expand(attribute.into(), item.into()).into()
}
