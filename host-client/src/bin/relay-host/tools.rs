//! `tools`: what code could call.

use host_client::ToolSpec;
use host_client::catalogue::first_line;
use serde_json::{Value, json};

use crate::args::ToolsArgs;
use crate::exit::{FAILED, Failure};
use crate::progress::Progress;
use crate::setup::Setup;

/// How many tools a search shows.
const FOUND: usize = 20;

#[expect(clippy::print_stdout, reason = "what was asked for")]
pub(crate) async fn tools(args: ToolsArgs) -> Result<(), Failure> {
    let setup = Setup::new(&args.host, Some(&Progress::new(true))).await?;
    let tools = setup.host.tools();
    let shown = match &args.tool {
        None => tools.specs(),
        Some(name) => match tools.spec(name) {
            Some(spec) => {
                println!("{:#}", full(&spec));
                setup.close().await;
                return Ok(());
            }
            None => tools.search(name, FOUND),
        },
    };
    setup.close().await;
    if shown.is_empty() {
        let text = match &args.tool {
            Some(name) => format!("no tool is named {name:?}, and none is found by these words"),
            None => "there are no tools: name some with --mcp, --openapi, --workspace or --fetch".into(),
        };
        return Err(Failure { status: FAILED, text });
    }
    if args.json {
        println!("{}", json!(shown.iter().map(full).collect::<Vec<_>>()));
        return Ok(());
    }
    let width = shown.iter().map(|spec| spec.name.chars().count()).max().unwrap_or_default().min(50);
    for spec in &shown {
        let effect = spec.manifest.effect.map_or("?", |effect| effect.as_str());
        println!("{:width$}  {effect:10}  {}", spec.name, first_line(&spec.description));
    }
    Ok(())
}

/// All that is known of a tool.
fn full(spec: &ToolSpec) -> Value {
    let manifest = &spec.manifest;
    json!({
        "name": spec.name,
        "description": spec.description,
        "input_schema": spec.input_schema,
        "output_schema": spec.output_schema,
        "effect": manifest.effect,
        "mode": manifest.mode,
        "timeout_ms": u64::try_from(manifest.timeout.as_millis()).unwrap_or(u64::MAX),
        "result_bytes": manifest.result_bytes,
        "overflow": manifest.overflow,
        "concurrency": manifest.concurrency,
        "callable_from_code": manifest.callable_from_code,
    })
}
