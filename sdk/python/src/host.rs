//! A host as an object of Python.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use relay_sdk::programmatic::ProgrammaticOptions;
use relay_sdk::{
    ForeignApprover, ForeignCall, Functions, HostOptions, RequestOptions, SdkError, SdkHost, ToolDescription,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{Conversation, Programmatic};
use crate::durable::Runs;
use crate::error::raise;
use crate::execution::Execution;
use crate::function::Function;
use crate::mailbox::{Mailbox, Shared};
use crate::operation::{self, Operation, Value};

/// Reads JSON that the Python layer wrote.
pub(crate) fn parsed<T: DeserializeOwned>(json: &str) -> Result<T, SdkError> {
    serde_json::from_str(json).map_err(|error| SdkError::option(format!("the options cannot be used: {error}")))
}

/// Writes JSON for the Python layer.
pub(crate) fn written(value: &impl Serialize) -> Result<String, SdkError> {
    serde_json::to_string(value).map_err(|error| SdkError::internal(error.to_string()))
}

/// Makes an approver of the number of a function.
pub(crate) fn approver(mailbox: &Arc<Shared>, number: Option<u64>) -> Option<Arc<dyn ForeignApprover>> {
    let function = |number| Arc::new(Function { mailbox: Arc::clone(mailbox), number }) as Arc<dyn ForeignApprover>;
    number.map(function)
}

/// Starts a host. `tools`: descriptions as JSON with the numbers of their functions.
#[pyfunction]
#[pyo3(signature = (mailbox, options, tools, approve=None, tokens=None))]
pub(crate) fn start(
    mailbox: &Mailbox,
    options: &str,
    tools: Vec<(String, u64)>,
    approve: Option<u64>,
    tokens: Option<u64>,
) -> PyResult<Operation> {
    let shared = Arc::clone(&mailbox.0);
    let options = HostOptions::from_json(options).map_err(raise)?;
    let function = |number| Function { mailbox: Arc::clone(&shared), number };
    let tools = tools
        .into_iter()
        .map(|(description, number)| Ok((parsed(&description)?, Arc::new(function(number)) as Arc<dyn ForeignCall>)));
    let functions = Functions {
        tools: tools.collect::<Result<Vec<(ToolDescription, _)>, SdkError>>().map_err(raise)?,
        approver: approver(&shared, approve),
        tokens: tokens.map(|number| Arc::new(function(number)) as Arc<_>),
    };
    operation::start(mailbox, async move {
        let host = SdkHost::start(options, functions).await?;
        Ok(Value::Host(Host { host, mailbox: shared }))
    })
}

/// A started host.
#[pyclass(frozen, module = "sandbox_relay._native")]
pub(crate) struct Host {
    host: SdkHost,
    mailbox: Arc<Shared>,
}

#[pymethods]
impl Host {
    fn add_tool(&self, description: &str, function: u64) -> PyResult<()> {
        let function = Arc::new(Function { mailbox: Arc::clone(&self.mailbox), number: function });
        parsed(description).and_then(|description| self.host.add_tool(description, function)).map_err(raise)
    }

    #[pyo3(signature = (options, approve=None))]
    fn execute(&self, options: &str, approve: Option<u64>) -> PyResult<Execution> {
        let options = RequestOptions::from_json(options).map_err(raise)?;
        let execution = self.host.execute(options, approver(&self.mailbox, approve)).map_err(raise)?;
        Ok(Execution(Arc::new(execution)))
    }

    fn call(&self, mailbox: &Mailbox, tool: String, arguments: &str) -> PyResult<Operation> {
        let (host, arguments) = (self.host.clone(), parsed(arguments).map_err(raise)?);
        operation::start(mailbox, async move { Ok(Value::Text(host.call(&tool, &arguments).await?)) })
    }

    fn tools(&self) -> PyResult<String> {
        written(&self.host.tools()).map_err(raise)
    }

    fn search(&self, words: &str, most: usize) -> PyResult<String> {
        written(&self.host.search(words, most)).map_err(raise)
    }

    fn overview(&self, most_tokens: usize) -> String {
        self.host.overview(most_tokens)
    }

    fn servers(&self) -> PyResult<String> {
        written(&self.host.servers()).map_err(raise)
    }

    fn warnings(&self) -> Vec<String> {
        self.host.warnings()
    }

    fn page(&self) -> Option<String> {
        self.host.page()
    }

    fn relay_process(&self, mailbox: &Mailbox) -> PyResult<Operation> {
        let host = self.host.clone();
        operation::start(mailbox, async move { Ok(Value::Text(written(&host.relay_process().await)?)) })
    }

    fn conversation(&self) -> PyResult<Conversation> {
        Ok(Conversation(Arc::new(self.host.conversation().map_err(raise)?)))
    }

    fn programmatic(&self, model: u64, options: &str) -> PyResult<Programmatic> {
        let model = Arc::new(Function { mailbox: Arc::clone(&self.mailbox), number: model });
        let options: ProgrammaticOptions = parsed(options).map_err(raise)?;
        Ok(Programmatic(self.host.programmatic(model, options).map_err(raise)?))
    }

    fn runs(&self) -> PyResult<Runs> {
        Ok(Runs { runs: self.host.runs().map_err(raise)?, mailbox: Arc::clone(&self.mailbox) })
    }

    fn close(&self, mailbox: &Mailbox, within_ms: u64) -> PyResult<Operation> {
        let host = self.host.clone();
        operation::start(mailbox, async move {
            host.close(Duration::from_millis(within_ms)).await;
            Ok(Value::Nothing)
        })
    }
}
