//! A started host, for JavaScript.

use std::sync::Arc;
use std::time::Duration;

use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;
use relay_sdk::foreign::ForeignCall;
use relay_sdk::programmatic::PromptOptions;
use relay_sdk::{Functions, HostOptions, ProgrammaticOptions, RequestOptions, SdkError, SdkHost, ToolDescription};

use crate::ask::Bridge;
use crate::conversation::NativeConversation;
use crate::execution::{NativeExecution, shown};
use crate::functions::{Function, LentModel};
use crate::json::{parsed, written};
use crate::runs::NativeRuns;
use crate::task::{OnRuntime, Task, promise, thrown};

/// The functions that an application gives, beside its tools.
#[napi(object)]
pub struct Given {
    /// Whether it can be asked for approvals.
    pub approver: bool,
    /// Whether it can be asked for tokens.
    pub tokens: bool,
}

/// A started host.
#[napi]
pub struct NativeHost {
    host: OnRuntime<SdkHost>,
}

/// Starts a host. `options` is the JSON of its options, `tools` that of an array of descriptions.
#[napi(catch_unwind)]
pub fn start<'env>(
    env: &'env Env,
    bridge: &Bridge,
    options: String,
    tools: String,
    given: Given,
) -> napi::Result<Object<'env>> {
    let asker = bridge.asker();
    promise(env, async move {
        let options = HostOptions::from_json(&options)?;
        let function = Arc::new(Function(asker));
        let functions = Functions {
            tools: described(&tools, &function)?,
            approver: if given.approver { Some(function.clone()) } else { None },
            tokens: if given.tokens { Some(function) } else { None },
        };
        let host = SdkHost::start(options, functions).await?;
        Ok(NativeHost { host: OnRuntime::new(host) })
    })
}

type Tools = Vec<(ToolDescription, Arc<dyn ForeignCall>)>;

/// Reads descriptions of tools, all of which are one function.
fn described(tools: &str, function: &Arc<Function>) -> Result<Tools, SdkError> {
    let tools: Vec<ToolDescription> = parsed(tools, "a tool")?;
    let function: Arc<dyn ForeignCall> = function.clone();
    Ok(tools.into_iter().map(|tool| (tool, Arc::clone(&function))).collect())
}

#[napi]
impl NativeHost {
    /// Starts code.
    #[napi(catch_unwind)]
    pub fn execute(&self, request: String) -> napi::Result<NativeExecution> {
        let start = || self.host.get()?.execute(RequestOptions::from_json(&request)?, None);
        start().map(NativeExecution::new).map_err(thrown)
    }

    /// Calls one tool without code.
    #[napi(catch_unwind)]
    pub fn call(&self, tool: String, arguments: String) -> napi::Result<Task> {
        let host = self.host.get().map_err(thrown)?;
        Ok(Task::new(async move { host.call(&tool, &parsed(&arguments, "the arguments")?).await }))
    }

    /// Adds a tool of the application.
    #[napi(catch_unwind)]
    pub fn add_tool(&self, bridge: &Bridge, tool: String) -> napi::Result<()> {
        let add = || self.host.get()?.add_tool(parsed(&tool, "the tool")?, Arc::new(Function(bridge.asker())));
        add().map_err(thrown)
    }

    /// Makes a host with other tools, and the same rules and relay.
    #[napi(catch_unwind)]
    pub fn with_tools(&self, bridge: &Bridge, tools: String) -> napi::Result<NativeHost> {
        let make = || self.host.get()?.with_tools(described(&tools, &Arc::new(Function(bridge.asker())))?);
        make().map(|host| NativeHost { host: OnRuntime::new(host) }).map_err(thrown)
    }

    /// Returns what is known of the host as JSON: `tools`, `servers`, `warnings` or `page`.
    #[napi(catch_unwind)]
    pub fn shown(&self, what: String) -> napi::Result<String> {
        let show = || {
            let host = self.host.get()?;
            match what.as_str() {
                "tools" => written(&host.tools()),
                "servers" => written(&host.servers()),
                "page" => written(&host.page()),
                _ => written(&host.warnings()),
            }
        };
        show().map_err(thrown)
    }

    /// Returns the promise of the process id of the relay that was started.
    #[napi(catch_unwind)]
    pub fn relay_process<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let host = self.host.get().map_err(thrown)?;
        promise(env, async move { Ok(host.relay_process().await) })
    }

    /// Begins a conversation of a model.
    #[napi(catch_unwind)]
    pub fn conversation(&self) -> napi::Result<NativeConversation> {
        let begin = || self.host.get()?.conversation();
        begin().map(NativeConversation::new).map_err(thrown)
    }

    /// Answers a request with a program that the model of this name writes.
    #[napi(catch_unwind)]
    pub fn programmatic(&self, bridge: &Bridge, model: String, options: String, request: String) -> napi::Result<Task> {
        let host = self.host.get().map_err(thrown)?;
        let model = Arc::new(LentModel { asker: bridge.asker(), name: model });
        Ok(Task::new(async move {
            let options: ProgrammaticOptions = parsed(&options, "the options")?;
            let request: PromptOptions = parsed(&request, "the request")?;
            let answered = host.programmatic(model, options)?.run(request).await?;
            shown(&answered.outcome.json, &answered)
        }))
    }

    /// Returns the durable runs.
    #[napi(catch_unwind)]
    pub fn runs(&self) -> napi::Result<NativeRuns> {
        let runs = || self.host.get()?.runs();
        runs().map(NativeRuns::new).map_err(thrown)
    }

    /// Closes the host, and returns the promise of its end, which comes in bounded time.
    #[napi(catch_unwind)]
    pub fn close<'env>(&self, env: &'env Env, within_ms: u32) -> napi::Result<Object<'env>> {
        let host = self.host.get().map_err(thrown)?;
        promise(env, async move {
            host.close(Duration::from_millis(within_ms.into())).await;
            Ok(())
        })
    }
}
