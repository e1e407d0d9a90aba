//! Remembers the ids of used one-time tokens until the tokens have expired.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Maximum number of ids. A further token is refused: forgetting one would let it be used again.
const MAX_REMEMBERED: usize = 100_000;
/// Maximum length of an id in bytes.
const MAX_ID_BYTES: usize = 128;

/// Ids of used tokens.
#[derive(Debug, Default)]
pub(super) struct UsedTokens(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    ids: HashSet<String>,
    by_expiry: BTreeSet<(SystemTime, String)>,
}

impl UsedTokens {
    /// Notes that a token is used, which expires at `expires`.
    ///
    /// # Errors
    /// A text for the log: it was used before, has no usable id, or too many are remembered.
    pub(super) fn enter(&self, id: &str, expires: SystemTime) -> Result<(), &'static str> {
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err("the token has no usable jti");
        }
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now();
        while let Some((expiry, _)) = used.by_expiry.first()
            && *expiry < now
            && let Some((_, expired)) = used.by_expiry.pop_first()
        {
            used.ids.remove(&expired);
        }
        if used.ids.contains(id) {
            return Err("the token was used before");
        }
        if used.ids.len() >= MAX_REMEMBERED {
            tracing::error!("too many one-time tokens are remembered; new ones are refused until some have expired");
            return Err("too many one-time tokens are remembered");
        }
        used.ids.insert(id.to_owned());
        used.by_expiry.insert((expires, id.to_owned()));
        Ok(())
    }
}

/// Makes a random id for a new token.
///
/// # Errors
/// [`std::io::Error`]: the system gives no random bytes.
pub(super) fn fresh_id() -> std::io::Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_token_is_good_once_and_forgotten_when_it_has_expired() {
        let used = UsedTokens::default();
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(used.enter("a", later), Ok(()));
        assert!(used.enter("a", later).is_err());
        assert!(used.enter("", later).is_err());
        assert!(used.enter(&"x".repeat(MAX_ID_BYTES + 1), later).is_err());
        assert_eq!(used.enter("old", SystemTime::now() - Duration::from_secs(1)), Ok(()));
        assert_eq!(used.enter("b", later), Ok(()));
        assert_eq!(used.0.lock().unwrap().ids.len(), 2, "the expired one is forgotten");
    }
}
