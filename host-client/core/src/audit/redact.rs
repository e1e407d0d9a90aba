//! Redaction: the parts of a call's arguments that are never written to the disk.

use serde::Deserialize;

/// The text that replaces each redacted value.
pub const REDACTED: &str = "[redacted]";

/// A part of arguments that the audit log does not record, for some tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redaction {
    /// Patterns of the tools' full names, such as `bank.*`; `*` matches all tools. At least one is required.
    pub tools: Vec<String>,
    /// An RFC 9535 JSONPath into the arguments, such as `$.password` or `$..token`. Every value that it selects is
    /// replaced by [`REDACTED`].
    pub path: String,
}
