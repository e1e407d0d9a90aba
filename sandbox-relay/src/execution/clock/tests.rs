//! Tables of what happens when, and a property: the clocks agree with a model that counts every millisecond.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use relay_proto::LimitOverrides;

use super::*;

const WALL: u64 = 100;
const CPU: u64 = 40;
const CALL: u64 = 30;
const APPROVAL: u64 = 20;

fn limits() -> Limits {
    let mut overrides = LimitOverrides::default();
    for (name, value) in [
        (LimitName::WallMs, WALL),
        (LimitName::CpuMs, CPU),
        (LimitName::ToolCallMs, CALL),
        (LimitName::ApprovalMs, APPROVAL),
    ] {
        overrides.set(name, value);
    }
    Limits::defaults().lowered(&overrides).0
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One thing that happens to an execution.
#[derive(Debug, Clone, Copy)]
enum Step {
    Advance(u64),
    Open(u64),
    Close(u64),
    Wait(u64, Option<Wait>),
}

/// Decision of the clocks, in milliseconds since the start.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Decision {
    Expired(u64, u64, &'static str),
    Ended(u64, &'static str),
}

/// Clocks that are driven as the loop of an execution drives them, with a worker that uses no CPU.
struct Driven {
    clocks: Clocks<()>,
    waits: BTreeMap<u64, Wait>,
    now: u64,
    decisions: Vec<Decision>,
}

impl Driven {
    fn new() -> Self {
        Self { clocks: Clocks::new(&limits()), waits: BTreeMap::new(), now: 0, decisions: Vec::new() }
    }

    fn has_ended(&self) -> bool {
        matches!(self.decisions.last(), Some(Decision::Ended(..)))
    }

    /// Looks at the clocks until they have nothing more to do now.
    fn settle(&mut self) {
        while !self.has_ended() && self.clocks.next_check() <= ms(self.now) {
            let waits = &self.waits;
            match self.clocks.check(ms(self.now), || Duration::ZERO, |call| waits.get(&call.0).copied()) {
                ControlFlow::Break(limit) => self.decisions.push(Decision::Ended(self.now, limit.as_str())),
                ControlFlow::Continue(expired) => {
                    for ExpiredCall { call, limit, .. } in expired {
                        self.waits.remove(&call.0);
                        self.decisions.push(Decision::Expired(self.now, call.0, limit.as_str()));
                    }
                }
            }
        }
    }

    fn step(&mut self, step: Step) {
        if self.has_ended() {
            return;
        }
        let now = ms(self.now);
        match step {
            Step::Advance(by) => {
                let until = self.now + by;
                while !self.has_ended() && self.clocks.next_check() <= ms(until) {
                    self.now = u64::try_from(self.clocks.next_check().as_millis()).unwrap().max(self.now);
                    self.settle();
                }
                if !self.has_ended() {
                    self.now = until;
                }
            }
            Step::Open(call) => {
                if !self.clocks.is_open(WorkerCall(call)) {
                    self.clocks.open(WorkerCall(call), (), now);
                }
            }
            Step::Close(call) => {
                self.waits.remove(&call);
                let waits = &self.waits;
                self.clocks.close(WorkerCall(call), now, |call| waits.get(&call.0).copied());
            }
            Step::Wait(call, wait) => {
                if self.clocks.is_open(WorkerCall(call)) {
                    match wait {
                        Some(wait) => self.waits.insert(call, wait),
                        None => self.waits.remove(&call),
                    };
                }
                let waits = &self.waits;
                self.clocks.update(now, |call| waits.get(&call.0).copied());
            }
        }
        self.settle();
    }

    fn run(steps: &[Step]) -> Self {
        let mut driven = Self::new();
        for step in steps {
            driven.step(*step);
        }
        driven
    }
}

/// Model of the same rules that counts down millisecond by millisecond.
struct Model {
    wall_left: u64,
    approvals_left: u64,
    paused: u64,
    calls: BTreeMap<u64, ModelCall>,
    now: u64,
    decisions: Vec<Decision>,
}

struct ModelCall {
    own_left: u64,
    approval_left: u64,
    wait: Option<Wait>,
}

impl Model {
    fn new() -> Self {
        let approvals_left = APPROVAL * u64::from(TOTAL_APPROVAL_FACTOR);
        Self { wall_left: WALL, approvals_left, paused: 0, calls: BTreeMap::new(), now: 0, decisions: Vec::new() }
    }

    fn has_ended(&self) -> bool {
        matches!(self.decisions.last(), Some(Decision::Ended(..)))
    }

    fn waits(&self, call: &ModelCall) -> bool {
        call.wait.is_some() && self.approvals_left > 0
    }

    fn is_paused(&self) -> bool {
        self.calls.values().any(|call| self.waits(call))
    }

    fn settle(&mut self) {
        if self.has_ended() {
            return;
        }
        if !self.is_paused() && self.wall_left == 0 {
            self.decisions.push(Decision::Ended(self.now, "wall_ms"));
            return;
        }
        let over = |call: &ModelCall| match (self.waits(call), call.wait) {
            (true, Some(Wait::Answer)) => (call.approval_left == 0).then_some("approval_ms"),
            (true, _) => None,
            (false, _) => (call.own_left == 0).then_some("tool_call_ms"),
        };
        let expired: Vec<_> = self.calls.iter().filter_map(|(id, call)| Some((*id, over(call)?))).collect();
        for (id, limit) in &expired {
            self.calls.remove(id);
            self.decisions.push(Decision::Expired(self.now, *id, limit));
        }
        // A call that has expired does not stop the wall clock any more.
        if !expired.is_empty() {
            self.settle();
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        let (paused, may_wait) = (self.is_paused(), self.approvals_left > 0);
        for call in self.calls.values_mut() {
            match call.wait.filter(|_| may_wait) {
                Some(Wait::Answer) => call.approval_left -= 1,
                Some(Wait::Turn) => {}
                None => call.own_left -= 1,
            }
        }
        if paused {
            self.approvals_left -= 1;
            self.paused += 1;
        } else {
            self.wall_left -= 1;
        }
        self.settle();
    }

    fn step(&mut self, step: Step) {
        if self.has_ended() {
            return;
        }
        match step {
            Step::Advance(by) => {
                for _ in 0..by {
                    if !self.has_ended() {
                        self.tick();
                    }
                }
            }
            Step::Open(call) => {
                let new = ModelCall { own_left: CALL, approval_left: APPROVAL, wait: None };
                self.calls.entry(call).or_insert(new);
            }
            Step::Close(call) => {
                self.calls.remove(&call);
            }
            Step::Wait(call, wait) => {
                if let Some(call) = self.calls.get_mut(&call) {
                    call.wait = wait;
                }
            }
        }
        self.settle();
    }
}

#[test]
fn each_clock_ends_what_it_measures() {
    use Step::{Advance, Close, Open, Wait as Waits};
    use Wait::{Answer, Turn};
    let total = APPROVAL * u64::from(TOTAL_APPROVAL_FACTOR);
    for (name, steps, expected) in [
        ("the wall clock", &[Advance(1_000)][..], vec![Decision::Ended(WALL, "wall_ms")]),
        ("a call", &[Advance(5), Open(1), Advance(40)], vec![Decision::Expired(5 + CALL, 1, "tool_call_ms")]),
        ("a call that is answered", &[Open(1), Advance(29), Close(1), Advance(40)], vec![]),
        (
            "an approval",
            &[Open(1), Advance(5), Waits(1, Some(Answer)), Advance(40)],
            vec![Decision::Expired(5 + APPROVAL, 1, "approval_ms")],
        ),
        (
            "a call goes on with the time that it had when it began to wait",
            &[Open(1), Advance(10), Waits(1, Some(Answer)), Advance(15), Waits(1, None), Advance(60)],
            vec![Decision::Expired(10 + 15 + (CALL - 10), 1, "tool_call_ms")],
        ),
        (
            "two questions of one call share its time for approvals",
            &[Open(1), Waits(1, Some(Answer)), Advance(15), Waits(1, None), Waits(1, Some(Answer)), Advance(10)],
            vec![Decision::Expired(APPROVAL, 1, "approval_ms")],
        ),
        (
            "a turn is waited for until all approvals have used up their time",
            &[Open(1), Waits(1, Some(Turn)), Advance(1_000)],
            vec![Decision::Expired(total + CALL, 1, "tool_call_ms"), Decision::Ended(total + WALL, "wall_ms")],
        ),
        (
            "the wall clock stands still while a call waits, and goes on when it is answered",
            &[Advance(90), Open(1), Waits(1, Some(Answer)), Advance(15), Close(1), Advance(100)],
            vec![Decision::Ended(WALL + 15, "wall_ms")],
        ),
    ] {
        assert_eq!(Driven::run(steps).decisions, expected, "{name}");
    }
}

#[test]
fn a_call_is_told_the_time_that_it_has() {
    let mut clocks = Clocks::new(&limits());
    assert_eq!(clocks.open(WorkerCall(1), (), ms(0)), ms(CALL));
    assert_eq!(clocks.open(WorkerCall(2), (), ms(WALL - 7)), ms(7), "the execution ends first");
    clocks.update(ms(WALL - 7), |call| (call.0 == 1).then_some(Wait::Answer));
    assert_eq!(clocks.open(WorkerCall(3), (), ms(WALL + 5)), ms(7), "the wall clock stands still");
    assert_eq!(clocks.open_calls(), 3);
}

#[test]
fn the_cpu_time_is_asked_for_when_it_could_be_used_up() {
    let never = |_| None;
    let mut clocks = Clocks::<()>::new(&limits());
    assert_eq!(clocks.next_check(), ms(CPU));
    // Half of the time was used: all of it cannot be before as much again has passed.
    assert_eq!(clocks.check(ms(CPU), || ms(CPU / 2), never), ControlFlow::Continue(Vec::new()));
    assert_eq!(clocks.next_check(), ms(CPU + CPU / 2));
    let unasked = || -> Duration { unreachable!("the CPU time cannot be used up yet") };
    assert_eq!(clocks.check(ms(CPU + 1), unasked, never), ControlFlow::Continue(Vec::new()));
    let nearly = ms(CPU) - Duration::from_nanos(1);
    assert_eq!(clocks.check(ms(CPU + CPU / 2), || nearly, never), ControlFlow::Continue(Vec::new()));
    assert_eq!(clocks.next_check(), ms(CPU + CPU / 2) + MIN_CPU_INTERVAL, "not in a busy loop");
    assert_eq!(clocks.check(clocks.next_check(), || ms(CPU), never), ControlFlow::Break(LimitName::CpuMs));
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![Just(None), Just(Some(Wait::Answer)), Just(Some(Wait::Turn))];
    prop_oneof![
        3 => (0_u64..25).prop_map(Step::Advance),
        2 => (0_u64..4).prop_map(Step::Open),
        1 => (0_u64..4).prop_map(Step::Close),
        3 => (0_u64..4, wait).prop_map(|(call, wait)| Step::Wait(call, wait)),
    ]
}

proptest! {
    #[test]
    fn the_clocks_agree_with_counting(steps in prop::collection::vec(step(), 0..60)) {
        let (mut driven, mut model) = (Driven::new(), Model::new());
        for step in &steps {
            driven.step(*step);
            model.step(*step);
            let decided: BTreeSet<_> = driven.decisions.iter().collect();
            let counted: BTreeSet<_> = model.decisions.iter().collect();
            prop_assert_eq!(decided, counted, "after {:?}", step);
            let now = ms(driven.now);
            prop_assert_eq!(driven.clocks.approval(now), ms(model.paused));
            prop_assert_eq!(driven.clocks.wall(now) + driven.clocks.approval(now), now);
            prop_assert!(driven.has_ended() || driven.clocks.next_check() > now, "it would spin");
        }
    }
}
