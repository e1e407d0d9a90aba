//! The tools that code can call: registering, changing, searching and declaring them.

mod builder;
mod function;
mod offer;
mod set;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use relay_proto::spelling::sanitize;
use relay_proto::{ErrorCode, ToolName, ToolPatterns};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::describe::{Catalogue, Declarations, UnknownTool};
use crate::error::Error;
use crate::tool::{CallContext, Effect, InvalidTool, ManifestChange, Registered, Registry, Tool, ToolError, ToolSpec};
use function::FunctionTool;

pub use builder::ToolBuilder;
#[doc(hidden)]
pub use builder::typed_tool;
pub use function::ToolFunction;
pub(crate) use offer::Offer;
pub use set::ToolSet;

/// The most servers that an overview names as starting.
const MAX_STARTING: usize = 20;

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
    offer: Offer,
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

    /// Returns the full names of all tools, sorted; those included that code may not call.
    pub fn names(&self) -> Vec<ToolName> {
        self.registry.by_name().values().map(|tool| tool.name.clone()).collect()
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

    /// Returns what a person should know of a tool beside its description, as sentences: the patterns of its schemas that
    /// are not checked. Empty if there is nothing, or no such tool.
    pub fn notes(&self, name: &str) -> Vec<String> {
        self.registry.by_name().get(name).map(|registered| registered.notes.to_vec()).unwrap_or_default()
    }

    /// Returns where the effect of a tool comes from, for people: such as the annotations of its server, or the rules of
    /// this host. `None`: there is no such tool.
    pub fn effect_origin(&self, name: &str) -> Option<String> {
        let by_name = self.registry.by_name();
        let registered = by_name.get(name)?;
        let origin = registered.effect_origin.as_deref().map(str::to_owned).or_else(|| {
            let servers = self.registry.servers();
            let (_, origin) = servers.into_iter().find(|(server, _)| server == registered.name.server())?;
            Some(origin)
        });
        Some(origin.unwrap_or_default())
    }

    /// Returns the tools that sources offered and that are not registered, each with the reason, by server.
    pub fn left_out(&self) -> Vec<InvalidTool> {
        self.registry.left_out()
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
        let mut overview = self.catalogue().overview(&self.declarations, most_tokens);
        let starting = self.starting();
        if !starting.is_empty() {
            let all = starting.len();
            let some: Vec<_> = starting.into_iter().take(MAX_STARTING).map(|(server, _)| server).collect();
            let more = if all > some.len() { format!(" and {} others", all - some.len()) } else { String::new() };
            overview.push_str(&format!(
                "\nStill starting, so that their tools are not known yet: {}{more}\n",
                some.join(", ")
            ));
        }
        overview
    }

    /// Returns the servers that are being started and whose tools are not known yet, each with the time since.
    pub fn starting(&self) -> Vec<(String, Duration)> {
        self.registry.starting().into_iter().map(|(server, start)| (server, start.since.elapsed())).collect()
    }

    /// Waits for servers that are being started and that the code names: a call of their tools could not be told from a
    /// mistake. Returns `true` if the code names a server.
    pub(crate) async fn await_servers_of(&self, code: &str) -> bool {
        let mut changes = self.changes();
        let is_named = |server: &str| code.contains(server) || code.contains(&sanitize(server));
        loop {
            let now = Instant::now();
            let starting = self.registry.starting();
            let named = starting.iter().filter(|(server, start)| start.until > now && is_named(server));
            let Some(until) = named.map(|(_, start)| start.until).min() else {
                return self.registry.servers().iter().any(|(server, _)| is_named(server));
            };
            // A change or the time: what is left is looked at again.
            let _ = tokio::time::timeout_at(until, changes.changed()).await;
        }
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
            offer: self.offer.clone(),
        }
    }

    /// Returns a handle on the same tools that offers a selection of them to models and code.
    pub(crate) fn offering(&self, offer: Offer) -> Self {
        Self { catalogue: Arc::default(), offer, ..self.clone() }
    }

    /// Returns the reason why the tool with this full name is not offered; `None`: it is, or there is no such tool.
    pub(crate) fn denial(&self, name: &str) -> Option<String> {
        self.offer.denial(self.registry.by_name().get(name)?)
    }

    /// Returns a handle on the same tools that learns the shapes of their results, or does not.
    pub(crate) fn learning(mut self, learns: bool) -> Self {
        self.declarations = Declarations::learning(learns);
        self
    }

    pub(crate) fn declarations(&self) -> &Declarations {
        &self.declarations
    }

    /// Returns the tools that are offered to models and code, made ready for searching. It is made again when the tools have changed.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        let now = self.registry.version();
        let mut latest = self.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, catalogue)) = &*latest
            && *of == now
        {
            return Arc::clone(catalogue);
        }
        let offered = self.callable().iter().filter_map(|tool| self.offer.of(tool)).collect();
        let catalogue = Arc::new(Catalogue::new(offered));
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

    /// Reports tools of the server that its source cannot offer, so that [`Tools::left_out`] and the error of a call
    /// name them. Names are full, `server.tool`. [`Mount::replace`] forgets them.
    pub fn leave_out(&self, tools: impl IntoIterator<Item = InvalidTool>) {
        self.registry.leave_out(&self.server, tools);
    }

    /// Says that the server is being started and that its tools are not known yet. Code that names it waits for it for at
    /// most `waits`. [`Mount::replace`] ends this, and so does `None`, when the start has failed.
    pub fn set_starting(&self, waits: Option<Duration>) {
        self.registry.set_starting(&self.server, waits);
    }

    /// Sets what callers of a tool that the server does not have are told beside that, such as that the server still
    /// starts, in at most 2,000 bytes. Default: `None`, nothing.
    pub fn set_note(&self, note: Option<String>) {
        self.registry.set_note(&self.server, note);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.registry.release_server(&self.server);
    }
}
