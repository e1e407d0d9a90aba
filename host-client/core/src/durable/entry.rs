//! The entries of a run in its journal, as JSON, and the chain of hashes that a damaged entry is found by.

use std::collections::BTreeMap;

use base64::engine::general_purpose::STANDARD;
use relay_proto::wire;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::journal::{JournalEntry, JournalError, RunId};
use crate::hash::Hash;

/// Something that happened in a run.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// The code is sent to a relay.
    Attempt(Attempt),
    /// The session as the code found it.
    Begun(Begun),
    /// The code has made a call.
    Called(Called),
    /// A person is to decide on a call.
    Asked(Asked),
    /// The decision on a call.
    Decided(Decided),
    /// The call's tool begins to run.
    Started(CallOnly),
    /// The answer to a call, which the code gets.
    Answered(Answered),
    /// Output was told.
    Told(Told),
    /// The run is over.
    Ended(Ended),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// The name and version of the relay's software.
    pub(crate) relay: String,
    /// The build that the code has to be replayed on.
    pub(crate) build: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// The values of the session's store as JSON, by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) store: BTreeMap<String, Box<RawValue>>,
    /// The full names of the tools that the code sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Called {
    pub(crate) call: u64,
    pub(crate) tool: String,
    /// The hash of the arguments as they came.
    pub(crate) arguments_sha256: Hash,
    /// The arguments, if they are short, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Box<RawValue>>,
    /// The events that reached the code before.
    #[serde(default, skip_serializing_if = "Steps::is_empty")]
    pub(crate) steps: Steps,
}

/// Events that reached the code, in their order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Steps {
    /// As [`relay_proto::steps`] encodes them; base64 in JSON.
    #[serde(default, rename = "encoded", skip_serializing_if = "Vec::is_empty", with = "as_base64")]
    pub(crate) steps: Vec<u8>,
    /// The answers among them that the relay made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failures: Vec<RelayFailure>,
}

/// An answer to a call that the relay made, such as `TOOL_TIMEOUT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RelayFailure {
    pub(crate) call: u64,
    pub(crate) code: String,
    pub(crate) message: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) call: u64,
    pub(crate) tool: String,
    pub(crate) rule: String,
    /// The hash of everything about the tool that the person approves.
    pub(crate) tool_sha256: Hash,
    pub(crate) arguments_sha256: Hash,
    /// The arguments that the person sees, shortened if they are very long.
    pub(crate) arguments: serde_json::Value,
    /// `true`: the arguments were shortened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_shortened: bool,
    /// The line of the code that makes the call, from 1; `None`: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    /// The tool's description, shortened if it is long.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) description: String,
    /// The time at which the call is denied if there is no answer, in ms since 1970.
    pub(crate) until_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decided {
    pub(crate) call: u64,
    pub(crate) verdict: Verdict,
    /// The name of the person or system that decided.
    pub(crate) by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// The decision on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Denied,
    Once,
    Execution,
    Session,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CallOnly {
    pub(crate) call: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "AnsweredJson", try_from = "AnsweredJson")]
pub(crate) struct Answered {
    pub(crate) call: u64,
    pub(crate) answer: Answer,
}

/// The answer to a call.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Result(Box<RawValue>),
    Error { code: String, message: String },
}

/// An answer as the journal has it, with a result or an error.
#[derive(Clone, Serialize, Deserialize)]
struct AnsweredJson {
    call: u64,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<EndError>,
}

impl From<Answered> for AnsweredJson {
    fn from(Answered { call, answer }: Answered) -> Self {
        match answer {
            Answer::Result(result) => Self { call, result: Some(result), error: None },
            Answer::Error { code, message } => Self { call, result: None, error: Some(EndError { code, message }) },
        }
    }
}

impl TryFrom<AnsweredJson> for Answered {
    type Error = &'static str;

    fn try_from(json: AnsweredJson) -> Result<Self, Self::Error> {
        let answer = match (json.result, json.error) {
            (Some(result), None) => Answer::Result(result),
            (None, Some(EndError { code, message })) => Answer::Error { code, message },
            _ => return Err("an answer has a result or an error"),
        };
        Ok(Self { call: json.call, answer })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Told {
    /// The number of pieces of output that were told, from the run's beginning.
    pub(crate) output: u64,
    #[serde(default, skip_serializing_if = "Steps::is_empty")]
    pub(crate) steps: Steps,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// The returned value; `None`: the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) result: Option<Box<RawValue>>,
    /// The error; `None`: the run succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<EndError>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EndError {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Entry {
    /// Returns the entry as the journal stores it, behind an entry with the chain `before`.
    ///
    /// # Errors
    /// [`JournalError::Unavailable`]: it cannot be written as JSON.
    pub(crate) fn to_stored(&self, before: &str) -> Result<JournalEntry, JournalError> {
        let (kind, call, json) = match self {
            Self::Attempt(it) => ("attempt", None, json(it)),
            Self::Begun(it) => ("begun", None, json(it)),
            Self::Called(it) => ("called", Some(it.call), json(it)),
            Self::Asked(it) => ("asked", Some(it.call), json(it)),
            Self::Decided(it) => ("decided", Some(it.call), json(it)),
            Self::Started(it) => ("started", Some(it.call), json(it)),
            Self::Answered(it) => ("answered", Some(it.call), json(it)),
            Self::Told(it) => ("told", None, json(it)),
            Self::Ended(it) => ("ended", None, json(it)),
        };
        Ok(JournalEntry::chained(before, kind, call, json?))
    }

    /// Reads an entry behind one with the chain `before`.
    ///
    /// # Errors
    /// [`JournalError::Damaged`]: it is not as it was written. [`JournalError::Unavailable`]: it is of a kind that a newer
    /// version writes.
    pub(crate) fn from_stored(stored: &JournalEntry, before: &str) -> Result<Self, JournalError> {
        stored.check(before)?;
        let text = &stored.json;
        Ok(match stored.kind.as_str() {
            "attempt" => Self::Attempt(parsed(text)?),
            "begun" => Self::Begun(parsed(text)?),
            "called" => Self::Called(parsed(text)?),
            "asked" => Self::Asked(parsed(text)?),
            "decided" => Self::Decided(parsed(text)?),
            "started" => Self::Started(parsed(text)?),
            "answered" => Self::Answered(parsed(text)?),
            "told" => Self::Told(parsed(text)?),
            "ended" => Self::Ended(parsed(text)?),
            kind => {
                let reason = format!("it has an entry of the kind {kind:?}, which a newer version has written: update");
                return Err(JournalError::Unavailable(reason));
            }
        })
    }
}

impl Asked {
    /// Returns the hash of what a decision is about.
    pub(crate) fn question_sha256(&self, run: &RunId) -> Hash {
        let (call, tool, arguments) =
            (self.call.to_string(), self.tool_sha256.to_string(), self.arguments_sha256.to_string());
        Hash::of_parts(&[run.as_str(), &call, &self.tool, &tool, &arguments])
    }
}

impl Steps {
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.failures.is_empty()
    }

    pub(crate) fn append(&mut self, mut more: Self) {
        self.steps.append(&mut more.steps);
        self.failures.append(&mut more.failures);
    }

    /// Reads the steps of a message.
    pub(crate) fn from_wire(steps: &[u8], failures: Vec<wire::StepFailure>) -> Self {
        let failure = |it: wire::StepFailure| RelayFailure { call: it.call, code: it.code, message: it.message };
        Self { steps: steps.to_vec(), failures: failures.into_iter().map(failure).collect() }
    }
}

impl JournalEntry {
    /// Makes an entry behind one with the chain `before`; behind the plan, `before` is [`first_chain`].
    pub fn chained(before: &str, kind: &str, call: Option<u64>, json: String) -> Self {
        Self { chain: chain(before, kind, call, &json), kind: kind.to_owned(), call, json }
    }

    /// Checks that an entry is as it was written, behind one with the chain `before`.
    ///
    /// # Errors
    /// [`JournalError::Damaged`]: it is not.
    fn check(&self, before: &str) -> Result<(), JournalError> {
        if chain(before, &self.kind, self.call, &self.json) == self.chain {
            return Ok(());
        }
        Err(JournalError::Damaged(format!("an entry of the kind {:?} is not as it was written", self.kind)))
    }
}

/// Checks that a run's entries are as they were written.
///
/// # Errors
/// [`JournalError::Damaged`]: one is not.
pub fn check_entries(run: &RunId, plan: &str, entries: &[JournalEntry]) -> Result<(), JournalError> {
    let mut before = first_chain(run, plan);
    for entry in entries {
        entry.check(&before)?;
        before.clone_from(&entry.chain);
    }
    Ok(())
}

/// Returns the chain of a run that has no entry yet.
pub fn first_chain(run: &RunId, plan: &str) -> String {
    chain(run.as_str(), "plan", None, plan)
}

/// Returns the SHA-256 of an entry and of the chain before it, in hexadecimal.
fn chain(before: &str, kind: &str, call: Option<u64>, json: &str) -> String {
    let call = call.map(|call| call.to_string()).unwrap_or_default();
    Hash::of_parts(&[before, kind, &call, json]).to_string()
}

fn json(content: &impl Serialize) -> Result<String, JournalError> {
    serde_json::to_string(content).map_err(|error| JournalError::Unavailable(format!("an entry is no JSON: {error}")))
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, JournalError> {
    serde_json::from_str(text).map_err(|error| JournalError::Damaged(format!("an entry cannot be read: {error}")))
}

/// Reads a value that is there; `null` is one.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(from).map(Some)
}

mod as_base64 {
    use base64::Engine as _;
    use serde::de::Error as _;

    use super::{Deserialize, Deserializer, STANDARD, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)
    }
}
