//! Checks what an `execute` carries of the record of a durable execution. The host is trusted with nothing of it.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use relay_proto::credit::recorded_bytes;
use relay_proto::steps::{self, MAX_STEP_FAILURE_BYTES, MAX_STEP_FAILURES, MAX_TIME_MS, Source};
use relay_proto::time;
use relay_proto::{Binding, Code, ToolName, wire};
use tokio::time::Instant;

use super::excerpt;
use crate::execution::{Bindings, CallFailure, DurableRequest, WorkerCall};
use crate::store::Store;

/// The record of an execution before, as the host sent it; by default the execution is not durable.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) request: Option<DurableRequest>,
    /// With the binding `store`, of an execution that began before: content of the store.
    pub(super) stored: Vec<(String, Bytes)>,
    /// With the binding `servers`, of such an execution: full names of the tools.
    pub(super) tools: Vec<String>,
}

impl Recorded {
    /// Returns whether the execution began before.
    pub(super) fn began_before(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.again)
    }
}

/// Checks what is recorded of an execution with this seed, time of its beginning and bindings.
///
/// # Errors
/// The message for the host: something is missing, over a maximum, or no record.
pub(super) fn recorded(
    durable: wire::Durable,
    seed: Option<u64>,
    now_ms: Option<i64>,
    bindings: Bindings,
) -> Result<Recorded, String> {
    let (Some(_), Some(began_ms)) = (seed, now_ms) else {
        return Err("a durable execution needs seed and now_ms".into());
    };
    let recorded_bytes = recorded_bytes(&durable);
    let steps = steps::decode(&durable.steps, began_ms).map_err(|error| format!("durable.steps: {error}"))?;
    let wire::Durable { steps: encoded, failures, calls, again, store, waiting_after_ms, tools, clock_ms } = durable;
    let is_first = steps.is_empty() && failures.is_empty() && calls == 0 && store.is_empty() && tools.is_empty();
    if !again && !is_first {
        return Err("durable carries a record of an execution that did not begin before".into());
    }
    let answered: HashSet<_> = steps.iter().filter_map(|step| answered(step.source)).collect();
    let failures = failures_by_call(failures)?;
    let clock_ms = clock_ms.unwrap_or_else(time::now_ms);
    if clock_ms.unsigned_abs() > MAX_TIME_MS {
        return Err("durable.clock_ms is no time that JavaScript has".into());
    }
    Ok(Recorded {
        stored: if bindings.has(Binding::Store) { fitting(store)? } else { Vec::new() },
        tools: if bindings.has(Binding::Servers) { named(tools)? } else { Vec::new() },
        request: Some(DurableRequest {
            steps: encoded,
            answered: answered.into_iter().filter(|call| !failures.contains_key(call)).collect(),
            failures,
            newest: WorkerCall(calls),
            again,
            waiting_after_ms,
            clock_ms: (clock_ms, Instant::now()),
            recorded_bytes,
        }),
    })
}

/// Returns the call whose answer a step is.
fn answered(source: Source) -> Option<WorkerCall> {
    match source {
        Source::Call(call) => Some(WorkerCall(call)),
        Source::Timer(_) => None,
    }
}

fn failures_by_call(failures: Vec<wire::StepFailure>) -> Result<HashMap<WorkerCall, CallFailure>, String> {
    if failures.len() > MAX_STEP_FAILURES {
        return Err(format!("durable has {} failures; at most {MAX_STEP_FAILURES} are taken", failures.len()));
    }
    let mut by_call = HashMap::with_capacity(failures.len());
    for wire::StepFailure { call, code, message } in failures {
        if message.len() > MAX_STEP_FAILURE_BYTES {
            return Err(format!("the failure of call {call} has a message of {} bytes", message.len()));
        }
        let failure = CallFailure { code: Code::from(excerpt(&code).to_owned()), message };
        if by_call.insert(WorkerCall(call), failure).is_some() {
            return Err(format!("durable has two failures of call {call}"));
        }
    }
    Ok(by_call)
}

/// Returns the entries of a store, which have to fit in one.
fn fitting(entries: impl IntoIterator<Item = (String, Bytes)>) -> Result<Vec<(String, Bytes)>, String> {
    let mut store = Store::default();
    let mut put = |(key, json): &(String, Bytes)| store.put(key.clone(), Some(json.clone()));
    let entries: Vec<_> = entries.into_iter().collect();
    if entries.iter().all(&mut put) { Ok(entries) } else { Err("durable.store is more than a store holds".into()) }
}

/// Returns the names, which have to be full names of tools.
fn named(tools: Vec<String>) -> Result<Vec<String>, String> {
    match tools.iter().find(|name| ToolName::try_from((*name).clone()).is_err()) {
        Some(name) => Err(format!("durable.tools: {:?} is no full name of a tool", excerpt(name))),
        None => Ok(tools),
    }
}
