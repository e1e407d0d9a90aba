//! `execute_code` and programs of models, as objects of Python.

use std::sync::Arc;

use pyo3::prelude::*;
use relay_sdk::agent::DefinitionStyle;
use relay_sdk::programmatic::ForeignProgrammatic;

use crate::error::raise;
use crate::host::{parsed, written};
use crate::mailbox::Mailbox;
use crate::operation::{self, Operation, Value};

/// One conversation of a model.
#[pyclass(frozen, module = "sandbox_relay._native")]
pub(crate) struct Conversation(pub(crate) Arc<relay_sdk::Conversation>);

#[pymethods]
impl Conversation {
    /// Returns the definitions of the tools as a JSON array.
    fn definitions(&self, style: &str) -> PyResult<String> {
        let style = DefinitionStyle::from_name(style).map_err(raise)?;
        self.0.definitions(style).and_then(|definitions| written(&definitions)).map_err(raise)
    }

    /// Calls a tool. The report is JSON.
    fn call(&self, mailbox: &Mailbox, name: String, arguments: &str) -> PyResult<Operation> {
        let (talk, arguments) = (Arc::clone(&self.0), parsed(arguments).map_err(raise)?);
        operation::start(mailbox, async move { Ok(Value::Text(written(&talk.call(&name, arguments).await?)?)) })
    }
}

/// Answers requests with programs of a model.
#[pyclass(frozen, module = "sandbox_relay._native")]
pub(crate) struct Programmatic(pub(crate) ForeignProgrammatic);

#[pymethods]
impl Programmatic {
    fn teaching(&self) -> String {
        self.0.teaching()
    }

    /// Runs a request: the value of the program, and all else, both as JSON.
    fn run(&self, mailbox: &Mailbox, options: &str) -> PyResult<Operation> {
        let (programmatic, options) = (self.0.clone(), parsed(options).map_err(raise)?);
        operation::start(mailbox, async move {
            let answered = programmatic.run(options).await?;
            let all = written(&answered)?;
            Ok(Value::Texts(answered.outcome.json, all))
        })
    }
}
