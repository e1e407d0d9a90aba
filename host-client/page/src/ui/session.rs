//! Sessions of the page: a token that is used once becomes a cookie.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::{constant_time, digest, hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{NoRandom, Page};

/// The time after which a session ends.
const LASTS: Duration = Duration::from_secs(12 * 3_600);
/// The length of tokens and cookies, in bytes.
const BYTES: usize = 32;

/// Returns a part of a name that nobody can guess: 32 lowercase hexadecimal digits.
pub(super) fn random_name() -> Result<String, NoRandom> {
    let bytes: [u8; BYTES] = random()?;
    Ok(bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The session of a page, if somebody has opened it.
pub(super) struct Sessions {
    state: Mutex<State>,
    form_key: hmac::Key,
}

struct State {
    /// The digest of the token; `None`: it was used.
    token: Option<[u8; BYTES]>,
    /// The digest of the cookie, and when the session began; `None`: there is no session.
    open: Option<([u8; BYTES], Instant)>,
}

/// What a view has to know of the session that it is for.
#[derive(Clone)]
pub(super) struct SessionKey {
    /// The token that forms of this session have.
    form_token: String,
}

impl SessionKey {
    /// Returns what every view has, for one of this name.
    pub(super) fn frame(&self, page: &Page, view: &'static str) -> Frame {
        Frame {
            view,
            form_token: self.form_token.clone(),
            has_journal: page.0.journal.is_some(),
            has_live: page.0.live.is_some(),
            has_study: page.0.study.is_some(),
        }
    }

    /// Returns `true` if a form has the token of this session.
    pub(super) fn is_of(&self, form_token: &str) -> bool {
        is_same(&digest_of(self.form_token.as_bytes()), &digest_of(form_token.as_bytes()))
    }
}

/// What every view has.
pub(super) struct Frame {
    /// The name of the view; empty: it is none of those that are named.
    pub(super) view: &'static str,
    pub(super) form_token: String,
    pub(super) has_journal: bool,
    pub(super) has_live: bool,
    pub(super) has_study: bool,
}

fn is_same(one: &[u8; BYTES], other: &[u8; BYTES]) -> bool {
    constant_time::verify_slices_are_equal(one, other).is_ok()
}

fn random() -> Result<[u8; BYTES], NoRandom> {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(bytes)
}

fn digest_of(bytes: &[u8]) -> [u8; BYTES] {
    let mut hash = [0; BYTES];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

impl Sessions {
    /// Returns the token that opens the session, too.
    pub(super) fn new() -> Result<(String, Self), NoRandom> {
        let token = URL_SAFE_NO_PAD.encode(random()?);
        let state = State { token: Some(digest_of(token.as_bytes())), open: None };
        let form_key = hmac::Key::new(hmac::HMAC_SHA256, &random()?);
        Ok((token, Self { state: Mutex::new(state), form_key }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the session, and returns its cookie; `None`: this is not the token, or it was used.
    pub(super) fn open(&self, token: &str) -> Option<String> {
        let cookie = URL_SAFE_NO_PAD.encode(random().ok()?);
        let mut state = self.state();
        state.token.filter(|expected| is_same(expected, &digest_of(token.as_bytes())))?;
        state.token = None;
        state.open = Some((digest_of(cookie.as_bytes()), Instant::now()));
        Some(cookie)
    }

    /// Returns the session of a cookie; `None`: there is none.
    pub(super) fn find(&self, cookie: &str) -> Option<SessionKey> {
        let (expected, since) = self.state().open?;
        if since.elapsed() > LASTS || !is_same(&expected, &digest_of(cookie.as_bytes())) {
            return None;
        }
        let form_token = URL_SAFE_NO_PAD.encode(hmac::sign(&self.form_key, cookie.as_bytes()));
        Some(SessionKey { form_token })
    }

    /// Ends the session of a cookie.
    pub(super) fn close(&self, cookie: &str) {
        if self.find(cookie).is_some() {
            self.state().open = None;
        }
    }
}
