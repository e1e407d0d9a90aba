//! From a request to a result: a model writes one program, which calls the tools that are here and runs in a sandbox.
//!
//! Without a model, two answers are played back, of which the first one fails and is mended. With one:
//! `OPENAI_API_KEY=… cargo run -p examples --features rig --bin programmatic -- --model openai:gpt-5.2`, or
//! `ANTHROPIC_API_KEY=… … --model anthropic:claude-sonnet-5-5`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use host_client::programmatic::{CallbackModel, Model, ModelReply, Programmatic, ProgrammaticRequest, Step};
use host_client::{Client, Effect, Event, LazyClient, LocalRelay, ToolError, Tools};
use serde_json::json;

/// Answers a request with one program in a sandbox.
#[derive(Debug, Parser)]
struct Args {
    /// What is wanted
    #[arg(default_value = "What did our customers in Zürich order in total?")]
    request: String,
    /// A model, such as `openai:gpt-5.2` [default: answers that are played back]
    #[arg(long, value_name = "PROVIDER:NAME")]
    model: Option<String>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct OfCity {
    city: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct OfCustomer {
    customer: u64,
}

fn tools() -> Result<Tools, host_client::Error> {
    let tools = Tools::new();
    let customers = |OfCity { city }: OfCity| async move {
        let ids: Vec<u64> = if city == "Zürich" { (1..=20).collect() } else { Vec::new() };
        Ok::<_, ToolError>(ids)
    };
    tools.add("shop.customers", "Ids of the customers in a city: {city}", Effect::ReadOnly, customers)?;
    let orders = |OfCustomer { customer }: OfCustomer| async move {
        Ok::<_, ToolError>(json!([{"amount": customer * 10}, {"amount": 5}]))
    };
    tools.add("shop.orders", "Orders of a customer, each with its amount: {customer}", Effect::ReadOnly, orders)?;
    Ok(tools)
}

/// What a model answers at first, and after it was told what was wrong.
const PLAYED: [&str; 2] = [
    "```js\nconst ids = await mcp.call('shop.customer', {city: 'Zürich'});\nreturn ids.length;\n```",
    "```js\nconst ids = await mcp.call('shop.customers', {city: 'Zürich'});\n\
     const orders = await Promise.all(ids.map((customer) => mcp.call('shop.orders', {customer})));\n\
     return {customers: ids.length, total: orders.flat().reduce((sum, order) => sum + order.amount, 0)};\n```",
];

fn model(name: Option<&str>) -> anyhow::Result<Arc<dyn Model>> {
    let Some(name) = name else {
        let asked = AtomicUsize::new(0);
        return Ok(Arc::new(CallbackModel::new(move |_| {
            let reply = ModelReply::new(PLAYED[asked.fetch_add(1, Ordering::Relaxed) % PLAYED.len()]);
            async { Ok(reply) }
        })));
    };
    provider(name)
}

#[cfg(feature = "rig")]
fn provider(name: &str) -> anyhow::Result<Arc<dyn Model>> {
    use host_client::programmatic::RigModel;
    use rig_core::providers::{anthropic::Anthropic, openai::OpenAI};
    Ok(Arc::new(match name.split_once(':') {
        Some(("openai", model)) => RigModel::new(OpenAI::from_env()?.completion(model)),
        Some(("anthropic", model)) => RigModel::new(Anthropic::from_env()?.completion(model)).max_tokens(8_000),
        _ => anyhow::bail!("a model is openai:NAME or anthropic:NAME"),
    }))
}

#[cfg(not(feature = "rig"))]
fn provider(_: &str) -> anyhow::Result<Arc<dyn Model>> {
    anyhow::bail!("this was built without models: add --features rig")
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the answer is what the example is for")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let relay = LocalRelay::start().await?;
    let config = relay.client_config().await?;
    // It is connected while the model thinks.
    let client = LazyClient::new(tools()?, move |host| Client::connect(config.clone(), host));
    let programmatic = Programmatic::shared(model(args.model.as_deref())?, client);
    let request = ProgrammaticRequest::new(args.request).watch(|step| match step {
        Step::Execution { event: Event::ToolCallFinished { tool, elapsed, .. }, .. } => {
            eprintln!("  {tool} {elapsed:.1?}")
        }
        Step::Execution { .. } => {}
        Step::Failed { attempt, message, .. } => eprintln!("attempt {attempt} failed: {message}"),
        other => eprintln!("{other:?}"),
    });
    let answer = programmatic.run(request).await?;
    println!("{}\n\n{}", answer.code, answer.outcome.value()?);
    eprintln!("{:?}, {} tool calls", answer.usage.model, answer.usage.execution.tool_calls);
    Ok(())
}
