//! `doctor`: says what works of a configuration, what does not, and what to do.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host_client::audit::{Audit, AuditConfig, series, verify};
use host_client::{
    Client, Error, ExecuteRequest, Host, LocalRelay, McpConfig, McpOptions, McpServers, Mount, Policy, ServerState,
    ServerStatus, TerminalApprover, Tools,
};
use serde::Serialize;

use crate::args::{DoctorArgs, HostArgs, RelayArgs};
use crate::exit::{FAILED, Failure};
use crate::interrupt::Interrupts;
use crate::output::{inline, print, print_json};
use crate::progress::Progress;
use crate::setup::{config, missing, redactions, sets};
use crate::{commands, openapi, warnings};

/// Program that shows that a relay runs code.
const PROGRAM: &str = "return 6 * 7";

/// State of a part of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// It works, and perhaps not as its author meant.
    Warning,
    Problem,
}

/// One result of the examination.
#[derive(Debug, Serialize)]
struct Finding {
    state: State,
    /// Part of the configuration, and its condition.
    text: String,
    /// Advice; `None`: nothing has to be done.
    todo: Option<String>,
}

/// All results, in the order in which they are printed.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, text: impl Into<String>) {
        self.0.push(Finding { state: State::Ok, text: text.into(), todo: None });
    }

    fn warning(&mut self, text: impl Into<String>, todo: impl Into<String>) {
        self.0.push(Finding { state: State::Warning, text: text.into(), todo: Some(todo.into()) });
    }

    fn problem(&mut self, text: impl Into<String>, todo: impl Into<String>) {
        self.0.push(Finding { state: State::Problem, text: text.into(), todo: Some(todo.into()) });
    }
}

/// Runs the command.
pub(crate) async fn doctor(args: DoctorArgs, progress: &Progress) -> Result<(), Failure> {
    let examine = async {
        let mut findings = Findings::default();
        let host = examine_host(&args.host, progress, &mut findings).await;
        progress.say("trying the relay");
        examine_relay(&args.relay, host, &mut findings).await;
        examine_approvals(&mut findings);
        Ok(findings)
    };
    let examined = Interrupts::new()?.during(examine).await;
    progress.clear();
    let Findings(findings) = examined?;
    let problems = findings.iter().filter(|it| it.state == State::Problem).count();
    if args.json {
        let json = serde_json::to_string(&findings).map_err(Failure::failed)?;
        print_json(&json)?;
    } else {
        print(&table(&findings))?;
    }
    if problems == 0 { Ok(()) } else { Err(Failure::printed(FAILED)) }
}

fn table(findings: &[Finding]) -> String {
    let mut lines = Vec::new();
    for Finding { state, text, todo } in findings {
        let state = match state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "problem",
        };
        lines.push(format!("{state:7}  {}", inline(text)));
        lines.extend(todo.as_ref().map(|todo| format!("         do: {}", inline(todo))));
    }
    lines.join("\n")
}

/// Examines everything that belongs to the host. Returns a host of its own with all tools that could be had, and without
/// an audit: nothing is written.
async fn examine_host(args: &HostArgs, progress: &Progress, findings: &mut Findings) -> Arc<Host> {
    let tools = Tools::new();
    let mut host = Host::new(tools.clone());
    if let Some(file) = &args.policy {
        match Policy::from_file(file) {
            Ok(policy) => {
                host = host.policy(policy);
                findings.ok(format!("the policy {}", file.display()));
            }
            Err(error) => findings
                .problem(error.to_string(), "correct the file; docs/policies-and-approvals.md has the whole format"),
        }
    }
    examine_audit(args, findings);
    // Kept until the end of the examination: dropping a mount removes its tools.
    let mut mounts: Vec<Mount> = Vec::new();
    match sets(&tools, args) {
        Ok(sets) => mounts.extend(sets),
        Err(failure) => {
            findings.problem(failure.text, "name a folder that exists with --workspace, and valid globs and hosts")
        }
    }
    for file in &args.commands {
        match commands::of_file(&tools, file) {
            Ok(programs) => {
                mounts.extend(programs);
                findings.ok(format!("the programs of {}", file.display()));
            }
            Err(failure) => findings.problem(
                failure.text,
                "correct the file; docs/mcp-and-openapi.md has the format, under ready tool sets",
            ),
        }
    }
    for named in &args.openapi {
        progress.say(format!("reading {named}"));
        examine_document(&tools, named, &mut mounts, findings).await;
    }
    let servers = McpServers::with_options(&tools, McpOptions::default());
    for file in &args.mcp {
        let started = McpConfig::from_file(file).map_err(Error::from).and_then(|config| servers.start(config));
        match started {
            Ok(()) => findings.ok(format!("the file {}", file.display())),
            Err(error) => findings.problem(
                error.to_string(),
                "correct the file; its format is that of MCP clients: {\"mcpServers\": {…}}",
            ),
        }
    }
    progress.say("starting MCP servers");
    let within = Duration::from_secs(args.start_timeout);
    for status in servers.ready(within).await {
        examine_server(&status, within, findings);
    }
    examine_effects(&tools, &host, findings);
    for warning in warnings::warnings(&host, &args.redact, &missing(&servers)) {
        findings.warning(warning, "correct the pattern, or leave it if its tools come later");
    }
    servers.close().await;
    drop(mounts);
    Arc::new(host)
}

/// Examines the audit log without writing to it.
fn examine_audit(args: &HostArgs, findings: &mut Findings) {
    let Some(file) = &args.audit else { return };
    let name = format!("the audit log {}", file.display());
    let tried = redactions(&args.redact).and_then(|redact| {
        // The redactions are parsed by a log elsewhere.
        let folder = tempfile::tempdir().map_err(Failure::failed)?;
        let mut config = AuditConfig::new(folder.path().join("audit.jsonl"));
        config.redact = redact;
        Audit::open(config).map(drop).map_err(Failure::usage)
    });
    if let Err(failure) = tried {
        findings.problem(failure.text, "correct --redact: TOOLS=PATH, with a JSONPath such as $.card");
    }
    if file.exists() {
        match series(file).and_then(|files| verify(&files, None)) {
            Ok(verified) if verified.is_whole() => findings.ok(format!("{name}: {verified}")),
            Ok(verified) => findings
                .problem(format!("{name}: {verified}"), "find out who changed it; move it away, and a new log begins"),
            Err(error) => findings.problem(error.to_string(), "name another file, or repair its permissions"),
        }
        return;
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK) {
        Ok(()) => findings.ok(format!("{name} does not exist yet, and can be created")),
        Err(error) => findings.problem(
            format!("{name} cannot be created in {}: {error}", folder.display()),
            "create the folder, or name another file",
        ),
    }
}

async fn examine_document(tools: &Tools, named: &str, mounts: &mut Vec<Mount>, findings: &mut Findings) {
    match openapi::document(tools, named).await {
        Ok((name, mounted)) => {
            let left_out = mounted.left_out.len();
            let server = format!("{name}.");
            let count = tools.names().iter().filter(|tool| tool.as_str().starts_with(&server)).count();
            let text = format!("the OpenAPI document {named}: {count} tools");
            match mounted.left_out.first() {
                None => findings.ok(text),
                Some(first) => findings.warning(
                    format!("{text}, {left_out} operations left out, such as {}: {}", first.operation, first.reason),
                    "give credentials and servers in a configuration: --openapi NAME=FILE.toml",
                ),
            }
            mounts.push(mounted.mount);
        }
        Err(failure) => findings
            .problem(failure.text, "correct the document or its configuration; docs/mcp-and-openapi.md has the format"),
    }
}

fn examine_server(status: &ServerStatus, within: Duration, findings: &mut Findings) {
    let ServerStatus { name, state, .. } = status;
    let text = format!("the MCP server {name:?}: {state}");
    match state {
        ServerState::Connected { left_out, .. } if left_out.is_empty() => findings.ok(text),
        ServerState::Connected { .. } => {
            findings.warning(text, "tell the author of the server; the other tools can be called")
        }
        ServerState::Starting { after: None, .. } => findings.warning(
            text,
            format!(
                "it may only be slow: a call waits {} s for it (--start-timeout); run its command by itself to see",
                within.as_secs()
            ),
        ),
        ServerState::Invalid { .. } => findings.problem(text, "correct its entry in the file"),
        ServerState::Starting { .. }
        | ServerState::Failed { .. }
        | ServerState::GivenUp { .. }
        | ServerState::Closed => findings.problem(
            text,
            "run its command by itself to see what it says; check the program, its arguments and its environment",
        ),
    }
}

/// Tells how many tools there are, and of how many nobody knows the effect.
fn examine_effects(tools: &Tools, host: &Host, findings: &mut Findings) {
    let specs = host.tools().specs();
    if specs.is_empty() {
        let todo = "name some with --mcp, --openapi, --commands, --workspace or --fetch";
        return findings.warning("there are no tools: code can compute, and call nothing", todo);
    }
    let unknown: Vec<_> = specs.iter().filter(|spec| spec.manifest.effect.is_none()).collect();
    let (all, servers) = (specs.len(), tools.servers().len());
    match unknown.first() {
        None => findings.ok(format!("{all} tools of {servers} servers; the effect of each is known")),
        Some(first) => findings.warning(
            format!(
                "{} of {all} tools have an effect that nobody declared: a person is asked about each call",
                unknown.len()
            ),
            format!(
                "declare those that only read in the policy, such as [manifest.{:?}] effect = \"read_only\"",
                first.name
            ),
        ),
    }
}

/// Connects to the relay and runs a program on it.
async fn examine_relay(args: &RelayArgs, host: Arc<Host>, findings: &mut Findings) {
    let named = match config(args) {
        Ok(named) => named,
        Err(failure) => return findings.problem(failure.text, "name a PEM file with --ca-file"),
    };
    let name = args.relay.as_ref().map_or_else(|| "a relay of its own".to_owned(), |url| format!("the relay {url}"));
    let tried = async {
        let (config, _own) = match named {
            Some(config) => (config, None),
            None => {
                let relay = LocalRelay::start().await?;
                (relay.client_config().await?, Some(relay))
            }
        };
        let client = Client::connect(config, host).await?;
        let since = Instant::now();
        let outcome = client.run(ExecuteRequest::new(PROGRAM)).await?;
        let took = since.elapsed();
        let works = &outcome.json[..] == b"42";
        Ok::<_, Error>((works, took, client.warnings()))
    };
    match tried.await {
        Ok((true, took, warnings)) => {
            findings.ok(format!("{name} runs code; a program took {:.1} ms", took.as_secs_f64() * 1e3));
            for warning in warnings {
                findings.warning(
                    format!("{name}: {}", warning.message),
                    "ask for a token with other limits, if that is too little",
                );
            }
        }
        Ok((false, ..)) => findings.problem(format!("{name} does not run code as it should"), "use another relay"),
        Err(error) => {
            let text = Failure::from(error).text;
            findings.problem(format!("{name}: {text}"), relay_advice(args));
        }
    }
}

fn relay_advice(args: &RelayArgs) -> &'static str {
    if args.relay.is_some() {
        "see that the relay runs, that its address ends in /ws, and that the token is from its key and has not expired"
    } else {
        "see that the program sandbox-relay lies beside relay-host or in PATH; sandbox-relay self-test tries its locks"
    }
}

/// Tells who is asked about calls.
fn examine_approvals(findings: &mut Findings) {
    let is_attended = io::stdin().is_terminal() || io::stderr().is_terminal();
    if is_attended && TerminalApprover::open().is_ok() {
        findings.ok("approvals are asked for at this terminal (serve-mcp asks its MCP client)");
    } else {
        findings.warning(
            "there is no terminal: calls that need an approval are denied (serve-mcp asks its MCP client)",
            "run it at a terminal, or allow in the policy what may run unasked",
        );
    }
}
