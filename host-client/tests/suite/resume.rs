//! A session survives its socket: the library and a real relay with a proxy between them that breaks connections, and a relay
//! that lies when the library comes back.

mod cuts;
mod ends;
mod lies;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use host_client::{
    Backoff, Client, ClientConfig, ConnectionState, Effect, Error, ExecuteRequest, LocalRelay, Outcome, ToolError,
    Tools,
};
use relay_test_support::fault::{FaultProxy, Script};
use relay_test_support::within;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
struct Step {
    n: usize,
}

/// How often the tool ran for each number.
#[derive(Debug, Default, Clone)]
struct Runs(Arc<Mutex<Vec<usize>>>);

impl Runs {
    fn of(&self, n: usize) -> usize {
        self.0.lock().unwrap().get(n).copied().unwrap_or_default()
    }

    fn add(&self, n: usize) {
        let mut runs = self.0.lock().unwrap();
        let length = runs.len().max(n + 1);
        runs.resize(length, 0);
        runs[n] += 1;
    }

    /// Fails unless each of `count` calls ran once, and no other.
    #[track_caller]
    fn assert_each_once(&self, count: usize) {
        assert_eq!(*self.0.lock().unwrap(), vec![1; count]);
    }

    /// `t.step` counts its run and gives a text that depends on its number; `t.wait` counts its run and never ends.
    fn tools(&self) -> Tools {
        let tools = Tools::new();
        let runs = self.clone();
        let step = move |Step { n }: Step| {
            runs.add(n);
            async move { Ok::<_, ToolError>(format!("{n}: {}", "ä".repeat(n % 50))) }
        };
        tools.add("t.step", "One step", Effect::ReadOnly, step).unwrap();
        let runs = self.clone();
        let wait = move |Step { n }: Step| {
            runs.add(n);
            std::future::pending::<Result<(), ToolError>>()
        };
        tools.add("t.wait", "Waits", Effect::ReadOnly, wait).unwrap();
        tools
    }
}

/// A relay behind a proxy, and a client of it.
struct Scene {
    relay: LocalRelay,
    proxy: FaultProxy,
    client: Client,
    runs: Runs,
}

impl Scene {
    async fn start(plan: impl Fn(usize) -> Script + Send + Sync + 'static) -> Self {
        Self::start_with(&[], plan, |_| {}).await
    }

    async fn start_with(
        arguments: &[&str],
        plan: impl Fn(usize) -> Script + Send + Sync + 'static,
        configure: impl FnOnce(&mut ClientConfig),
    ) -> Self {
        let builder = arguments.iter().fold(LocalRelay::builder(), |builder, argument| builder.argument(*argument));
        let relay = within(builder.start()).await.unwrap();
        let proxy = FaultProxy::start(relay.address(), plan).await.unwrap();
        let runs = Runs::default();
        let mut config = config(&relay, &proxy).await;
        configure(&mut config);
        let client = within(Client::connect(config, runs.tools())).await.unwrap();
        Self { relay, proxy, client, runs }
    }

    async fn run(&self, code: &str) -> Result<Outcome, Error> {
        within(self.client.run(ExecuteRequest::new(code).always_in_sandbox())).await
    }

    /// Waits until the client has lost its connection.
    async fn reconnecting(&self) {
        reconnecting(&self.client).await;
    }

    /// Returns the number of connections that the proxy broke.
    fn breaks(&self) -> usize {
        self.proxy.fates().iter().filter(|fate| fate.broken.is_some()).count()
    }
}

/// Waits until a client has lost its connection.
async fn reconnecting(client: &Client) {
    let mut changes = client.state_changes();
    while !matches!(client.state(), ConnectionState::Reconnecting { .. }) {
        within(changes.next()).await.unwrap();
    }
}

/// Settings for a relay behind a proxy, with a library that does not wait long between its attempts.
async fn config(relay: &LocalRelay, proxy: &FaultProxy) -> ClientConfig {
    let mut config = relay.client_config().await.unwrap();
    config.url = proxy.url();
    config.resume = Some(Duration::from_secs(60));
    config.backoff = Backoff { first: Duration::from_millis(1), most: Duration::from_millis(20) };
    config
}

/// Makes so many calls, one after the other, and prints now and then.
fn sequential(calls: usize) -> String {
    format!(
        "let all = '';
        for (let n = 0; n < {calls}; n++) {{
            all += await mcp.call('t.step', {{n}}) + '\\n';
            if (n % 20 === 0) console.log('so far', n);
        }}
        return all"
    )
}

/// Makes so many calls at once.
fn parallel(calls: usize) -> String {
    format!(
        "return (await Promise.all(Array.from({{length: {calls}}}, (_, n) => mcp.call('t.step', {{n}})))).join('\\n')"
    )
}

/// Returns what code gives over a connection without faults.
async fn undisturbed(code: &str) -> Outcome {
    let relay = within(LocalRelay::start()).await.unwrap();
    let config = relay.client_config().await.unwrap();
    let client = within(Client::connect(config, Runs::default().tools())).await.unwrap();
    within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await.unwrap()
}
