//! Code that runs, for JavaScript.

use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;
use relay_sdk::{Events, Execution, Outcome, SdkError};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::json::{raw, written};
use crate::task::promise;

/// The most events that are given at once.
const MOST_EVENTS: usize = 256;

/// Code that runs. It is cancelled when this is collected and nobody waits for its outcome.
#[napi]
pub struct NativeExecution {
    execution: Arc<Execution>,
}

impl NativeExecution {
    pub(crate) fn new(execution: Execution) -> Self {
        Self { execution: Arc::new(execution) }
    }
}

#[napi]
impl NativeExecution {
    /// Returns the promise of a JSON array of events; `null`: there are no more.
    #[napi(catch_unwind)]
    pub fn events<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let events = self.execution.events().clone();
        promise(env, async move { next(&events).await })
    }

    /// Returns the promise of the outcome as JSON.
    #[napi(catch_unwind)]
    pub fn outcome<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let execution = Arc::clone(&self.execution);
        promise(env, async move { ended(execution.outcome().await) })
    }

    /// Cancels the code.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.execution.cancel();
    }
}

/// Waits for the next events; `None`: there are no more.
pub(crate) async fn next(events: &Events) -> Result<Option<String>, SdkError> {
    let events = events.next(MOST_EVENTS).await;
    if events.is_empty() { Ok(None) } else { written(&events).map(Some) }
}

/// Writes an outcome.
pub(crate) fn ended(outcome: Result<Arc<Outcome>, SdkError>) -> Result<String, SdkError> {
    let outcome = outcome?;
    shown(&outcome.json, &*outcome)
}

/// Writes what code gave, with its value.
pub(crate) fn shown(value: &str, rest: &impl Serialize) -> Result<String, SdkError> {
    #[derive(Serialize)]
    struct Shown<'a, T> {
        value: &'a RawValue,
        #[serde(flatten)]
        rest: &'a T,
    }
    written(&Shown { value: raw(value)?, rest })
}
