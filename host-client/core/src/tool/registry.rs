//! The storage of tools by server and name, with the origin of each server.
//!
//! The registry may change while a client is connected, and notifies about each change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use relay_proto::spelling::nearest;
use relay_proto::{ErrorCode, ToolName, ToolPatterns};
use tokio::sync::{Semaphore, watch};

use super::left_out::{InvalidTool, LeftOutTools, ServerStart};
use super::manifest::ManifestChange;
use super::names::{check_free, taken};
use super::patterns::unchecked_note;
use super::spec::{Tool, ToolSpec};
use super::validate::Schema;
use crate::hash::Hash;

/// The origin of tools that the application registers itself.
pub(crate) const APPLICATION: &str = "the application";

/// The registered tools by full name.
pub(crate) type ByName = BTreeMap<String, Arc<Registered>>;

/// A handle on the tools of an application. Clones share the tools; [`Registry::amended`] returns a handle that sees
/// changed manifests.
#[derive(Clone)]
pub(crate) struct Registry {
    shared: Arc<SharedRegistry>,
    /// The changes of manifests that only this handle and its clones see; `None`: there are none.
    view: Option<Arc<AmendedView>>,
}

/// A view of the registry's tools with changed manifests.
struct AmendedView {
    amendments: Vec<(ToolPatterns, ManifestChange)>,
    /// The changed tools, and the version of the registry that they were made from; `None`: not made yet.
    made: Mutex<Option<(u64, Arc<ByName>)>>,
}

/// The registry behind all handles.
struct SharedRegistry {
    state: RwLock<State>,
    /// The number of changes so far.
    changed: watch::Sender<u64>,
}

/// The tools, servers and manifest changes.
#[derive(Default)]
struct State {
    by_name: Arc<ByName>,
    /// The origin of each server, by the server's name.
    servers: BTreeMap<String, Arc<str>>,
    /// The changes of manifests in the order in which they were made. They also apply to tools that are registered
    /// later.
    amendments: Vec<(ToolPatterns, ManifestChange)>,
    left_out: LeftOutTools,
}

/// A registered tool with its compiled schemas.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) name: ToolName,
    pub(crate) spec: ToolSpec,
    pub(crate) arguments: Arc<Schema>,
    /// The schema that results are checked against; `None`: results are not checked.
    pub(crate) result: Option<Arc<Schema>>,
    /// The semaphore that limits the calls that run at once; `None`: no limit.
    pub(crate) places: Option<Arc<Semaphore>>,
    pub(crate) tool: Arc<dyn Tool>,
    /// The hash of everything that a person approves: name, description, schemas, effect and mode. Another tool with the same
    /// name has another digest.
    pub(crate) digest: Hash,
    pub(crate) declared: Arc<DeclarationCache>,
    /// Notes for people about the tool beside its description, as sentences.
    pub(crate) notes: Arc<[String]>,
    /// Source of the effect, in words; `None`: the code that registered the tool.
    pub(crate) effect_origin: Option<Arc<str>>,
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
        let refuse = |reason| InvalidTool { name: spec.name.clone(), reason };
        let name = ToolName::try_from(spec.name.clone()).map_err(|error| refuse(error.to_string()))?;
        let arguments = Arc::new(Schema::compile(&spec.input_schema).map_err(refuse)?);
        let result = match &spec.output_schema {
            Some(schema) if !tool.result_fits_by_type() => Some(Arc::new(Schema::compile(schema).map_err(refuse)?)),
            _ => None,
        };
        let unchecked = [("arguments", Some(&arguments)), ("results", result.as_ref())];
        let unchecked = unchecked.into_iter().filter_map(|(of, schema)| unchecked_note(of, schema?.unchecked()));
        let notes = unchecked.chain(tool.notes()).collect();
        let (effect_origin, declared, digest) = (tool.effect_origin().map(Into::into), Arc::default(), digest(&spec));
        Ok(Self { name, spec, arguments, result, places: None, tool, digest, declared, notes, effect_origin })
    }

    /// Returns the tool with all changes applied whose patterns match its name. It shares the semaphore of `before`,
    /// the same tool before the changes, if the concurrency is the same: calls that run already count.
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
            // A semaphore with more permits panics; with 0 permits no call would ever run.
            None => Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))),
        });
        // The effect is the only part of the digest that a change can affect.
        if self.spec.manifest.effect != effect {
            self.effect_origin = Some("the rules of this host".into());
            self.digest = digest(&self.spec);
        }
        self
    }
}

/// Returns the hash of everything about a tool that a person approves.
fn digest(spec: &ToolSpec) -> Hash {
    let manifest = &spec.manifest;
    let approved =
        (&spec.name, &spec.description, &spec.input_schema, &spec.output_schema, manifest.effect, manifest.mode);
    // Writing JSON values as JSON cannot fail.
    Hash::of(&serde_json::to_vec(&approved).unwrap_or_default())
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name().keys()).finish()
    }
}

impl Default for Registry {
    fn default() -> Self {
        let shared = SharedRegistry { state: RwLock::default(), changed: watch::Sender::new(0) };
        Self { shared: Arc::new(shared), view: None }
    }
}

impl Registry {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        // A poisoned lock is usable: the code that changes the state does not panic midway.
        self.shared.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.shared.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tools with their manifests as this handle sees them.
    pub(crate) fn by_name(&self) -> Arc<ByName> {
        let now = self.version();
        let tools = Arc::clone(&self.read().by_name);
        let Some(view) = &self.view else { return tools };
        let mut made = view.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, made)) = &*made
            && *version == now
        {
            return Arc::clone(made);
        }
        let before = made.take().map(|(_, made)| made);
        let amended = tools.iter().map(|(name, tool)| {
            if !view.amendments.iter().any(|(patterns, _)| patterns.allow(&tool.name)) {
                return (name.clone(), Arc::clone(tool));
            }
            // All handles share a tool's concurrency limit, unless this one changes it.
            let before = before.as_ref().and_then(|before| before.get(name)).unwrap_or(tool);
            (name.clone(), Arc::new(tool.as_ref().clone().amended(&view.amendments, Some(before))))
        });
        let amended = Arc::new(amended.collect());
        *made = Some((now, Arc::clone(&amended)));
        amended
    }

    /// Returns a handle on the same tools that sees changed manifests. Tools registered with either handle are in both.
    /// The changes replace those of this handle.
    pub(crate) fn amended(&self, changes: &[(ToolPatterns, ManifestChange)]) -> Self {
        let view = AmendedView { amendments: changes.to_vec(), made: Mutex::default() };
        let view = (!view.amendments.is_empty()).then(|| Arc::new(view));
        Self { shared: Arc::clone(&self.shared), view }
    }

    /// Returns the number of changes so far.
    pub(crate) fn version(&self) -> u64 {
        *self.shared.changed.borrow()
    }

    /// Returns a receiver of the number of changes, which is notified of each.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Counts a change, and notifies the receivers.
    fn notify(&self) {
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
        self.notify();
        Ok(())
    }

    /// Reserves a server's name for the tools of an origin.
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

    /// Releases a server's name, and removes the server's tools.
    pub(crate) fn release_server(&self, server: &str) {
        {
            let mut state = self.write();
            state.remove_tools_of(server);
            state.servers.remove(server);
            state.left_out.clear(server);
            state.left_out.set_note(server, None);
        }
        self.notify();
    }

    /// Replaces all tools of a server in one step. Returns the errors of those that could not be registered; the others
    /// are. The errors are kept in the place of those of the tools before.
    pub(crate) fn replace(&self, server: &str, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Vec<InvalidTool> {
        let mut refused = Vec::new();
        let mut accepted: BTreeMap<String, Registered> = BTreeMap::new();
        for tool in tools {
            let refuse = |registered: Registered, reason| InvalidTool { name: registered.spec.name, reason };
            match Registered::new(tool) {
                Ok(registered) if registered.name.server() != server => {
                    refused.push(refuse(registered, format!("it is not a tool of the server {server:?}")));
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
            let before = state.remove_tools_of(server);
            for (name, registered) in accepted {
                state.insert(registered, before.get(&name));
            }
            state.left_out.clear(server);
            state.left_out.add(server, refused.iter().cloned());
        }
        self.notify();
        refused
    }

    /// Adds tools of a server that its source left out, until its tools are replaced.
    pub(crate) fn leave_out(&self, server: &str, tools: impl IntoIterator<Item = InvalidTool>) {
        self.write().left_out.add(server, tools);
        self.notify();
    }

    /// Sets what callers of a tool that the server does not have are told; `None`: nothing.
    pub(crate) fn set_note(&self, server: &str, note: Option<String>) {
        self.write().left_out.set_note(server, note);
    }

    /// Sets that a server starts whose tools are not known, and how long code that names it waits; `None`: it does not.
    pub(crate) fn set_starting(&self, server: &str, waits: Option<std::time::Duration>) {
        let is_new = self.write().left_out.set_starting(server, waits);
        is_new.then(|| self.notify());
    }

    /// Returns the servers that start and whose tools are not known.
    pub(crate) fn starting(&self) -> BTreeMap<String, ServerStart> {
        self.read().left_out.starting().clone()
    }

    /// Returns the tools that were offered and are not registered.
    pub(crate) fn left_out(&self) -> Vec<InvalidTool> {
        self.read().left_out.all()
    }

    /// Changes the manifests of the tools that a pattern matches, now and in future.
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
        self.notify();
    }

    /// Returns the name and the origin of each server.
    pub(crate) fn servers(&self) -> Vec<(String, String)> {
        self.read().servers.iter().map(|(server, origin)| (server.clone(), origin.to_string())).collect()
    }

    /// Returns the error for a name that no tool has: `UNKNOWN_TOOL` or `UNKNOWN_SERVER`, and a message with the reason
    /// why the tool was left out, or with the most similar name, if there is one.
    pub(crate) fn unknown(&self, name: &ToolName) -> (ErrorCode, String) {
        let (by_name, state) = (self.by_name(), self.read());
        let (server, tool) = (name.server(), name.tool());
        if let Some(reason) = state.left_out.reason(server, name.as_str()) {
            return (ErrorCode::UnknownTool, format!("the tool {name} was left out by the host: {reason}"));
        }
        let hint = |meant: Option<&str>| meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
        if state.servers.contains_key(server) {
            let callable = by_name.values().filter(|it| it.spec.manifest.callable_from_code);
            let names: Vec<_> = callable.filter(|it| it.name.server() == server).map(|it| it.name.tool()).collect();
            let hint = hint(nearest(tool, names));
            let note = state.left_out.note(server);
            (ErrorCode::UnknownTool, format!("the server {server:?} has no tool {tool:?}{hint}{note}"))
        } else {
            let names: Vec<_> = state.servers.keys().map(String::as_str).collect();
            (ErrorCode::UnknownServer, format!("there is no server {server:?}{}", hint(nearest(server, names))))
        }
    }
}

impl State {
    /// Adds a tool with its changed manifest. `before` is the tool that it replaces, if any.
    fn insert(&mut self, registered: Registered, before: Option<&Arc<Registered>>) {
        let registered = registered.amended(&self.amendments, before);
        Arc::make_mut(&mut self.by_name).insert(registered.name.as_str().to_owned(), Arc::new(registered));
    }

    /// Removes the tools of a server. Returns all tools as they were before.
    fn remove_tools_of(&mut self, server: &str) -> Arc<ByName> {
        let before = Arc::clone(&self.by_name);
        Arc::make_mut(&mut self.by_name).retain(|_, it| it.name.server() != server);
        before
    }
}
