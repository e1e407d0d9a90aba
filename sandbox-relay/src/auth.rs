//! Tokens: who a peer is and what it may do. Every refusal looks the same from outside; the reason goes to the log.
//!
//! `keys` reads keys, `remote` fetches them, `one_time` remembers tokens that are good once.

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

/// The longest token that is looked at, in bytes.
const MAX_TOKEN_BYTES: usize = 8 << 10;
/// The longest name of a subject, in bytes.
const MAX_SUBJECT_BYTES: usize = 256;
/// How far clocks may differ.
const LEEWAY_SECONDS: u64 = 5;
/// How often the keys of an address are fetched again.
const REFRESH_EVERY: Duration = Duration::from_secs(600);

/// What a token has to fit.
#[derive(Debug, Clone)]
pub struct AuthConfig {
    /// The key.
    pub key: KeySource,
    /// Who it has to be for.
    pub audience: String,
    /// Who it has to be from.
    pub issuer: String,
    /// A token has to have a `jti`, and is good for one connection.
    pub one_time: bool,
}

/// What a token says.
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

/// Who is connected, and what it may do: proof that a token was checked.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The token's subject.
    pub subject: Arc<str>,
    /// Until when.
    pub expires_in: Duration,
    /// What it may do.
    pub grant: Grant,
    once: Option<Once>,
}

#[cfg(feature = "fuzzing")]
impl Identity {
    /// Somebody who is there without a token.
    pub(crate) fn for_fuzzing(subject: &str, grant: Grant) -> Self {
        Self { subject: subject.into(), expires_in: Duration::from_secs(60), grant, once: None }
    }
}

/// A token that is good once.
#[derive(Debug, Clone)]
struct Once {
    id: String,
    expires: SystemTime,
}

/// What a token allows.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// The tools that exist for it.
    pub tools: ToolPatterns,
    /// The limits that it has in place of the defaults.
    pub limits: LimitOverrides,
    /// Its code may be compiled to machine code, where the relay allows it too.
    pub jit: bool,
}

/// The request shows no token that is accepted. It looks the same from outside, whatever the reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unauthenticated(String);

/// Checks tokens with one family of algorithms.
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
    /// There is none, or it is too weak.
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

    /// Checks the value of an `Authorization` header.
    ///
    /// # Errors
    /// It holds no token that is accepted.
    pub async fn verify(&self, authorization: Option<&str>) -> Result<Identity, Unauthenticated> {
        let refuse = |reason: &str| Unauthenticated(reason.to_owned());
        let (scheme, token) = authorization.and_then(|it| it.split_once(' ')).ok_or_else(|| refuse("no token"))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(refuse("not a bearer token"));
        }
        self.verify_token(token.trim()).await
    }

    /// Checks a token.
    ///
    /// # Errors
    /// It is not accepted.
    pub async fn verify_token(&self, token: &str) -> Result<Identity, Unauthenticated> {
        let refuse = |reason: &str| Unauthenticated(reason.to_owned());
        if token.len() > MAX_TOKEN_BYTES {
            return Err(refuse("the token is too long"));
        }
        let invalid = |error: jsonwebtoken::errors::Error| Unauthenticated(error.to_string());
        let header = jsonwebtoken::decode_header(token).map_err(invalid)?;
        // Where a key is to be found is our decision, not the token's.
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
        // As far ahead as clocks can count.
        let expires = UNIX_EPOCH + Duration::from_secs(claims.exp.saturating_add(LEEWAY_SECONDS).min(u32::MAX.into()));
        let once = self.used.as_ref().map(|_| Once { id: claims.jti.unwrap_or_default(), expires });
        Ok(Identity {
            once,
            subject: claims.sub.into(),
            expires_in: expires.duration_since(SystemTime::now()).unwrap_or_default(),
            grant: Grant { tools: ToolPatterns::new(claims.tools), limits, jit: claims.jit },
        })
    }

    /// Takes a token for what it is good for, once everything else is in order. One that is good once is not good any
    /// more.
    ///
    /// # Errors
    /// It was used before.
    pub fn use_up(&self, identity: &Identity) -> Result<(), Unauthenticated> {
        match (&self.used, &identity.once) {
            (Some(used), Some(once)) => {
                used.enter(&once.id, once.expires).map_err(|reason| Unauthenticated(reason.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Keeps the keys of an address fresh; completes never, or at once where there is no address.
    pub async fn keep_fresh(&self) {
        let Some(remote) = &self.remote else { return };
        loop {
            tokio::time::sleep(REFRESH_EVERY).await;
            self.refresh(remote).await;
        }
    }

    /// The keys, fetched again if this one is not among them and the last time is long enough ago.
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

/// What a new token is to say.
#[derive(Debug, Clone, Default)]
pub struct TokenRequest {
    /// Who it is for.
    pub subject: String,
    /// How long it is good.
    pub ttl: Duration,
    /// Patterns of the tools that exist for it; empty is all.
    pub tools: Vec<String>,
    /// Limits that it has in place of the defaults.
    pub limits: LimitOverrides,
    /// Its code may be compiled to machine code, where the relay allows it too.
    pub jit: bool,
}

/// Makes a token with the configured secret.
///
/// # Errors
/// There is no secret, or it is too short.
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
