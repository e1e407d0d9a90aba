//! Tokens: the one that a client was given, or a source that is asked for fresh ones.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::error::Error;

/// The error of a source of tokens.
pub type TokenError = Box<dyn StdError + Send + Sync>;

/// The minimum time that a token has to be good for, to be shown once more.
const MARGIN: Duration = Duration::from_secs(5);
/// The maximum lifetime of a token that is counted with: clocks take no endless time.
const MAX_LIFE: Duration = Duration::from_secs(365 * 86_400);

/// The maximum number of bytes of a token that are read.
const MAX_TOKEN_BYTES: usize = 16 << 10;

type Ask = dyn Fn() -> BoxFuture<'static, Result<String, TokenError>> + Send + Sync;

/// A source of tokens, such as a call of the application's login service. It is asked when the client connects, before a token
/// expires, and when a relay does not accept a token any more. All its tokens are of the same subject.
///
/// ```
/// use host_client_core::TokenSource;
///
/// let source = TokenSource::new(|| async { Ok(std::fs::read_to_string("/run/secrets/relay-token")?) });
/// # drop(source);
/// ```
#[derive(Clone)]
pub struct TokenSource(Arc<Ask>);

impl TokenSource {
    /// Makes a source of an async function.
    pub fn new<Fut>(ask: impl Fn() -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<String, TokenError>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(ask())))
    }

    /// Asks for a token.
    ///
    /// # Errors
    /// [`Error::Token`]: the source gives none.
    async fn ask(&self) -> Result<String, Error> {
        let token = (self.0)().await.map_err(Error::Token)?;
        Ok(token.trim().to_owned())
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenSource").finish()
    }
}

/// The tokens of one session.
pub(super) struct Tokens {
    source: Option<TokenSource>,
    last: Mutex<Last>,
}

/// The newest token.
struct Last {
    token: Option<String>,
    /// The time at which it expires; `None`: the relay has not said.
    expires: Option<Instant>,
}

impl Tokens {
    /// Creates the tokens of a session with a source, or without one and with this token alone.
    pub(super) fn new(token: &str, source: Option<TokenSource>) -> Self {
        let token = source.is_none().then(|| token.to_owned());
        Self { source, last: Mutex::new(Last { token, expires: None }) }
    }

    /// Tells whether fresh tokens can be asked for.
    pub(super) fn has_source(&self) -> bool {
        self.source.is_some()
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a token: the newest if it is still good or there is no source, else a fresh one.
    ///
    /// # Errors
    /// [`Error::Token`]: the source gives none.
    pub(super) async fn usable(&self) -> Result<String, Error> {
        let known = {
            let last = self.last();
            let is_good = last.expires.is_none_or(|expires| expires > Instant::now() + MARGIN);
            last.token.clone().filter(|_| is_good || self.source.is_none())
        };
        match known {
            Some(token) => Ok(token),
            None => self.fresh().await,
        }
    }

    /// Returns a fresh token; without a source, the one that there is.
    ///
    /// # Errors
    /// [`Error::Token`]: the source gives none.
    pub(super) async fn fresh(&self) -> Result<String, Error> {
        let Some(source) = &self.source else { return Ok(self.last().token.clone().unwrap_or_default()) };
        source.ask().await
    }

    /// Notes that a relay accepts a token, and the time until it expires.
    pub(super) fn accepted(&self, token: String, expires_in_ms: u64) {
        let expires = Instant::now() + Duration::from_millis(expires_in_ms).min(MAX_LIFE);
        *self.last() = Last { token: Some(token), expires: Some(expires) };
    }

    /// Forgets a token that a relay does not accept. One that was given and has no source stays.
    pub(super) fn rejected(&self) {
        if self.source.is_some() {
            *self.last() = Last { token: None, expires: None };
        }
    }

    /// Returns the time at which the newest token expires; `None`: the relay has not said.
    pub(super) fn expires(&self) -> Option<Instant> {
        self.last().expires
    }
}

/// Reads the subject of a token without checking the token, which the relay has done; `None`: it has no readable
/// subject.
pub(crate) fn subject(token: &str) -> Option<String> {
    let claims = token.get(..token.len().min(MAX_TOKEN_BYTES))?.split('.').nth(1)?;
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    Some(claims.get("sub")?.as_str()?.to_owned())
}
