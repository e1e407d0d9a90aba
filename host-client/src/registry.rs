//! The registry: which tools there are, under which servers, and where each server comes from.
//!
//! It may change while a client is connected; the relay is told.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use bytes::Bytes;
use relay_proto::spelling::nearest;
use relay_proto::{ErrorCode, INTROSPECTION_SERVER, LOCAL_SERVER, ToolName, ToolPatterns};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, watch};

use crate::approval::ToolDigest;
use crate::catalogue::Latest;
use crate::declare::Cached;
use crate::error::Error;
use crate::learn::Learned;
use crate::manifest::{Effect, Manifest, Overflow};
use crate::tools::{CallContext, CallFuture, Tool, ToolError, ToolSpec};
use crate::validate::Schema;

/// Where tools come from that the application registers itself.
const APPLICATION: &str = "the application";

/// The tools that code can call, by full name. Clones share them.
#[derive(Clone)]
pub struct Tools {
    shared: Arc<Shared>,
    /// What this handle says otherwise than the others.
    view: Option<Arc<View>>,
    /// The tools made ready for searching, as this handle sees them.
    pub(crate) latest: Arc<Latest>,
    /// What their results were like, where that is to be learned.
    pub(crate) learned: Option<Arc<Learned>>,
}

type ByName = BTreeMap<String, Arc<Registered>>;

/// The same tools with other manifests.
struct View {
    amendments: Vec<(ToolPatterns, ManifestChange)>,
    /// What was made of the tools, and of which of their changes.
    made: Mutex<Option<(u64, Arc<ByName>)>>,
}

struct Shared {
    state: RwLock<State>,
    /// Counts the changes.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    by_name: Arc<ByName>,
    /// Whose each server is.
    servers: BTreeMap<String, Arc<str>>,
    /// What is to be changed in manifests, in order, also of tools to come.
    amendments: Vec<(ToolPatterns, ManifestChange)>,
}

/// A tool with its schemas compiled.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) name: ToolName,
    pub(crate) spec: ToolSpec,
    pub(crate) arguments: Arc<Schema>,
    /// What its results have to fit.
    pub(crate) result: Option<Arc<Schema>>,
    /// Places for calls that run at once.
    pub(crate) places: Option<Arc<Semaphore>>,
    pub(crate) tool: Arc<dyn Tool>,
    /// Of all that a person would approve: another tool under the same name has another.
    pub(crate) digest: ToolDigest,
    /// What it is in TypeScript, once somebody asked.
    pub(crate) declared: Arc<Cached>,
}

impl Registered {
    /// The same with other words on it. Its places are those of `before`, where there are as many.
    fn amended<'a>(
        mut self,
        changes: impl IntoIterator<Item = &'a (ToolPatterns, ManifestChange)>,
        before: Option<&Arc<Self>>,
    ) -> Self {
        let effect = self.spec.manifest.effect;
        for (patterns, change) in changes {
            if patterns.allow(&self.name) {
                change.apply(&mut self.spec.manifest);
            }
        }
        let concurrency = self.spec.manifest.concurrency;
        let kept = before.filter(|before| before.spec.manifest.concurrency == concurrency);
        self.places = concurrency.map(|places| match kept.and_then(|before| before.places.clone()) {
            Some(places) => places,
            // A semaphore holds no more; none at all would be a tool that never answers.
            None => Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))),
        });
        // Of all that can be changed, a person approves the effect alone.
        if self.spec.manifest.effect != effect {
            self.digest = digest(&self.spec);
        }
        self
    }
}

fn digest(spec: &ToolSpec) -> ToolDigest {
    let manifest = &spec.manifest;
    let words =
        (&spec.name, &spec.description, &spec.input_schema, &spec.output_schema, manifest.effect, manifest.mode);
    // Values always have a JSON form.
    Sha256::digest(serde_json::to_vec(&words).unwrap_or_default()).into()
}

/// What somebody changes in the manifest of a tool that is not theirs. What is absent stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestChange {
    /// What calling it does.
    pub effect: Option<Effect>,
    /// How long a call may take, in ms.
    pub timeout_ms: Option<u64>,
    /// The most bytes of JSON that a call may return.
    pub result_bytes: Option<usize>,
    /// What happens to more.
    pub overflow: Option<Overflow>,
    /// How many calls run at once.
    pub concurrency: Option<usize>,
    /// Whether code may call it at all.
    pub callable_from_code: Option<bool>,
}

impl ManifestChange {
    fn apply(&self, manifest: &mut Manifest) {
        manifest.effect = self.effect.or(manifest.effect);
        manifest.timeout = self.timeout_ms.map_or(manifest.timeout, Duration::from_millis);
        manifest.result_bytes = self.result_bytes.unwrap_or(manifest.result_bytes);
        manifest.overflow = self.overflow.unwrap_or(manifest.overflow);
        manifest.concurrency = self.concurrency.or(manifest.concurrency);
        manifest.callable_from_code = self.callable_from_code.unwrap_or(manifest.callable_from_code);
    }
}

impl Default for Tools {
    fn default() -> Self {
        let shared = Shared { state: RwLock::default(), changed: watch::Sender::new(0) };
        Self { shared: Arc::new(shared), view: None, latest: Arc::default(), learned: None }
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name().keys()).finish()
    }
}

impl Tools {
    /// No tools.
    pub fn new() -> Self {
        Self::default()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.shared.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.shared.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools as this handle sees them.
    fn by_name(&self) -> Arc<ByName> {
        let now = *self.shared.changed.borrow();
        let tools = Arc::clone(&self.read().by_name);
        let Some(view) = &self.view else { return tools };
        let mut made = view.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, made)) = &*made
            && *of == now
        {
            return Arc::clone(made);
        }
        let before = made.take().map(|(_, made)| made);
        let amended = tools.iter().map(|(name, tool)| {
            if !view.amendments.iter().any(|(patterns, _)| patterns.allow(&tool.name)) {
                return (name.clone(), Arc::clone(tool));
            }
            // The places of the others count for this handle, too, unless it has a limit of its own.
            let before = before.as_ref().and_then(|before| before.get(name)).unwrap_or(tool);
            (name.clone(), Arc::new(tool.as_ref().clone().amended(&view.amendments, Some(before))))
        });
        let amended = Arc::new(amended.collect());
        *made = Some((now, Arc::clone(&amended)));
        amended
    }

    /// The same tools, as another handle that knows them by other manifests. What is registered with either is in both.
    pub(crate) fn amended(&self, changes: &[(String, ManifestChange)]) -> Self {
        let of = |(pattern, change): &(String, ManifestChange)| {
            (ToolPatterns::new(Some(vec![pattern.clone()])), change.clone())
        };
        let view = View { amendments: changes.iter().map(of).collect(), made: Mutex::default() };
        let view = (!view.amendments.is_empty()).then(|| Arc::new(view));
        Self { shared: Arc::clone(&self.shared), view, latest: Arc::default(), learned: self.learned.clone() }
    }

    /// Counts up with every change.
    pub(crate) fn version(&self) -> u64 {
        *self.shared.changed.borrow()
    }

    fn tell(&self) {
        self.shared.changed.send_modify(|changes| *changes += 1);
    }

    /// Registers an async function over typed arguments, and says what calling it does. The schemas come from the types.
    ///
    /// # Errors
    /// The name is not `server.tool` or is taken.
    pub fn add<A, R, F, Fut>(&self, name: &str, description: &str, effect: Effect, function: F) -> Result<&Self, Error>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + 'static,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let spec = ToolSpec::new(name, description, schemars::schema_for!(A).to_value())
            .output_schema(schemars::schema_for!(R).to_value())
            .effect(effect);
        let function = move |arguments, _context| {
            let arguments = serde_json::from_value::<A>(arguments);
            let running = arguments.map(&function);
            async move {
                let result = running?.await?;
                Ok(serde_json::to_vec(&result)?.into())
            }
        };
        self.add_tool(FunctionTool { spec, function, is_typed: true })
    }

    /// Registers a function over JSON, for tools whose schema is only known at run time, or that set limits of their own.
    ///
    /// # Errors
    /// The name is not `server.tool` or is taken, or a schema is not one.
    pub fn add_with<F, Fut>(&self, spec: ToolSpec, function: F) -> Result<&Self, Error>
    where
        F: Fn(Value, CallContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Bytes, ToolError>> + Send + 'static,
    {
        self.add_tool(FunctionTool { spec, function, is_typed: false })
    }

    /// Registers anything that is a [`Tool`].
    ///
    /// # Errors
    /// The name is not `server.tool` or is taken, or a schema is not one.
    pub fn add_tool(&self, tool: impl Tool) -> Result<&Self, Error> {
        let registered = register(Arc::new(tool))?;
        {
            let mut state = self.write();
            let name = registered.name.clone();
            let refuse = |reason: String| Error::Tool { name: name.as_str().to_owned(), reason };
            free(name.server()).map_err(refuse)?;
            if let Some(origin) = state.servers.get(name.server())
                && **origin != *APPLICATION
            {
                return Err(refuse(taken(name.server(), origin, APPLICATION)));
            }
            if state.by_name.contains_key(name.as_str()) {
                return Err(refuse(format!("{APPLICATION} has a tool of this name already")));
            }
            state.servers.insert(name.server().to_owned(), APPLICATION.into());
            state.insert(registered, None);
        }
        self.tell();
        Ok(self)
    }

    /// Takes a server's name for tools that come and go together. `origin` says in errors where they come from.
    ///
    /// # Errors
    /// The name is none, or is taken: both origins are named.
    pub fn mount(&self, server: &str, origin: impl Into<String>) -> Result<Mount, Error> {
        let origin: Arc<str> = origin.into().into();
        let refuse = |reason: String| Error::Tool { name: server.to_owned(), reason };
        ToolName::try_from(format!("{server}.tool"))
            .ok()
            .filter(|name| name.server() == server)
            .ok_or_else(|| refuse("it cannot be the name of a server: it is empty, too long, or has a dot".into()))?;
        free(server).map_err(refuse)?;
        let mut state = self.write();
        if let Some(other) = state.servers.get(server) {
            return Err(refuse(taken(server, other, &origin)));
        }
        state.servers.insert(server.to_owned(), origin);
        Ok(Mount { tools: self.clone(), server: server.to_owned() })
    }

    /// Changes what is known of tools that one of the patterns fits, such as `github.*`: of those that there are and of
    /// those to come.
    pub fn amend<S: Into<String>>(&self, patterns: impl IntoIterator<Item = S>, change: ManifestChange) {
        let patterns = ToolPatterns::new(Some(patterns.into_iter().map(Into::into).collect()));
        {
            let mut state = self.write();
            let fitting: Vec<_> = state.by_name.values().filter(|it| patterns.allow(&it.name)).cloned().collect();
            let change = (patterns, change);
            for registered in fitting {
                let again = registered.as_ref().clone().amended([&change], Some(&registered));
                Arc::make_mut(&mut state.by_name).insert(again.name.as_str().to_owned(), Arc::new(again));
            }
            state.amendments.push(change);
        }
        self.tell();
    }

    /// What is known of each tool, by name; those included that code may not call.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.by_name().values().map(|registered| registered.spec.clone()).collect()
    }

    /// What is known of one tool.
    pub fn spec(&self, name: &str) -> Option<ToolSpec> {
        self.by_name().get(name).map(|registered| registered.spec.clone())
    }

    /// The servers, and where each comes from.
    pub fn servers(&self) -> Vec<(String, String)> {
        self.read().servers.iter().map(|(server, origin)| (server.clone(), origin.to_string())).collect()
    }

    /// A tool that code may call.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Registered>> {
        self.by_name().get(name).filter(|it| it.spec.manifest.callable_from_code).cloned()
    }

    /// The tools that code may call.
    pub(crate) fn callable(&self) -> Vec<Arc<Registered>> {
        self.by_name().values().filter(|it| it.spec.manifest.callable_from_code).cloned().collect()
    }

    /// Why there is no such tool, and which one may have been meant.
    pub(crate) fn unknown(&self, name: &ToolName) -> (ErrorCode, String) {
        let (by_name, state) = (self.by_name(), self.read());
        let (server, tool) = (name.server(), name.tool());
        let hint = |meant: Option<&str>| meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
        if state.servers.contains_key(server) {
            let callable = by_name.values().filter(|it| it.spec.manifest.callable_from_code);
            let names: Vec<_> = callable.filter(|it| it.name.server() == server).map(|it| it.name.tool()).collect();
            let hint = hint(nearest(tool, names));
            (ErrorCode::UnknownTool, format!("the server {server:?} has no tool {tool:?}{hint}"))
        } else {
            let names: Vec<_> = state.servers.keys().map(String::as_str).collect();
            (ErrorCode::UnknownServer, format!("there is no server {server:?}{}", hint(nearest(server, names))))
        }
    }

    /// Told whenever there are other tools than before.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }
}

impl State {
    fn insert(&mut self, registered: Registered, before: Option<&Arc<Registered>>) {
        let registered = registered.amended(&self.amendments, before);
        Arc::make_mut(&mut self.by_name).insert(registered.name.as_str().to_owned(), Arc::new(registered));
    }

    /// Removes the tools of a server, and gives all that there were.
    fn without(&mut self, server: &str) -> Arc<ByName> {
        let before = Arc::clone(&self.by_name);
        Arc::make_mut(&mut self.by_name).retain(|_, it| it.name.server() != server);
        before
    }
}

/// Whether a server can have this name.
fn free(server: &str) -> Result<(), String> {
    let reason = match server {
        INTROSPECTION_SERVER => "what code asks about its tools is answered under it, such as mcp.search",
        LOCAL_SERVER => "functions that run inside the sandbox stand under it",
        _ => return Ok(()),
    };
    Err(format!("the server name {server:?} is reserved: {reason}; use another one"))
}

fn taken(server: &str, other: &str, origin: &str) -> String {
    format!("the server name {server:?} belongs to {other}; {origin} needs another one")
}

fn register(tool: Arc<dyn Tool>) -> Result<Registered, Error> {
    let spec = tool.spec();
    let refuse = |reason: String| Error::Tool { name: spec.name.clone(), reason };
    let name = ToolName::try_from(spec.name.clone()).map_err(|error| refuse(error.to_string()))?;
    let arguments = Arc::new(Schema::compile(&spec.input_schema).map_err(refuse)?);
    let result = match &spec.output_schema {
        Some(schema) if !tool.result_fits_by_type() => Some(Arc::new(Schema::compile(schema).map_err(refuse)?)),
        _ => None,
    };
    let digest = digest(&spec);
    Ok(Registered { name, spec, arguments, result, places: None, tool, digest, declared: Arc::default() })
}

/// A server's name, held for tools that come and go together. They go when this is dropped.
#[derive(Debug)]
pub struct Mount {
    tools: Tools,
    server: String,
}

impl Mount {
    /// The server's name.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Puts these tools in the place of those that the server had. Those that cannot be registered are left out and named in
    /// what is returned.
    pub fn replace(&self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Vec<Error> {
        let mut refused = Vec::new();
        let mut accepted: BTreeMap<String, Registered> = BTreeMap::new();
        for tool in tools {
            match register(tool) {
                Ok(registered) if registered.name.server() != self.server => refused.push(Error::Tool {
                    name: registered.spec.name,
                    reason: format!("it is no tool of the server {:?}", self.server),
                }),
                Ok(registered) if accepted.contains_key(registered.name.as_str()) => refused.push(Error::Tool {
                    name: registered.spec.name,
                    reason: "the server has a tool of this name already".into(),
                }),
                Ok(registered) => drop(accepted.insert(registered.name.as_str().to_owned(), registered)),
                Err(error) => refused.push(error),
            }
        }
        {
            let mut state = self.tools.write();
            let before = state.without(&self.server);
            for (name, registered) in accepted {
                state.insert(registered, before.get(&name));
            }
        }
        self.tools.tell();
        refused
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        {
            let mut state = self.tools.write();
            state.without(&self.server);
            state.servers.remove(&self.server);
        }
        self.tools.tell();
    }
}

struct FunctionTool<F> {
    spec: ToolSpec,
    function: F,
    /// The schema of its result comes from its type.
    is_typed: bool,
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> Arc<dyn Tool> {
        let spec = ToolSpec::new(name, "", json!({"type": "object"}));
        Arc::new(FunctionTool { spec, function: |_, _| async { Ok(Bytes::new()) }, is_typed: false })
    }

    #[test]
    fn a_server_has_one_origin_and_both_are_named() {
        let tools = Tools::new();
        let mount = tools.mount("git", "the MCP server git of mcp.json").unwrap();
        let error = tools.mount("git", "the OpenAPI document git.yaml").unwrap_err().to_string();
        assert!(error.contains("mcp.json") && error.contains("git.yaml"), "{error}");
        let none = |(): ()| async { Ok::<_, ToolError>(()) };
        let error = tools.add("git.log", "", Effect::ReadOnly, none).unwrap_err().to_string();
        assert!(error.contains("mcp.json") && error.contains("the application"), "{error}");
        drop(mount);
        tools.add("git.log", "", Effect::ReadOnly, none).unwrap();
        assert!(tools.mount("git", "the OpenAPI document git.yaml").is_err());
        for name in ["", "a.b"] {
            assert!(tools.mount(name, "x").is_err(), "{name:?}");
        }
        for name in ["mcp", "local"] {
            let mounted = tools.mount(name, "the MCP server of mcp.json").unwrap_err().to_string();
            let added = tools.add(&format!("{name}.log"), "", Effect::ReadOnly, none).unwrap_err().to_string();
            assert!(mounted.contains("reserved: ") && added.contains("reserved: "), "{mounted} {added}");
        }
    }

    #[test]
    fn tools_come_and_go_with_their_mount_and_bad_ones_are_left_out() {
        let tools = Tools::new();
        let mut changes = tools.changes();
        let mount = tools.mount("a", "a test").unwrap();
        let refused = mount.replace([tool("a.one"), tool("a.one"), tool("b.two"), tool("a.three")]);
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert_eq!(tools.specs().len(), 2);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        drop(mount);
        assert!(changes.has_changed().unwrap() && tools.specs().is_empty() && tools.servers().is_empty());
    }

    #[test]
    fn a_handle_with_other_manifests_leaves_the_others_as_they_are() {
        let tools = Tools::new();
        let mount = tools.mount("a", "a test").unwrap();
        assert!(mount.replace([tool("a.one")]).is_empty());
        let change =
            ManifestChange { effect: Some(Effect::ReadOnly), concurrency: Some(1), ..ManifestChange::default() };
        let view = tools.amended(&[("a.*".into(), change)]);
        let effect = |tools: &Tools, name: &str| tools.spec(name).unwrap().manifest.effect;
        assert_eq!((effect(&tools, "a.one"), effect(&view, "a.one")), (None, Some(Effect::ReadOnly)));
        let held = view.get("a.one").unwrap();
        let place = held.places.as_ref().unwrap().try_acquire().unwrap();
        // What comes later is in both, and a call that runs keeps its place.
        mount.replace([tool("a.one"), tool("a.two")]);
        assert_eq!((effect(&tools, "a.two"), effect(&view, "a.two")), (None, Some(Effect::ReadOnly)));
        assert!(view.get("a.one").unwrap().places.as_ref().unwrap().try_acquire().is_err());
        drop(place);
        assert!(view.get("a.one").unwrap().places.as_ref().unwrap().try_acquire().is_ok());
        assert_ne!(tools.get("a.one").unwrap().digest, view.get("a.one").unwrap().digest);
    }

    #[test]
    fn manifests_can_be_amended_before_and_after() {
        let tools = Tools::new();
        let mount = tools.mount("a", "a test").unwrap();
        assert!(mount.replace([tool("a.one")]).is_empty());
        let change = ManifestChange { effect: Some(Effect::ReadOnly), ..ManifestChange::default() };
        tools.amend(["a.*"], change);
        let hide = ManifestChange { callable_from_code: Some(false), ..ManifestChange::default() };
        tools.amend(["a.two"], hide);
        assert_eq!(tools.spec("a.one").unwrap().manifest.effect, Some(Effect::ReadOnly));
        mount.replace([tool("a.one"), tool("a.two")]);
        assert_eq!(tools.spec("a.two").unwrap().manifest.effect, Some(Effect::ReadOnly));
        assert!(tools.get("a.two").is_none() && tools.get("a.one").is_some() && tools.specs().len() == 2);
    }
}
