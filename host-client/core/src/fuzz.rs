//! Entry points for the fuzz targets in `dev/fuzz`: the code that takes bytes from a relay or a tool's author.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use relay_proto::{ToolPatterns, frame};
use serde_json::json;

use crate::call::ExecutionContext;
use crate::call::ledger::Budget;
use crate::describe::declare::{MAX_BYTES, declaration};
use crate::host::Host;
use crate::rules::policy::Policy;
use crate::session::Session;
use crate::tool::validate::Schema;
use crate::tool::{Effect, ToolSpec};
use crate::tools::Tools;

/// The most tool calls that the execution of [`session`] may make.
const MAX_CALLS: u64 = 3;

/// Feeds a session with messages of a relay, each preceded by its length in two bytes (little endian), and checks that
/// no more calls run than the budget allows, none after the end, and only those of the allowed tool.
///
/// # Panics
/// One of these checks fails.
pub fn session(mut data: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let ran = Arc::new(AtomicUsize::new(0));
    let tools = Tools::new();
    for name in ["a.given", "a.kept"] {
        let counted = Arc::clone(&ran);
        let spec = ToolSpec::new(name, "", json!({"type": "object"}));
        let added = tools.add_with(spec, move |arguments, _| {
            assert!(name == "a.given" && arguments.is_object());
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok("1".into()) }
        });
        assert!(added.is_ok());
    }
    runtime.block_on(async {
        let (session, mut sent) = Session::with_all(Arc::new(Host::new(tools).policy(Policy::new().allow(["*"]))));
        let budget = Budget {
            tools: ToolPatterns::new(Some(vec!["a.g*".into()])),
            arguments_bytes: 64,
            tool_calls: MAX_CALLS,
            in_flight: 2,
            result_bytes: 1 << 20,
        };
        let mut opened = session.ledger.open(budget, ExecutionContext::for_tests);
        assert!(session.ledger.start(&opened.context.id).is_ok());
        let mut ended = false;
        while let Some((length, rest)) = data.split_first_chunk::<2>() {
            let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
            let (piece, rest) = rest.split_at(length);
            data = rest;
            let Ok(message) = frame::decode(Bytes::copy_from_slice(piece)) else { break };
            let before = ran.load(Ordering::SeqCst);
            if session.handle(message, length).is_err() {
                break;
            }
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            assert!(!ended || ran.load(Ordering::SeqCst) == before, "a call ran after the end");
            while sent.try_next().is_some() {}
            ended |= opened.outcome.try_recv().is_ok();
        }
        assert!(ran.load(Ordering::SeqCst) as u64 <= MAX_CALLS);
    });
}

/// Compiles a tool's schema, checks values against it if it is usable, and declares the tool: none of this may panic,
/// hang or exceed [`MAX_BYTES`].
///
/// # Panics
/// The declaration is too long.
pub fn schema(data: &[u8]) {
    let Ok(schema) = serde_json::from_slice(data) else { return };
    let spec = ToolSpec::new("a.b", "", schema).effect(Effect::ReadOnly);
    assert!(declaration(&spec).len() <= MAX_BYTES);
    let schema = spec.input_schema;
    if let Ok(schema) = Schema::compile(&schema) {
        for value in [json!(null), json!({"a": [1, "x", {"a": []}]}), json!([[[[1]]], {}])] {
            let _ = schema.check(value);
        }
    }
}
