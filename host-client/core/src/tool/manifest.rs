//! What a tool may do, and how its calls are treated.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a tool may take unless it says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many bytes of JSON a tool may return unless it says otherwise.
pub const DEFAULT_RESULT_BYTES: usize = 10 << 20;

/// What calling a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing that anybody would notice.
    ReadOnly,
    /// It changes something.
    Mutating,
    /// It can do what a person has to answer for: run programs, spend money, reach anything.
    Privileged,
}

impl Effect {
    /// The name in policy files and audit records.
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

/// There is no effect of this name.
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

/// What a tool can reach. Of the tool sets that come with this crate it is enforced; of other tools it is what they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nobody said.
    #[default]
    Undeclared,
    /// Nothing outside this process.
    None,
    /// Only the folders that it was given.
    RestrictedLocal,
    /// Only the hosts and ports that it was given.
    RestrictedRemote,
    /// Whatever this process can reach. Every call needs an approval, whatever the policy says.
    Privileged,
}

/// What happens to a result over a tool's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The call fails with `TOOL_RESULT_LIMIT`.
    #[default]
    Fail,
    /// A text is cut, and says so at its end. Anything else fails: half a JSON value is none.
    Cut,
}

/// How calls of a tool are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// What calling it does; nothing where nobody said, which a policy treats with care.
    pub effect: Option<Effect>,
    /// What it can reach.
    pub mode: Mode,
    /// How long a call may take.
    pub timeout: Duration,
    /// The most bytes of JSON that a call may return.
    pub result_bytes: usize,
    /// What happens to more.
    pub overflow: Overflow,
    /// How many calls run at once; more wait, within their time.
    pub concurrency: Option<usize>,
    /// Whether code may call it at all. A tool that it may not stays the agent's own: code does not learn that it exists.
    pub callable_from_code: bool,
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
        }
    }
}

/// What somebody changes in the manifest of a tool that is not theirs. What is absent stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestChange {
    /// What calling it does.
    pub effect: Option<Effect>,
    /// How long a call may take, in ms.
    pub timeout_ms: Option<u64>,
    /// The most bytes of JSON that a call may return.
    pub result_bytes: Option<usize>,
    /// What happens to more.
    pub overflow: Option<Overflow>,
    /// How many calls run at once.
    pub concurrency: Option<usize>,
    /// Whether code may call it at all.
    pub callable_from_code: Option<bool>,
}

impl ManifestChange {
    pub(crate) fn apply(&self, manifest: &mut Manifest) {
        manifest.effect = self.effect.or(manifest.effect);
        manifest.timeout = self.timeout_ms.map_or(manifest.timeout, Duration::from_millis);
        manifest.result_bytes = self.result_bytes.unwrap_or(manifest.result_bytes);
        manifest.overflow = self.overflow.unwrap_or(manifest.overflow);
        manifest.concurrency = self.concurrency.or(manifest.concurrency);
        manifest.callable_from_code = self.callable_from_code.unwrap_or(manifest.callable_from_code);
    }
}
