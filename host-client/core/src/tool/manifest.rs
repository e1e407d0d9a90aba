//! The manifest of a tool: its effect on the world, its reach, and the limits of its calls.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The default of [`Manifest::timeout`], 30 seconds.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The default of [`Manifest::result_bytes`], 10 MiB.
pub const DEFAULT_RESULT_BYTES: usize = 10 << 20;

/// The effect of calling a tool. Policies decide by it if no rule matches: by default, [`Effect::ReadOnly`] runs, and
/// everything else needs an approval.
///
/// ```
/// use host_client_core::{Effect, ToolError, Tools};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Path { path: String }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tools = Tools::new();
/// let read = |args: Path| async move { Ok::<_, ToolError>(std::fs::read_to_string(args.path)?) };
/// let remove = |args: Path| async move { Ok::<_, ToolError>(std::fs::remove_file(args.path)?) };
/// tools.add("files.read", "Reads a file", Effect::ReadOnly, read)?;
/// tools.add("files.remove", "Removes a file", Effect::Mutating, remove)?;
///
/// // Policy files and audit records name an effect in snake case.
/// assert_eq!("read_only".parse(), Ok(Effect::ReadOnly));
/// assert_eq!(Effect::Privileged.to_string(), "privileged");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Reads, and changes nothing.
    ReadOnly,
    /// Changes data or state.
    Mutating,
    /// Can do anything that a person has to answer for: run programs, spend money, reach any server.
    Privileged,
}

impl Effect {
    /// Returns the name in policy files and audit records: `read_only`, `mutating` or `privileged`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Mutating => "mutating",
            Self::Privileged => "privileged",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error of parsing a text that names no [`Effect`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no effect {0:?}; there are: read_only, mutating, privileged")]
pub struct UnknownEffect(String);

impl FromStr for Effect {
    type Err = UnknownEffect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Self::ReadOnly, Self::Mutating, Self::Privileged]
            .into_iter()
            .find(|effect| effect.as_str() == name)
            .ok_or_else(|| UnknownEffect(name.to_owned()))
    }
}

/// The resources that a tool can reach. The ready sets of tools enforce their mode; other tools only declare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Not declared. This is the default.
    #[default]
    Undeclared,
    /// Nothing outside this process.
    None,
    /// Only the folders that it was given.
    RestrictedLocal,
    /// Only the hosts and ports that it was given.
    RestrictedRemote,
    /// Everything that this process can reach. Every call that the policy does not deny needs an approval.
    Privileged,
}

/// The treatment of a result that is longer than [`Manifest::result_bytes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The call fails with `TOOL_RESULT_LIMIT`. This is the default.
    #[default]
    Fail,
    /// A JSON string is cut, with a note at its end; the call fails for any other value, because JSON cannot be cut.
    Cut,
}

/// The properties of a tool beyond its schemas: effect, reach and limits.
///
/// ```
/// use std::time::Duration;
///
/// use host_client_core::{Effect, Manifest, Overflow, ToolSpec, Tools};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut spec = ToolSpec::new("logs.read", "Reads the log of today", serde_json::json!({"type": "object"}));
/// spec.manifest = Manifest {
///     effect: Some(Effect::ReadOnly),
///     timeout: Duration::from_secs(5),
///     result_bytes: 64 << 10,
///     overflow: Overflow::Cut,
///     concurrency: Some(2),
///     ..Manifest::default()
/// };
/// let tools = Tools::new();
/// tools.add_with(spec, |_arguments, _context| async { Ok(r#""all is quiet""#.into()) })?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The effect of a call; `None`, the default: undeclared. By default, policies require an approval then.
    pub effect: Option<Effect>,
    /// The resources that the tool can reach; [`Mode::Undeclared`] by default.
    pub mode: Mode,
    /// The longest time that a call may take, waiting for [`Manifest::concurrency`] included; 30 seconds by default.
    pub timeout: Duration,
    /// The most bytes of JSON that a call may return; 10 MiB by default.
    pub result_bytes: usize,
    /// The treatment of a longer result; [`Overflow::Fail`] by default.
    pub overflow: Overflow,
    /// The most calls that run at once, at least 1; further ones wait. `None`, the default: no limit.
    pub concurrency: Option<usize>,
    /// `true`, the default, if code may call the tool. Otherwise only the application can, and code does not learn that
    /// the tool exists.
    pub callable_from_code: bool,
    /// `true` if a call that is made twice with the same [idempotency key](crate::CallContext::idempotency_key) does what one
    /// does: a durable run may make it again when the outcome of the first time is not known. `false` by default. Calls of
    /// tools with [`Effect::ReadOnly`] are made again in any case.
    pub idempotent: bool,
}

impl Manifest {
    /// Tells whether a call may be made again whose outcome is not known.
    pub(crate) fn may_run_again(&self) -> bool {
        self.idempotent || self.effect == Some(Effect::ReadOnly)
    }
}

impl Default for Manifest {
    fn default() -> Self {
        Self {
            effect: None,
            mode: Mode::Undeclared,
            timeout: DEFAULT_TIMEOUT,
            result_bytes: DEFAULT_RESULT_BYTES,
            overflow: Overflow::Fail,
            concurrency: None,
            callable_from_code: true,
            idempotent: false,
        }
    }
}

/// A change to the manifests of existing tools, such as those of an MCP server. Fields that are `None` stay as they
/// are.
///
/// ```
/// use host_client_core::{Effect, ManifestChange, ToolSpec, Tools};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tools = Tools::new();
/// let spec = ToolSpec::new("github.list_issues", "Lists issues", serde_json::json!({"type": "object"}));
/// tools.add_with(spec, |_arguments, _context| async { Ok("[]".into()) })?;
///
/// let reads = ManifestChange { effect: Some(Effect::ReadOnly), timeout_ms: Some(5_000), ..Default::default() };
/// tools.amend(["github.*"], reads);
/// let manifest = tools.spec("github.list_issues").map(|spec| spec.manifest);
/// assert_eq!(manifest.and_then(|manifest| manifest.effect), Some(Effect::ReadOnly));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestChange {
    /// The effect of a call.
    pub effect: Option<Effect>,
    /// The longest time that a call may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The most bytes of JSON that a call may return.
    pub result_bytes: Option<usize>,
    /// The treatment of a longer result.
    pub overflow: Option<Overflow>,
    /// The most calls that run at once. A limit cannot be removed.
    pub concurrency: Option<usize>,
    /// `true` if code may call the tool.
    pub callable_from_code: Option<bool>,
    /// `true` if a call may be made again with the same idempotency key when its outcome is not known.
    pub idempotent: Option<bool>,
}

impl ManifestChange {
    /// Applies the change to a manifest.
    pub(crate) fn apply(&self, manifest: &mut Manifest) {
        manifest.effect = self.effect.or(manifest.effect);
        manifest.timeout = self.timeout_ms.map_or(manifest.timeout, Duration::from_millis);
        manifest.result_bytes = self.result_bytes.unwrap_or(manifest.result_bytes);
        manifest.overflow = self.overflow.unwrap_or(manifest.overflow);
        manifest.concurrency = self.concurrency.or(manifest.concurrency);
        manifest.callable_from_code = self.callable_from_code.unwrap_or(manifest.callable_from_code);
        manifest.idempotent = self.idempotent.unwrap_or(manifest.idempotent);
    }
}
