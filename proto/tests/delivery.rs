//! Two peers over a link that is cut anywhere: whatever happens, each message is handed over once, in order. The reference
//! model is the list of what was sent.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use relay_proto::delivery::{ACKNOWLEDGE_BYTES, ACKNOWLEDGE_MESSAGES, Gap, OutOfTurn, Received, Unacknowledged};

/// A message on the link: its sequence and content, or an acknowledgement of its own.
#[derive(Debug, Clone, Copy)]
struct OnLink {
    content: Option<(u64, u32)>,
    acknowledged: u64,
}

#[derive(Debug, Default)]
struct Peer {
    outgoing: Unacknowledged<u32>,
    incoming: Received,
    /// Everything that this peer has sent, and everything that was handed over to it.
    sent: Vec<u32>,
    got: Vec<u32>,
    link: VecDeque<OnLink>,
}

impl Peer {
    fn send(&mut self) {
        let content = u32::try_from(self.sent.len()).unwrap();
        self.sent.push(content);
        let sequence = self.outgoing.push(content);
        let acknowledged = self.incoming.tell();
        self.link.push_back(OnLink { content: Some((sequence, content)), acknowledged });
    }

    fn acknowledge(&mut self) {
        let acknowledged = self.incoming.tell();
        self.link.push_back(OnLink { content: None, acknowledged });
    }

    fn receive(&mut self, message: OnLink) {
        self.outgoing.acknowledge(message.acknowledged).unwrap();
        if let Some((sequence, content)) = message.content {
            self.incoming.count(sequence, 1).unwrap();
            self.got.push(content);
        }
    }

    /// Goes on over a new link with a peer that has received the messages up to `sequence`.
    fn resume(&mut self, sequence: u64) {
        self.link.clear();
        self.outgoing.resend_after(sequence).unwrap();
        while let Some((sequence, content)) = self.outgoing.next_unsent() {
            let acknowledged = self.incoming.tell();
            self.link.push_back(OnLink { content: Some((sequence, *content)), acknowledged });
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Send(usize),
    Acknowledge(usize),
    /// The first message on the link of this peer arrives at the other.
    Arrive(usize),
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_usize).prop_map(Step::Send),
        1 => (0..2_usize).prop_map(Step::Acknowledge),
        6 => (0..2_usize).prop_map(Step::Arrive),
        1 => Just(Step::Cut),
    ]
}

fn take(peers: &mut [Peer; 2], step: Step) {
    match step {
        Step::Send(of) => peers[of].send(),
        Step::Acknowledge(of) => peers[of].acknowledge(),
        Step::Arrive(of) => {
            if let Some(message) = peers[of].link.pop_front() {
                peers[1 - of].receive(message);
            }
        }
        Step::Cut => {
            // What is on the link is lost.
            let received = [peers[0].incoming.last(), peers[1].incoming.last()];
            peers[0].resume(received[1]);
            peers[1].resume(received[0]);
        }
    }
}

/// Number of histories; `PROPTEST_CASES` replaces it.
fn histories() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(10_000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn each_message_is_handed_over_once_and_in_order(steps in vec(step(), 0..120)) {
        let mut peers = [Peer::default(), Peer::default()];
        for step in steps {
            take(&mut peers, step);
            for of in 0..2 {
                let (sender, receiver) = (&peers[of], &peers[1 - of]);
                prop_assert_eq!(&sender.sent[..receiver.got.len()], &receiver.got[..]);
                // Nothing is dropped that the other has not handed over.
                prop_assert!(sender.outgoing.acknowledged() <= receiver.incoming.last());
                prop_assert_eq!(sender.outgoing.sent(), sender.sent.len() as u64);
            }
        }
        // Once the link holds, everything arrives and nothing stays kept.
        for _ in 0..2 {
            for of in 0..2 {
                peers[of].acknowledge();
                while !peers[of].link.is_empty() {
                    take(&mut peers, Step::Arrive(of));
                }
            }
        }
        for of in 0..2 {
            prop_assert_eq!(&peers[of].sent, &peers[1 - of].got);
            prop_assert!(peers[of].outgoing.is_empty());
        }
    }

    #[test]
    fn a_lying_peer_changes_nothing(sent in 0..50_u64, known in 0..50_u64, claimed in 0..200_u64) {
        let known = known.min(sent);
        let mut outgoing = Unacknowledged::new();
        for message in 0..sent {
            outgoing.push(message);
        }
        outgoing.acknowledge(known).unwrap();
        let gap = Gap { claimed, acknowledged: known, sent };
        let expected = if (known..=sent).contains(&claimed) { Ok(()) } else { Err(gap) };
        prop_assert_eq!(outgoing.check_resend(claimed), expected);
        let before = (outgoing.len(), outgoing.acknowledged(), outgoing.sent());
        if expected.is_err() {
            prop_assert_eq!(outgoing.resend_after(claimed), expected);
            if claimed > sent {
                prop_assert_eq!(outgoing.acknowledge(claimed), expected);
            }
            prop_assert_eq!((outgoing.len(), outgoing.acknowledged(), outgoing.sent()), before);
        } else {
            outgoing.resend_after(claimed).unwrap();
            let resent: Vec<_> = std::iter::from_fn(|| outgoing.next_unsent().map(|(sequence, _)| sequence)).collect();
            prop_assert_eq!(resent, (claimed + 1..=sent).collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_was_not_written_to_this_connection_cannot_be_acknowledged_on_it() {
    let mut outgoing = Unacknowledged::new();
    outgoing.push("a");
    outgoing.push("b");
    outgoing.resend_after(0).unwrap();
    assert!(outgoing.acknowledge(1).is_err());
    assert_eq!(outgoing.next_unsent(), Some((1, &mut "a")));
    assert_eq!(outgoing.acknowledge(1), Ok(()));
    assert!(outgoing.acknowledge(2).is_err());
}

#[test]
fn an_acknowledgement_of_its_own_is_due_after_messages_or_bytes() {
    let mut incoming = Received::after(1);
    assert!(!incoming.owes() && !incoming.is_due());
    assert_eq!(incoming.count(3, 1), Err(OutOfTurn { came: 3, expected: 2 }));
    incoming.count(2, ACKNOWLEDGE_BYTES - 1).unwrap();
    assert!(incoming.owes() && !incoming.is_due());
    incoming.count(3, 1).unwrap();
    assert!(incoming.is_due());
    assert_eq!(incoming.tell(), 3);
    for sequence in 4..4 + ACKNOWLEDGE_MESSAGES {
        assert!(!incoming.is_due());
        incoming.count(sequence, 1).unwrap();
    }
    assert!(incoming.is_due());
}
