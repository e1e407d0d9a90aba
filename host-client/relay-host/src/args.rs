//! Command line of the program.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use host_client::{LimitName, Phase};

/// Examples below the help of the program and of its commands.
const EXAMPLES: &str = "\
Examples:
  echo 'return 6 * 7' | relay-host run -
  relay-host tools --mcp mcp.json
  relay-host call fs.read_file '{\"path\": \"x\"}' --mcp mcp.json
  relay-host run script.js --mcp mcp.json --policy policy.toml";
const RUN_EXAMPLES: &str = "\
Examples:
  relay-host run script.js --mcp mcp.json
  relay-host run script.js --workspace . --writable 'src/**' --audit audit.jsonl
  relay-host run - --json --limit wall_ms=5000 --tool 'github.*' <script.js
  relay-host run script.js --relay wss://relay.example/ws    (the token in RELAY_TOKEN)

The script: statements with `return`, an expression, a function, or a module with `export default`.
  const issues = await mcp.call('github.list_issues', {repo: 'a/b'});
  return issues.length";
const TOOLS_EXAMPLES: &str = "\
Examples:
  relay-host tools --mcp mcp.json                      all tools
  relay-host tools github --mcp mcp.json               the tools of one server
  relay-host tools github.list_issues --mcp mcp.json   one tool with its types and schemas
  relay-host tools open issues --mcp mcp.json          tools that match words";
const CALL_EXAMPLES: &str = "\
Examples:
  relay-host call fs.read_file '{\"path\": \"x\"}' --mcp mcp.json
  relay-host call shop.getOrder '{\"id\": 7}' --openapi shop=openapi.yaml";
const AUDIT_EXAMPLES: &str = "\
Examples:
  relay-host audit show audit.jsonl
  relay-host audit verify audit.jsonl --head HASH";

/// Runs model-written code on a sandbox relay, with the tools of MCP servers
///
/// Exit status: 0 done, 1 the execution failed, 2 wrong usage, 3 no relay or no permission. RELAY_LOG sets the filter
/// of logs on standard error, such as host_client=debug.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a script; its value goes to standard output as JSON, what it prints to standard error
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// List the tools that code can call, or show one with its types and schemas
    #[command(after_help = TOOLS_EXAMPLES)]
    Tools(ToolsArgs),
    /// Call one tool, without code and without a relay
    #[command(after_help = CALL_EXAMPLES)]
    Call(CallArgs),
    /// Run code line by line, each a program of its own
    Repl(ReplArgs),
    /// Serve code execution as an MCP server: on standard input and output, or over HTTP
    ServeMcp(ServeArgs),
    /// Verify or print an audit log
    #[command(after_help = AUDIT_EXAMPLES)]
    Audit(AuditArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Options for the tools and the rules of calls.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// A configuration file of MCP servers, in the format of MCP clients: {"mcpServers": {...}}
    #[arg(long, env = "RELAY_MCP_FILE", value_name = "FILE")]
    pub(crate) mcp: Vec<PathBuf>,
    /// An OpenAPI 3 document whose operations become the tools of a server of this name
    #[arg(long, value_name = "NAME=FILE|URL")]
    pub(crate) openapi: Vec<String>,
    /// A folder whose files the tools of the server `workspace` can list, search and read
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,
    /// Files that the tools of `workspace` may change, such as src/** [default: none]
    #[arg(long, value_name = "GLOB", requires = "workspace")]
    pub(crate) writable: Vec<String>,
    /// A host that `http.fetch` may reach, such as example.com, *.example.com or example.com:8443
    #[arg(long, value_name = "HOST")]
    pub(crate) fetch: Vec<String>,
    /// A policy file: which tools run, which are denied, which need an approval [default: tools that only read run, all
    /// others need an approval]
    #[arg(long, env = "RELAY_POLICY_FILE", value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Write an audit log of calls, decisions and results to this file
    #[arg(long, env = "RELAY_AUDIT_FILE", value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// Redact the arguments at this JSONPath in the audit log, for the tools of a pattern, such as bank.*=$.card
    #[arg(long, value_name = "TOOLS=PATH", requires = "audit")]
    pub(crate) redact: Vec<String>,
    /// Maximum time for MCP servers to start, in seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub(crate) start_timeout: u64,
}

/// Options for the relay that runs the code.
#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    /// The relay's URL, such as ws://127.0.0.1:8080/ws [default: a relay of its own, which ends with this program]
    #[arg(long, env = "RELAY_URL", value_name = "URL", requires = "token")]
    pub(crate) relay: Option<String>,
    /// The bearer token for the relay
    #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A PEM file with the authorities that sign the relay's certificate [default: the public ones]
    #[arg(long, env = "RELAY_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// Options for each execution.
#[derive(Debug, Args)]
pub(crate) struct ExecutionArgs {
    /// Lower a limit, such as wall_ms=5000
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit)]
    pub(crate) limit: Vec<(LimitName, u64)>,
    /// Let the code call only tools that a pattern matches, such as github.* [default: all]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) tool: Vec<String>,
    /// Offer only the tools that the policy allows in this phase: discover reads, write may change things
    #[arg(long)]
    pub(crate) phase: Option<PhaseArg>,
    /// Print the value as a model would get it: a long value is filtered by the intent, summarized or cut
    #[arg(long, value_name = "INTENT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) fit: Option<String>,
}

/// Phase of the policy.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PhaseArg {
    Discover,
    Write,
}

impl From<PhaseArg> for Phase {
    fn from(phase: PhaseArg) -> Self {
        match phase {
            PhaseArg::Discover => Self::Discover,
            PhaseArg::Write => Self::Write,
        }
    }
}

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The script, or - for standard input
    pub(crate) file: PathBuf,
    /// Print one JSON object with the value or the error, the output, warnings and usage
    #[arg(long, conflicts_with = "fit")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}

/// Options of `tools`.
#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// One tool, such as github.list_issues, a server, or words to search for
    pub(crate) tool: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// Options of `call`.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The tool, such as github.list_issues
    pub(crate) tool: String,
    /// The arguments as JSON
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// Options of `repl`.
#[derive(Debug, Args)]
pub(crate) struct ReplArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}

/// Options of `serve-mcp`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Serve streamable HTTP at this address, under /mcp, instead of standard input and output
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) http: Option<SocketAddr>,
    /// The bearer token that HTTP requests must carry, of at least 16 characters; required if the address is not
    /// loopback
    #[arg(long, env = "RELAY_MCP_TOKEN", hide_env_values = true, requires = "http")]
    pub(crate) http_token: Option<String>,
    /// A further host name of the HTTP server, beside localhost; requests with other names are refused
    #[arg(long, value_name = "HOST", requires = "http")]
    pub(crate) http_host: Vec<String>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}

/// Options of `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check a log for changes and gaps, its rotated files included
    Verify {
        /// The current file of the log
        file: PathBuf,
        /// The hash of the last record, kept elsewhere: shows if the end of the log was cut off
        #[arg(long, value_name = "HASH")]
        head: Option<String>,
    },
    /// Print the records, one line each
    Show {
        /// The current file of the log
        file: PathBuf,
        /// Print only the records of one execution
        #[arg(long)]
        execution: Option<String>,
        /// Print the records as they are in the file, as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Parses a limit such as `wall_ms=5000`.
fn limit(text: &str) -> Result<(LimitName, u64), String> {
    let (name, value) = text.split_once('=').ok_or("a limit is NAME=VALUE, such as wall_ms=5000")?;
    let name = name.parse::<LimitName>().map_err(|error| error.to_string())?;
    let value = value.replace('_', "").parse().map_err(|_| format!("{value:?} is no number"))?;
    Ok((name, value))
}
