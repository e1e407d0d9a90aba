//! Redaction: what of a call's arguments never reaches the disk.

use serde::Deserialize;

/// What stands where something was redacted.
pub const REDACTED: &str = "[redacted]";

/// What is left out of the arguments of some tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redaction {
    /// Patterns of the tools' full names, such as `bank.*`; `*` is all.
    pub tools: Vec<String>,
    /// An RFC 9535 JSONPath into the arguments, such as `$.password` or `$..token`. All that it selects is replaced.
    pub path: String,
}
