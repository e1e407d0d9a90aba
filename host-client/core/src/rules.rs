//! Which calls may run: the policy, the people who are asked, and the question as they see it.

pub mod approval;
pub mod policy;
pub mod prompt;

pub use approval::{Approval, ApprovalRequest, Approver, CallbackApprover, TerminalApprover};
pub use policy::{Budget, Decision, Phase, Policy, PolicyError, Rule, ToolBudget, Verdict};
