//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use host_client::{LimitName, Phase};

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
  relay-host tools github --mcp mcp.json               those of one server
  relay-host tools github.list_issues --mcp mcp.json   all that is known of one
  relay-host tools open issues --mcp mcp.json          those that words fit";
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
/// Exit status: 0 done, 1 the execution failed, 2 wrong usage, 3 no relay or no permission. RELAY_LOG sets what is logged to
/// standard error, such as host_client=debug.
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
    /// List the tools that code can call, or show all that is known of one
    #[command(after_help = TOOLS_EXAMPLES)]
    Tools(ToolsArgs),
    /// Call one tool, without code and without a relay
    #[command(after_help = CALL_EXAMPLES)]
    Call(CallArgs),
    /// Run code line by line, each a program of its own
    Repl(ReplArgs),
    /// Be an MCP server that runs code: on standard input and output, or over HTTP
    ServeMcp(ServeArgs),
    /// Look at an audit log
    #[command(after_help = AUDIT_EXAMPLES)]
    Audit(AuditArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Where tools come from, and what holds for them.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// A file that names MCP servers, in the format that MCP clients use: {"mcpServers": {...}}
    #[arg(long, env = "RELAY_MCP_FILE", value_name = "FILE")]
    pub(crate) mcp: Vec<PathBuf>,
    /// An OpenAPI 3 document whose operations become the tools of a server of this name
    #[arg(long, value_name = "NAME=FILE|URL")]
    pub(crate) openapi: Vec<String>,
    /// A folder that the tools of the server `workspace` can look at
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,
    /// What the tools of `workspace` may change in it, such as src/**
    #[arg(long, value_name = "GLOB", requires = "workspace")]
    pub(crate) writable: Vec<String>,
    /// A host that `http.fetch` may reach, such as example.com, *.example.com or example.com:8443
    #[arg(long, value_name = "HOST")]
    pub(crate) fetch: Vec<String>,
    /// The rules: which tools run, which never do, which are asked about [default: reading runs, all else is asked about]
    #[arg(long, env = "RELAY_POLICY_FILE", value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Write what was asked, decided and done to this file
    #[arg(long, env = "RELAY_AUDIT_FILE", value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// Leave the arguments at this JSONPath out of the audit, for the tools of a pattern, such as bank.*=$.card
    #[arg(long, value_name = "TOOLS=PATH", requires = "audit")]
    pub(crate) redact: Vec<String>,
    /// How long MCP servers may take to start, in seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub(crate) start_timeout: u64,
}

/// Which relay runs the code.
#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    /// The relay's address, such as ws://127.0.0.1:8080/ws [default: a relay is started beside this program, for its time]
    #[arg(long, env = "RELAY_URL", value_name = "URL", requires = "token")]
    pub(crate) relay: Option<String>,
    /// The bearer token
    #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A PEM file with the authorities that the relay's certificate has to be from [default: those of the web]
    #[arg(long, env = "RELAY_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// What holds for each execution.
#[derive(Debug, Args)]
pub(crate) struct ExecutionArgs {
    /// Lower a limit, such as wall_ms=5000
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit)]
    pub(crate) limit: Vec<(LimitName, u64)>,
    /// Let the code call only tools that a pattern fits, such as github.*
    #[arg(long, value_name = "PATTERN")]
    pub(crate) tool: Vec<String>,
    /// Offer only what reads, or what changes things, too, as the policy says
    #[arg(long)]
    pub(crate) phase: Option<PhaseArg>,
    /// Print the value as a model would read it: what is too long is filtered by the intent, summarized or cut
    #[arg(long, value_name = "INTENT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) fit: Option<String>,
}

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

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The tool, such as github.list_issues
    pub(crate) tool: String,
    /// Its arguments as JSON
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReplArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Serve streamable HTTP at this address, under /mcp, in the place of standard input and output
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) http: Option<SocketAddr>,
    /// What HTTP requests have to carry as their bearer token, of at least 16 characters; needed where the address is not
    /// loopback
    #[arg(long, env = "RELAY_MCP_TOKEN", hide_env_values = true, requires = "http")]
    pub(crate) http_token: Option<String>,
    /// A name under which the server is reached over HTTP, beside localhost
    #[arg(long, value_name = "HOST", requires = "http")]
    pub(crate) http_host: Vec<String>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Look for changes and gaps in a log, its rotated files included
    Verify {
        /// The file that is written
        file: PathBuf,
        /// The hash of the last record, as it was kept elsewhere: tells whether the end was cut off
        #[arg(long, value_name = "HASH")]
        head: Option<String>,
    },
    /// Print the records, one line each
    Show {
        /// The file that is written
        file: PathBuf,
        /// Only those of one execution
        #[arg(long)]
        execution: Option<String>,
        /// Print them as they stand in the file
        #[arg(long)]
        json: bool,
    },
}

/// `wall_ms=5000`
fn limit(text: &str) -> Result<(LimitName, u64), String> {
    let (name, value) = text.split_once('=').ok_or("a limit is NAME=VALUE, such as wall_ms=5000")?;
    let name = name.parse::<LimitName>().map_err(|error| error.to_string())?;
    let value = value.replace('_', "").parse().map_err(|_| format!("{value:?} is no number"))?;
    Ok((name, value))
}
