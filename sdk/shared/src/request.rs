//! What code is run with.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_client::client::LargeIntegers;
use host_client::{Approver, Check, ExecuteRequest, LimitOverrides, Phase, TraceContext};
use serde::Deserialize;

use crate::error::SdkError;
use crate::options::limits;

/// What code is run with; all of it but the code may be left out.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestOptions {
    /// JavaScript or TypeScript.
    pub code: String,
    /// Patterns of the tools that the code may call; `null`: all.
    pub tools: Option<Vec<String>>,
    /// `discover` offers tools that only read; `write` adds those that the policy names for it; `null`: the rules decide alone.
    pub phase: Option<Phase>,
    /// Limits that are to be lower, in the units of their names.
    pub limits: BTreeMap<String, u64>,
    /// The bindings that the code has beside `mcp`; `null`: those that models expect, as far as the relay offers them.
    pub bindings: Option<Vec<String>>,
    /// The text that `read_input()` returns; `null`: the code has neither that nor `emit`.
    pub input: Option<String>,
    /// What is done about code that is certain to fail: `refuse`, the default, `warn` or `off`.
    pub check: CheckOption,
    /// Whether code that is no more than one tool call runs in the sandbox, too, and unchecked; `false` by default.
    pub always_in_sandbox: bool,
    /// The form of integers over 2^53: `number`, the default, `text` or `bigint`.
    pub large_integers: LargeIntegersOption,
    /// The seed of `Math.random`; `null`: a fresh one.
    pub seed: Option<u64>,
    /// The time at which the code's clock begins, in ms since 1970; `null`: the present.
    pub now_ms: Option<i64>,
    /// Sources of functions that run beside the code, by the name after `local.`.
    pub local_tools: BTreeMap<String, String>,
    /// The W3C trace and span that the execution belongs to; `null`: a new trace.
    pub traceparent: Option<String>,
}

/// What is done about code that is certain to fail.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOption {
    /// It does not run.
    #[default]
    Refuse,
    /// It runs, with warnings.
    Warn,
    /// It is not checked.
    Off,
}

/// The form in which code gets integers over 2^53.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LargeIntegersOption {
    /// The nearest number.
    #[default]
    Number,
    /// A string.
    Text,
    /// A `BigInt`.
    BigInt,
}

impl RequestOptions {
    /// Reads options from JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): a member is unknown or of another type.
    pub fn from_json(json: &str) -> Result<Self, SdkError> {
        serde_json::from_str(json).map_err(|error| SdkError::option(format!("the options cannot be used: {error}")))
    }

    /// Makes the request, with the limits of the host where it has no lower ones.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): a limit or the trace is not one.
    pub(crate) fn request(
        self,
        of_host: &LimitOverrides,
        approver: Option<Arc<dyn Approver>>,
    ) -> Result<ExecuteRequest, SdkError> {
        let mut request = match self.bindings {
            Some(bindings) => ExecuteRequest::new(self.code).bindings(bindings),
            None => ExecuteRequest::for_model(self.code),
        };
        request.limits = lowered(of_host, &limits(&self.limits)?);
        request.tools = self.tools;
        request.phase = self.phase;
        if let Some(input) = self.input {
            request = request.io(input);
        }
        request.check = match self.check {
            CheckOption::Refuse => Check::Refuse,
            CheckOption::Warn => Check::Warn,
            CheckOption::Off => Check::Off,
        };
        if self.always_in_sandbox {
            request = request.always_in_sandbox();
        }
        request.large_integers = match self.large_integers {
            LargeIntegersOption::Number => LargeIntegers::Number,
            LargeIntegersOption::Text => LargeIntegers::Text,
            LargeIntegersOption::BigInt => LargeIntegers::BigInt,
        };
        (request.seed, request.now_ms, request.local_tools) = (self.seed, self.now_ms, self.local_tools);
        if let Some(trace) = self.traceparent {
            let wrong = || SdkError::option(format!("{trace:?} is no traceparent of W3C"));
            request.trace = Some(trace.parse::<TraceContext>().map_err(|_| wrong())?);
        }
        Ok(match approver {
            Some(approver) => request.approver(approver),
            None => request,
        })
    }
}

/// Returns the lower of two values of each limit.
pub(crate) fn lowered(one: &LimitOverrides, other: &LimitOverrides) -> LimitOverrides {
    let mut lowered = one.clone();
    for name in host_client::LimitName::ALL {
        if let Some(value) = other.get(*name) {
            lowered.set(*name, one.get(*name).map_or(value, |of_host| of_host.min(value)));
        }
    }
    lowered
}
