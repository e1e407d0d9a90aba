//! The budget of an execution for its tools, and the part of it that is used.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use relay_proto::{ErrorCode, ToolName, ToolPatterns};
use serde::Deserialize;

/// The budget of one execution for its tools, beside the limits of the relay. `None`: the policy does not limit it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The maximum number of tool calls.
    pub calls: Option<u64>,
    /// The maximum size of all results that tools give to the code, in bytes.
    pub bytes_read: Option<u64>,
    /// The maximum size of the value that the code returns, in bytes.
    pub bytes_returned: Option<u64>,
    /// The budgets for tools that a pattern fits, such as `fs.*`; the tools of one pattern share its budget.
    #[serde(default)]
    pub tools: BTreeMap<String, ToolBudget>,
}

/// The budget of one execution for the tools of one pattern. `None`: it is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolBudget {
    /// The maximum number of calls.
    pub calls: Option<u64>,
    /// The maximum size of all results that they give to the code, in bytes.
    pub bytes_read: Option<u64>,
}

/// The count of an execution's calls and bytes against its budget.
#[derive(Debug)]
pub(crate) struct Spending(Mutex<Vec<Account>>);

#[derive(Debug)]
struct Account {
    /// The name of the account in errors: a pattern, or `this execution`.
    name: String,
    tools: ToolPatterns,
    of: ToolBudget,
    calls: u64,
    bytes: u64,
}

/// The error code and the message when a budget does not allow a call or its result.
pub(crate) type Spent = (ErrorCode, String);

impl Spending {
    pub(crate) fn new(budget: &Budget) -> Self {
        let of_all = ToolBudget { calls: budget.calls, bytes_read: budget.bytes_read };
        let all = ("this execution".to_owned(), ToolPatterns::default(), of_all);
        let of_tools = budget
            .tools
            .iter()
            .map(|(pattern, of)| (pattern.clone(), ToolPatterns::new(Some(vec![pattern.clone()])), *of));
        let accounts = std::iter::once(all).chain(of_tools);
        let accounts = accounts.filter(|(_, _, of)| *of != ToolBudget::default());
        Self(Mutex::new(accounts.map(|(name, tools, of)| Account { name, tools, of, calls: 0, bytes: 0 }).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Account>> {
        // Changed only under this lock, by code that does not panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call of a tool.
    ///
    /// # Errors
    /// `TOOL_CALL_LIMIT`: no calls are left. `TOOL_RESULT_LIMIT`: no bytes are left. The call is not counted.
    pub(crate) fn call(&self, tool: &ToolName) -> Result<(), Spent> {
        let mut accounts = self.lock();
        for account in accounts.iter().filter(|account| account.tools.allow(tool)) {
            let name = &account.name;
            if let Some(most) = account.of.calls.filter(|most| account.calls >= *most) {
                let message = format!("{tool} was not called: the policy gives {name} {most} calls, and they are used");
                return Err((ErrorCode::ToolCallLimit, message));
            }
            if let Some(most) = account.of.bytes_read.filter(|most| account.bytes >= *most) {
                let message =
                    format!("{tool} was not called: the policy lets {name} read {most} bytes, and they are used");
                return Err((ErrorCode::ToolResultLimit, message));
            }
        }
        for account in accounts.iter_mut().filter(|account| account.tools.allow(tool)) {
            account.calls += 1;
        }
        Ok(())
    }

    /// Counts the bytes of a tool's result.
    ///
    /// # Errors
    /// `TOOL_RESULT_LIMIT`: not so many bytes are left. The code does not get the result, which stays counted.
    pub(crate) fn read(&self, tool: &ToolName, bytes: u64) -> Result<(), Spent> {
        let mut fits = Ok(());
        for account in self.lock().iter_mut().filter(|account| account.tools.allow(tool)) {
            let left = account.of.bytes_read.map(|most| most.saturating_sub(account.bytes));
            account.bytes = account.bytes.saturating_add(bytes);
            if let Some(left) = left.filter(|left| bytes > *left) {
                let message = format!(
                    "{tool} answered with {bytes} bytes; of those that the policy lets {} read, {left} were left",
                    account.name
                );
                fits = Err((ErrorCode::ToolResultLimit, message));
            }
        }
        fits
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn name(text: &str) -> ToolName {
        ToolName::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn calls_and_bytes_are_counted_for_all_and_for_each_pattern() {
        let tools = [
            ("fs.*".to_owned(), ToolBudget { calls: Some(2), bytes_read: None }),
            ("web.get".to_owned(), ToolBudget { calls: None, bytes_read: Some(10) }),
        ];
        let budget = Budget { calls: Some(5), bytes_read: Some(100), bytes_returned: None, tools: tools.into() };
        let spending = Spending::new(&budget);
        assert_eq!(spending.call(&name("fs.a")), Ok(()));
        assert_eq!(spending.call(&name("fs.b")), Ok(()));
        let (code, message) = spending.call(&name("fs.a")).unwrap_err();
        assert!(code == ErrorCode::ToolCallLimit && message.contains("fs.* 2 calls"), "{message}");
        assert_eq!(spending.call(&name("web.get")), Ok(()));
        assert_eq!(spending.read(&name("web.get"), 8), Ok(()));
        let (code, message) = spending.read(&name("web.get"), 8).unwrap_err();
        assert!(code == ErrorCode::ToolResultLimit && message.contains("2 were left"), "{message}");
        assert_eq!(spending.call(&name("web.get")).unwrap_err().0, ErrorCode::ToolResultLimit);
        assert_eq!(spending.call(&name("x.y")), Ok(()));
        assert_eq!(spending.call(&name("x.y")), Ok(()));
        assert_eq!(spending.call(&name("x.y")).unwrap_err().0, ErrorCode::ToolCallLimit, "five in all");
    }
}
