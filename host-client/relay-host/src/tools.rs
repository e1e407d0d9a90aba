//! `tools`: lists the tools that code can call.

use std::io;

use host_client::catalogue::first_line;
use host_client::declare::declaration;
use host_client::{ToolSpec, Tools};
use serde_json::{Value, json};

use crate::args::ToolsArgs;
use crate::exit::{FAILED, Failure};
use crate::interrupt::Interrupts;
use crate::output::{print, print_indented, print_json};
use crate::progress::Progress;
use crate::setup::Setup;

/// Maximum number of tools that a search shows.
const FOUND: usize = 20;
/// Maximum width of the column of names, in characters.
const MAX_NAME_CHARS: usize = 50;

/// Tools to show.
enum Shown {
    /// The one tool that has this name.
    One(Box<ToolSpec>),
    Many(Vec<ToolSpec>),
}

/// Runs the command.
pub(crate) async fn tools(args: ToolsArgs, progress: &Progress) -> Result<(), Failure> {
    let setup = Interrupts::new()?.during(Setup::new(&args.host, Some(progress))).await?;
    let shown = find(setup.host.tools(), &args.tool.join(" "));
    setup.close().await;
    match shown {
        Shown::One(spec) if args.json => print_json(&full(&spec).to_string()),
        Shown::One(spec) => print_indented(&full(&spec).to_string()),
        Shown::Many(specs) if specs.is_empty() => Err(Failure { status: FAILED, text: nothing(&args) }),
        Shown::Many(specs) if args.json => print_json(&json!(specs.iter().map(full).collect::<Vec<_>>()).to_string()),
        Shown::Many(specs) => print(&table(&specs)),
    }
}

/// Finds a tool by its name, with or without the server; the tools of a server; or those that match words.
fn find(tools: &Tools, words: &str) -> Shown {
    if words.is_empty() {
        return Shown::Many(tools.specs());
    }
    if let Some(spec) = tools.spec(words) {
        return Shown::One(Box::new(spec));
    }
    let is_of_server = |spec: &ToolSpec| spec.name.strip_prefix(words).is_some_and(|rest| rest.starts_with('.'));
    let of_server: Vec<_> = tools.specs().into_iter().filter(is_of_server).collect();
    match tools.describe(words) {
        _ if !of_server.is_empty() => Shown::Many(of_server),
        Ok(spec) => Shown::One(Box::new(spec)),
        Err(_) => Shown::Many(tools.search(words, FOUND)),
    }
}

/// Explains that no tool was found.
fn nothing(args: &ToolsArgs) -> String {
    if args.tool.is_empty() {
        "there are no tools: name some with --mcp, --openapi, --workspace or --fetch".into()
    } else {
        format!("no tool is named {:?}, and none is found by these words", args.tool.join(" "))
    }
}

/// Formats a line for each tool, cut to the width of the terminal if there is one.
fn table(specs: &[ToolSpec]) -> String {
    let width = specs.iter().map(|spec| spec.name.chars().count()).max().unwrap_or_default().min(MAX_NAME_CHARS);
    let columns = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    let lines = specs.iter().map(|spec| {
        let effect = spec.manifest.effect.map_or("?", |effect| effect.as_str());
        let line = format!("{:width$}  {effect:10}  {}", spec.name, first_line(&spec.description));
        match line.char_indices().nth(columns) {
            Some(_) if columns > 1 => line.chars().take(columns - 1).chain(['…']).collect(),
            _ => line.trim_end().to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a tool with its types, schemas and manifest as JSON.
fn full(spec: &ToolSpec) -> Value {
    let manifest = &spec.manifest;
    json!({
        "name": spec.name,
        "description": spec.description,
        "input_schema": spec.input_schema,
        "output_schema": spec.output_schema,
        "typescript": declaration(spec),
        "effect": manifest.effect,
        "mode": manifest.mode,
        "timeout_ms": u64::try_from(manifest.timeout.as_millis()).unwrap_or(u64::MAX),
        "result_bytes": manifest.result_bytes,
        "overflow": manifest.overflow,
        "concurrency": manifest.concurrency,
        "callable_from_code": manifest.callable_from_code,
    })
}
