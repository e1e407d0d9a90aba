//! A model that follows a script written by hand, as a good model would go about it.
//!
//! A script reads like a program whose calls go through a conversation: it calls, waits for what the tools gave, thinks
//! in Rust and answers. What it thinks costs no tokens; a real model pays for that, too.

use std::collections::VecDeque;

use anyhow::Context as _;
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::agent::{Call, Conversation, Model, Reply};

/// Answer of a script.
pub(crate) type Answer = anyhow::Result<Value>;
/// A way of doing a task.
pub(crate) type Script = fn(Turns) -> BoxFuture<'static, Answer>;

/// Number of calls that a model makes in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// One: many agents work like this, and some APIs allow no more.
    OneByOne,
    /// All that do not depend on each other.
    Together,
}

/// A script's end of the conversation.
#[derive(Debug)]
pub(crate) struct Turns {
    calls: mpsc::Sender<Vec<Call>>,
    results: mpsc::Receiver<Vec<String>>,
}

/// The model's end.
pub(crate) struct Scripted {
    calls: mpsc::Receiver<Vec<Call>>,
    results: mpsc::Sender<Vec<String>>,
    script: BoxFuture<'static, Answer>,
    pace: Pace,
    /// Calls that the script waits for and that were not made yet.
    pending: VecDeque<Call>,
    /// Texts that the others of these calls gave.
    gathered: Vec<String>,
}

impl Turns {
    /// One turn with one call. Gives its text.
    pub(crate) async fn call(&mut self, name: &str, arguments: Value) -> anyhow::Result<String> {
        self.calls(vec![Call::new(name, arguments)]).await?.pop().context("a call without a result")
    }

    /// One turn with calls that do not depend on each other. Gives their texts, in the same order.
    pub(crate) async fn calls(&mut self, calls: Vec<Call>) -> anyhow::Result<Vec<String>> {
        self.calls.send(calls).await.ok().context("the conversation is over")?;
        self.results.recv().await.context("the conversation is over")
    }
}

impl Scripted {
    /// A model that has not begun.
    pub(crate) fn new(script: Script, pace: Pace) -> Self {
        let (calls_tx, calls_rx) = mpsc::channel(1);
        let (results_tx, results_rx) = mpsc::channel(1);
        let script = script(Turns { calls: calls_tx, results: results_rx });
        let (pending, gathered) = (VecDeque::new(), Vec::new());
        Self { calls: calls_rx, results: results_tx, script, pace, pending, gathered }
    }

    /// The next turn with calls, of those that the script waits for.
    fn next_calls(&mut self) -> Reply {
        let count = match self.pace {
            Pace::OneByOne => self.pending.len().min(1),
            Pace::Together => self.pending.len(),
        };
        Reply::Calls(self.pending.drain(..count).collect())
    }
}

#[async_trait]
impl Model for Scripted {
    async fn reply(&mut self, conversation: &Conversation) -> anyhow::Result<Reply> {
        if let Some(turn) = conversation.turns.last() {
            self.gathered.extend_from_slice(&turn.results);
            if !self.pending.is_empty() {
                return Ok(self.next_calls());
            }
            let gathered = std::mem::take(&mut self.gathered);
            self.results.send(gathered).await.ok().context("the script does not wait for results")?;
        }
        tokio::select! {
            biased;
            Some(calls) = self.calls.recv() => {
                self.pending = calls.into();
                Ok(self.next_calls())
            }
            answer = &mut self.script => Ok(Reply::Answer(answer?.to_string())),
        }
    }
}
