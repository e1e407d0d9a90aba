//! Request for one execution: source, limits, bindings, and the instruction that starts a worker with them.

use std::collections::BTreeMap;

use bytes::Bytes;
use relay_proto::wire::LargeIntegers;
use relay_proto::{Binding, LimitName, Limits};

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
        }
    }

    /// Returns the bytes that the request's texts hold while it waits.
    pub(crate) fn held_bytes(&self) -> usize {
        let local: usize = self.local_tools.iter().map(|(name, source)| name.len() + source.len()).sum();
        self.source.len() + self.input.len() + local
    }

    /// Makes the instruction that starts a worker.
    pub(super) fn into_instruction(self) -> Instruction {
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
