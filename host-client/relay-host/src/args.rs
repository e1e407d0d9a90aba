//! Command line of the program.

mod approvals;
mod durable;
mod host;
mod live;
mod ui;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use host_client::{LimitName, Phase};

pub(crate) use self::approvals::{ApprovalArgs, LinkArgs};
pub(crate) use self::durable::{
    BeginArgs, CallName, DurableArgs, JournalArgs, ResumeArgs, RunName, RunsArgs, RunsCommand, RunsCommon,
};
pub(crate) use self::host::HostArgs;
pub(crate) use self::live::LiveArgs;
pub(crate) use self::ui::UiArgs;

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
  relay-host run script.js --durable --journal runs.db       (goes on after every kill: relay-host runs --help)

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
  relay-host call shop.getOrder '{\"id\": 7}' --openapi shop=openapi.yaml
  relay-host call shop.getOrder '{\"id\": 7}' --openapi shop=shop.toml";
const DOCTOR_EXAMPLES: &str = "\
Examples:
  relay-host doctor --mcp mcp.json --policy policy.toml --audit audit.jsonl
  relay-host doctor --relay wss://relay.example/ws    (the token in RELAY_TOKEN)";
const POLICY_EXAMPLES: &str = "\
Examples:
  relay-host policy check --policy policy.toml --mcp mcp.json
  relay-host policy explain git.push --policy policy.toml --mcp mcp.json";
const RUNS_EXAMPLES: &str = "\
Examples:
  relay-host runs list --journal runs.db
  relay-host runs approve 3f2a 2 --by Ada --journal runs.db
  relay-host runs resume 3f2a --journal runs.db --mcp mcp.json --policy policy.toml";
const AUDIT_EXAMPLES: &str = "\
Examples:
  relay-host audit show audit.jsonl
  relay-host audit verify audit.jsonl --head HASH";

/// Runs model-written code on a sandbox relay, with the tools of MCP servers
///
/// Exit status: 0 done, 1 the execution failed, 2 wrong usage, 3 no relay or no permission, 4 a durable run has not ended
/// and can go on later. RELAY_LOG sets the filter
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
    /// List, show, decide, go on with, cancel and forget durable runs, which `run --durable` began
    #[command(after_help = RUNS_EXAMPLES)]
    Runs(RunsArgs),
    /// Serve a page of the durable runs in a journal, the calls that wait for an approval, and the audit log
    Ui(UiArgs),
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
    /// Say what works of a configuration, what does not, and what to do. The exit status is 1 if there is a problem
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Check a policy against the tools that there are, or explain its decision about one tool
    #[command(after_help = POLICY_EXAMPLES)]
    Policy(PolicyArgs),
    /// Verify or print an audit log
    #[command(after_help = AUDIT_EXAMPLES)]
    Audit(AuditArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
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
    /// Seconds for which a lost connection to the relay is tried again before the session is given up; 0: not at all
    #[arg(long, env = "RELAY_RESUME_WINDOW", value_name = "SECONDS", default_value_t = 60)]
    pub(crate) resume_window: u64,
}

impl RelayArgs {
    /// Returns the maximum time for which the session is resumed; `None`: it ends with its connection.
    pub(crate) fn resume_window(&self) -> Option<Duration> {
        (self.resume_window > 0).then(|| Duration::from_secs(self.resume_window))
    }
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
    /// Form of integers of tools over 2^53 that would change as numbers: the nearest number, a text, or a BigInt
    #[arg(long, value_name = "FORM", default_value = "number")]
    pub(crate) large_integers: LargeIntegersArg,
    /// Print the value as a model would get it: a long value is filtered by the intent, summarized or cut
    #[arg(long, value_name = "INTENT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) fit: Option<String>,
}

/// Form of integers that no number holds.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LargeIntegersArg {
    Number,
    Text,
    Bigint,
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
    pub(crate) runs: BeginArgs,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    #[command(flatten)]
    pub(crate) approvals: ApprovalArgs,
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
    pub(crate) live: LiveArgs,
    #[command(flatten)]
    pub(crate) approvals: ApprovalArgs,
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
    /// The bearer token that HTTP requests must carry, of at least 16 characters; this or --http-users is required if the
    /// address is not loopback
    #[arg(long, env = "RELAY_MCP_TOKEN", hide_env_values = true, requires = "http")]
    pub(crate) http_token: Option<String>,
    /// A TOML file of users of the HTTP server, each with the SHA-256 digest of the user's bearer token, such as ada = "9f86d0…":
    /// each user has sessions, durable runs and approvals that no other has
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) http_users: Option<PathBuf>,
    /// A further host name of the HTTP server, beside localhost; requests with other names are refused
    #[arg(long, value_name = "HOST", requires = "http")]
    pub(crate) http_host: Vec<String>,
    /// Maximum number of HTTP sessions; another one closes the one that has run nothing for the longest time
    #[arg(long, default_value_t = 256, value_name = "NUMBER", value_parser = positive, requires = "http")]
    pub(crate) http_sessions: usize,
    /// Time after which an HTTP session is closed that runs nothing and whose client does not listen, in seconds
    #[arg(long, default_value_t = 1800, value_name = "SECONDS", requires = "http")]
    pub(crate) http_session_idle: u64,
    /// Maximum number of connections to the relay; further executions wait for one
    #[arg(long, default_value_t = 32, value_name = "NUMBER", value_parser = positive)]
    pub(crate) relay_connections: usize,
    /// Time after which a connection to the relay is given up that runs nothing, in seconds
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    pub(crate) relay_idle: u64,
    /// Lower a limit of every execution, such as wall_ms=5000; a model can lower it further
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit)]
    pub(crate) limit: Vec<(LimitName, u64)>,
    /// Time in which a client that asks its user between two requests (MCP 2026-07-28) has to come back with the answer, before
    /// its code is cancelled, in seconds; with --durable, code waits for --approval-within
    #[arg(long, default_value_t = 600, value_name = "SECONDS", value_parser = seconds())]
    pub(crate) answer_within: u64,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    #[command(flatten)]
    pub(crate) runs: BeginArgs,
    #[command(flatten)]
    pub(crate) approvals: ApprovalArgs,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON: a list of objects with `state` (ok, warning or problem), `text` and `todo`
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}

/// Options of `policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// List the policy's patterns with the number of tools that each fits, and warn about those that fit none and about
    /// manifest entries that contradict each other. The exit status is 1 if there is a warning
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        host: HostArgs,
    },
    /// Show the decision about one tool, the rule that decides, and all that applies to the tool
    Explain {
        /// The tool, such as git.push
        tool: String,
        /// Explain the decision in this phase [default: without a phase]
        #[arg(long)]
        phase: Option<PhaseArg>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        host: HostArgs,
    },
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
        /// Print only the records of one execution, as SESSION/ID or, of all sessions, ID
        #[arg(long, value_name = "[SESSION/]ID")]
        execution: Option<String>,
        /// Print only the records of the session whose id begins so
        #[arg(long, conflicts_with = "execution")]
        session: Option<String>,
        /// Print the records as they are in the file, as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Parses a time in seconds, from 1 s to about 30 years.
pub(crate) fn seconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1_000_000_000)
}

/// Parses a number from 1.
fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "it has to be a whole number from 1".to_owned())
}

/// Parses a limit such as `wall_ms=5000`.
fn limit(text: &str) -> Result<(LimitName, u64), String> {
    let (name, value) = text.split_once('=').ok_or("a limit is NAME=VALUE, such as wall_ms=5000")?;
    let name = name.parse::<LimitName>().map_err(|error| error.to_string())?;
    let value = value.replace('_', "").parse().map_err(|_| format!("{value:?} is no number"))?;
    Ok((name, value))
}
