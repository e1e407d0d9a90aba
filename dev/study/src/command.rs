//! A real model behind a program of the user, which can ask any provider: it is started for each turn.
//!
//! On its standard input is the conversation as JSON: `{"system", "tools": [{"name", "description", "input_schema"}],
//! "question", "turns": [{"calls": [{"name", "arguments"}], "results": ["…"]}]}`. On its standard output it puts the
//! next turn: `{"calls": [{"name": "…", "arguments": {}}]}`, or `{"answer": …}` with the answer as JSON.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use crate::agent::{Call, Conversation, Model, Reply};

/// The most bytes of one turn that are read.
const MAX_REPLY_BYTES: u64 = 1 << 20;
/// Maximum time of one turn.
const REPLY_WITHIN: Duration = Duration::from_secs(300);

/// A program that asks a model.
#[derive(Debug, Clone)]
pub struct CommandModel {
    /// The program; it gets no arguments.
    pub program: PathBuf,
}

/// Output of the program.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Calls(Vec<Call>),
    Answer(Value),
}

#[async_trait]
impl Model for CommandModel {
    async fn reply(&mut self, conversation: &Conversation) -> anyhow::Result<Reply> {
        let name = self.program.display();
        let reply = timeout(REPLY_WITHIN, self.ask(conversation)).await;
        let reply = reply.with_context(|| format!("{name} took more than {} s", REPLY_WITHIN.as_secs()))??;
        let line = serde_json::from_slice(&reply).with_context(|| format!("{name} put out what is no turn"))?;
        Ok(match line {
            Line::Calls(calls) => Reply::Calls(calls),
            Line::Answer(answer) => Reply::Answer(answer.to_string()),
        })
    }
}

impl CommandModel {
    async fn ask(&self, conversation: &Conversation) -> anyhow::Result<Vec<u8>> {
        let name = self.program.display();
        let mut command = Command::new(&self.program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("{name} cannot be run"))?;
        let mut stdin = child.stdin.take().context("it has no standard input")?;
        let stdout = child.stdout.take().context("it has no standard output")?;
        let question = serde_json::to_vec(conversation)?;
        let write = async move {
            // Who does not read all of it may know enough.
            let _ = stdin.write_all(&question).await;
            drop(stdin);
        };
        let mut reply = Vec::new();
        let mut bounded = stdout.take(MAX_REPLY_BYTES + 1);
        let read = bounded.read_to_end(&mut reply);
        tokio::pin!(write, read);
        // A program that has put out its turn is not held up by what it does not read.
        tokio::select! {
            read = &mut read => read?,
            () = &mut write => read.await?,
        };
        ensure!(reply.len() as u64 <= MAX_REPLY_BYTES, "{name} put out more than {MAX_REPLY_BYTES} bytes");
        let status = child.wait().await?;
        ensure!(status.success(), "{name} failed ({status})");
        Ok(reply)
    }
}
