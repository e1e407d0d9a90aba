//! Identifiers and tool names, each a type of its own.

use std::fmt;

/// Maximum length of an execution id in bytes.
pub const MAX_EXECUTION_ID_BYTES: usize = 64;

/// Maximum length of a full tool name in bytes.
pub const MAX_TOOL_NAME_BYTES: usize = 256;

/// Identifies one execution in its session. The host chooses it: 1 to 64 printable ASCII characters, no space.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutionId(String);

/// Reports a text that is no execution id.
#[derive(Debug, thiserror::Error)]
#[error("an execution id has 1 to {MAX_EXECUTION_ID_BYTES} printable ASCII characters")]
pub struct InvalidExecutionId;

impl ExecutionId {
    /// Returns the id on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ExecutionId {
    type Error = InvalidExecutionId;

    fn try_from(text: String) -> Result<Self, InvalidExecutionId> {
        let fits = (1..=MAX_EXECUTION_ID_BYTES).contains(&text.len());
        if fits && text.bytes().all(|b| b.is_ascii_graphic()) { Ok(Self(text)) } else { Err(InvalidExecutionId) }
    }
}

impl From<u64> for ExecutionId {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identifies one tool call in its session. The relay counts calls up from 1; an id below the next one was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// Reports a text that is no call id.
#[derive(Debug, thiserror::Error)]
#[error("a tool call id is a decimal number as the relay sent it")]
pub struct InvalidCallId;

impl TryFrom<&str> for CallId {
    type Error = InvalidCallId;

    fn try_from(text: &str) -> Result<Self, InvalidCallId> {
        // `parse` alone would take a plus sign and leading zeros.
        let id = text.parse().map(Self).map_err(|_| InvalidCallId)?;
        if id.to_string() == text { Ok(id) } else { Err(InvalidCallId) }
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Full name of a tool, `server.tool`. It splits at the first dot: the tool's own name may hold dots.
///
/// ```
/// use relay_proto::ToolName;
///
/// let name = ToolName::new("github", "issues.list")?;
/// assert_eq!((name.server(), name.tool(), name.as_str()), ("github", "issues.list", "github.issues.list"));
/// # Ok::<_, relay_proto::id::InvalidToolName>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName {
    full: String,
    dot: usize,
}

/// Reports a text that is no full tool name.
#[derive(Debug, thiserror::Error)]
pub enum InvalidToolName {
    /// The name has no dot, or no text before or after its first dot.
    #[error("a tool is called by its full name, \"server.tool\"")]
    NotQualified,
    /// The name is longer than [`MAX_TOOL_NAME_BYTES`].
    #[error("a tool's name has at most {MAX_TOOL_NAME_BYTES} bytes")]
    TooLong,
}

impl ToolName {
    /// Joins a server and a tool's own name.
    ///
    /// # Errors
    /// - [`InvalidToolName::NotQualified`]: the server is empty or holds a dot, or the tool is empty
    /// - [`InvalidToolName::TooLong`]: both together are longer than [`MAX_TOOL_NAME_BYTES`]
    pub fn new(server: &str, tool: &str) -> Result<Self, InvalidToolName> {
        if server.contains('.') {
            return Err(InvalidToolName::NotQualified);
        }
        Self::try_from(format!("{server}.{tool}"))
    }

    /// Returns the part before the first dot.
    pub fn server(&self) -> &str {
        &self.full[..self.dot]
    }

    /// Returns the part after the first dot.
    pub fn tool(&self) -> &str {
        &self.full[self.dot + 1..]
    }

    /// Returns the full name.
    pub fn as_str(&self) -> &str {
        &self.full
    }
}

impl TryFrom<String> for ToolName {
    type Error = InvalidToolName;

    fn try_from(full: String) -> Result<Self, InvalidToolName> {
        if full.len() > MAX_TOOL_NAME_BYTES {
            return Err(InvalidToolName::TooLong);
        }
        match full.find('.') {
            Some(dot) if dot > 0 && dot + 1 < full.len() => Ok(Self { full, dot }),
            _ => Err(InvalidToolName::NotQualified),
        }
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_tool_name_splits_at_its_first_dot() {
        let name = ToolName::try_from("github.issues.list".to_owned()).unwrap();
        assert_eq!((name.server(), name.tool()), ("github", "issues.list"));
        for bad in ["", ".", "a", "a.", ".a", "..a"] {
            assert!(ToolName::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
        assert!(ToolName::try_from(format!("a.{}", "b".repeat(MAX_TOOL_NAME_BYTES))).is_err());
        assert!(ToolName::new("a.b", "c").is_err(), "a server's name holds no dot");
    }

    #[test]
    fn ids_are_taken_only_in_their_one_form() {
        assert_eq!(CallId::try_from("17").unwrap(), CallId(17));
        for bad in ["", "+1", "01", "-1", "1 ", "18446744073709551616"] {
            assert!(CallId::try_from(bad).is_err(), "{bad:?}");
        }
        assert!(ExecutionId::try_from("run-1".to_owned()).is_ok());
        for bad in [String::new(), "a b".into(), "ä".into(), "x".repeat(65)] {
            assert!(ExecutionId::try_from(bad.clone()).is_err(), "{bad:?}");
        }
    }
}
