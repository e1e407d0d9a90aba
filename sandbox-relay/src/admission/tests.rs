//! Tests of the places.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn admission() -> Admission {
    Admission::new(AdmissionConfig {
        running: 3,
        running_per_subject: 2,
        running_per_session: 1,
        waiting: 4,
        waiting_per_subject: 3,
        parked_bytes: 100,
    })
}

fn ask(admission: &Admission, subject: &str, session: u64) -> (ExecutionPermit, oneshot::Receiver<()>) {
    admission.enqueue(subject.into(), SessionNumber(session)).unwrap()
}

fn granted(receiver: &mut oneshot::Receiver<()>) -> bool {
    receiver.try_recv().is_ok()
}

#[test]
fn places_are_counted_per_session_per_subject_and_in_all() {
    let admission = admission();
    let (first, mut first_granted) = ask(&admission, "a", 1);
    assert!(granted(&mut first_granted));
    let (_same_session, mut same_session) = ask(&admission, "a", 1);
    assert!(!granted(&mut same_session), "one per session");
    let (_second, mut second) = ask(&admission, "a", 2);
    assert!(granted(&mut second), "another session of the subject passes the one that has to wait");
    let (_third, mut third) = ask(&admission, "a", 3);
    assert!(!granted(&mut third), "two per subject");
    let (_other, mut other) = ask(&admission, "b", 4);
    assert!(granted(&mut other));
    assert_eq!(admission.load(), (3, 2));
    drop(first);
    assert!(granted(&mut same_session), "a place that is given back goes to who waited longest");
    assert_eq!(admission.load(), (3, 1));
}

#[test]
fn subjects_take_turns_and_full_queues_turn_away() {
    let admission = admission();
    let running: Vec<_> = [("a", 1), ("a", 2), ("b", 3)].map(|(it, n)| ask(&admission, it, n)).into();
    let (_a1, mut a1) = ask(&admission, "a", 4);
    let (_a2, mut a2) = ask(&admission, "a", 5);
    let (_c, mut c) = ask(&admission, "c", 6);
    let (_a3, _) = ask(&admission, "a", 7);
    assert_eq!(admission.enqueue("a".into(), SessionNumber(8)).unwrap_err(), NotAdmitted::Subject);
    assert_eq!(admission.enqueue("d".into(), SessionNumber(9)).unwrap_err(), NotAdmitted::Relay);
    let mut running = running.into_iter();
    drop(running.next());
    drop(running.next());
    assert!(granted(&mut a1) && granted(&mut c), "the second place goes to the other subject");
    assert!(!granted(&mut a2));
}

#[test]
fn who_stops_waiting_leaves_nothing_behind() {
    let admission = admission();
    let held: Vec<_> = [("a", 1), ("b", 2), ("c", 3)].map(|(it, n)| ask(&admission, it, n)).into();
    drop(ask(&admission, "d", 4));
    assert_eq!(admission.load(), (3, 0));
    drop(held);
    assert_eq!(admission.load(), (0, 0));
    let state = admission.lock();
    assert!(state.subjects.is_empty() && state.sessions.is_empty() && state.turns.is_empty());
}

#[test]
fn who_waits_for_people_gives_its_place_back_and_comes_back_first() {
    let admission = admission();
    let (first, mut first_granted) = ask(&admission, "a", 1);
    let (second, mut second_granted) = ask(&admission, "a", 1);
    let (_third, mut third_granted) = ask(&admission, "a", 1);
    assert!(granted(&mut first_granted) && !granted(&mut second_granted));
    assert!(first.park(30));
    assert!(granted(&mut second_granted), "the place of the session is free");
    assert!(!first.park(1), "it has no place any more");
    assert_eq!((admission.load(), admission.parked()), ((1, 1), 1));
    let mut back = first.come_back();
    assert!(!granted(&mut back), "the second one has the place");
    assert_eq!(admission.load(), (1, 1), "who comes back is in nobody's queue");
    drop(second);
    assert!(granted(&mut back) && !granted(&mut third_granted), "who comes back is before those that have not run");
    assert_eq!((admission.load(), admission.parked(), admission.lock().parked_bytes), ((1, 1), 0, 0));
    drop(first);
    assert!(granted(&mut third_granted));
}

#[test]
fn parked_executions_hold_no_more_than_they_may() {
    let admission = admission();
    let (first, _first) = ask(&admission, "a", 1);
    let (second, _second) = ask(&admission, "a", 2);
    let (other, _other) = ask(&admission, "b", 3);
    assert!(!first.park(51), "half of it for one subject");
    assert!(first.park(50) && !second.park(1));
    assert!(!other.park(51) && other.park(50));
    let (more, _more) = ask(&admission, "c", 4);
    assert!(!more.park(1), "all of it is taken");
    drop(other);
    assert!(more.park(1), "what a parked execution held is free when it is gone");
    assert_eq!((admission.load(), admission.parked()), ((1, 0), 2));
    drop((first, second, more));
    let state = admission.lock();
    assert!(state.subjects.is_empty() && state.parked.is_empty() && state.parked_bytes == 0 && state.running == 0);
}

#[test]
fn who_comes_back_is_not_turned_away_and_leaves_nothing_behind() {
    let admission = admission();
    let (parked, _parked) = ask(&admission, "a", 1);
    assert!(parked.park(1));
    let (running, _running) = ask(&admission, "a", 1);
    let (new, mut new_granted) = ask(&admission, "a", 1);
    let mut back = parked.come_back();
    admission.drain();
    assert!(new_granted.try_recv().is_err() && !granted(&mut back));
    drop(new);
    drop(running);
    assert!(granted(&mut back), "a relay that drains lets it come to its end");
    // One that ends while it waits for its place.
    assert!(parked.park(1));
    drop(parked.come_back());
    drop(parked);
    let state = admission.lock();
    assert!(
        state.subjects.is_empty() && state.sessions.is_empty() && state.turns.is_empty() && state.parked.is_empty()
    );
    assert_eq!((state.running, state.parked_bytes), (0, 0));
}
