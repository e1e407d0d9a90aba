//! Secrets of a session that can be resumed: one for each connection, derived from a key that the relay keeps. Pure code.

use aws_lc_rs::hmac;
use relay_proto::wire::SessionLoss;

/// Length of a secret in bytes.
pub(crate) const SECRET_BYTES: usize = 32;

/// Length of the key that the secrets are derived from, in bytes.
const KEY_BYTES: usize = 32;

/// Number and secret of a connection.
pub(crate) struct Epoch {
    pub(crate) number: u64,
    pub(crate) secret: [u8; SECRET_BYTES],
}

/// Epochs of one session, one for each of its connections.
pub(crate) struct Epochs {
    /// Random key. The state that the algorithm makes of it has 700 bytes, and is made anew for each use.
    key: [u8; KEY_BYTES],
    current: u64,
    /// Epoch before, which is accepted until the host has used the current one; `None`: the host has.
    before: Option<u64>,
    /// Number of the latest attempt with which the host has resumed the session; 0: it has not, or does not count.
    attempt: u64,
}

impl std::fmt::Debug for Epochs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is a secret.
        f.debug_struct("Epochs").field("current", &self.current).field("before", &self.before).finish_non_exhaustive()
    }
}

impl Epochs {
    /// Begins with epoch 1 and a fresh random key; `None`: the system gives no random bytes.
    pub(crate) fn new() -> Option<Self> {
        let mut key = [0; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut key).ok()?;
        Some(Self { key, current: 1, before: None, attempt: 0 })
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.key)
    }

    /// Returns the current epoch.
    pub(crate) fn current(&self) -> Epoch {
        let mut secret = [0; SECRET_BYTES];
        secret.copy_from_slice(hmac::sign(&self.hmac(), &self.current.to_be_bytes()).as_ref());
        Epoch { number: self.current, secret }
    }

    /// Checks that a host may resume with the secret of an epoch. The time that it takes tells nothing about the secret.
    ///
    /// # Errors
    /// - [`SessionLoss::Unknown`]: the secret is not that of the epoch
    /// - [`SessionLoss::Epoch`]: the session was resumed since
    pub(crate) fn check(&self, number: u64, secret: &[u8]) -> Result<(), SessionLoss> {
        hmac::verify(&self.hmac(), &number.to_be_bytes(), secret).map_err(|_| SessionLoss::Unknown)?;
        if number == self.current || Some(number) == self.before { Ok(()) } else { Err(SessionLoss::Epoch) }
    }

    /// Checks that an attempt of the host is not late: a later one has been there already if the network, or another thread,
    /// has held this one up. 0 is never late.
    ///
    /// # Errors
    /// [`SessionLoss::Epoch`]: it is late
    pub(crate) fn check_attempt(&self, attempt: u64) -> Result<(), SessionLoss> {
        if attempt == 0 || attempt > self.attempt { Ok(()) } else { Err(SessionLoss::Epoch) }
    }

    /// Begins the next epoch for a host that has shown the secret of `shown` in this attempt, and returns it.
    pub(crate) fn advance(&mut self, shown: u64, attempt: u64) -> Epoch {
        self.before = Some(shown);
        self.attempt = self.attempt.max(attempt);
        self.current += 1;
        self.current()
    }

    /// Notes that the host has used an epoch. Only the current one counts: a message may have been on its way on a connection
    /// that was replaced.
    pub(crate) fn confirm(&mut self, used: u64) {
        if used == self.current {
            self.before = None;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        /// The host, or another that has its secrets, resumes with an epoch that it was told of, in this attempt.
        Resume(u64, u64),
        /// A message arrives on the connection of this epoch.
        Message(u64),
        /// A stranger names an epoch and makes a secret up.
        Guess(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (1..12_u64, 0..12_u64).prop_map(|(epoch, attempt)| Step::Resume(epoch, attempt)),
            3 => (1..12_u64).prop_map(Step::Message),
            1 => (0..12_u64).prop_map(Step::Guess),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The reference model: the epochs that are good, told apart from those that were.
        #[test]
        fn only_the_newest_epoch_and_the_one_shown_for_it_are_good(steps in vec(step(), 0..40)) {
            let mut epochs = Epochs::new().unwrap();
            let mut told = HashMap::from([(1, epochs.current().secret)]);
            let (mut newest, mut shown, mut latest) = (1, None, 0);
            for step in steps {
                match step {
                    Step::Resume(number, attempt) => {
                        let Some(secret) = told.get(&number) else { continue };
                        let good = number == newest || Some(number) == shown;
                        prop_assert_eq!(epochs.check(number, secret), if good { Ok(()) } else { Err(SessionLoss::Epoch) });
                        let in_order = attempt == 0 || attempt > latest;
                        let expected = if in_order { Ok(()) } else { Err(SessionLoss::Epoch) };
                        prop_assert_eq!(epochs.check_attempt(attempt), expected);
                        if good && in_order {
                            let next = epochs.advance(number, attempt);
                            (newest, shown, latest) = (newest + 1, Some(number), latest.max(attempt));
                            prop_assert_eq!(next.number, newest);
                            prop_assert!(told.insert(newest, next.secret).is_none());
                        }
                    }
                    Step::Message(number) => {
                        epochs.confirm(number);
                        if number == newest {
                            shown = None;
                        }
                    }
                    Step::Guess(number) => {
                        let guesses = [vec![], vec![0; SECRET_BYTES], epochs.current().secret[..31].to_vec()];
                        for secret in guesses {
                            prop_assert_eq!(epochs.check(number, &secret), Err(SessionLoss::Unknown));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_secret_is_good_for_its_own_epoch_and_session() {
        let (mut one, other) = (Epochs::new().unwrap(), Epochs::new().unwrap());
        let first = one.current();
        assert_eq!(other.check(1, &first.secret), Err(SessionLoss::Unknown));
        let second = one.advance(1, 0);
        assert_eq!(one.check(2, &first.secret), Err(SessionLoss::Unknown));
        assert_eq!(one.check(1, &second.secret), Err(SessionLoss::Unknown));
        assert!(!format!("{one:?}").contains("key"));
    }
}
