//! Durable runs as objects of Python.

use std::sync::Arc;

use pyo3::prelude::*;
use relay_sdk::{DurableRun, DurableRuns, RequestOptions};
use serde_json::json;

use crate::error::raise;
use crate::execution::{ended, next};
use crate::host::{approver, written};
use crate::mailbox::{Mailbox, Shared};
use crate::operation::{self, Operation, Value};

/// The durable runs of a host.
#[pyclass(frozen, module = "sandbox_relay._native")]
pub(crate) struct Runs {
    pub(crate) runs: DurableRuns,
    pub(crate) mailbox: Arc<Shared>,
}

#[pymethods]
impl Runs {
    #[pyo3(signature = (mailbox, options, approve=None))]
    fn start(&self, mailbox: &Mailbox, options: &str, approve: Option<u64>) -> PyResult<Operation> {
        let options = RequestOptions::from_json(options).map_err(raise)?;
        let (runs, approver) = (self.runs.clone(), approver(&self.mailbox, approve));
        operation::start(mailbox, async move { Ok(Value::Run(Run(runs.start(options, approver).await?))) })
    }

    /// Goes on with the runs that no process goes on with. The text is an object with `held` and `failed`.
    fn recover(&self, mailbox: &Mailbox) -> PyResult<Operation> {
        let runs = self.runs.clone();
        operation::start(mailbox, async move {
            let recovered = runs.recover().await?;
            let others = written(&json!({"held": recovered.held, "failed": recovered.failed}))?;
            Ok(Value::Runs(recovered.runs.into_iter().map(Run).collect(), others))
        })
    }

    fn resume(&self, mailbox: &Mailbox, id: String) -> PyResult<Operation> {
        let runs = self.runs.clone();
        operation::start(mailbox, async move { Ok(Value::Run(Run(runs.resume(&id).await?))) })
    }

    fn list(&self, mailbox: &Mailbox, unfinished: bool, most: usize) -> PyResult<Operation> {
        let runs = self.runs.clone();
        operation::start(mailbox, async move { Ok(Value::Text(written(&runs.list(unfinished, most).await?)?)) })
    }

    fn show(&self, mailbox: &Mailbox, id: String) -> PyResult<Operation> {
        let runs = self.runs.clone();
        operation::start(mailbox, async move { Ok(Value::Text(written(&runs.show(&id).await?)?)) })
    }

    #[pyo3(signature = (mailbox, id, call, approved, by, reason=None))]
    fn decide(
        &self,
        mailbox: &Mailbox,
        id: String,
        call: u64,
        approved: bool,
        by: String,
        reason: Option<String>,
    ) -> PyResult<Operation> {
        let runs = self.runs.clone();
        operation::start(mailbox, async move {
            runs.decide(&id, call, (approved, reason), &by).await?;
            Ok(Value::Nothing)
        })
    }

    fn cancel(&self, mailbox: &Mailbox, id: String) -> PyResult<Operation> {
        let runs = self.runs.clone();
        operation::start(mailbox, async move {
            runs.cancel(&id).await?;
            Ok(Value::Nothing)
        })
    }

    fn forget(&self, mailbox: &Mailbox, id: String) -> PyResult<Operation> {
        let runs = self.runs.clone();
        operation::start(mailbox, async move { Ok(Value::Text(written(&runs.forget(&id).await?)?)) })
    }
}

/// A durable run of this process.
#[pyclass(frozen, module = "sandbox_relay._native")]
pub(crate) struct Run(DurableRun);

#[pymethods]
impl Run {
    fn id(&self) -> String {
        self.0.id()
    }

    fn state(&self) -> String {
        self.0.state().to_string()
    }

    fn settled(&self, mailbox: &Mailbox) -> PyResult<Operation> {
        let run = self.0.clone();
        operation::start(mailbox, async move { Ok(Value::Text(run.settled().await.to_string())) })
    }

    fn outcome(&self, mailbox: &Mailbox) -> PyResult<Operation> {
        let run = self.0.clone();
        operation::start(mailbox, async move { ended(run.outcome().await) })
    }

    fn events(&self, mailbox: &Mailbox) -> PyResult<Operation> {
        operation::start(mailbox, next(self.0.events().clone()))
    }

    fn cancel(&self) {
        self.0.cancel();
    }
}
