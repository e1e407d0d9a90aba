//! Request for one execution: source, limits, bindings, and the instruction that starts a worker with them.

use std::collections::BTreeMap;

use bytes::Bytes;
use relay_proto::wire::LargeIntegers;
use relay_proto::{Binding, LimitName, Limits};

use super::durable::{DurableRequest, Seen};
use crate::sandbox::channel::message::{self, instruction::Kind as Instruction};

/// One execution to run, checked against what its session may do.
#[derive(Debug)]
pub(crate) struct ExecutionRequest {
    pub(crate) source: String,
    /// Text that `read_input()` returns, with the binding `io`.
    pub(crate) input: String,
    pub(crate) bindings: Bindings,
    pub(crate) limits: Limits,
    /// Full names of the tools that it can call, for the bindings that show them.
    pub(crate) tools: Vec<String>,
    /// Content of the session's store, with the binding `store`.
    pub(crate) stored: Vec<(String, Bytes)>,
    /// Sources of the host's functions that run in the worker, by full name.
    pub(crate) local_tools: BTreeMap<String, String>,
    /// Seed of `Math.random`; `None`: a fresh one.
    pub(crate) seed: Option<u64>,
    /// Time at which the code's clock stands, in ms since 1970; `None`: the clock runs.
    pub(crate) now_ms: Option<i64>,
    /// Form of the integers in results of tools that no number holds.
    pub(crate) large_integers: LargeIntegers,
    /// Set for an execution that can run again elsewhere, which has a seed and a time.
    pub(crate) durable: Option<DurableRequest>,
}

impl ExecutionRequest {
    /// Makes a request with nothing beside `mcp`.
    pub(crate) fn new(source: String, limits: Limits) -> Self {
        Self {
            source,
            input: String::new(),
            bindings: Bindings::default(),
            limits,
            tools: Vec::new(),
            stored: Vec::new(),
            local_tools: BTreeMap::new(),
            seed: None,
            now_ms: None,
            large_integers: LargeIntegers::Number,
            durable: None,
        }
    }

    /// Returns the bytes of the source, the input and the local tools.
    pub(crate) fn text_bytes(&self) -> usize {
        let local: usize = self.local_tools.iter().map(|(name, source)| name.len() + source.len()).sum();
        self.source.len() + self.input.len() + local
    }

    /// Returns the bytes that the request holds while it waits: its texts, and what is recorded of a durable execution.
    pub(crate) fn held_bytes(&self) -> usize {
        self.text_bytes() + self.durable.as_ref().map_or(0, |durable| durable.recorded_bytes)
    }

    /// Returns what of its session the code sees, if the host is to record it; `None`: it is not, or it was before.
    pub(super) fn seen(&self) -> Option<Seen> {
        let (stores, servers) = (self.bindings.has(Binding::Store), self.bindings.has(Binding::Servers));
        let is_first = self.durable.as_ref().is_some_and(|durable| !durable.again);
        (is_first && (stores || servers)).then(|| Seen {
            store: self.stored.iter().cloned().collect(),
            tools: if servers { self.tools.clone() } else { Vec::new() },
        })
    }

    /// Makes the instruction that starts a worker. `durable` was taken out of the request.
    pub(super) fn into_instruction(self, durable: Option<&DurableRequest>) -> Instruction {
        let Self { limits, bindings, .. } = self;
        let limit = |name| limits.get(name);
        let stored = self.stored.into_iter().map(|(key, json)| message::StoredValue { key, json });
        Instruction::Start(message::Start {
            source: self.source,
            input: self.input,
            console: bindings.has(Binding::Console),
            timers: bindings.has(Binding::Timers),
            io: bindings.has(Binding::Io),
            servers: bindings.has(Binding::Servers),
            introspection: bindings.has(Binding::Introspection),
            store: bindings.has(Binding::Store),
            tools: self.tools,
            stored: stored.collect(),
            local_tools: self.local_tools,
            seed: self.seed,
            now_ms: self.now_ms,
            large_integers: i32::from(self.large_integers).unsigned_abs(),
            durable: durable.map(DurableRequest::to_instruction),
            heap_bytes: limit(LimitName::HeapBytes),
            tool_calls: limit(LimitName::ToolCalls),
            tool_calls_in_flight: limit(LimitName::ToolCallsInFlight),
            arguments_bytes: limit(LimitName::ArgumentsBytes),
            result_bytes: limit(LimitName::ResultBytes),
            output_bytes: limit(LimitName::OutputBytes),
            output_count: limit(LimitName::OutputCount),
            memory_bytes: limit(LimitName::MemoryBytes),
        })
    }
}

/// Set of the bindings that an execution has beside `mcp`; empty by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bindings([bool; Binding::ALL.len()]);

impl Bindings {
    /// Adds a binding.
    pub(crate) fn add(&mut self, binding: Binding) {
        self.0[binding as usize] = true;
    }

    /// Returns whether the set holds a binding.
    pub(crate) fn has(self, binding: Binding) -> bool {
        self.0[binding as usize]
    }
}

impl From<Binding> for Bindings {
    fn from(binding: Binding) -> Self {
        let mut bindings = Self::default();
        bindings.add(binding);
        bindings
    }
}
