//! `tools`: lists the tools that code can call.

use std::io;

use host_client::catalogue::first_line;
use host_client::declare::declaration;
use host_client::tool::InvalidTool;
use host_client::{ToolSpec, Tools};
use relay_proto::time::millis;
use serde_json::{Value, json};

use crate::args::ToolsArgs;
use crate::exit::{FAILED, Failure};
use crate::interrupt::Interrupts;
use crate::output::{inline, print, print_indented, print_json};
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
    /// The tool that has this name and is not registered.
    LeftOut(InvalidTool),
    Many(Vec<ToolSpec>),
}

/// Runs the command.
pub(crate) async fn tools(args: ToolsArgs, progress: &Progress) -> Result<(), Failure> {
    let setup = Interrupts::new()?.during(Setup::new(&args.host, Some(progress))).await?;
    let tools = setup.host.tools().clone();
    let words = args.tool.join(" ");
    let shown = find(&tools, &words);
    let shown = match shown {
        Shown::One(spec) if args.json => print_json(&full(&tools, &spec).to_string()),
        Shown::One(spec) => print_indented(&full(&tools, &spec).to_string()),
        Shown::LeftOut(tool) => {
            Err(Failure { status: FAILED, text: format!("{} is left out: {}", tool.name, tool.reason) })
        }
        Shown::Many(specs) if specs.is_empty() => Err(Failure { status: FAILED, text: nothing(&args) }),
        Shown::Many(specs) if args.json => {
            print_json(&json!(specs.iter().map(|spec| full(&tools, spec)).collect::<Vec<_>>()).to_string())
        }
        Shown::Many(specs) => print(&table(&tools, &specs)),
    };
    setup.close().await;
    shown
}

/// Finds a tool by its name, with or without the server; the tools of a server; or those that match words.
fn find(tools: &Tools, words: &str) -> Shown {
    if words.is_empty() {
        return Shown::Many(tools.specs());
    }
    if let Some(spec) = tools.spec(words) {
        return Shown::One(Box::new(spec));
    }
    if let Some(tool) = tools.left_out().into_iter().find(|tool| tool.name == words) {
        return Shown::LeftOut(tool);
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
fn table(tools: &Tools, specs: &[ToolSpec]) -> String {
    let width = |spec: &ToolSpec| inline(&spec.name).chars().count();
    let width = specs.iter().map(width).max().unwrap_or_default().min(MAX_NAME_CHARS);
    let columns = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    let lines = specs.iter().map(|spec| {
        let effect = spec.manifest.effect.map_or("?", |effect| effect.as_str());
        let notes = tools.notes(&spec.name).iter().map(|note| format!(" [{}]", inline(note))).collect::<String>();
        let line =
            format!("{:width$}  {effect:10}  {}{notes}", inline(&spec.name), inline(&first_line(&spec.description)));
        match line.char_indices().nth(columns) {
            Some(_) if columns > 1 => line.chars().take(columns - 1).chain(['…']).collect(),
            _ => line.trim_end().to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a tool with its types, schemas and manifest as JSON.
fn full(tools: &Tools, spec: &ToolSpec) -> Value {
    let manifest = &spec.manifest;
    json!({
        "name": spec.name,
        "description": spec.description,
        "input_schema": spec.input_schema,
        "output_schema": spec.output_schema,
        "typescript": declaration(spec),
        "effect": manifest.effect,
        "effect_from": tools.effect_origin(&spec.name),
        "mode": manifest.mode,
        "timeout_ms": millis(manifest.timeout),
        "result_bytes": manifest.result_bytes,
        "overflow": manifest.overflow,
        "concurrency": manifest.concurrency,
        "callable_from_code": manifest.callable_from_code,
        "idempotent": manifest.idempotent,
        "notes": tools.notes(&spec.name),
    })
}
