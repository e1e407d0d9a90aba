//! `execute_code` and the tools beside it, for JavaScript.

use std::sync::Arc;

use napi_derive::napi;
use relay_sdk::Conversation;
use relay_sdk::agent::DefinitionStyle;

use crate::json::{parsed, written};
use crate::task::{OnRuntime, Task, thrown};

/// One conversation of a model.
#[napi]
pub struct NativeConversation {
    conversation: OnRuntime<Arc<Conversation>>,
}

impl NativeConversation {
    pub(crate) fn new(conversation: Conversation) -> Self {
        Self { conversation: OnRuntime::new(Arc::new(conversation)) }
    }
}

#[napi]
impl NativeConversation {
    /// Returns the definitions in a style, as JSON.
    #[napi(catch_unwind)]
    pub fn definitions(&self, style: String) -> napi::Result<String> {
        let definitions = || {
            let style = DefinitionStyle::from_name(&style)?;
            written(&self.conversation.get()?.definitions(style)?)
        };
        definitions().map_err(thrown)
    }

    /// Calls one of the tools. The result is the JSON of a report.
    #[napi(catch_unwind)]
    pub fn call(&self, name: String, arguments: String) -> napi::Result<Task> {
        let conversation = self.conversation.get().map_err(thrown)?;
        Ok(Task::new(async move {
            let arguments = parsed(&arguments, "the arguments")?;
            written(&conversation.call(&name, arguments).await?)
        }))
    }
}
