//! The plan of a run: everything that running its code again needs, as the journal keeps it.

use std::collections::BTreeMap;
use std::time::Duration;

use relay_proto::time::{millis, now_ms};
use relay_proto::{Binding, LimitName, LimitOverrides, ToolPatterns, TraceContext};
use serde::{Deserialize, Serialize};

use super::RunOptions;
use crate::client::{Check, ExecuteRequest, LargeIntegers};
use crate::durable::error::RunError;
use crate::durable::journal::RunId;
use crate::random::random;
use crate::rules::policy::Phase;

/// The version of the plan's form.
const VERSION: u32 = 1;

/// Everything that running a run's code again needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunPlan {
    version: u32,
    /// The owner, who alone may see it where owners are told apart; none: the application itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    pub(crate) code: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    input: String,
    bindings: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    local_tools: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    /// The patterns of the tools that the first relay's token allowed; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    granted: Vec<String>,
    pub(crate) limits: BTreeMap<String, u64>,
    seed: u64,
    pub(crate) now_ms: i64,
    large_integers: LargeIntegers,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<Phase>,
    pub(crate) trace: String,
    pub(crate) approval_within_ms: u64,
}

impl RunPlan {
    /// Makes the plan of a request, whose bindings are those that the relay offers. `limit` tells the limit that holds for it.
    pub(super) fn new(
        request: &ExecuteRequest,
        options: &RunOptions,
        (trace, granted): (TraceContext, &[String]),
        limit: impl Fn(LimitName) -> u64,
    ) -> Self {
        // All limits, so that they are the same on another relay.
        let limits = LimitName::ALL.iter().map(|name| (name.as_str().to_owned(), limit(*name))).collect();
        Self {
            version: VERSION,
            owner: None,
            code: request.code.clone(),
            input: request.input.clone(),
            bindings: request.bindings.clone(),
            local_tools: request.local_tools.clone(),
            tools: request.tools.clone(),
            granted: granted.to_vec(),
            limits,
            seed: request.seed.unwrap_or_else(random),
            now_ms: request.now_ms.unwrap_or_else(now_ms),
            large_integers: request.large_integers,
            phase: request.phase,
            trace: trace.to_string(),
            approval_within_ms: millis(options.approval_within),
        }
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// [`RunError::Plan`]: it cannot be read.
    pub(crate) fn parse(run: &RunId, json: &str) -> Result<Self, RunError> {
        let unreadable = |reason: String| RunError::Plan { run: run.clone(), reason };
        let plan: Self = serde_json::from_str(json).map_err(|error| unreadable(error.to_string()))?;
        if plan.version > VERSION {
            return Err(unreadable("a newer version of this software has written it: update".into()));
        }
        Ok(plan)
    }

    /// Returns the plan as JSON.
    ///
    /// # Errors
    /// [`RunError::NotDurable`]: it cannot be written as JSON.
    pub(crate) fn to_json(&self) -> Result<String, RunError> {
        serde_json::to_string(self).map_err(|error| RunError::NotDurable(error.to_string()))
    }

    /// Returns the request that runs the code, in the sandbox in any case.
    pub(crate) fn request(&self) -> ExecuteRequest {
        let mut request = ExecuteRequest::new(&self.code).always_in_sandbox();
        request.input.clone_from(&self.input);
        request.bindings.clone_from(&self.bindings);
        request.local_tools.clone_from(&self.local_tools);
        request.tools.clone_from(&self.tools);
        request.limits = self.overrides();
        (request.seed, request.now_ms) = (Some(self.seed), Some(self.now_ms));
        request.large_integers = self.large_integers;
        request.phase = self.phase;
        request.trace = self.trace.parse().ok();
        request.check = Check::Off;
        request
    }

    pub(crate) fn overrides(&self) -> LimitOverrides {
        let mut limits = LimitOverrides::default();
        for (name, value) in &self.limits {
            if let Ok(name) = name.parse() {
                limits.set(name, *value);
            }
        }
        limits
    }

    /// Returns the patterns of the tools that the code may call and be told of.
    pub(crate) fn patterns(&self) -> ToolPatterns {
        let granted = (!self.granted.is_empty()).then(|| self.granted.clone());
        ToolPatterns::new(self.tools.clone()).and(&ToolPatterns::new(granted))
    }

    /// Returns whether the code sees something of its session: the store, or the tools.
    pub(crate) fn sees_session(&self) -> bool {
        let names = [Binding::Store.as_str(), Binding::Servers.as_str()];
        self.bindings.iter().any(|name| names.contains(&name.as_str()))
    }

    pub(crate) fn bindings(&self) -> &[String] {
        &self.bindings
    }

    /// Returns the time for an answer of a person.
    pub(crate) fn approval_within(&self) -> Duration {
        Duration::from_millis(self.approval_within_ms)
    }
}
