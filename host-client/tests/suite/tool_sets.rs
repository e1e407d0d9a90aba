//! Methods as tools, by the attribute `host_client::tools`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host_client::{
    CallContext, Client, Effect, Event, ExecuteRequest, LocalRelay, Mode, Overflow, Tool, ToolError, ToolSet, Tools,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use relay_test_support::within;

#[derive(Debug, Default)]
struct Notes {
    texts: Mutex<BTreeMap<u32, String>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
struct Note {
    id: u32,
    text: String,
}

#[derive(Debug, thiserror::Error)]
#[error("there is no note {0}")]
struct NoNote(u32);

#[host_client::tools(server = "notes")]
impl Notes {
    /// Finds notes that contain a text.
    ///
    /// The oldest come first.
    #[tool(effect = "read_only", timeout_ms = 5000)]
    async fn search(
        &self,
        ctx: CallContext,
        /// What to look for
        text: String,
        /// The most notes that are returned; 10 without
        limit: Option<usize>,
    ) -> Result<Vec<Note>, ToolError> {
        ctx.progress(0.0, None, format!("looking for {text}"));
        if text.is_empty() {
            Err("there is nothing to look for")?;
        }
        Ok(self.all().into_iter().filter(|note| note.text.contains(&text)).take(limit.unwrap_or(10)).collect())
    }

    /// Keeps a note.
    #[tool(effect = "mutating", mode = "none", result_bytes = 64, overflow = "cut", concurrency = 1)]
    async fn keep(&self, args: Note) {
        self.texts.lock().unwrap().insert(args.id, args.text);
    }

    #[tool(name = "notes.count", description = "Counts the notes", effect = "read_only")]
    fn count(&self) -> usize {
        self.texts.lock().unwrap().len()
    }

    /// Gives a note.
    #[tool(effect = "read_only")]
    async fn get(self: Arc<Self>, Id { id }: Id, _ctx: CallContext) -> Result<Note, NoNote> {
        self.all().into_iter().find(|note| note.id == id).ok_or(NoNote(id))
    }

    /// Says which version this is.
    #[tool(effect = "read_only")]
    fn version(r#type: String) -> String {
        format!("{type} 1")
    }

    /// Is for the agent alone.
    #[tool(callable_from_code = false)]
    async fn purge(&self) -> anyhow::Result<()> {
        self.texts.lock().unwrap().clear();
        Ok(())
    }

    /// Is never there.
    #[cfg(any())]
    #[tool]
    async fn absent(&self) {}

    /// Is no tool.
    fn all(&self) -> Vec<Note> {
        self.texts.lock().unwrap().iter().map(|(id, text)| Note { id: *id, text: text.clone() }).collect()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Id {
    id: u32,
}

/// A set over something that is not known here.
struct Store<T> {
    value: T,
}

#[host_client::tools(server = "store", crate = "host_client")]
impl<T> Store<T>
where
    T: Serialize + JsonSchema + Clone + Send + Sync + 'static,
{
    /// Gives the value.
    #[tool]
    async fn value(&self) -> T {
        self.value.clone()
    }
}

#[test]
fn methods_become_tools_with_what_is_said_of_them() {
    let tools = Tools::new();
    tools.add_set(Notes::default()).unwrap();
    let names: Vec<_> = tools.specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["notes.get", "notes.keep", "notes.notes.count", "notes.purge", "notes.search", "notes.version"]);
    let search = tools.spec("notes.search").unwrap();
    assert_eq!(search.description, "Finds notes that contain a text.\n\nThe oldest come first.");
    assert_eq!((search.manifest.effect, search.manifest.timeout), (Some(Effect::ReadOnly), Duration::from_secs(5)));
    let schema = &search.input_schema;
    assert_eq!(schema["properties"]["text"]["description"], "What to look for");
    assert_eq!((&schema["required"], &schema["additionalProperties"]), (&json!(["text"]), &json!(false)));
    assert_eq!(search.output_schema.unwrap()["type"], "array");
    let keep = tools.spec("notes.keep").unwrap().manifest;
    assert_eq!((keep.effect, keep.mode), (Some(Effect::Mutating), Mode::None));
    assert_eq!((keep.result_bytes, keep.overflow, keep.concurrency), (64, Overflow::Cut, Some(1)));
    assert_eq!(tools.spec("notes.notes.count").unwrap().description, "Counts the notes");
    let purge = tools.spec("notes.purge").unwrap().manifest;
    assert_eq!((purge.effect, purge.callable_from_code), (None, false));
    let version = tools.spec("notes.version").unwrap();
    assert_eq!(version.input_schema["required"], json!(["type"]));
}

#[tokio::test]
async fn code_calls_methods_over_one_state() {
    let (tools, notes) = (Tools::new(), Arc::new(Notes::default()));
    tools.add_set(Arc::clone(&notes)).unwrap().add_set(Store { value: vec![1, 2] }).unwrap();
    notes.texts.lock().unwrap().insert(1, "bread and salt".into());
    let relay = within(LocalRelay::start()).await.unwrap();
    let host = host_client::Host::new(tools).policy(host_client::Policy::new().allow(["*"]));
    let client = within(Client::connect(relay.client_config().await.unwrap(), host)).await.unwrap();
    let code = "await mcp.call('notes.keep', {id: 2, text: 'salt'});
        const errors = [];
        for (const [tool, args] of [['get', {id: 9}], ['search', {text: ''}], ['search', {txt: 'x'}], ['purge', {}]]) {
            try { await mcp.call('notes.' + tool, args) } catch (e) { errors.push(e.code + ' ' + e.message) }
        }
        return [
            await mcp.call('notes.search', {text: 'salt', limit: 1}), await mcp.call('notes.search', {text: 'salt'}),
            await mcp.call('notes.notes.count'), await mcp.call('notes.get', {id: 2}),
            await mcp.call('notes.version', {type: 'v'}), await mcp.call('store.value'), errors];";
    let mut execution = within(client.execute(ExecuteRequest::new(code))).await.unwrap();
    let mut events = execution.events().unwrap();
    let mut value = within(execution).await.unwrap().value().unwrap();
    let errors: Vec<String> = serde_json::from_value(value.as_array_mut().unwrap().pop().unwrap()).unwrap();
    let (bread, salt) = (json!({"id": 1, "text": "bread and salt"}), json!({"id": 2, "text": "salt"}));
    assert_eq!(value, json!([[bread], [bread, salt], 2, salt, "v 1", [1, 2]]));
    for (error, expected) in errors.iter().zip([
        "TOOL_FAILED there is no note 9",
        "TOOL_FAILED there is nothing to look for",
        "INVALID_ARGUMENTS",
        "UNKNOWN_TOOL",
    ]) {
        assert!(error.contains(expected) || error.starts_with(expected), "{error}: {expected}");
    }
    assert_eq!(errors.len(), 4);
    assert!(errors[2].contains("\"txt\""), "{}", errors[2]);
    let mut told = Vec::new();
    while let Some(event) = within(events.next()).await {
        if let Event::ToolCallProgress { message, .. } = event {
            told.push(message);
        }
    }
    assert_eq!(told, ["looking for ", "looking for salt", "looking for salt"]);
    assert_eq!(notes.count(), 2);
}

/// Two tools, of which the second cannot be registered.
struct Broken;

impl ToolSet for Broken {
    fn tools(self: Arc<Self>) -> Vec<Arc<dyn Tool>> {
        let notes = Arc::new(Notes::default()).tools();
        notes.into_iter().chain(Arc::new(Notes::default()).tools()).collect()
    }
}

#[test]
fn a_set_is_registered_as_a_whole_or_not_at_all() {
    let tools = Tools::new();
    let changes = tools.changes();
    let error = tools.add_set(Broken).unwrap_err().to_string();
    assert!(error.contains("already"), "{error}");
    assert!(tools.specs().is_empty() && tools.servers().is_empty() && !changes.has_changed().unwrap());
    tools.add_set(Notes::default()).unwrap();
    assert_eq!(*changes.borrow(), 1, "whoever is connected is told once");
    assert!(tools.add_set(Notes::default()).is_err());
}
