//! Measures the texts that pass through the model's context in one conversation, in bytes and tokens.
//!
//! Every text is counted by itself with `o200k_base`, the tokenizer of OpenAI's models since GPT-4o: what an API puts
//! around messages is its own affair and left out. As APIs bill, each turn reads the whole context so far anew.

use std::time::Duration;

use serde::Serialize;
use tiktoken_rs::o200k_base_singleton;

use crate::agent::{Call, Conversation, Observation, RunEnd};

/// Counts of one conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Meter {
    /// Number of turns of the model.
    pub turns: u64,
    /// Calls that the model wrote.
    pub model_calls: u64,
    /// Calls that reached an MCP server.
    pub server_calls: u64,
    /// Runs of programs that failed, or that the check refused.
    pub failed_runs: u64,
    /// Runs that the check refused before anything ran: a part of `failed_runs`.
    pub refused_runs: u64,
    /// Tokens of the definitions of the tools; they are a part of every turn's input.
    pub definition_tokens: u64,
    /// All texts of the conversation, each once, without the definitions, in bytes.
    pub content_bytes: u64,
    /// The same in tokens.
    pub content_tokens: u64,
    /// Tokens of these texts that the turns read, summed up over the turns.
    pub reread_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Tokens that the model wrote for its answer: a part of `output_tokens`.
    pub answer_tokens: u64,
    /// The measured time of tools and relay.
    #[serde(rename = "tool_us", serialize_with = "microseconds")]
    pub tool_time: Duration,
    /// The measured time of the model; what follows a script takes none.
    #[serde(rename = "model_us", serialize_with = "microseconds")]
    pub model_time: Duration,
}

impl Meter {
    /// A conversation that begins.
    pub(crate) fn new(conversation: &Conversation) -> Self {
        let definitions = conversation.definitions.iter().map(|definition| definition.tokens);
        let mut meter = Self { definition_tokens: definitions.sum(), ..Self::default() };
        meter.read(&conversation.system);
        meter.read(&conversation.question);
        meter
    }

    /// A turn with calls, and what they gave.
    pub(crate) fn calls(&mut self, calls: &[Call], observations: &[Observation], elapsed: Duration) {
        self.turn();
        for call in calls {
            self.model_calls += 1;
            self.write(&call.to_json());
        }
        for observation in observations {
            self.server_calls += observation.server_calls;
            self.failed_runs += u64::from(matches!(observation.run, Some(RunEnd::Failed | RunEnd::Refused)));
            self.refused_runs += u64::from(observation.run == Some(RunEnd::Refused));
            self.read(&observation.text);
        }
        self.tool_time += elapsed;
    }

    /// The last turn.
    pub(crate) fn answer(&mut self, text: &str) {
        self.turn();
        self.answer_tokens = self.write(text);
    }

    /// All input as it is billed, where every turn reads all texts so far and all definitions.
    pub fn input_tokens(&self) -> u64 {
        self.reread_tokens + self.turns * self.definition_tokens
    }

    /// Input and output as they are billed.
    pub fn billed_tokens(&self) -> u64 {
        self.input_tokens() + self.output_tokens
    }

    /// The same, were all definitions free.
    pub fn billed_without_definitions(&self) -> u64 {
        self.reread_tokens + self.output_tokens
    }

    /// Tokens in the context at the end: every text and every definition once. It is also what is billed where all
    /// that was read before is cached at no cost.
    pub fn context_tokens(&self) -> u64 {
        self.content_tokens + self.definition_tokens
    }

    /// Time that the user waits, if each turn of the model takes as long as `delay`. It is added, not slept.
    pub fn wall_time(&self, delay: Duration) -> Duration {
        self.tool_time + delay * u32::try_from(self.turns).unwrap_or(u32::MAX)
    }

    /// Time that the user really waited.
    pub fn measured_time(&self) -> Duration {
        self.tool_time + self.model_time
    }

    fn turn(&mut self) {
        self.turns += 1;
        self.reread_tokens += self.content_tokens;
    }

    /// Gives the tokens of the text.
    fn read(&mut self, text: &str) -> u64 {
        let tokens = tokens(text);
        self.content_tokens += tokens;
        self.content_bytes += text.len() as u64;
        tokens
    }

    fn write(&mut self, text: &str) -> u64 {
        let tokens = self.read(text);
        self.output_tokens += tokens;
        tokens
    }
}

/// Returns the number of tokens of a text.
pub fn tokens(text: &str) -> u64 {
    o200k_base_singleton().count_ordinary(text) as u64
}

fn microseconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}
