//! Tests of the ledger: its rules one by one, and any order of events.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// One action of a relay or of the host; they may come in any order.
#[derive(Debug, Clone)]
enum Step {
    Call { id: u64, execution: u64, tool: &'static str },
    Answer { index: usize, bytes: usize },
    Sent { index: usize },
    CancelCall { id: u64, execution: u64 },
    End { execution: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (id, execution) = (1..12_u64, 1..4_u64);
    prop_oneof![
        4 => (id.clone(), execution.clone(), prop_oneof![Just("a.b"), Just("a.c")])
            .prop_map(|(id, execution, tool)| Step::Call { id, execution, tool }),
        3 => (0..8_usize, prop_oneof![Just(1), Just(KEPT_ANSWER_BYTES / 2), Just(KEPT_ANSWER_BYTES + 1)])
            .prop_map(|(index, bytes)| Step::Answer { index, bytes }),
        2 => (0..8_usize).prop_map(|index| Step::Sent { index }),
        1 => (id, execution.clone()).prop_map(|(id, execution)| Step::CancelCall { id, execution }),
        1 => execution.prop_map(|execution| Step::End { execution }),
    ]
}

proptest! {
    /// Checks in any order of events: an id runs once, no execution runs more than it was granted, none after its end,
    /// and only what ran is answered. Nor less: a call is refused for its place only while two others hold theirs.
    #[test]
    fn no_order_of_events_gets_more_than_was_granted(steps in prop::collection::vec(step(), 1..80)) {
        let ledger = Ledger::default();
        let opened: Vec<_> = (0..3).map(|_| open(&ledger)).collect();
        let mut ended = HashMap::new();
        let mut ran: HashMap<u64, (u64, &str)> = HashMap::new();
        let mut permits: Vec<CallPermit> = Vec::new();
        let mut answered: Vec<(u64, u64)> = Vec::new();
        let mut holding: HashSet<(u64, u64)> = HashSet::new();
        for step in steps {
            match step {
                Step::Call { id, execution, tool } => {
                    let name = ExecutionId::from(execution);
                    match ledger.enter(CallId(id), &name, &call(tool)) {
                        Ok(permit) => {
                            prop_assert!(!ended.contains_key(&execution), "it has ended");
                            prop_assert!(ran.insert(id, (execution, tool)).is_none(), "it runs twice");
                            let of_this = ran.values().filter(|(of, _)| *of == execution).count();
                            prop_assert!(of_this <= 3, "more than were granted");
                            holding.insert((id, execution));
                            permits.push(permit);
                        }
                        Err(Refused::Answered(answer)) => prop_assert_eq!(answer.id, id.to_string()),
                        Err(Refused::Running) => prop_assert_eq!(ran.get(&id), Some(&(execution, tool))),
                        Err(Refused::Violation(_)) => prop_assert!(ran.get(&id) != Some(&(execution, tool))),
                        Err(Refused::Failed(code, _)) => {
                            prop_assert_eq!(code == ErrorCode::Cancelled, ended.contains_key(&execution));
                            let ran = ran.values().filter(|(of, _)| *of == execution).count();
                            let held = holding.iter().filter(|(_, of)| *of == execution).count();
                            prop_assert!(code != ErrorCode::ToolCallLimit || ran == 3 || held == 2, "less than was granted");
                        }
                    }
                    let state = ledger.lock();
                    for entry in state.executions.values() {
                        prop_assert!(entry.in_flight.len() <= 2 && entry.calls.len() <= 3);
                        prop_assert!(entry.answer_bytes <= KEPT_ANSWER_BYTES);
                    }
                }
                Step::Answer { index, bytes } if !permits.is_empty() => {
                    let permit = permits.swap_remove(index % permits.len());
                    let (id, execution) = (permit.call.id.0, permit.call.context.id.as_str().parse::<u64>().unwrap());
                    let wanted = ledger.answer(&permit, &answer(id, vec![b'1'; bytes]));
                    prop_assert!(!wanted || !ended.contains_key(&execution));
                    answered.push((id, execution));
                    prop_assert!(!ledger.answer(&permit, &answer(id, Vec::new())), "answered once");
                }
                Step::Answer { .. } => {}
                Step::Sent { index } if !answered.is_empty() => {
                    let (id, execution) = answered.swap_remove(index % answered.len());
                    ledger.sent(CallId(id), &ExecutionId::from(execution));
                    holding.remove(&(id, execution));
                }
                Step::Sent { .. } => {}
                Step::CancelCall { id, execution } => {
                    ledger.cancel_call(CallId(id), &ExecutionId::from(execution));
                    holding.remove(&(id, execution));
                }
                Step::End { execution } => {
                    ledger.end(&ExecutionId::from(execution), Ok(wire::Result::default()));
                    ended.insert(execution, ());
                }
            }
        }
        ledger.lose("over");
        prop_assert!(ledger.lock().executions.is_empty());
        drop(opened);
    }
}

fn budget(tool_calls: u64, in_flight: usize) -> Budget {
    Budget { tools: ToolPatterns::default(), arguments_bytes: 100, tool_calls, in_flight, result_bytes: 100 }
}

fn open(ledger: &Ledger) -> Opened {
    let opened = ledger.open(budget(3, 2), ExecutionContext::for_tests);
    ledger.start(&opened.context.id).unwrap();
    opened
}

fn answer(id: u64, result: Vec<u8>) -> wire::ToolResult {
    wire::ToolResult { id: id.to_string(), success: true, result: result.into(), ..wire::ToolResult::default() }
}

fn call(tool: &str) -> wire::ToolCall {
    wire::ToolCall { tool: tool.into(), ..wire::ToolCall::default() }
}

fn enter(ledger: &Ledger, id: u64, execution: &ExecutionId) -> Result<CallPermit, Refused> {
    ledger.enter(CallId(id), execution, &call("a.b"))
}

fn refused(ledger: &Ledger, id: u64, execution: &ExecutionId) -> Refused {
    enter(ledger, id, execution).err().unwrap()
}

#[test]
fn a_relay_that_breaks_its_word_ends_the_session() {
    let ledger = Ledger::default();
    let (one, other) = (open(&ledger), open(&ledger));
    let _permit = enter(&ledger, 7, &one.context.id).ok().unwrap();
    assert!(matches!(ledger.enter(CallId(7), &one.context.id, &call("a.c")), Err(Refused::Violation(_))));
    assert!(
        matches!(refused(&ledger, 7, &other.context.id), Refused::Violation(_)),
        "the same id in another execution"
    );
    assert!(matches!(refused(&ledger, 8, &ExecutionId::from(99)), Refused::Violation(_)), "no such execution");
}

#[test]
fn nothing_is_called_for_code_that_was_not_sent() {
    let ledger = Ledger::default();
    let opened = ledger.open(budget(3, 2), ExecutionContext::for_tests);
    assert!(matches!(refused(&ledger, 1, &opened.context.id), Refused::Violation(_)));
}

#[test]
fn a_result_over_the_budget_is_an_error() {
    let ledger = Ledger::default();
    for (bytes, code) in [(100, None), (101, Some(ErrorCode::ResultLimit))] {
        let mut opened = open(&ledger);
        let result = wire::Result { data: vec![b'1'; bytes].into(), ..wire::Result::default() };
        ledger.end(&opened.context.id, Ok(result));
        let ended = opened.outcome.try_recv().unwrap();
        assert_eq!(ended.result.err().map(|error| error.code), code.map(Into::into));
    }
}

#[test]
fn the_same_id_runs_once_and_gets_the_first_answer_again() {
    let ledger = Ledger::default();
    let opened = open(&ledger);
    let permit = enter(&ledger, 1, &opened.context.id).ok().unwrap();
    assert!(matches!(refused(&ledger, 1, &opened.context.id), Refused::Running));
    assert!(ledger.answer(&permit, &answer(1, b"7".to_vec())));
    let Refused::Answered(again) = refused(&ledger, 1, &opened.context.id) else { panic!("it would run again") };
    assert_eq!(again, answer(1, b"7".to_vec()));
    assert!(!ledger.answer(&permit, &answer(1, b"8".to_vec())), "the first answer stands");
}

#[test]
fn an_answer_too_large_to_keep_is_not_made_up() {
    let ledger = Ledger::default();
    let opened = open(&ledger);
    let permit = enter(&ledger, 1, &opened.context.id).ok().unwrap();
    assert!(ledger.answer(&permit, &answer(1, vec![b'1'; KEPT_ANSWER_BYTES + 1])));
    assert!(matches!(refused(&ledger, 1, &opened.context.id), Refused::Failed(ErrorCode::OutcomeUnknown, _)));
}

#[test]
fn calls_belong_to_a_running_execution_and_its_budget() {
    let ledger = Ledger::default();
    let opened = open(&ledger);
    let first = enter(&ledger, 1, &opened.context.id).ok().unwrap();
    let _second = enter(&ledger, 2, &opened.context.id).ok().unwrap();
    assert!(
        matches!(refused(&ledger, 3, &opened.context.id), Refused::Failed(ErrorCode::ToolCallLimit, _)),
        "two at once"
    );
    assert!(ledger.answer(&first, &answer(1, b"1".to_vec())));
    assert!(matches!(refused(&ledger, 4, &opened.context.id), Refused::Failed(..)), "until its answer is sent");
    ledger.sent(CallId(1), &opened.context.id);
    let third = enter(&ledger, 5, &opened.context.id).ok().unwrap();
    ledger.cancel_call(CallId(5), &opened.context.id);
    assert!(!ledger.answer(&third, &answer(5, b"1".to_vec())), "it was cancelled");
    assert!(
        matches!(refused(&ledger, 6, &opened.context.id), Refused::Failed(ErrorCode::ToolCallLimit, _)),
        "three in all"
    );
    ledger.end(&opened.context.id, Ok(wire::Result::default()));
    assert!(matches!(refused(&ledger, 7, &opened.context.id), Refused::Failed(ErrorCode::Cancelled, _)));
    assert!(!ledger.answer(&first, &answer(1, b"1".to_vec())), "nobody waits any more");
}

#[test]
fn the_end_of_the_session_ends_what_was_sent_and_nothing_else() {
    let ledger = Ledger::default();
    let mut sent = open(&ledger);
    let mut before = ledger.open(budget(1, 1), ExecutionContext::for_tests);
    ledger.lose("gone");
    let mut after = ledger.open(budget(1, 1), ExecutionContext::for_tests);
    assert!(before.outcome.try_recv().is_err() && after.outcome.try_recv().is_err(), "they were not sent");
    for opened in [&before, &after] {
        assert_eq!(ledger.start(&opened.context.id), Err("gone".to_owned()));
    }
    for opened in [&mut sent, &mut before, &mut after] {
        let ended = opened.outcome.try_recv().unwrap();
        assert!(ended.result.is_err_and(|error| error.code == ErrorCode::SessionLost && error.message == "gone"));
    }
}
