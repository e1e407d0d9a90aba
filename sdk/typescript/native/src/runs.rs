//! Durable runs, for JavaScript.

use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;
use relay_sdk::{DurableRun, DurableRuns, RequestOptions, SdkError};
use serde_json::json;

use crate::execution::{ended, next};
use crate::json::written;
use crate::task::{OnRuntime, Task, promise, thrown};

/// The durable runs of a host.
#[napi]
pub struct NativeRuns {
    runs: OnRuntime<DurableRuns>,
}

/// A durable run of this process. Its end is not that of the run.
#[napi]
pub struct NativeRun {
    run: OnRuntime<DurableRun>,
}

/// What was taken over.
#[napi]
pub struct NativeRecovered {
    runs: Vec<DurableRun>,
    others: String,
}

impl NativeRuns {
    pub(crate) fn new(runs: DurableRuns) -> Self {
        Self { runs: OnRuntime::new(runs) }
    }
}

impl From<DurableRun> for NativeRun {
    fn from(run: DurableRun) -> Self {
        Self { run: OnRuntime::new(run) }
    }
}

#[napi]
impl NativeRuns {
    #[napi(catch_unwind)]
    pub fn start<'env>(&self, env: &'env Env, request: String) -> napi::Result<Object<'env>> {
        let runs = self.runs.get().map_err(thrown)?;
        promise(env, async move { Ok(NativeRun::from(runs.start(RequestOptions::from_json(&request)?, None).await?)) })
    }

    #[napi(catch_unwind)]
    pub fn recover<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let runs = self.runs.get().map_err(thrown)?;
        promise(env, async move {
            let taken = runs.recover().await?;
            let failed: Vec<_> = taken.failed.iter().map(|(id, error)| json!({"id": id, "error": error})).collect();
            let others = written(&json!({"held": taken.held, "failed": failed}))?;
            Ok(NativeRecovered { runs: taken.runs, others })
        })
    }

    #[napi(catch_unwind)]
    pub fn resume<'env>(&self, env: &'env Env, id: String) -> napi::Result<Object<'env>> {
        let runs = self.runs.get().map_err(thrown)?;
        promise(env, async move { Ok(NativeRun::from(runs.resume(&id).await?)) })
    }

    #[napi(catch_unwind)]
    pub fn get(&self, id: String) -> napi::Result<Option<NativeRun>> {
        Ok(self.runs.get().map_err(thrown)?.get(&id).map(Into::into))
    }

    #[napi(catch_unwind)]
    pub fn list(&self, unfinished: bool, most: u32) -> napi::Result<Task> {
        let runs = self.runs.get().map_err(thrown)?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(Task::new(async move { written(&runs.list(unfinished, most).await?) }))
    }

    #[napi(catch_unwind)]
    pub fn show(&self, id: String) -> napi::Result<Task> {
        let runs = self.runs.get().map_err(thrown)?;
        Ok(Task::new(async move { written(&runs.show(&id).await?) }))
    }

    #[napi(catch_unwind)]
    pub fn decide(
        &self,
        id: String,
        call: i64,
        approved: bool,
        reason: Option<String>,
        by: String,
    ) -> napi::Result<Task> {
        let runs = self.runs.get().map_err(thrown)?;
        Ok(Task::new(async move {
            let call = u64::try_from(call).map_err(|_| SdkError::option("the call is a number from 0"))?;
            runs.decide(&id, call, (approved, reason), &by).await?;
            Ok("null".into())
        }))
    }

    #[napi(catch_unwind)]
    pub fn cancel(&self, id: String) -> napi::Result<Task> {
        let runs = self.runs.get().map_err(thrown)?;
        Ok(Task::new(async move {
            runs.cancel(&id).await?;
            Ok("null".into())
        }))
    }

    #[napi(catch_unwind)]
    pub fn forget(&self, id: String) -> napi::Result<Task> {
        let runs = self.runs.get().map_err(thrown)?;
        Ok(Task::new(async move { written(&runs.forget(&id).await?) }))
    }
}

#[napi]
impl NativeRecovered {
    /// Returns the ids that others hold and those that failed, as JSON.
    #[napi(catch_unwind)]
    pub fn others(&self) -> String {
        self.others.clone()
    }

    /// Returns the runs that go on here.
    #[napi(catch_unwind)]
    pub fn runs(&self) -> Vec<NativeRun> {
        self.runs.iter().cloned().map(Into::into).collect()
    }
}

#[napi]
impl NativeRun {
    #[napi(catch_unwind)]
    pub fn id(&self) -> napi::Result<String> {
        Ok(self.run.get().map_err(thrown)?.id())
    }

    #[napi(catch_unwind)]
    pub fn state(&self) -> napi::Result<String> {
        self.run.get().and_then(|run| written(&run.state())).map_err(thrown)
    }

    #[napi(catch_unwind)]
    pub fn settled(&self) -> napi::Result<Task> {
        let run = self.run.get().map_err(thrown)?;
        Ok(Task::new(async move { written(&run.settled().await) }))
    }

    #[napi(catch_unwind)]
    pub fn outcome<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let run = self.run.get().map_err(thrown)?;
        promise(env, async move { ended(run.outcome().await) })
    }

    #[napi(catch_unwind)]
    pub fn events<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let run = self.run.get().map_err(thrown)?;
        promise(env, async move { next(run.events()).await })
    }

    #[napi(catch_unwind)]
    pub fn cancel(&self) -> napi::Result<()> {
        self.run.get().map_err(thrown)?.cancel();
        Ok(())
    }
}
