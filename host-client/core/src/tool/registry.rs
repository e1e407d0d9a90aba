//! Storage of tools: which ones there are, under which servers, and where each server comes from.
//!
//! It may change while a client is connected; whoever follows [`Registry::changes`] is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use relay_proto::spelling::nearest;
use relay_proto::{ErrorCode, INTROSPECTION_SERVER, LOCAL_SERVER, ToolName, ToolPatterns};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, watch};

use super::manifest::ManifestChange;
use super::spec::{Tool, ToolSpec};
use super::validate::Schema;

/// The origin of tools that the application registers itself.
pub(crate) const APPLICATION: &str = "the application";

/// Why a tool or a server's name cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tool {name:?} cannot be registered: {reason}")]
pub struct InvalidTool {
    /// The name of the tool, or of the server.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Identifies a tool by all that a person approves: another tool under the same name has another digest.
pub(crate) type ToolDigest = [u8; 32];

/// Tools by full name.
pub(crate) type ByName = BTreeMap<String, Arc<Registered>>;

/// The tools of an application. Clones share them; a clone may see other manifests (see [`Registry::amended`]).
#[derive(Clone)]
pub(crate) struct Registry {
    shared: Arc<Shared>,
    /// Changes of manifests that hold for this handle alone.
    view: Option<Arc<View>>,
}

/// The same tools with other manifests.
struct View {
    amendments: Vec<(ToolPatterns, ManifestChange)>,
    /// The amended tools, and the version of the registry that they were made of.
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
    /// The origin of each server.
    servers: BTreeMap<String, Arc<str>>,
    /// Changes of manifests in the order in which they were asked for; they hold for tools to come, too.
    amendments: Vec<(ToolPatterns, ManifestChange)>,
}

/// A tool with its schemas compiled.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) name: ToolName,
    pub(crate) spec: ToolSpec,
    pub(crate) arguments: Arc<Schema>,
    /// The schema that results are checked against; `None`: they are not checked.
    pub(crate) result: Option<Arc<Schema>>,
    /// Limits the calls that run at once; `None`: no limit.
    pub(crate) places: Option<Arc<Semaphore>>,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) digest: ToolDigest,
    pub(crate) declared: Arc<DeclarationCache>,
}

/// The texts that declare a tool in TypeScript, each written when it is first asked for.
#[derive(Default)]
pub(crate) struct DeclarationCache {
    pub(crate) declaration: OnceLock<String>,
    pub(crate) signature: OnceLock<String>,
}

impl Registered {
    /// Compiles the schemas of a tool.
    ///
    /// # Errors
    /// [`InvalidTool`]: the name is not `server.tool`, or a schema is not usable.
    pub(crate) fn new(tool: Arc<dyn Tool>) -> Result<Self, InvalidTool> {
        let spec = tool.spec();
        let refuse = |reason: String| InvalidTool { name: spec.name.clone(), reason };
        let name = ToolName::try_from(spec.name.clone()).map_err(|error| refuse(error.to_string()))?;
        let arguments = Arc::new(Schema::compile(&spec.input_schema).map_err(refuse)?);
        let result = match &spec.output_schema {
            Some(schema) if !tool.result_fits_by_type() => Some(Arc::new(Schema::compile(schema).map_err(refuse)?)),
            _ => None,
        };
        let digest = digest(&spec);
        Ok(Self { name, spec, arguments, result, places: None, tool, digest, declared: Arc::default() })
    }

    /// Returns the tool with changed manifests. It shares the places of `before` where the concurrency is the same.
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
            // A semaphore holds no more; with none at all the tool would never answer.
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

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name().keys()).finish()
    }
}

impl Default for Registry {
    fn default() -> Self {
        let shared = Shared { state: RwLock::default(), changed: watch::Sender::new(0) };
        Self { shared: Arc::new(shared), view: None }
    }
}

impl Registry {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.shared.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.shared.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tools as this handle sees them.
    pub(crate) fn by_name(&self) -> Arc<ByName> {
        let now = self.version();
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

    /// Returns a handle on the same tools that sees changed manifests. Tools registered with either handle are in both.
    pub(crate) fn amended(&self, changes: &[(String, ManifestChange)]) -> Self {
        let of = |(pattern, change): &(String, ManifestChange)| {
            (ToolPatterns::new(Some(vec![pattern.clone()])), change.clone())
        };
        let view = View { amendments: changes.iter().map(of).collect(), made: Mutex::default() };
        let view = (!view.amendments.is_empty()).then(|| Arc::new(view));
        Self { shared: Arc::clone(&self.shared), view }
    }

    /// Returns the number of changes so far.
    pub(crate) fn version(&self) -> u64 {
        *self.shared.changed.borrow()
    }

    /// Follows the number of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    fn tell(&self) {
        self.shared.changed.send_modify(|changes| *changes += 1);
    }

    /// Registers tools of the application itself; all of them, or none.
    ///
    /// # Errors
    /// [`InvalidTool`]: the name of one is not `server.tool`, is reserved or taken, or a schema is not usable.
    pub(crate) fn add(&self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<(), InvalidTool> {
        let tools = tools.into_iter().map(Registered::new).collect::<Result<Vec<_>, _>>()?;
        if tools.is_empty() {
            return Ok(());
        }
        {
            let mut state = self.write();
            let mut names = BTreeSet::new();
            for tool in &tools {
                let name = &tool.name;
                let refuse = |reason: String| InvalidTool { name: name.as_str().to_owned(), reason };
                check_free(name.server()).map_err(refuse)?;
                if let Some(origin) = state.servers.get(name.server())
                    && **origin != *APPLICATION
                {
                    return Err(refuse(taken(name.server(), origin, APPLICATION)));
                }
                if state.by_name.contains_key(name.as_str()) || !names.insert(name.as_str()) {
                    return Err(refuse(format!("{APPLICATION} has a tool of this name already")));
                }
            }
            for tool in tools {
                state.servers.insert(tool.name.server().to_owned(), APPLICATION.into());
                state.insert(tool, None);
            }
        }
        self.tell();
        Ok(())
    }

    /// Takes a server's name for an origin.
    ///
    /// # Errors
    /// [`InvalidTool`]: the name is not usable, is reserved, or belongs to another origin.
    pub(crate) fn take_server(&self, server: &str, origin: Arc<str>) -> Result<(), InvalidTool> {
        let refuse = |reason: String| InvalidTool { name: server.to_owned(), reason };
        ToolName::try_from(format!("{server}.tool"))
            .ok()
            .filter(|name| name.server() == server)
            .ok_or_else(|| refuse("it cannot be the name of a server: it is empty, too long, or has a dot".into()))?;
        check_free(server).map_err(refuse)?;
        let mut state = self.write();
        if let Some(other) = state.servers.get(server) {
            return Err(refuse(taken(server, other, &origin)));
        }
        state.servers.insert(server.to_owned(), origin);
        Ok(())
    }

    /// Gives a server's name back; its tools go with it.
    pub(crate) fn release_server(&self, server: &str) {
        {
            let mut state = self.write();
            state.without(server);
            state.servers.remove(server);
        }
        self.tell();
    }

    /// Puts these tools in the place of all that the server had. Returns those that could not be registered.
    pub(crate) fn replace(&self, server: &str, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Vec<InvalidTool> {
        let mut refused = Vec::new();
        let mut accepted: BTreeMap<String, Registered> = BTreeMap::new();
        for tool in tools {
            let refuse = |registered: Registered, reason| InvalidTool { name: registered.spec.name, reason };
            match Registered::new(tool) {
                Ok(registered) if registered.name.server() != server => {
                    refused.push(refuse(registered, format!("it is no tool of the server {server:?}")));
                }
                Ok(registered) if accepted.contains_key(registered.name.as_str()) => {
                    refused.push(refuse(registered, "the server has a tool of this name already".into()));
                }
                Ok(registered) => drop(accepted.insert(registered.name.as_str().to_owned(), registered)),
                Err(error) => refused.push(error),
            }
        }
        {
            let mut state = self.write();
            let before = state.without(server);
            for (name, registered) in accepted {
                state.insert(registered, before.get(&name));
            }
        }
        self.tell();
        refused
    }

    /// Changes the manifests of the tools that one of the patterns matches, now and in future.
    pub(crate) fn amend(&self, patterns: ToolPatterns, change: ManifestChange) {
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

    /// Returns the servers with their origins.
    pub(crate) fn servers(&self) -> Vec<(String, String)> {
        self.read().servers.iter().map(|(server, origin)| (server.clone(), origin.to_string())).collect()
    }

    /// Explains that no tool has this name: the code and a message that names the nearest one, if any.
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
}

impl State {
    fn insert(&mut self, registered: Registered, before: Option<&Arc<Registered>>) {
        let registered = registered.amended(&self.amendments, before);
        Arc::make_mut(&mut self.by_name).insert(registered.name.as_str().to_owned(), Arc::new(registered));
    }

    /// Removes the tools of a server. Returns all tools as they were before.
    fn without(&mut self, server: &str) -> Arc<ByName> {
        let before = Arc::clone(&self.by_name);
        Arc::make_mut(&mut self.by_name).retain(|_, it| it.name.server() != server);
        before
    }
}

/// Checks that a server's name is not reserved.
fn check_free(server: &str) -> Result<(), String> {
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
