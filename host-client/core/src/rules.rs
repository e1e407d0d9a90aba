//! The rules for tool calls: the policy, the approvals of people, and the text of the question that they are asked.

pub mod approval;
pub mod policy;
pub mod prompt;

pub use approval::{Approval, ApprovalRequest, Approver, CallbackApprover, RunQuestion, TerminalApprover};
pub use policy::{
    Budget, Decision, Explanation, Phase, Policy, PolicyError, PolicyPattern, PolicyWarning, Rule, ToolBudget, Verdict,
};
