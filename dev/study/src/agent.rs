//! The loop of a model and its tools: the model answers, or calls tools and gets their results, turn by turn.

use std::time::Instant;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::measure::{Meter, tokens};

/// The most turns of one conversation.
const MAX_TURNS: usize = 64;
/// The most calls in one turn.
const MAX_CALLS: usize = 256;

/// A model: it sees the whole conversation and gives the next turn. To study a real one, implement this for its API, or
/// run a program that asks it: a [`CommandModel`](crate::command::CommandModel).
#[async_trait]
pub trait Model: Send {
    /// The next turn.
    ///
    /// # Errors
    /// The model cannot be reached, or gives what is no turn.
    async fn reply(&mut self, conversation: &Conversation) -> anyhow::Result<Reply>;
}

/// Tools that the model can call.
#[async_trait]
pub trait Toolbox: Send + Sync {
    /// The definitions that are in the context from the beginning.
    fn definitions(&self) -> &[Definition];
    /// Makes one call. A failure is a text that the model reads, as a result is.
    async fn call(&self, call: &Call) -> Observation;
}

/// Definition of one tool, as a model reads it: the three fields of the APIs of today.
#[derive(Debug, Clone, Serialize)]
pub struct Definition {
    /// The name by which it is called.
    pub name: String,
    /// Description of its use.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Number of tokens of all of it as JSON, counted once.
    #[serde(skip)]
    pub(crate) tokens: u64,
}

/// One call, as the model wrote it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The tool's name.
    pub name: String,
    /// A JSON object.
    pub arguments: Value,
}

/// Outcome of a call.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Text that the model reads.
    pub text: String,
    /// Number of calls of tools of MCP servers that it took.
    pub server_calls: u64,
    /// End of the run, if the call ran a program; `None`: it ran none.
    pub run: Option<RunEnd>,
}

/// End of the run of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// It has a value.
    Done,
    /// It failed while it ran.
    Failed,
    /// The check refused it before anything ran.
    Refused,
}

/// One turn of a model.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Calls that do not depend on each other.
    Calls(Vec<Call>),
    /// The last turn.
    Answer(String),
}

/// Conversation as a model sees it.
#[derive(Debug, Serialize)]
pub struct Conversation {
    /// Instructions for its job.
    pub system: String,
    /// Definitions of the tools that it can call.
    #[serde(rename = "tools")]
    pub definitions: Vec<Definition>,
    /// The question.
    pub question: String,
    /// Earlier turns.
    pub turns: Vec<Turn>,
}

/// A turn with calls.
#[derive(Debug, Serialize)]
pub struct Turn {
    /// Calls that the model wrote.
    pub calls: Vec<Call>,
    /// The text that each call gave, in the same order.
    pub results: Vec<String>,
}

/// Outcome of a conversation.
#[derive(Debug)]
pub struct Conclusion {
    /// The model's answer.
    pub answer: Result<Value, Failure>,
    /// Counts of what it took.
    pub meter: Meter,
}

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The model gave none.
    #[error("the model: {0:#}")]
    Model(anyhow::Error),
    /// The answer is prose.
    #[error("the answer is no JSON: {0}")]
    NotJson(String),
    /// It goes on and on.
    #[error("no answer after {MAX_TURNS} turns")]
    Endless,
    /// A turn without calls, or with far too many.
    #[error("{0} calls in one turn")]
    Calls(usize),
}

impl Definition {
    /// A tool of this name.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        let (name, description) = (name.into(), description.into());
        let json = json!({"name": name, "description": description, "input_schema": input_schema});
        Self { name, description, input_schema, tokens: tokens(&json.to_string()) }
    }
}

impl Call {
    /// A call with these arguments.
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        Self { name: name.into(), arguments }
    }

    /// The call as the JSON that is counted.
    pub fn to_json(&self) -> String {
        json!({"name": self.name, "arguments": self.arguments}).to_string()
    }
}

/// Lets a model answer a question with the tools of a box.
pub async fn converse(model: &mut dyn Model, toolbox: &dyn Toolbox, system: &str, question: &str) -> Conclusion {
    let mut conversation = Conversation {
        system: system.into(),
        definitions: toolbox.definitions().to_vec(),
        question: question.into(),
        turns: Vec::new(),
    };
    let mut meter = Meter::new(&conversation);
    let answer = take_turns(model, toolbox, &mut conversation, &mut meter).await;
    Conclusion { answer, meter }
}

async fn take_turns(
    model: &mut dyn Model,
    toolbox: &dyn Toolbox,
    conversation: &mut Conversation,
    meter: &mut Meter,
) -> Result<Value, Failure> {
    for _ in 0..MAX_TURNS {
        let started = Instant::now();
        let reply = model.reply(conversation).await.map_err(Failure::Model)?;
        meter.model_time += started.elapsed();
        let calls = match reply {
            Reply::Answer(text) => {
                meter.answer(&text);
                return serde_json::from_str(&text).map_err(|_| Failure::NotJson(text));
            }
            Reply::Calls(calls) => calls,
        };
        if !(1..=MAX_CALLS).contains(&calls.len()) {
            return Err(Failure::Calls(calls.len()));
        }
        let started = Instant::now();
        let observations = join_all(calls.iter().map(|call| toolbox.call(call))).await;
        meter.calls(&calls, &observations, started.elapsed());
        let results = observations.into_iter().map(|seen| seen.text).collect();
        conversation.turns.push(Turn { calls, results });
    }
    Err(Failure::Endless)
}
