//! Measures tool calls by a function of Rust, beside which the benchmarks of the other languages stand.
//!
//! `cargo run --release --package relay-sdk --example calls`; the relay is the one that `SANDBOX_RELAY_BIN` names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use relay_sdk::{
    ForeignCall, ForeignContext, Functions, HostOptions, RequestOptions, SdkError, SdkHost, ToolDescription, ToolFault,
};
use serde_json::json;

/// Sequential calls of one program: as many as the limit of a relay allows unless it is raised.
const CALLS: u32 = 1_000;
/// Rounds of each program, of which the median counts.
const ROUNDS: usize = 9;

struct Add;

#[async_trait]
impl ForeignCall for Add {
    async fn call(&self, arguments: String, _: ForeignContext) -> Result<Bytes, ToolFault> {
        let read = |error: serde_json::Error| ToolFault::failed(error.to_string());
        let arguments: std::collections::BTreeMap<String, i64> = serde_json::from_str(&arguments).map_err(read)?;
        Ok(arguments.values().sum::<i64>().to_string().into())
    }
}

/// Runs a program some times, and returns the median of the times.
async fn median(host: &SdkHost, code: &str) -> Result<Duration, SdkError> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let options = RequestOptions { code: code.into(), ..RequestOptions::default() };
        let began = Instant::now();
        host.execute(options, None)?.outcome().await?;
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let integer = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {"a": integer, "b": integer}, "required": ["a", "b"]});
    let add = json!({"name": "math.add", "input_schema": schema, "output_schema": integer, "effect": "read_only"});
    let add: ToolDescription = serde_json::from_value(add)?;
    let functions = Functions { tools: vec![(add, Arc::new(Add))], ..Functions::default() };
    let runtime = relay_sdk::runtime::handle()?;
    runtime.block_on(async {
        let host = SdkHost::start(HostOptions::default(), functions).await?;
        let empty = median(&host, "return 1").await?;
        let code = format!(
            "let n = 0; for (let i = 0; i < {CALLS}; i++) n += await mcp.call('math.add', {{a: i, b: 1}}); return n"
        );
        let calls = median(&host, &code).await?.saturating_sub(empty) / CALLS;
        let code = "const all = Array.from({length: 1000}, (_, i) => mcp.call('math.add', {a: i, b: 1})); \
                    return (await Promise.all(all)).length";
        let parallel = median(&host, code).await?;
        #[expect(clippy::print_stdout, reason = "the figures are what it is for")]
        {
            println!("an execution without calls: {empty:.2?}");
            println!("one of {CALLS} calls, one after the other: {calls:.1?}");
            println!("1,000 calls at once: {parallel:.1?}");
        }
        host.close(Duration::from_secs(5)).await;
        Ok::<_, SdkError>(())
    })?;
    Ok(())
}
