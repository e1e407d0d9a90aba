//! From a request to a result: models whose answers are scripted, and a real relay that runs them.

mod conversation;
mod faults;
mod repair;

#[cfg(feature = "sets")]
mod sandbox;
mod tool;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use host_client::programmatic::{
    Failed, Model, ModelError, ModelReply, ModelRequest, ModelUsage, Programmatic, ProgrammaticAnswer,
    ProgrammaticRequest, Step,
};
use host_client::{Client, Effect, Host, LazyClient, LocalRelay, Policy, ToolError, Tools};
use relay_test_support::within;

/// A model that answers from a list, and keeps what it was asked. Without an answer it never answers.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    replies: Arc<Mutex<VecDeque<Result<ModelReply, ModelError>>>>,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Scripted {
    pub(crate) fn new<S: Into<String>>(replies: impl IntoIterator<Item = S>) -> Self {
        let usage = ModelUsage { input_tokens: Some(100), output_tokens: Some(10) };
        Self::replying(replies.into_iter().map(|text| Ok(ModelReply { usage, ..ModelReply::new(text) })))
    }

    pub(crate) fn replying(replies: impl IntoIterator<Item = Result<ModelReply, ModelError>>) -> Self {
        Self { replies: Arc::new(Mutex::new(replies.into_iter().collect())), asked: Arc::default() }
    }

    pub(crate) fn asked(&self) -> Vec<ModelRequest> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Model for Scripted {
    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        self.asked.lock().unwrap().push(request);
        let reply = self.replies.lock().unwrap().pop_front();
        match reply {
            Some(reply) => reply,
            None => std::future::pending().await,
        }
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A relay, and tools that add, count up, and fail.
pub(crate) struct Scene {
    _relay: LocalRelay,
    pub(crate) client: Client,
    count: Arc<Mutex<u64>>,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let count = Arc::new(Mutex::new(0));
        let tools = Tools::new();
        let add = |args: Add| async move { Ok::<_, ToolError>(args.a + args.b) };
        tools.add("math.add", "Adds two numbers", Effect::ReadOnly, add).unwrap();
        let counter = Arc::clone(&count);
        let up = move |_: Nothing| {
            let counter = Arc::clone(&counter);
            async move {
                let mut count = counter.lock().unwrap();
                *count += 1;
                Ok::<_, ToolError>(*count)
            }
        };
        tools.add("counter.up", "Counts up", Effect::Mutating, up).unwrap();
        let host = Host::new(tools).policy(Policy::new().allow(["*"]));
        let relay = LocalRelay::start().await.unwrap();
        let client = Client::connect(relay.client_config().await.unwrap(), host).await.unwrap();
        Self { _relay: relay, client, count }
    }

    pub(crate) fn programmatic(&self, model: &Scripted) -> Programmatic {
        Programmatic::new(model.clone(), self.client.clone())
    }

    pub(crate) async fn run(&self, model: &Scripted, prompt: &str) -> Result<ProgrammaticAnswer, Box<Failed>> {
        within(self.programmatic(model).run(ProgrammaticRequest::new(prompt))).await
    }

    /// Returns the number of times that the counter was counted up.
    pub(crate) fn count(&self) -> u64 {
        *self.count.lock().unwrap()
    }
}

/// The steps of a request, by name, without what happens in executions.
pub(crate) fn watched(request: ProgrammaticRequest) -> (ProgrammaticRequest, Arc<Mutex<Vec<String>>>) {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    let request = request.watch(move |step| {
        let name = match step {
            Step::Asked { attempt } => format!("asked {attempt}"),
            Step::Replied { attempt, .. } => format!("replied {attempt}"),
            Step::Running { attempt, .. } => format!("running {attempt}"),
            Step::Failed { attempt, code, .. } => {
                format!("failed {attempt} {}", code.map_or("-".into(), |it| it.to_string()))
            }
            Step::Repairing { attempt } => format!("repairing {attempt}"),
            Step::Done { attempt } => format!("done {attempt}"),
            _ => return,
        };
        seen.lock().unwrap().push(name);
    });
    (request, steps)
}

/// A way to a relay that nothing listens at.
pub(crate) fn nowhere() -> LazyClient {
    LazyClient::new(Tools::new(), |host| {
        Client::connect(host_client::ClientConfig::new("ws://127.0.0.1:9/ws", "t"), host)
    })
}
