//! Verifies and makes tokens, which say who a peer is and what it may do. Every refusal looks the same from outside;
//! the reason goes to the log.
//!
//! `keys` reads keys, `remote` fetches them, `one_time` remembers one-time tokens that were used.

mod keys;
mod one_time;
mod remote;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, Validation};
use relay_proto::{LimitOverrides, ToolPatterns};
use serde::{Deserialize, Serialize};

use keys::Keys;
pub use keys::{KeyError, KeySource, RemoteKeySource};
use one_time::UsedTokens;
use remote::RemoteKeys;

/// Maximum length of a token in bytes.
const MAX_TOKEN_BYTES: usize = 8 << 10;
/// Maximum length of a subject in bytes.
const MAX_SUBJECT_BYTES: usize = 256;
/// Leeway for clocks that differ.
const LEEWAY_SECONDS: u64 = 5;
/// Interval at which the keys of an address are fetched again.
const REFRESH_EVERY: Duration = Duration::from_secs(600);

/// Configuration of the verifier.
#[derive(Debug, Clone)]
pub struct AuthConfig {
    /// Source of the key.
    pub key: KeySource,
    /// Audience that a token has to name.
    pub audience: String,
    /// Issuer that a token has to name.
    pub issuer: String,
    /// `true`: a token is good for one connection only, and needs a `jti`.
    pub one_time: bool,
}

/// Claims of a token.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
    aud: serde_json::Value,
    iss: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<BTreeMap<String, u64>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    jit: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jti: Option<String>,
}

/// Identity of a peer: proof that its token was verified.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Subject of the token.
    pub subject: Arc<str>,
    /// Time until the token expires, leeway included.
    pub expires_in: Duration,
    /// Rights of the token.
    pub grant: Grant,
    once: Option<Once>,
}

#[cfg(feature = "fuzzing")]
impl Identity {
    /// Makes an identity without a token.
    pub(crate) fn for_fuzzing(subject: &str, grant: Grant) -> Self {
        Self { subject: subject.into(), expires_in: Duration::from_secs(60), grant, once: None }
    }
}

/// Id of a one-time token, and when it expires.
#[derive(Debug, Clone)]
struct Once {
    id: String,
    expires: SystemTime,
}

/// Rights that a token grants.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// Tools that exist for the session.
    pub tools: ToolPatterns,
    /// Limits in place of the defaults.
    pub limits: LimitOverrides,
    /// `true`: V8 may compile the code to machine code, if the relay allows it too. Default `false`.
    pub jit: bool,
}

/// Reports a missing or refused token. The text is for the log alone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unauthenticated(String);

/// Verifies tokens with one family of algorithms.
pub struct Verifier {
    keys: RwLock<Arc<Keys>>,
    remote: Option<RemoteKeys>,
    validation: Validation,
    used: Option<UsedTokens>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("algorithms", &self.validation.algorithms).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Reads the key, or fetches the keys.
    ///
    /// # Errors
    /// [`KeyError`]: the key cannot be read or fetched, or is too weak.
    pub async fn new(config: &AuthConfig) -> Result<Self, KeyError> {
        let (remote, keys) = match &config.key {
            KeySource::Remote(address) => {
                let remote = RemoteKeys::new(address)?;
                let keys = remote.fetch().await?;
                (Some(remote), keys)
            }
            local => (None, Keys::read(local)?),
        };
        let mut validation = Validation {
            algorithms: vec![keys.algorithm()],
            leeway: LEEWAY_SECONDS,
            validate_nbf: true,
            ..Validation::default()
        };
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        validation.set_audience(&[&config.audience]);
        validation.set_issuer(&[&config.issuer]);
        let used = config.one_time.then(UsedTokens::default);
        Ok(Self { keys: RwLock::new(Arc::new(keys)), remote, validation, used })
    }

    /// Verifies the token in an `Authorization` header; `None`: there is no header.
    ///
    /// # Errors
    /// [`Unauthenticated`]: there is no token, or it is refused.
    pub async fn verify(&self, authorization: Option<&str>) -> Result<Identity, Unauthenticated> {
        let refuse = |reason: &str| Unauthenticated(reason.to_owned());
        let (scheme, token) = authorization.and_then(|it| it.split_once(' ')).ok_or_else(|| refuse("no token"))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(refuse("not a bearer token"));
        }
        self.verify_token(token.trim()).await
    }

    /// Verifies a token.
    ///
    /// # Errors
    /// [`Unauthenticated`]: it is refused.
    pub async fn verify_token(&self, token: &str) -> Result<Identity, Unauthenticated> {
        let refuse = |reason: &str| Unauthenticated(reason.to_owned());
        if token.len() > MAX_TOKEN_BYTES {
            return Err(refuse("the token is too long"));
        }
        let invalid = |error: jsonwebtoken::errors::Error| Unauthenticated(error.to_string());
        let header = jsonwebtoken::decode_header(token).map_err(invalid)?;
        // The relay decides where keys come from, not the token.
        let tells_its_key =
            header.jku.is_some() || header.jwk.is_some() || header.x5u.is_some() || header.x5c.is_some();
        if tells_its_key || header.crit.is_some() {
            return Err(refuse("the token's header asks for what is not supported"));
        }
        if !self.validation.algorithms.contains(&header.alg) {
            return Err(refuse("the token's algorithm is not the configured one"));
        }
        let keys = self.keys_with(header.kid.as_deref()).await;
        let key = keys.find(header.kid.as_deref()).map_err(refuse)?;
        let claims = jsonwebtoken::decode::<Claims>(token, key, &self.validation).map_err(invalid)?.claims;
        if claims.sub.is_empty() || claims.sub.len() > MAX_SUBJECT_BYTES {
            return Err(refuse("the token's subject is empty or too long"));
        }
        let limits =
            LimitOverrides::try_from(&claims.limits.unwrap_or_default()).map_err(|error| refuse(&error.to_string()))?;
        // Bounded, so that the instant exists.
        let expires = UNIX_EPOCH + Duration::from_secs(claims.exp.saturating_add(LEEWAY_SECONDS).min(u32::MAX.into()));
        let once = self.used.as_ref().map(|_| Once { id: claims.jti.unwrap_or_default(), expires });
        Ok(Identity {
            once,
            subject: claims.sub.into(),
            expires_in: expires.duration_since(SystemTime::now()).unwrap_or_default(),
            grant: Grant { tools: ToolPatterns::new(claims.tools), limits, jit: claims.jit },
        })
    }

    /// Uses up a one-time token. Call it last, when everything else is in order.
    ///
    /// # Errors
    /// [`Unauthenticated`]: it was used before.
    pub fn use_up(&self, identity: &Identity) -> Result<(), Unauthenticated> {
        match (&self.used, &identity.once) {
            (Some(used), Some(once)) => {
                used.enter(&once.id, once.expires).map_err(|reason| Unauthenticated(reason.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Fetches the keys of an address again and again. Never completes, or at once if the key has no address.
    pub async fn keep_fresh(&self) {
        let Some(remote) = &self.remote else { return };
        loop {
            tokio::time::sleep(REFRESH_EVERY).await;
            self.refresh(remote).await;
        }
    }

    /// Returns the keys. They are fetched again before, if this id is not among them and the last fetch is long enough
    /// ago.
    async fn keys_with(&self, id: Option<&str>) -> Arc<Keys> {
        let keys = self.current();
        if let Some(remote) = &self.remote
            && id.is_some()
            && keys.find(id).is_err()
            && let Some(_turn) = remote.turn(|| self.current().find(id).is_err()).await
        {
            self.refresh(remote).await;
        }
        self.current()
    }

    fn current(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn refresh(&self, remote: &RemoteKeys) {
        match remote.fetch().await {
            Ok(keys) if self.validation.algorithms.contains(&keys.algorithm()) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
            }
            Ok(_) => tracing::error!("the key set has turned to another algorithm; the old keys stay"),
            Err(error) => tracing::error!(%error, "the key set could not be fetched; the old keys stay"),
        }
    }
}

/// Content of a new token.
#[derive(Debug, Clone, Default)]
pub struct TokenRequest {
    /// Subject of the token.
    pub subject: String,
    /// Lifetime.
    pub ttl: Duration,
    /// Patterns of the tools that exist for the session; empty allows all.
    pub tools: Vec<String>,
    /// Limits that it has in place of the defaults.
    pub limits: LimitOverrides,
    /// `true`: V8 may compile the code to machine code, if the relay allows it too. Default `false`.
    pub jit: bool,
}

/// Makes a token with the configured secret.
///
/// # Errors
/// - [`KeyError::NoSecret`]: the key is no secret
/// - [`KeyError::ShortSecret`]: the secret is too short
/// - [`KeyError::System`], [`KeyError::Sign`]: the token cannot be made
pub fn make_token(config: &AuthConfig, request: TokenRequest) -> Result<String, KeyError> {
    let KeySource::Secret(secret) = &config.key else { return Err(KeyError::NoSecret) };
    keys::check_length(secret)?;
    let expires = SystemTime::now() + request.ttl;
    let claims = Claims {
        sub: request.subject,
        exp: expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        aud: config.audience.clone().into(),
        iss: config.issuer.clone(),
        tools: (!request.tools.is_empty()).then_some(request.tools),
        limits: Some(request.limits.to_wire()).filter(|limits| !limits.is_empty()),
        jit: request.jit,
        jti: Some(one_time::fresh_id()?),
    };
    Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(secret))?)
}
