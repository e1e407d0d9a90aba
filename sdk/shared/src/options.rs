//! The settings of a host, as JSON. A member that does not exist is an error that names those that do.

mod policy;
mod short;
mod sources;
mod ui;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use host_client::audit::{CodeRecord, Redaction, SyncMode};
use host_client::output::{CutConfig, SummaryConfig};
use host_client::{AuditConfig, LimitName, LimitOverrides, OutputConfig, RunOptions};
use relay_proto::limit::UnknownLimit;
use serde::Deserialize;

use crate::error::SdkError;

pub use policy::PolicyOptions;
pub use short::Short;
pub use sources::{HttpOptions, McpOption, OneOrMany, OpenApiOptions, Secret, WorkspaceOptions};
pub use ui::UiOptions;

/// The settings of a host.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostOptions {
    /// MCP servers: the path of a file with `mcpServers`, that object itself, or a list of these.
    pub mcp: OneOrMany<McpOption>,
    /// OpenAPI documents, by the name of the server that their operations become.
    pub openapi: BTreeMap<String, Short<OpenApiOptions>>,
    /// A folder as tools; `null`: none.
    pub workspace: Option<Short<WorkspaceOptions>>,
    /// Hosts that code may fetch from; `null`: none.
    pub http: Option<HttpOptions>,
    /// The rules; `null`: tools that read run, and others are asked about.
    pub policy: Option<Short<PolicyOptions>>,
    /// The audit log; `null`: none is written.
    pub audit: Option<Short<AuditOptions>>,
    /// The journal of durable runs: a path, or the address of a Postgres database; `null`: there are no durable runs.
    pub journal: Option<String>,
    /// The settings of durable runs.
    pub durable: DurableOptions,
    /// The page of what the host runs, for browsers of this machine; `null`: there is none.
    pub ui: Option<UiOptions>,
    /// The relay; by default, one is started on this machine.
    pub relay: RelayOptions,
    /// Limits of all that is run, in the units of their names; a request can lower them further.
    pub limits: BTreeMap<String, u64>,
    /// How results are shortened for models.
    pub output: OutputOptions,
    /// Whether tools that the policy denies are shown to models, with the reason; `false` by default.
    pub show_denied: bool,
    /// Whether the types of results without a schema are learned and shown to models; `true` by default.
    pub learn_results: Option<bool>,
    /// How long the start waits for MCP servers, and a call for a server that starts; 30,000 by default.
    pub start_timeout_ms: Option<u64>,
}

impl HostOptions {
    /// Reads options from JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): a member is unknown or of another type.
    pub fn from_json(json: &str) -> Result<Self, SdkError> {
        serde_json::from_str(json).map_err(|error| SdkError::option(format!("the options cannot be used: {error}")))
    }

    pub(crate) fn start_timeout(&self) -> Duration {
        Duration::from_millis(self.start_timeout_ms.unwrap_or(30_000))
    }
}

/// The settings of an audit log; a text is its path.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditOptions {
    /// The path of the file.
    pub path: PathBuf,
    /// Parts of arguments that are left out.
    #[serde(default)]
    pub redact: Vec<RedactionOptions>,
    /// `full`, the default, or `hash_only`.
    #[serde(default)]
    pub code: CodeRecord,
    /// The size at which a file is full; 64 MiB by default.
    #[serde(default)]
    pub rotate_bytes: Option<u64>,
    /// How many full files are kept; `null`, the default: all.
    #[serde(default)]
    pub keep: Option<usize>,
    /// `never`, the default, or `every_record`.
    #[serde(default)]
    pub sync: SyncMode,
}

/// A part of arguments that is left out of the audit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedactionOptions {
    /// Patterns of the tools.
    pub tools: Vec<String>,
    /// The JSONPath of the part.
    pub path: String,
}

impl From<String> for AuditOptions {
    fn from(path: String) -> Self {
        let (code, sync) = (CodeRecord::default(), SyncMode::default());
        Self { path: path.into(), redact: Vec::new(), code, rotate_bytes: None, keep: None, sync }
    }
}

impl From<AuditOptions> for AuditConfig {
    fn from(options: AuditOptions) -> Self {
        let mut config = Self::new(options.path);
        let redact = options.redact.into_iter();
        config.redact = redact.map(|one| Redaction { tools: one.tools, path: one.path }).collect();
        config.code = options.code;
        config.rotate_bytes = options.rotate_bytes.unwrap_or(config.rotate_bytes);
        config.keep = options.keep;
        config.sync = options.sync;
        config
    }
}

/// The settings of durable runs; [`RunOptions`] has the defaults.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DurableOptions {
    /// How long code may wait for people or a timer before it is taken off its relay.
    pub passivate_after_ms: Option<u64>,
    /// The time that a person has for an answer, over restarts.
    pub approval_within_ms: Option<u64>,
    /// The time for which relays are tried.
    pub reach_within_ms: Option<u64>,
    /// Whether a run may go on at a relay of another build.
    pub any_build: bool,
    /// The number of runs of one owner that may be open.
    pub open_runs: Option<usize>,
}

impl From<DurableOptions> for RunOptions {
    fn from(options: DurableOptions) -> Self {
        let usual = Self::default();
        let time = |ms: Option<u64>, usual| ms.map_or(usual, Duration::from_millis);
        Self {
            passivate_after: time(options.passivate_after_ms, usual.passivate_after),
            approval_within: time(options.approval_within_ms, usual.approval_within),
            reach_within: time(options.reach_within_ms, usual.reach_within),
            any_build: options.any_build,
            open_runs: options.open_runs.unwrap_or(usual.open_runs),
            ..usual
        }
    }
}

/// The relay: one elsewhere by its `url`, else one that is started on this machine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RelayOptions {
    /// The address, such as `wss://relay.example/ws`; `null`: a relay is started.
    pub url: Option<String>,
    /// Addresses of further relays, which take the same tokens.
    pub fallbacks: Vec<String>,
    /// The bearer token for `url`; or a function gives tokens.
    pub token: Option<String>,
    /// A PEM file with the authorities that may issue the relay's certificate; `null`: those of the web.
    pub ca_file: Option<PathBuf>,
    /// `true` allows `ws://` to an address that is not loopback; `false` by default.
    pub allow_plain_remote: bool,
    /// The time for which a lost connection is tried again; 60,000 by default, 0: it is not.
    pub resume_window_ms: Option<u64>,
    /// The time limit of connecting; 10,000 by default.
    pub connect_timeout_ms: Option<u64>,
    /// The time that an execution may wait for its turn at the relay; 300,000 by default.
    pub queue_timeout_ms: Option<u64>,
    /// The program of the relay that is started; `null`: it is looked for.
    pub program: Option<PathBuf>,
    /// The container image of the relay that is started, such as `sandbox-relay:local`; `null`: it runs without a container.
    pub image: Option<String>,
    /// Maximums of limits of the relay that is started.
    pub max_limits: BTreeMap<String, u64>,
    /// Environment variables of the relay that is started.
    pub env: BTreeMap<String, String>,
    /// Arguments of `sandbox-relay serve` for the relay that is started.
    pub arguments: Vec<String>,
}

/// How results are shortened for models. `false` turns a step off.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputOptions {
    /// Whether binary data is taken out of the text, as attachments; `true` by default.
    pub attachments: Option<bool>,
    /// Whether long results are filtered by an intent; `true` by default.
    pub intent: Option<bool>,
    /// Whether large JSON is summarized; `true` by default.
    pub summary: Option<bool>,
    /// The size from which JSON is summarized.
    pub summary_over_bytes: Option<usize>,
    /// Whether the middle of long texts is cut out; `true` by default.
    pub cut: Option<bool>,
    /// The number of characters that are left of a long text.
    pub cut_characters: Option<usize>,
    /// Whether a line says how much was saved; `true` by default.
    pub footer: Option<bool>,
}

impl From<OutputOptions> for OutputConfig {
    fn from(options: OutputOptions) -> Self {
        let on = |choice: Option<bool>| choice.unwrap_or(true);
        let usual = Self::default();
        let summary = usual.summary.filter(|_| on(options.summary));
        let cut = usual.cut.filter(|_| on(options.cut));
        Self {
            attachments: usual.attachments.filter(|_| on(options.attachments)),
            intent: usual.intent.filter(|_| on(options.intent)),
            summary: summary
                .map(|it| SummaryConfig { over_bytes: options.summary_over_bytes.unwrap_or(it.over_bytes), ..it }),
            cut: cut.map(|it| CutConfig { characters: options.cut_characters.unwrap_or(it.characters), ..it }),
            footer: usual.footer.filter(|_| on(options.footer)),
        }
    }
}

/// Reads the name of a limit.
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind): there is no such limit.
pub(crate) fn limit_name(name: &str) -> Result<LimitName, SdkError> {
    name.parse().map_err(|error: UnknownLimit| SdkError::option(error.to_string()))
}

/// Reads limits by their names.
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind): there is no such limit.
pub(crate) fn limits(named: &BTreeMap<String, u64>) -> Result<LimitOverrides, SdkError> {
    let mut limits = LimitOverrides::default();
    for (name, value) in named {
        limits.set(limit_name(name)?, *value);
    }
    Ok(limits)
}
