//! The tools that code can call: registering, changing, searching and declaring them.

mod builder;
mod function;
mod set;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use relay_proto::{ErrorCode, ToolName, ToolPatterns};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use crate::describe::{Catalogue, Declarations, UnknownTool};
use crate::error::Error;
use crate::tool::{CallContext, Effect, ManifestChange, Registered, Registry, Tool, ToolError, ToolSpec};
use function::FunctionTool;

pub use builder::ToolBuilder;
#[doc(hidden)]
pub use builder::typed_tool;
pub use function::ToolFunction;
pub use set::ToolSet;

/// The tools that code can call, by full name. Clones share them, and they may change while a client is connected: the relay
/// is told.
///
/// ```
/// use host_client_core::{Effect, Tools};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Greeting {
///     /// Whom to greet
///     name: String,
/// }
///
/// let tools = Tools::new();
/// tools
///     .tool("people.greet")
///     .description("Greets a person")
///     .effect(Effect::ReadOnly)
///     .run(|args: Greeting| async move { Ok(format!("Hello {}", args.name)) })?;
/// tools.add("people.count", "Counts all people", Effect::ReadOnly, |(): ()| async { Ok(8_200_000_000_u64) })?;
/// assert_eq!(tools.search("greet someone", 1)[0].name, "people.greet");
/// assert_eq!(tools.overview(200).lines().next(), Some("All 2 tools:"));
/// # Ok::<_, host_client_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Tools {
    registry: Registry,
    catalogue: Arc<Mutex<Option<Latest>>>,
    declarations: Declarations,
}

/// The tools made ready for searching, and the version of the registry that they were made of.
type Latest = (u64, Arc<Catalogue>);

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.registry.by_name().keys()).finish()
    }
}

impl Tools {
    /// Creates a registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the builder of a tool with this full name: its options come first, then the function that runs it. See
    /// [`ToolBuilder`].
    pub fn tool(&self, name: impl Into<String>) -> ToolBuilder<'_> {
        ToolBuilder::new(self, name.into())
    }

    /// Registers an async function over typed arguments, with the effect of calling it: [`Tools::tool`] in one line.
    /// The schemas come from the types.
    ///
    /// # Errors
    /// [`Error::Tool`]: the name is not `server.tool`, is reserved or taken, or a schema is not usable.
    pub fn add<A, R, F, Fut>(&self, name: &str, description: &str, effect: Effect, function: F) -> Result<&Self, Error>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + 'static,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        self.tool(name).description(description).effect(effect).run(function)
    }

    /// Registers a function over JSON, for tools whose schema is only known at run time, or that set limits of their own.
    ///
    /// # Errors
    /// [`Error::Tool`]: the name is not `server.tool`, is reserved or taken, or a schema is not usable.
    pub fn add_with<F, Fut>(&self, spec: ToolSpec, function: F) -> Result<&Self, Error>
    where
        F: Fn(Value, CallContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Bytes, ToolError>> + Send + 'static,
    {
        self.add_tool(FunctionTool { spec, function, is_typed: false })
    }

    /// Registers a value that implements [`Tool`].
    ///
    /// # Errors
    /// [`Error::Tool`]: the name is not `server.tool`, is reserved or taken, or a schema is not usable.
    pub fn add_tool(&self, tool: impl Tool) -> Result<&Self, Error> {
        self.register([Arc::new(tool) as Arc<dyn Tool>])
    }

    /// Registers the tools of a set; all of them, or none.
    ///
    /// # Errors
    /// [`Error::Tool`]: the name of one is not `server.tool`, is reserved or taken, or a schema is not usable.
    pub fn add_set(&self, set: impl ToolSet) -> Result<&Self, Error> {
        self.register(Arc::new(set).tools())
    }

    fn register(&self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<&Self, Error> {
        self.registry.add(tools)?;
        Ok(self)
    }

    /// Reserves a server's name for tools that are added and removed together. Errors name `origin` as their source.
    ///
    /// # Errors
    /// [`Error::Tool`]: the name is not usable, or is taken; both origins are named.
    pub fn mount(&self, server: &str, origin: impl Into<String>) -> Result<Mount, Error> {
        let origin: String = origin.into();
        self.registry.take_server(server, origin.into())?;
        Ok(Mount { registry: self.registry.clone(), server: server.to_owned() })
    }

    /// Changes the manifests of the tools that one of the patterns fits, such as `github.*`: of those that there are and
    /// of those to come.
    ///
    /// # Errors
    /// [`Error::Pattern`]: a pattern can fit no tool; nothing was changed.
    pub fn amend<S: AsRef<str>>(
        &self,
        patterns: impl IntoIterator<Item = S>,
        change: ManifestChange,
    ) -> Result<&Self, Error> {
        self.registry.amend(ToolPatterns::checked(patterns)?, change);
        Ok(self)
    }

    /// Returns the description of each tool, by name; those included that code may not call.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.registry.by_name().values().map(|registered| registered.spec.clone()).collect()
    }

    /// Returns the description of one tool by its full name; `None`: there is no such tool.
    pub fn spec(&self, name: &str) -> Option<ToolSpec> {
        self.registry.by_name().get(name).map(|registered| registered.spec.clone())
    }

    /// Returns a tool itself by its full name; `None`: there is no such tool. Calling it passes no policy, schema, approval or
    /// audit: this is for wrappers and tests.
    pub fn tool_by_name(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.registry.by_name().get(name).map(|registered| Arc::clone(&registered.tool))
    }

    /// Returns the servers, each with its origin.
    pub fn servers(&self) -> Vec<(String, String)> {
        self.registry.servers()
    }

    /// Searches the tools that code may call. Returns at most `limit` of them, the best match first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<ToolSpec> {
        let found = self.catalogue().search(query, &ToolPatterns::default(), limit);
        found.into_iter().map(|tool| tool.spec.clone()).collect()
    }

    /// Finds the tool that code may call by its name: the full one, as it is registered or as JavaScript spells it, or the
    /// tool's own, where only one server has it.
    ///
    /// # Errors
    /// [`UnknownTool`]: there is none, or several; it names those that may have been meant.
    pub fn describe(&self, name: &str) -> Result<ToolSpec, UnknownTool> {
        self.catalogue().describe(name, &ToolPatterns::default()).map(|tool| tool.spec.clone())
    }

    /// Lists the tools that code may call in about `most_tokens` tokens: as many as fit with their types, and the names of the
    /// others. Each server has its share. The first line says how many of how many are shown.
    pub fn overview(&self, most_tokens: usize) -> String {
        self.catalogue().overview(&self.declarations, most_tokens)
    }

    /// Finds a tool that code may call; `None`: there is no such tool, or code may not call it.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Registered>> {
        self.registry.by_name().get(name).filter(|it| it.spec.manifest.callable_from_code).cloned()
    }

    /// Returns the tools that code may call, by name.
    pub(crate) fn callable(&self) -> Vec<Arc<Registered>> {
        self.registry.by_name().values().filter(|it| it.spec.manifest.callable_from_code).cloned().collect()
    }

    /// Explains that no tool has this name: the code and a message that names the nearest one, if any.
    pub(crate) fn unknown(&self, name: &ToolName) -> (ErrorCode, String) {
        self.registry.unknown(name)
    }

    /// Returns a receiver of the number of changes: it is notified whenever the tools have changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.registry.changes()
    }

    /// Returns a handle on the same tools that sees changed manifests.
    pub(crate) fn amended(&self, changes: &[(ToolPatterns, ManifestChange)]) -> Self {
        Self {
            registry: self.registry.amended(changes),
            catalogue: Arc::default(),
            declarations: self.declarations.clone(),
        }
    }

    /// Returns a handle on the same tools that learns the shapes of their results, or does not.
    pub(crate) fn learning(mut self, learns: bool) -> Self {
        self.declarations = Declarations::learning(learns);
        self
    }

    pub(crate) fn declarations(&self) -> &Declarations {
        &self.declarations
    }

    /// Returns the tools that code may call, made ready for searching. It is made again when the tools have changed.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        let now = self.registry.version();
        let mut latest = self.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, catalogue)) = &*latest
            && *of == now
        {
            return Arc::clone(catalogue);
        }
        let catalogue = Arc::new(Catalogue::new(self.callable()));
        *latest = Some((now, Arc::clone(&catalogue)));
        catalogue
    }
}

/// A server's name, reserved for tools that are added and removed together. Dropping this removes them.
#[derive(Debug)]
pub struct Mount {
    registry: Registry,
    server: String,
}

impl Mount {
    /// Returns the server's name.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Replaces the server's tools by these. Returns an [`Error::Tool`] for each that could not be registered; the
    /// others are registered.
    pub fn replace(&self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Vec<Error> {
        self.registry.replace(&self.server, tools).into_iter().map(Into::into).collect()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.registry.release_server(&self.server);
    }
}
