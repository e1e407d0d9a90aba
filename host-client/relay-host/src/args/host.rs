//! Options for the tools and the rules of calls, which most commands take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use host_client::audit::CodeRecord;

/// Options for the tools and the rules of calls.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// A configuration file of MCP servers, in the format of MCP clients: {"mcpServers": {...}}
    #[arg(long, env = "RELAY_MCP_FILE", value_name = "FILE")]
    pub(crate) mcp: Vec<PathBuf>,
    /// An OpenAPI 3 document whose operations become the tools of a server of this name, or FILE.toml, which names one
    /// with credentials, server, networks and operations
    #[arg(long, value_name = "NAME=FILE|URL")]
    pub(crate) openapi: Vec<String>,
    /// A file of programs of this machine that become tools, each with checked arguments and without a shell
    #[arg(long, value_name = "FILE")]
    pub(crate) commands: Vec<PathBuf>,
    /// A folder whose files the tools of the server `workspace` can list, search and read
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,
    /// Files that the tools of `workspace` may change, such as src/** [default: none]
    #[arg(long, value_name = "GLOB", requires = "workspace")]
    pub(crate) writable: Vec<String>,
    /// Let the tools of `workspace` create files that --writable matches, with the folders that they need
    #[arg(long, requires = "writable")]
    pub(crate) allow_create: bool,
    /// Let the tools of `workspace` delete files that --writable matches; with --allow-create, also rename them
    #[arg(long, requires = "writable")]
    pub(crate) allow_delete: bool,
    /// A host that `http.fetch` may reach, such as example.com, *.example.com or example.com:8443
    #[arg(long, value_name = "HOST")]
    pub(crate) fetch: Vec<String>,
    /// A policy file: which tools run, which are denied, which need an approval [default: tools that only read run, all
    /// others need an approval]
    #[arg(long, env = "RELAY_POLICY_FILE", value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Do not learn the types of results from results [default: they are learned for tools without an output schema, and
    /// shown to models and code in the declarations of the tools]
    #[arg(long)]
    pub(crate) no_learned_types: bool,
    /// Show tools that the policy denies, with the reason, to models and code [default: they are left out]
    #[arg(long)]
    pub(crate) show_denied: bool,
    /// Write an audit log of calls, decisions and results to this file
    #[arg(long, env = "RELAY_AUDIT_FILE", value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// Size at which a file of the audit log is full and the next one begins, in MiB
    #[arg(long, default_value_t = 64, value_name = "MIB", requires = "audit", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) audit_file_mib: u64,
    /// Number of full files of the audit log to keep; older ones are removed [default: all]
    #[arg(long, value_name = "NUMBER", requires = "audit")]
    pub(crate) audit_keep: Option<usize>,
    /// Write each record of the audit log to the disk before the call goes on [default: when the system does]
    #[arg(long, requires = "audit")]
    pub(crate) audit_sync: bool,
    /// Redact the arguments at this JSONPath in the audit log, for the tools of a pattern, such as bank.*=$.card. Code
    /// is redacted if it is one call with literal arguments; see --audit-code for other code
    #[arg(long, value_name = "TOOLS=PATH", requires = "audit")]
    pub(crate) redact: Vec<String>,
    /// The part of the code that the audit log records: the text, or only its SHA-256
    #[arg(long, default_value = "full", value_name = "PART", requires = "audit")]
    pub(crate) audit_code: AuditCodeArg,
    /// Maximum time that a call waits for an MCP server that is being started, in seconds; a slow server starts on
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub(crate) start_timeout: u64,
}

/// Part of the code that the audit log records.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AuditCodeArg {
    Full,
    Hash,
}

impl From<AuditCodeArg> for CodeRecord {
    fn from(part: AuditCodeArg) -> Self {
        match part {
            AuditCodeArg::Full => Self::Full,
            AuditCodeArg::Hash => Self::HashOnly,
        }
    }
}
