//! The check of code before it runs: it refuses, warns, or is off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use host_client::{Check, Effect, Error, ExecuteRequest, ToolSpec, Tools};
use serde_json::json;

use crate::support::{Fixture, connect, start_relay, within};

/// Code that takes a Promise for a result, and comes to its end.
const HARMLESS: &str = "const p = mcp.call('notes.list', {});\nconst n = p.length;\nreturn [n === undefined, await p]";
/// Code that fails at its second call.
const FATAL: &str = "await mcp.call('notes.list', {});\nreturn await mcp.call('notes.lsit', {})";

struct Scene {
    fixture: Fixture,
    calls: Arc<AtomicUsize>,
}

/// Outcome of a run: the code of its error, its hints, and the number of calls that were made.
type Seen = (Option<String>, Vec<String>, usize);

impl Scene {
    async fn new() -> Self {
        let (tools, calls) = (Tools::new(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&calls);
        let list = move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok("[]".into()) }
        };
        tools.add_with(ToolSpec::new("notes.list", "", json!({})).effect(Effect::ReadOnly), list).unwrap();
        let relay = start_relay(&[]).await;
        let client = connect(&relay, tools).await;
        Self { fixture: Fixture { relay, client, seen: Arc::default() }, calls }
    }

    async fn run(&self, request: ExecuteRequest) -> Seen {
        self.calls.store(0, Ordering::SeqCst);
        let (code, warnings) = match within(self.fixture.client.run(request)).await {
            Ok(outcome) => (None, outcome.warnings),
            Err(Error::Execution(error)) => (Some(error.code.to_string()), error.warnings),
            Err(error) => panic!("{error}"),
        };
        let hints = warnings.into_iter().filter(|it| it.code == "HINT").map(|it| it.message).collect();
        (code, hints, self.calls.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn a_mistake_refuses_the_code_unless_the_request_says_otherwise() {
    let scene = Scene::new().await;
    for code in [HARMLESS, FATAL] {
        for request in [ExecuteRequest::new(code), ExecuteRequest::new(code).check(Check::Refuse)] {
            assert_eq!(scene.run(request).await, (Some("CHECK_FAILED".into()), vec![], 0), "{code}");
        }
    }
}

#[tokio::test]
async fn a_mistake_is_a_warning_where_the_request_says_so_and_the_code_runs() {
    let scene = Scene::new().await;
    let (code, hints, calls) = scene.run(ExecuteRequest::new(HARMLESS).check(Check::Warn)).await;
    assert_eq!((code, calls), (None, 1));
    let [hint] = &hints[..] else { panic!("{hints:?}") };
    assert!(hint.starts_with("line 2, column 11: .length is used on the Promise of notes.list"), "{hint}");

    // A run that fails has the warning beside its error.
    let (code, hints, calls) = scene.run(ExecuteRequest::new(FATAL).check(Check::Warn)).await;
    assert_eq!((code.as_deref(), calls), (Some("EVAL_ERROR"), 1));
    let [hint] = &hints[..] else { panic!("{hints:?}") };
    assert!(hint.starts_with("line 2, column 14: ") && hint.contains("did you mean \"list\"?"), "{hint}");

    let right = "const r = await mcp.call('notes.list', {});\nreturn r.length";
    assert_eq!(scene.run(ExecuteRequest::new(right).check(Check::Warn)).await, (None, vec![], 1));
}

#[tokio::test]
async fn nothing_is_said_where_the_check_is_off() {
    let scene = Scene::new().await;
    assert_eq!(scene.run(ExecuteRequest::new(HARMLESS).check(Check::Off)).await, (None, vec![], 1));
    assert_eq!(scene.run(ExecuteRequest::new(FATAL).check(Check::Off)).await, (Some("EVAL_ERROR".into()), vec![], 1));
}
